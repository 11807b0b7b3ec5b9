"""The calls about one shard, under the name by which agents know them."""

from streamer.kafka.clients import CALL_SECONDS_MAX, KafkaCalls, client_settings

__all__ = ["CALL_SECONDS_MAX", "KafkaCalls", "client_settings"]
