"""Tests that need a real Kafka and a real Redis, and the servers themselves."""
