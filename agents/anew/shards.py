"""The shards of a table as a command finds them: their inputs, their stores, and how to write and read their output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.anew.reading import KafkaReading
from agents.outlet import KafkaOutlet
from agents.shard_input import KafkaInput
from agents.topic_questions import kafka_topics
from agents.worker_settings import WorkerSettings
from streamer.errors import UsageError
from streamer.incremental.formats.live_format import LiveFormat
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import connect, require_durable
from streamer.incremental.topics import outputs_of
from streamer.kafka.diagnose import require_access
from streamer.kafka.settings import servers_of


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a table as a command finds them."""

    settings: WorkerSettings
    inputs: Sequence[KafkaInput]
    states: Sequence[InputState]
    stores: Sequence[RedisLookups]

    def __len__(self) -> int:
        return len(self.states)

    def outlet(self, shard: int) -> KafkaOutlet:
        return KafkaOutlet(*self._output_of(shard))

    def former(self) -> list[int]:
        """Numbers of the shards that Redis holds, and the input has not any more: it was made anew with fewer."""
        held = shards_of(connect(self.settings.redis), self.settings.table.name)
        return [number for number in held if number >= len(self)]

    def reading(self, shard: int) -> KafkaReading:
        return KafkaReading(*self._output_of(shard))

    def _output_of(self, shard: int) -> tuple[str, str, int, Sequence[str], LiveFormat]:
        settings = self.settings
        return settings.kafka, settings.table.name, shard, outputs_of(settings.table.form), settings.live_format


def found_shards(settings: WorkerSettings) -> Shards:
    """Looks at the servers, the schema registry too where one is needed.

    Raises ConfigError, ShardRefused, NotDurable, ServerUnreachable.
    """
    kafka, table = settings.kafka, settings.table
    settings.live_format.begin()
    require_access(servers_of(kafka))
    client, topics = connect(settings.redis), kafka_topics(kafka, table.name)
    require_durable(client, table.durability_stated or settings.embedded)
    outputs = outputs_of(table.form)
    inputs = [KafkaInput(kafka, table.name, 0, topics, outputs)]
    states = [inputs[0].state()]
    for shard in range(1, states[0].shards):
        inputs.append(KafkaInput(kafka, table.name, shard, topics, outputs))
        states.append(inputs[-1].state())
    stores = [RedisLookups(client, table.name, shard) for shard in range(len(states))]
    return Shards(settings, inputs, states, stores)


def require_empty(shards: Shards) -> None:
    """Raises UsageError where any shard has begun already."""
    begun = [shard for shard in range(len(shards)) if _has_begun(shards, shard)]
    if begun := [*begun, *shards.former()]:
        raise UsageError(
            f"shard {begun[0]} of {shards.settings.table.name} has begun already, and `load` fills empty tables only; "
            "`streamer start-anew --from-source` replaces what is there"
        )


def _has_begun(shards: Shards, shard: int) -> bool:
    meta, position = shards.stores[shard].meta(), shards.outlet(shard).position()
    return (meta is not None and bool(meta.commit)) or position is not None or shards.states[shard].live_begun
