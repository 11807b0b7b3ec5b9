"""The input of one shard as the broker sees it right now: its topics, and from which offset to which it is held.

The rules of this file
----------------------
* `ask` is called when a batch was read, `check` waits for the answer before the batch is stored, and what lies between
  goes on meanwhile. Whatever was read before `ask` came from the input that the answer names, because a topic that was
  deleted never comes back with the same id. So no message of an input recreated is stored as one of the former's: that
  is found out before the commit. An input that is recreated after the question was put changes nothing about the batch;
  the next one finds it.
* The same answer tells whether the output was recreated before the question was put. What happens to the output later
  is for the outlet to see, by the offsets that its records get, and for the next question.
* `check` only says that something is not as it was. What that means, `state` and the rules of a take-over decide.
* A topic that is missing may be on its way: it is waited for, for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from time import monotonic, sleep

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient

from streamer.errors import Conflict, Fenced, LawViolated, ShardRefused, UsageError
from streamer.incremental import remedies
from streamer.incremental.formats.live_format import PLAIN, LiveFormat, is_written
from streamer.incremental.shard.bootstrap import PublishedRecord
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.requests import Placed
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, OUTPUTS, POSITIONS, topic_name
from streamer.kafka.clients import KafkaCalls, client_settings
from streamer.kafka.control import KafkaControl
from streamer.kafka.errors import READ_RIGHT
from streamer.kafka.reading import CALL_SECONDS_MAX, batches
from streamer.kafka.topics import Topics, described, gives_ids

# Long readings of one partition from its beginning: the published table of a shard, and its whole input.


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
        """Raises UsageError if the output holds records of another format than table.yaml says."""
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
        with self._kafka.failures(f"reading {topic}", READ_RIGHT, kind), self._kafka.consumer() as consumer:
            first, end = self._kafka.watermarks(consumer, TopicPartition(topic, self._kafka.shard))
            if first < end:
                yield from batches(consumer, [TopicPartition(topic, self._kafka.shard, max(first, start))])


def _offset(record: Record) -> int:
    return int(record.offset() or 0)


# Which topics a table has right now, by their ids: one question for all topics and all shards of a worker.
#
# * An answer is worth something only for what had happened before its question was put: no id comes back, so what was
#   read from a topic by then was read from the very topic that the answer names. Nobody is given the answer to a
#   question that was under way already when he asked.
# * At most one question is under way. All who ask meanwhile share the next one, so the number of questions does not
#   grow with that of shards, and who asks early has the answer when he needs it.
# * Brokers learn of a new topic one after the other; only within that time they may disagree.

ANSWER_SECONDS_MAX = 2 * CALL_SECONDS_MAX + 2
"""How long an answer may take: the question before it has to end first."""


class TopicQuestions:
    """Questions for a table's topics, put one after the other in a thread of their own; to be asked from any thread.

    put: puts one question and waits for the answer.
    """

    def __init__(self, put: Callable[[], Topics]) -> None:
        self._put = put
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="topics")
        self._lock = threading.Lock()
        self._next: Future[Topics] | None = None
        """The question that waits to be put; whoever asks shares it."""
        self._last: Future[Topics] | None = None

    def ask(self) -> Future[Topics]:
        """The answer to a question that is put from now on; raises KafkaException if Kafka does not give it."""
        with self._lock:
            if self._next is None:
                self._next = self._last = self._thread.submit(self._put_next)
            return self._next

    def _put_next(self) -> Topics:
        with self._lock:
            self._next = None  # who asks from here on comes too late for this question
        return self._put()

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._last is not None and not self._last.done()


def kafka_topics(bootstrap: str, table_name: str) -> TopicQuestions:
    """Questions to Kafka over one connection of their own, which is made with the first."""
    return TopicQuestions(_Kafka(bootstrap, table_name).topics)


class _Kafka:
    """Asks Kafka; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str) -> None:
        self._settings = client_settings(bootstrap)
        self._table_name = table_name
        self._admin: AdminClient | None = None
        self._gives_ids = True

    def topics(self) -> Topics:
        if self._admin is None:
            admin = AdminClient(self._settings)
            self._gives_ids, self._admin = gives_ids(admin), admin
        return described(self._admin, self._table_name, self._gives_ids)


PIECE_MESSAGES_MAX, PIECE_BYTES_MAX = 20_000, 16_000_000
"""Of what is read once more at a time: the shard's batches wait for it."""

MISSING_SECONDS_MAX, MISSING_AGAIN_SECONDS = 3.0, 0.1
"""How long a topic may be missing that somebody is making anew."""


