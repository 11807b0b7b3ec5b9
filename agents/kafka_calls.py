"""The calls about one shard, under the name by which agents know them."""

from streamer.kafka.clients import KafkaCalls, client_settings
from streamer.kafka.reading import CALL_SECONDS_MAX

__all__ = ["CALL_SECONDS_MAX", "KafkaCalls", "client_settings"]
