"""Long readings of one partition from its beginning: the published table of a shard, and its whole input."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from confluent_kafka import Message as Record
from confluent_kafka import TopicPartition

from agents.kafka_calls import KafkaCalls
from streamer.errors import LawViolated, UsageError
from streamer.incremental.formats.live_format import PLAIN, LiveFormat, is_written
from streamer.incremental.shard.anew import PublishedRecord
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.topics import CHANGES, LIVE, topic_name
from streamer.kafka.errors import READ
from streamer.kafka.reading import batches


class KafkaReading:
    """What one shard's topics hold, committed; to be used from one thread.

    outputs: the kinds of topics that hold what is published. live_format: how it is written there.
    """

    def __init__(
        self,
        bootstrap: str,
        table_name: str,
        shard: int,
        outputs: Sequence[str] = (LIVE,),
        live_format: LiveFormat = PLAIN,
    ) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._format = live_format
        self._outputs = tuple(outputs)

    def records(self) -> Iterator[PublishedRecord]:
        """What is published. Raises ServerUnreachable, and LawViolated for a record that no publisher of ours wrote."""
        for kind in self._outputs:
            for records in self._batches(kind, 0):
                self._format.learn((record.key(), None) for record in records)
                for record in records:
                    yield self._published(kind, record)

    def check_format(self) -> None:
        """Raises UsageError where the output holds records of another format than table.yaml says."""
        for kind in self._outputs:
            with closing(self._batches(kind, 0)) as batches:
                first = next(batches, [])[:1]
            if not all(is_written(record.key() or b"", self._format) for record in first):
                raise UsageError(
                    f"{topic_name(self._kafka.table_name, kind)} holds records of another format than"
                    " publish.live.format says, or under other ids of a schema registry, and a topic has one: stop all"
                    " workers, delete it, run `streamer topics create`, then call this again"
                )

    def messages(self, input_state: InputState) -> Iterator[list[Message]]:
        """The messages of the input from its beginning to the end that it had, some at a time."""
        return self.between(input_state.earliest, input_state.end)

    def between(self, start: int, end: int) -> Iterator[list[Message]]:
        """The messages of the input from an offset to another, some at a time. Raises ServerUnreachable."""
        if start == end:
            return
        for records in self._batches(CHANGES, start):
            below = [record for record in records if _offset(record) < end]
            yield [Message(_offset(record), record.key(), record.value()) for record in below]
            if len(below) < len(records):
                return

    def _published(self, kind: str, record: Record) -> PublishedRecord:
        headers = dict(record.headers() or ())
        release = headers.get("release")
        if not isinstance(release, bytes) or not release.isdigit():
            where = f"{self._kafka.name}: {topic_name(self._kafka.table_name, kind)}, offset {record.offset()}"
            raise LawViolated(f"{where}: a record without the header release, which streamer did not write")
        key = self._format.read_key(record.key() or b"")
        return PublishedRecord(int(release), key, record.value() is not None, kind)

    def _batches(self, kind: str, start: int) -> Generator[list[Record]]:
        """The records of a topic's partition from an offset on, up to the end that it has when it is reached."""
        topic = topic_name(self._kafka.table_name, kind)
        with self._kafka.failures(f"reading {topic}", READ, kind), self._kafka.consumer() as consumer:
            first, end = self._kafka.watermarks(consumer, TopicPartition(topic, self._kafka.shard))
            if first < end:
                yield from batches(consumer, [TopicPartition(topic, self._kafka.shard, max(first, start))])


def _offset(record: Record) -> int:
    return int(record.offset() or 0)
