"""The input of one shard as the broker sees it now: its topics, its offsets, its messages.

The rules of this file
----------------------
* `ask` is called after a batch was read, and `check` waits for the answer before the batch is stored; the batch is
  applied in between. A deleted topic never gets its id back, so everything read before `ask` came from the topics that
  the answer names: no message of a recreated input is stored as one of the former input. If the input is recreated
  after the question, the batch is not affected, and the next one finds it.
* The same answer says whether the output was recreated before the question. Later changes of the output are found by
  the outlet, by the offsets of its records, and by the next question.
* `check` only says that something has changed. `state` and the rules of a take-over decide what that means.
* A missing topic may be about to be recreated: it is waited for, for a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat
from time import monotonic, sleep

from confluent_kafka import Consumer
from confluent_kafka import Message as Record

from streamer.errors import Conflict, LawViolated, ShardRefused, StreamerError, UsageError
from streamer.incremental import remedies
from streamer.incremental.formats.live_format import PLAIN, LiveFormat, is_written
from streamer.incremental.sealed.records import Live, Retire, decode
from streamer.incremental.shard.input import InputState, KeptSecret, Message, is_same
from streamer.incremental.shard.outlet import PublishedRecord
from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.store.base import LastRead, Meta
from streamer.incremental.topics import CHANGES, CONTROL, DEAD_LETTERS, LIVE, POSITIONS, SEALED, topic_name
from streamer.kafka.background import Background
from streamer.kafka.clients import KafkaCalls, client_settings
from streamer.kafka.control import KafkaControl
from streamer.kafka.errors import READ_RIGHT
from streamer.kafka.reading import CALL_SECONDS_MAX, Place, batches, records, watermarks
from streamer.kafka.topics import Admin, Described, Topics, described, gives_ids, is_compacted, with_reach

# Reading a whole partition: the published table of a shard, or its input.


@dataclass(frozen=True, slots=True)
class KafkaReading:
    """The committed records of one shard's topics; to be used from one thread."""

    bootstrap: str
    table_name: str
    shard: int
    outputs: Sequence[str] = (LIVE,)  # the kinds of topics with published rows
    live_format: LiveFormat = PLAIN  # and their format

    def records(self) -> Iterator[PublishedRecord]:
        """Everything published. Raises ServerUnreachable; LawViolated for a record that no publisher of ours wrote.

        A transaction whose end is lost stays open until the next one of its writer ends, and becomes visible with that:
        its records come last, as of no release.
        """
        for kind in self.outputs:
            committed, left_open = self._batches(kind, 0), self._left_open(kind)
            for release, batch in chain(zip(repeat(None), committed), zip(repeat(-1), left_open)):
                if kind == SEALED:
                    yield from filter(None, map(self._sealed, batch if release is None else ()))
                    continue
                self.live_format.learn((record.key(), None) for record in batch)
                for record in batch:
                    found = self._published(kind, record)
                    yield found if release is None else found._replace(release=release)

    def check_format(self) -> None:
        """Raises UsageError if the output holds records of another format than table.yaml says."""
        for kind in (kind for kind in self.outputs if kind != SEALED):
            with closing(self._batches(kind, 0)) as batches:
                first = next(batches, [])[:1]
            if not all(is_written(record.key() or b"", self.live_format) for record in first):
                raise UsageError(
                    f"{topic_name(self.table_name, kind)} holds records of another format than"
                    " publish.live.format says, or under other ids of a schema registry, and a topic has one: stop all"
                    " workers, delete it, run `streamer topics create`, then call this again"
                )

    def messages(self, input_state: InputState) -> Iterator[list[Message]]:
        """The messages of the input from its beginning to the end that it had, some at a time.

        Raises ServerUnreachable.
        """
        if input_state.earliest == input_state.end:
            return
        for batch in self._batches(CHANGES, input_state.earliest):
            below = [record for record in batch if _offset(record) < input_state.end]
            yield [_message(record) for record in below]
            if len(below) < len(batch):
                return

    def _published(self, kind: str, record: Record) -> PublishedRecord:
        headers = dict(record.headers() or ())
        release = headers.get("release")
        if not isinstance(release, bytes) or not release.isdigit():
            where = f"shard {self.shard} of {self.table_name}: {topic_name(self.table_name, kind)}"
            raise LawViolated(
                f"{where}, offset {record.offset()}: a record without the header release, which streamer did not write"
            )
        key = self.live_format.read_key(record.key() or b"")
        return PublishedRecord(int(release), key, record.value() is not None, kind)

    def _sealed(self, record: Record) -> PublishedRecord | None:
        """A record of the sealed changelog that says what there is."""
        key = record.key() or b""
        said = decode(key, record.value())
        is_there = not isinstance(said, Retire)
        return None if isinstance(said, Live) else PublishedRecord(said.epoch, key, is_there, SEALED)

    def _batches(self, kind: str, start: int, committed: bool = True) -> Generator[list[Record]]:
        kafka = KafkaCalls(self.bootstrap, self.table_name, self.shard)
        with kafka.failures(f"reading {kafka.topic(kind)}", READ_RIGHT, kind), kafka.consumer(committed) as consumer:
            first, end = kafka.watermarks(consumer, kind)
            if max(first, start) < end:
                yield from batches(consumer, [Place(kafka.topic(kind), self.shard, max(first, start))])

    def _left_open(self, kind: str) -> Generator[list[Record]]:
        kafka = KafkaCalls(self.bootstrap, self.table_name, self.shard)
        with kafka.failures(f"reading {kafka.topic(kind)}", READ_RIGHT, kind), kafka.consumer() as consumer:
            _, end = kafka.watermarks(consumer, kind)
        yield from self._batches(kind, end, committed=False)


