"""Kafka: how this project gets in, reads, writes and makes topics, and what Kafka's answers mean."""

SECRET_KEY, SECRET_KEY_FILE = "STREAMER_SECRET_KEY", "STREAMER_SECRET_KEY_FILE"
"""The environment variables of `kafka.secret_records`; here for commands that reach no Kafka."""
