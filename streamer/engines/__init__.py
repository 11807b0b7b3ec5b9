"""Engines that run the steps of a large table: a pool of processes on one machine, or Spark's executors."""