def _message(record: Record) -> Message:
    _, timestamp = record.timestamp()
    return Message(_offset(record), record.key(), record.value(), max(0, timestamp))


def _offset(record: Record) -> int:
    return int(record.offset() or 0)


def message_at(bootstrap: str, consumer: Consumer, place: Place, offset: int) -> tuple[Message | None, ...]:
    """The message at an offset of the input, as `InputState.again`. Raises KafkaException, ServerUnreachable."""
    first, end = watermarks(consumer, place)
    if offset < first:
        return ()
    record = next(records(consumer, place, offset, end), None) if offset < end else None
    if record is not None and _offset(record) == offset:
        return (_message(record),)
    return () if is_compacted(Admin(client_settings(bootstrap)), place.topic) else (None,)


# The ids of a table's topics now: one question for all topics, and for all shards of a worker.
#
# * An answer holds for what had happened before its question was sent, because no id comes back. So no caller gets the
#   answer to a question that was sent before the call.
# * One question runs at a time. All callers during that time share the next one, so the number of questions does not
#   grow with that of shards.
# * Brokers learn of a new topic one after the other; only within that time they may disagree.

ANSWER_SECONDS_MAX = 2 * CALL_SECONDS_MAX + 2
"""The longest time until an answer: the question before it has to end first."""


class TopicQuestions:
    """Asks for a table's topics in a thread of its own, one question after the other; may be called from any thread.

    ask_now: sends one question and waits for the answer.
    """

    def __init__(self, ask_now: Callable[[], Topics]) -> None:
        self._ask_now = ask_now
        self._background = Background("topics")
        self._lock = threading.Lock()
        self._next: Future[Topics] | None = None  # the question that waits to be sent; all callers share it

    def ask(self) -> Future[Topics]:
        """The answer to a question that is sent after this call. The result raises KafkaException."""
        with self._lock:
            if self._next is None:
                self._next = self._background.submit(self._ask_next)
            return self._next

    def _ask_next(self) -> Topics:
        with self._lock:
            self._next = None  # later callers need a later question
        return self._ask_now()

    @property
    def busy(self) -> bool:
        return self._background.busy


def kafka_topics(bootstrap: str, table_name: str, outputs: Sequence[str]) -> TopicQuestions:
    """Questions to Kafka over connections that the first question opens. outputs: as for `KafkaInput`."""

    @cache
    def connection() -> tuple[Admin, Consumer, bool]:
        admin = Admin(client_settings(bootstrap))
        return admin, KafkaCalls(bootstrap, table_name, 0).new_consumer(committed=False), gives_ids(admin)

    last: Topics = {}

    def ask_now() -> Topics:
        nonlocal last
        admin, reader, ids = connection()
        last = with_reach(admin, reader, table_name, last, outputs) if ids else described(admin, table_name, ids)
        return last

    return TopicQuestions(ask_now)


PIECE_MESSAGES_MAX, PIECE_BYTES_MAX = 20_000, 16_000_000
"""The size of a piece that is read again: the shard's batches wait for it."""

DOUBTED_SECONDS = 10.0
"""The time after a new leader of the input in which a reader may still hold messages of the former one."""

MISSING_SECONDS_MAX, MISSING_AGAIN_SECONDS = 3.0, 0.1
"""The time for which a topic that is being recreated may be missing."""


