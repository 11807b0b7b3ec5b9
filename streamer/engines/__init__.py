"""What runs the steps of a large table: a pool of processes on one machine."""
