"""Kafka Connect: settings, rules and SQL tables."""
