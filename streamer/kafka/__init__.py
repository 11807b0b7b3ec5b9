"""Kafka: how this project gets in, reads, writes and makes topics, and what Kafka's answers mean."""