class KafkaInput:
    """One shard's `streamer.incremental.shard.input.ShardInput`; to be used from one thread.

    topics: questions that all shards of the process share; None: this shard asks by itself. outputs: the kinds of
    topics with what is published.
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
        self._topics = topics or kafka_topics(bootstrap, table_name, outputs)
        self._seen: Topics = {}
        self._asked: Future[Topics] | None = None
        self._read: Meta | None = None  # as of the last `check`
        self._doubted_until = 0.0  # until then messages may come that a former leader had, by the monotonic clock
        self._published: Mapping[str, int] = {}  # the ends of the topics of rows for their writer at the last `look`
        self._control = KafkaControl(bootstrap, table_name, shard)
        self._barred: StreamerError | None = None  # as in `bar`
        self.looked_at = 0.0  # when `check` last found the topics unchanged, by the monotonic clock

    def state(self, last: int | None = None) -> InputState:
        """As in `ShardInput`. Raises ShardRefused if a topic is missing, or topics differ in their partitions."""
        with self._kafka.failures("asking for the topics"), self._kafka.consumer() as consumer:
            self._seen, self._asked, self._read, self._doubted_until = self._all_topics(), None, None, 0.0
            self._published = {}
            shards = self._shards()
            earliest, end = self._kafka.watermarks(consumer, CHANGES)
            live_begun = any(self._has_begun(consumer, kind) for kind in self._outputs)
            control_end = self._kafka.watermarks(consumer, CONTROL)[1] if CONTROL in self._seen else 0
            reach = {kind: self._reach(consumer, kind) for kind in self._outputs}
            again = () if last is None else message_at(self._kafka.bootstrap, consumer, self._input, last)
        ids = {kind: described.id for kind, described in self._seen.items() if described.id}
        if (barred := self._barred) is not None:
            raise barred
        return InputState(ids, shards, earliest, end, live_begun, control_end, reach, again)

    def bar(self, why: StreamerError | None) -> None:
        """Has `state` raise this, so that a take-over shuts nobody out; None: it may. May be called from any thread."""
        self._barred = why

    def piece(self, start: int, end: int) -> tuple[list[Message], int]:
        """As in `ShardInput`, by a connection of its own, in pieces of bounded size. Expired messages are missing."""
        found, n_bytes = list[Message](), 0
        with self._kafka.failures("reading the input once more"), self._kafka.consumer() as consumer:
            first, _ = self._kafka.watermarks(consumer, CHANGES)
            if max(first, start) >= end:
                return [], end
            for record in self._kafka.records(consumer, CHANGES, max(first, start)):
                if _offset(record) >= end:
                    return found, end
                found.append(_message(record))
                n_bytes += len(record.value() or b"")
                if len(found) >= PIECE_MESSAGES_MAX or n_bytes >= PIECE_BYTES_MAX:
                    return found, _offset(record) + 1
        return found, end

    def topics(self) -> Topics:
        """The topics of the table that exist now, by kind. Raises ServerUnreachable."""
        return self._answer(self._topics.ask())

    def ask(self) -> None:
        gives_ids = any(described.id for described in self._seen.values())
        self._asked = self._topics.ask() if gives_ids else None

    def forget_answer(self) -> None:
        """Has `check` ask a question of its own."""
        self._asked = None

    def check(self, meta: Meta, *more: str) -> None:
        """Raises Conflict if a topic is not the one that `state` saw, or has lost its end since.

        Else everything read before `ask` came from those topics. meta: as the commit leaves it that is made of what was
        read. more: kinds to compare besides the input, the control topic and the output. Raises ServerUnreachable.
        """
        if not any(described.id for described in self._seen.values()):
            return  # the embedded broker recreates no topic
        now = self._answer(self._asked or self._topics.ask())
        kinds = (CHANGES, CONTROL, *self._outputs, *more)
        changed = [kind for kind in kinds if not _is_same(now.get(kind), self._seen.get(kind))]
        if changed:
            names = ", ".join(map(self._kafka.topic, changed))
            raise Conflict(f"{self._kafka.name}: recreated, grown or gone since the shard was taken over: {names}")
        kinds = (CHANGES, *self._outputs)
        if lost := [self._kafka.topic(kind) for kind in kinds if self._has_lost(kind, now[kind], meta)]:
            raise Conflict(f"{self._kafka.name}: records are lost, at the beginning or the end: {', '.join(lost)}")
        shard = self._kafka.shard  # without a leader its partition has no reach: the last one known stays
        known = {kind: self._seen.get(kind, one) for kind, one in now.items() if shard not in one.reach}
        self._seen, self._read, self.looked_at = {**now, **known}, meta, monotonic()

    def look(self, meta: Meta, ends: Mapping[str, int]) -> None:
        """The same without a commit. ends: where the topics of rows end for their writer, by kind.

        A commit is told before its last markers are written, so its ends are compared by the next look.
        """
        self.ask()
        self.check(meta, POSITIONS)
        self._published = ends

    def _has_lost(self, kind: str, now: Described, meta: Meta) -> bool:
        """True if a topic has lost records that it had at the last look, or that were read since.

        Under one leader an end never moves back. After a new leader has taken messages, too, only the messages tell;
        those that are read for a while after that may have been fetched from the former one.
        """
        before, reach = self._seen[kind].reach.get(self._kafka.shard), now.reach.get(self._kafka.shard)
        if before is None or reach is None:
            return False  # it had no leader
        has_fallen = reach.end < max(before.end, self._published.get(kind, 0))
        if has_fallen or kind != CHANGES:
            return has_fallen or reach.begin > before.begin
        if reach.epoch != before.epoch:
            self._doubted_until = monotonic() + DOUBTED_SECONDS
        if monotonic() > self._doubted_until:
            return False
        if self._read is None or self._read.read is None:
            return True  # nobody has compared it since the take-over, which does
        return not all(one is None or self._is_there(one, meta) for one in {self._read.read, meta.read})

    def _is_there(self, last: LastRead, meta: Meta) -> bool:
        with self._kafka.failures("comparing the last message read"), self._kafka.consumer() as consumer:
            found = message_at(self._kafka.bootstrap, consumer, self._input, last.offset)
        return all(one is not None and is_same(one, last, meta.secret) for one in found)

    def epochs_over(self) -> list[EpochOver]:
        return self._control.epochs_over()

    def secret(self) -> KeptSecret | None:
        return self._control.secret() if CONTROL in self._seen else None

    def holds_sealed(self, since: int) -> bool:
        with self._kafka.failures("reading the sealed changelog"), self._kafka.consumer() as consumer:
            _, end = self._kafka.watermarks(consumer, SEALED)
            return since < end and next(self._kafka.records(consumer, SEALED, since), None) is not None

    def skips(self, topic_id: str) -> frozenset[int]:
        """As in `KafkaControl`."""
        return self._control.skips(topic_id)

    def _answer(self, asked: Future[Topics]) -> Topics:
        with self._kafka.failures("asking for the topics"):
            return asked.result(ANSWER_SECONDS_MAX)

    def _all_topics(self) -> Topics:
        """The topics of the table by kind. Raises ShardRefused if one that is needed is missing."""
        until = monotonic() + MISSING_SECONDS_MAX
        while True:
            found = self._answer(self._topics.ask())
            missing = [self._kafka.topic(kind) for kind in self._needed if kind not in found]
            if not missing:
                return found
            if monotonic() > until:
                raise ShardRefused(f"topic {missing[0]} does not exist: `streamer topics create` makes it")
            sleep(MISSING_AGAIN_SECONDS)

    def _shards(self) -> int:
        """The number of partitions. Raises ShardRefused if the topics of the table differ in it."""
        counts = {kind: self._seen[kind].partitions for kind in self._needed}
        if len(set(counts.values())) > 1:
            raise ShardRefused(f"{self._kafka.name}: {remedies.unequal_partitions(self._kafka.table_name, counts)}")
        return self._seen[CHANGES].partitions

    @property
    def _input(self) -> Place:
        return self._kafka.partition(CHANGES)

    def _reach(self, consumer: Consumer, kind: str) -> tuple[int, int]:
        """The begin and end of a topic. The end counts what is being committed: a commit is told before it is done."""
        first, committed = self._kafka.watermarks(consumer, kind)
        reach = self._seen[kind].reach.get(self._kafka.shard)
        return first, committed if reach is None else max(committed, reach.end)

    def _has_begun(self, consumer: Consumer, kind: str) -> bool:
        first, end = self._kafka.watermarks(consumer, kind)
        return first < end and next(self._kafka.records(consumer, kind, first), None) is not None


def _is_same(now: Described | None, seen: Described | None) -> bool:
    """True if it is the same topic with as many partitions, or there is none."""
    return now is seen is None or (now is not None and seen is not None and now[:2] == seen[:2])