class KafkaInput:
    """The input of one shard; to be used from one thread.

    topics: asked together with the other shards of the process; without it, by this shard alone. outputs: the kinds of
    topics that hold what is published. Implements `streamer.incremental.shard.input.ShardInput`.
    """

    def __init__(
        self,
        bootstrap: str,
        table_name: str,
        shard: int,
        topics: TopicQuestions | None = None,
        outputs: Sequence[str] = (LIVE,),
    ) -> None:
        self._outputs = tuple(outputs)
        self._needed = (CHANGES, *outputs, POSITIONS, DEAD_LETTERS)
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._reading = KafkaReading(bootstrap, table_name, shard)
        self._topics = topics or kafka_topics(bootstrap, table_name)
        self._seen: Topics = {}
        self._asked: Future[Topics] | None = None
        self._control = KafkaControl(bootstrap, table_name, shard)
        self.lost = ""
        """Why the shard is not ours any more; empty while it is."""
        self.looked_at = 0.0
        """When the topics were last known to be what they were, by the monotonic clock."""

    def state(self) -> InputState:
        """What the broker says of the shard's input right now.

        Raises ShardRefused if a topic is missing or the topics do not have the same number of partitions;
        ServerUnreachable; Fenced where the shard is lost.
        """
        with self._kafka.failures("asking for the topics"), self._kafka.consumer() as consumer:
            self._seen, self._asked = self._all_topics(), None
            shards = self._shards()
            earliest, end = self._kafka.watermarks(consumer, self._place(CHANGES))
            live_begun = any(self._has_begun(consumer, self._place(kind)) for kind in self._outputs)
            control_end = self._kafka.watermarks(consumer, self._place(CONTROL))[1] if CONTROL in self._seen else 0
        ids = {kind: described.id for kind, described in self._seen.items() if described.id}
        if self.lost:
            raise Fenced(f"{self._kafka.name}: {self.lost}")
        return InputState(ids, shards, earliest, end, live_begun, control_end)

    def piece(self, start: int, end: int) -> tuple[list[Message], int]:
        """Messages from `start` on that were read before, and the offset that they do not reach, `end` at most.

        Over a connection of their own, in pieces of bounded size. What has expired is not among them. Raises
        ServerUnreachable, ShardRefused.
        """
        place, found, n_bytes = self._place(CHANGES), list[Message](), 0
        with self._kafka.failures("reading the input once more"), self._kafka.consumer() as consumer:
            first, _ = self._kafka.watermarks(consumer, place)
            if max(first, start) >= end:
                return [], end
            for record in self._kafka.records(consumer, place, max(first, start), monotonic() + CALL_SECONDS_MAX):
                offset = int(record.offset() or 0)
                if offset >= end:
                    return found, end
                found.append(Message(offset, record.key(), record.value()))
                n_bytes += len(record.value() or b"")
                if len(found) >= PIECE_MESSAGES_MAX or n_bytes >= PIECE_BYTES_MAX:
                    return found, offset + 1
        return found, end

    def ask(self) -> None:
        """Asks for the topics, for `check` to compare them; does not wait for the answer."""
        gives_ids = any(described.id for described in self._seen.values())
        self._asked = self._topics.ask() if gives_ids else None

    def forget_answer(self) -> None:
        """What was read last is of no account any more: `check` is to ask by itself."""
        self._asked = None

    def check(self, *more: str) -> None:
        """Raises Conflict where a topic was not the one that `state` saw, or had another number of partitions.

        What was read from the topics before `ask` came from the very same ones. more: kinds that are compared beside
        the input, the control topic and the output. Raises ServerUnreachable.
        """
        if not any(described.id for described in self._seen.values()):
            return  # the embedded broker makes nothing anew
        now = self._answer(self._asked or self._topics.ask())
        kinds = (CHANGES, CONTROL, *self._outputs, *more)
        changed = [kind for kind in kinds if now.get(kind) != self._seen.get(kind)]
        if changed:
            names = ", ".join(topic_name(self._kafka.table_name, kind) for kind in changed)
            raise Conflict(f"{self._kafka.name}: made anew, grown or gone since the shard was taken over: {names}")
        self.looked_at = monotonic()

    def placed(self) -> list[Placed]:
        """The truncations of which the shard said that it has placed them. Raises ServerUnreachable, ShardRefused."""
        return self._control.placed()

    def skips(self, topic_id: str) -> frozenset[int]:
        """The offsets of the input of that id that operators named. Raises ServerUnreachable, ShardRefused."""
        return self._control.skips(topic_id)

    def begins(self) -> int:
        """Where the input begins. Raises ServerUnreachable."""
        with self._kafka.failures("asking where the input begins"), self._kafka.consumer() as consumer:
            return self._kafka.watermarks(consumer, self._place(CHANGES))[0]

    def messages(self, start: int, end: int) -> Iterator[Sequence[Message]]:
        """The messages of the input from an offset to another, some at a time. Raises ServerUnreachable."""
        return self._reading.between(start, end)

    def _answer(self, asked: Future[Topics]) -> Topics:
        with self._kafka.failures("asking for the topics"):
            return asked.result(ANSWER_SECONDS_MAX)

    def _all_topics(self) -> Topics:
        """The topics of the table by kind; raises ShardRefused where one that is needed is missing."""
        until = monotonic() + MISSING_SECONDS_MAX
        while True:
            found = self._answer(self._topics.ask())
            missing = [topic_name(self._kafka.table_name, kind) for kind in self._needed if kind not in found]
            if not missing:
                unused = set(OUTPUTS).difference(self._outputs)
                return {kind: described for kind, described in found.items() if kind not in unused}
            if monotonic() > until:
                raise ShardRefused(f"topic {missing[0]} does not exist: `streamer topics create` makes it")
            sleep(MISSING_AGAIN_SECONDS)

    def _shards(self) -> int:
        """The number of partitions that the topics of the table have in common."""
        counts = {kind: self._seen[kind].partitions for kind in self._needed}
        if len(set(counts.values())) > 1:
            raise ShardRefused(f"{self._kafka.name}: {remedies.unlike_counts(self._kafka.table_name, counts)}")
        return self._seen[CHANGES].partitions

    def _has_begun(self, consumer: Consumer, topic_partition: TopicPartition) -> bool:
        """Whether a partition holds a committed record."""
        first, end = self._kafka.watermarks(consumer, topic_partition)
        if first == end:
            return False
        records = self._kafka.records(consumer, topic_partition, first, monotonic() + CALL_SECONDS_MAX)
        return next(records, None) is not None

    def _place(self, kind: str) -> TopicPartition:
        return TopicPartition(topic_name(self._kafka.table_name, kind), self._kafka.shard)
