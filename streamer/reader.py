"""A reader of the published table: it follows the table's topics and shows only k-anonymous states.

The rules of this file
----------------------
* It reads all shards from the beginning, committed records only, without a consumer group: every reader gets the whole
  table. A lossy join is two topics, read as one: a shard has a partition of each.
* The topic is compacted, which may mix past releases. So a shard shows nothing until it has reached the end that it had
  at the start. From then on its table goes from complete release to complete release (`release.fold`).
* Nothing is shown of a shard whose log has lost records: a row that was removed there would stay, and its QI group
  could be one that was never published. Releases follow one another without a hole, and each has all records that its
  headers announce; before the end at the start, compaction may have dropped what is older than `READER_TIME_MS`.
  Compaction never moves the beginning of a log, either: only deleted records and retention do. A release of the whole
  table makes up for both (headers `whole` and `begins`).
* Committed records end with a whole release. If compaction has dropped a removal that was the last part of the last
  release, that release counts as complete after a second without records of its shard.
* The broker compacts nothing younger than `READER_TIME_MS`. A reader that takes longer to reach the end has to start
  again, and raises.
* So does a reader whose topic was deleted and recreated: the new topic holds the whole table, and its records must not
  be applied to the old one's. The topic's id is checked whenever records have come.
* A sealed changelog is read epoch by epoch. Its topic is never compacted, so what is lost there is lost for good.
* The client library is kafka-python: readers need no library in C. It logs keys and values at debug level, so its
  logger is silenced.
"""

from __future__ import annotations

import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from time import monotonic, sleep, time
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import pandas as pd
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import BrokerResponseError, KafkaError, NoBrokersAvailable

from streamer.errors import (
    A_TEXT,
    WHOLE_NUMBER,
    LawViolated,
    ServerUnreachable,
    StreamerError,
    UsageError,
    require_type,
)
from streamer.incremental import remedies
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.formats.live_format import live_format
from streamer.incremental.release.fold import Fold, FoldedRelease, missing_before, parse_part
from streamer.incremental.release.frames import recorded_frames
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.sealed.fold import SealedFold
from streamer.incremental.sealed.records import EpochEnd, Written, decode, log_line
from streamer.incremental.topics import READER_TIME_MS, SEALED, live_kinds, topic_name
from streamer.kafka.access import kafka_settings
from streamer.kafka.diagnose import require_access
from streamer.kafka.errors import READ_RIGHT, Right, command_error, missing_topic, sent_nothing, topics_named
from streamer.kafka.python_client import TicketsSkipped, Topics, kafka_python_access, topics_now
from streamer.kafka.registry import registry_from
from streamer.kafka.settings import servers_of
from streamer.progress import OnProgress, unheard
from streamer.table.arrow_table import to_arrow
from streamer.table.yaml.loading import Named, table_of

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
SETTLE_SECONDS = 1.0
WORD_MS, CONNECT_MS_MAX, ANSWER_MS_MAX = 2_000, 4_000, 15_000
SILENCE_SECONDS_MAX = 15.0
SEEN_SECONDS_MAX, SEEN_AGAIN_SECONDS = 2.0, 0.1
CLOCKS_APART_MS = 60 * 60 * 1000  # a reader's clock may be behind those that records are stamped by
START_SECONDS_MAX = int(READER_TIME_MS) / 1000

Complete = TypeVar("Complete")  # what a reader yields


class TopicReader(ABC, Generic[Complete]):
    """Reads topics from the beginning to the ends that they have at the start, and then on."""

    def __init__(self, kafka: str, topics: Sequence[str], shards: Collection[int] | None = None) -> None:
        self._kafka, self._topics, self._shards = kafka, topics, shards
        self._open = ExitStack()
        self._consumer: KafkaConsumer = None
        self._admin: KafkaAdminClient = None
        self._at_start: Topics = {}
        self._end_at_start: dict[TopicPartition, int] = {}  # of the partitions that have not been read so far
        self._size_at_start = 0
        self._heard_at = 0.0

    def __enter__(self) -> Self:
        with self._open, _reaching(self._kafka):
            connection = _connection(self._kafka)
            self._admin = self._open.enter_context(closing(_admin(self._kafka, connection)))
            self._consumer = self._open.enter_context(closing(_consumer(connection)))
            self._at_start = _topics_there(self._admin, self._topics)
            places = _places(self._at_start, self._shards)
            self._consumer.assign(places)
            self._consumer.seek_to_beginning(*places)
            self._end_at_start = self._consumer.end_offsets(places)
            self._size_at_start, self._heard_at = sum(self._end_at_start.values()), monotonic()
            self._begin(places)
            self._open = self._open.pop_all()  # no error: stay open
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    @property
    def caught_up(self) -> bool:
        """True if every shard has reached the end that it had at the start."""
        return not self._end_at_start

    @property
    def share_read(self) -> float:
        """The share that is read of the offsets up to the end at the start, 0 to 1."""
        left = sum(max(0, end - self._read_to(place)) for place, end in self._end_at_start.items())
        return 1 - left / max(1, self._size_at_start)

    def catch_up(self) -> None:
        """Reads until every shard has reached the end that it had at the start."""
        for _ in self.catching_up():
            pass

    def catching_up(self, on_progress: OnProgress = unheard) -> Iterator[list[Complete]]:
        """The same; yields what each poll brings, and reports the share that is read."""
        while not self.caught_up:
            yield self.poll()
            on_progress(self.share_read)

    def follow(self) -> Iterator[Complete]:
        """Catches up, then yields everything further when it is complete; for ever."""
        self.catch_up()
        yield from chain.from_iterable(iter(self.poll, None))

    @abstractmethod
    def poll(self, timeout_s: float = POLL_SECONDS) -> list[Complete]:
        """Reads what has come; returns what is complete now, in order per shard."""

    @abstractmethod
    def _begin(self, places: Sequence[TopicPartition]) -> None:
        """Looks at the partitions before the first record is read."""

    def _read_to(self, place: TopicPartition) -> int:
        return _position(self._consumer, place)

    def _come(self, timeout_s: float) -> dict[TopicPartition, list[Any]]:
        """The records that have come. Raises StreamerError if the topics are not those of the start any more."""
        came: dict[TopicPartition, list[Any]] = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        if came:  # before the answer, so from the topics that it names
            now = topics_now(self._admin, tuple(self._at_start))
            if any(now.get(name, ("", 0))[0] != id_ for name, (id_, _) in self._at_start.items()):
                names = " and ".join(self._at_start)
                raise StreamerError(f"{names} was deleted and recreated since this reader began: start again")
        return came

    def _leave_ends(self) -> None:
        """Forgets the ends at the start that have been reached."""
        for place, end in list(self._end_at_start.items()):
            if _position(self._consumer, place) >= end:
                del self._end_at_start[place]


class Subscription(TopicReader[FoldedRelease]):
    """The published table of `table` at the brokers `kafka` ("host:port,..."), to be used in a `with`.

        with Subscription(table, "127.0.0.1:9092") as people:
            people.catch_up()
            print(people.frame())            # the table as it is now
            for release in people.follow():  # and every change of it from now on
                print(release.shard, release.number, len(people.frame()))

    table: a Table, a table.yaml, or a directory that holds one. schemas: of a registry, if publish.live.format is avro;
    None: of the registry that the environment names. shards: numbers of those that are read; None: all.

    Raises ServerUnreachable if the broker does not answer, UsageError if a topic or shard does not exist, LawViolated
    for a record that no publisher of ours wrote and for a log that has lost records, StreamerError if a new reader has
    to start.
    """

    def __init__(
        self,
        table: Named,
        kafka: str,
        schemas: Schemas | None = None,
        shards: Collection[int] | None = None,
    ) -> None:
        table = table_of(table)
        require_type("kafka", kafka, A_TEXT)
        if schemas is not None and not isinstance(schemas, Schemas):
            raise UsageError(f"schemas must be those of a schema registry or None, not {type(schemas).__name__}")
        self._format = live_format(table, schemas or registry_from())
        if not table.live:
            raise UsageError(f"{table.name} publishes a sealed changelog alone: read it by `--sealed`")
        self._kinds = {topic_name(table.name, kind): kind for kind in live_kinds(table)}
        self._name = " and ".join(self._kinds)
        self._table = table
        for shard in () if shards is None else list[object](shards) or [None]:  # no shard is a mistake, too
            require_type("a number in shards", shard, WHOLE_NUMBER)
        super().__init__(kafka, tuple(self._kinds), None if shards is None else frozenset(shards))
        self._fold = Fold(table)
        self._next: dict[TopicPartition, int] = {}
        self._behind: set[int] = set()
        self._last_record_at: dict[int, float] = {}
        self._last: dict[int, FoldedRelease] = {}  # the last release of each shard, without its records
        self._lost: dict[int, str] = {}  # by shard what was lost before the last whole table
        self._followed: set[int] = set()  # shards whose last release came after the end at the start
        self._begins: dict[TopicPartition, int] = {}  # as in `Meta`: what lay before does not count any more
        self._asked: dict[int, tuple[int, Mapping[TopicPartition, int]]] = {}  # see `_read_all_of_joins`
        self._refused: LawViolated | None = None
        self._started_at = 0.0

    def _begin(self, places: Sequence[TopicPartition]) -> None:
        self._next = dict.fromkeys(places, 0)
        self._behind = {place.partition for place in places}
        self._started_at = self._heard_at

    @property
    def caught_up(self) -> bool:
        return not self._behind

    def _read_to(self, place: TopicPartition) -> int:
        return self._next[place]

    def frame(self) -> pd.DataFrame:
        """The published table as of the last complete release of every shard that has caught up.

        Raises UsageError for a lossy join, which has two tables: `frames`.
        """
        return self._fold.to_frame(self._there)

    def frames(self) -> dict[str, pd.DataFrame]:
        """The same in every form: `live`, or `qit` and `stt`."""
        return self._fold.to_frames(self._there)

    def recorded_frames(self) -> dict[str, pd.DataFrame]:
        """The same with a first column `_record`: the key of the record that a row came with."""
        return recorded_frames(self._table, self.stored())

    def arrow(self) -> dict[str, Any]:
        """The same as pyarrow.Tables. Raises ConfigError if pyarrow is not installed."""
        return {name: to_arrow(self._table, frame) for name, frame in self.frames().items()}

    def stored(self) -> list[tuple[bytes, bytes]]:
        """The same as keys and values."""
        return self._fold.stored(self._there)

    @property
    def _there(self) -> set[int]:
        if self._refused is not None:
            raise self._refused
        return {place.partition for place in self._next} - self._behind

    def poll(self, timeout_s: float = POLL_SECONDS) -> list[FoldedRelease]:
        """Reads what has come; returns the releases that are complete now, the oldest first per shard.

        Before `caught_up` these are remains of past releases.
        """
        if self._refused is not None:
            raise self._refused
        with _reaching(self._kafka):
            came = self._come(timeout_s)
            self._format.learn((record.key, record.value) for records in came.values() for record in records)
            complete = [release for records in came.values() for record in records for release in self._apply(record)]
            complete += self._read_all_of_joins()
            complete += self._reach_ends()
            self._check_time(bool(came))
        return complete

    def _whole(self, complete: list[FoldedRelease]) -> list[FoldedRelease]:
        """Passes on releases that have become visible. Raises LawViolated if their shard has lost records.

        A loss before the end that a shard has at the start may be made good by a whole table up to there.
        """
        for release in complete:
            before = self._last.get(release.shard)
            young_from = int(time() * 1000) - int(READER_TIME_MS) + CLOCKS_APART_MS
            if lost := missing_before(before, release, None if release.shard in self._followed else young_from):
                self._lost[release.shard] = lost
            elif release.is_whole:
                self._lost.pop(release.shard, None)
            self._last[release.shard] = release._replace(records=[])
            if release.shard not in self._behind:
                self._check_lost(release.shard)
                self._followed.add(release.shard)
        return complete

    def _check_lost(self, shard: int) -> None:
        if shard in self._lost:
            raise self._refuse(shard, f"{self._name}: {self._lost[shard]} are lost")

    def _refuse(self, shard: int, what: str) -> LawViolated:
        mend = remedies.whole_table_again(self._table.name, self._table.form)
        self._refused = LawViolated(
            f"shard {shard} of {self._table.name}: {what}, so the table read from it need not be k-anonymous and is "
            f"not shown; {mend}"
        )
        return self._refused

    def _apply(self, record: Any) -> list[FoldedRelease]:
        place = TopicPartition(record.topic, record.partition)
        if record.offset < self._next[place]:
            return []  # the broker sent us back: the record was read before
        self._next[place] = record.offset + 1
        self._last_record_at[place.partition] = monotonic()
        try:
            headers = dict(record.headers)
            release, through, part = int(headers["release"]), int(headers["through"]), parse_part(headers["part"])
            beside, whole, begins = (int(headers.get(name, 0)) for name in ("beside", "whole", "begins"))
            after = int(headers["after"]) if "after" in headers else None
        except (KeyError, TypeError, ValueError, LawViolated):
            raise LawViolated(f"{_where(record)}: a record without the headers release, part and through") from None
        self._begins[place] = max(begins, self._begins.get(place, 0))
        kind, outside = self._kinds[record.topic], OUTSIDE in record.headers
        key, value = self._read(record)
        complete = self._fold.apply(
            place.partition, release, through, key, value, part, kind, beside, outside, whole, after, record.timestamp
        )
        return self._whole(complete)

    def _read(self, record: Any) -> tuple[bytes, bytes | None]:
        try:
            value = None if record.value is None else self._format.read_value(record.value)
            return self._format.read_key(record.key), value
        except LawViolated as broken:
            raise LawViolated(f"{_where(record)}: {broken} (publish.live.format: {self._table.format})") from None

    def _read_all_of_joins(self) -> list[FoldedRelease]:
        """Shows releases of a lossy join that wait for an earlier one which compaction has removed.

        A worker begins a transaction only when the one before is in both topics. So if one waits, whatever stands
        before it lies below the ends that the topics have now; once these are read, nothing earlier can come.
        """
        complete: list[FoldedRelease] = []
        for shard in {place.partition for place in self._next} - {place.partition for place in self._end_at_start}:
            waits = self._fold.awaits(shard)
            if waits is None:
                self._asked.pop(shard, None)
            elif shard not in self._asked:
                places = [place for place in self._next if place.partition == shard]
                self._asked[shard] = waits, self._consumer.end_offsets(places)
            elif all(_position(self._consumer, place) >= end for place, end in self._asked[shard][1].items()):
                complete += self._whole(self._fold.read_up_to(shard, self._asked.pop(shard)[0]))
        return complete

    def _reach_ends(self) -> list[FoldedRelease]:
        """Finds the shards that have reached the end that they had at the start."""
        self._leave_ends()
        complete: list[FoldedRelease] = []
        for shard in self._behind - {place.partition for place in self._end_at_start}:
            silent_for = monotonic() - self._last_record_at.get(shard, 0.0)
            waits = self._fold.awaits(shard) is not None
            if self._fold.is_whole(shard) or (silent_for > SETTLE_SECONDS and not waits):
                complete += self._whole(self._fold.finish(shard))
                self._check_lost(shard)
                self._check_beginnings(shard)
                self._behind.discard(shard)
        return complete

    def _check_beginnings(self, shard: int) -> None:
        """Raises LawViolated if the shard's log has lost its beginning, and the whole table did not come after that."""
        places = [place for place in self._next if place.partition == shard]
        for place, begins in self._consumer.beginning_offsets(places).items():
            if begins > self._begins.get(place, 0):
                where = f"{place.topic}, partition {shard}, begins at offset {begins}"
                raise self._refuse(shard, f"{where}: what lay before was deleted by hand or by a retention time")

    def _check_time(self, heard: bool) -> None:
        now = monotonic()
        if not self.caught_up and now - self._started_at > START_SECONDS_MAX:
            raise StreamerError(
                f"{self._name}: the end was not reached within {START_SECONDS_MAX / 3600:.0f} h; what was read may be "
                "mixed by compaction by now: start again"
            )
        if heard:
            self._heard_at = now
        elif now - self._heard_at > SILENCE_SECONDS_MAX:
            self._consumer.end_offsets(self._consumer.assignment())  # raises if the broker is down
            self._heard_at = now
            if not self.caught_up:
                raise sent_nothing(SILENCE_SECONDS_MAX)


# -- the sealed changelog -----------------------------------------------------------------------------------------


class SealedEpoch(NamedTuple):
    """A whole epoch of one shard, as it was read."""

    shard: int
    end: EpochEnd
    lines: Sequence[bytes]  # its records as lines of a sealed log


class SealedSubscription(TopicReader[SealedEpoch]):
    """The sealed changelog of `table` at the brokers `kafka`, to be used like `Subscription`.

        with SealedSubscription(table, "127.0.0.1:9092") as people:
            people.catch_up()
            print(people.frame())         # the cohorts as they are now
            for epoch in people.follow():  # and every epoch from now on
                print(epoch.shard, epoch.end.epoch, len(people.frame()))

    It shows whole epochs, and nothing of a log that has lost records. Raises as `Subscription` does, and UsageError if
    the table has no sealed changelog.
    """

    def __init__(self, table: Named, kafka: str) -> None:
        table = table_of(table)
        require_type("kafka", kafka, A_TEXT)
        if table.sealed is None:
            raise UsageError(f"{table.name} has no sealed changelog: table.yaml names none under `publish`")
        super().__init__(kafka, [topic_name(table.name, SEALED)])
        self._fold = SealedFold(table)
        self._lines: dict[int, list[bytes]] = {}  # of the epoch that is being read, by shard

    def _begin(self, places: Sequence[TopicPartition]) -> None:
        if lost := [place for place, begins in self._consumer.beginning_offsets(places).items() if begins]:
            raise LawViolated(f"{lost[0].topic}, partition {lost[0].partition}, has lost its first records")

    def frame(self) -> pd.DataFrame:
        """The published cohorts, row by row (`streamer.incremental.sealed.fold`)."""
        return self._fold.frame()

    def poll(self, timeout_s: float = POLL_SECONDS) -> list[SealedEpoch]:
        """Reads what has come; returns the epochs that are whole now, in order per shard."""
        with _reaching(self._kafka):
            if came := self._come(timeout_s):
                self._heard_at = monotonic()
            whole = [epoch for records in came.values() for record in records for epoch in self._apply(record)]
            self._leave_ends()
            if not self.caught_up and monotonic() - self._heard_at > SILENCE_SECONDS_MAX:
                raise sent_nothing(SILENCE_SECONDS_MAX)
        return whole

    def _apply(self, record: Any) -> Iterator[SealedEpoch]:
        shard, key, value = record.partition, record.key or b"", record.value
        try:
            said = decode(key, value)
            self._fold.apply(shard, said)
        except LawViolated as broken:
            raise LawViolated(f"{_where(record)}: {broken}") from None
        lines = self._lines.setdefault(shard, [])
        lines.append(log_line(shard, Written(key, value), record.timestamp, len(record.headers or ())))
        if isinstance(said, EpochEnd):
            yield SealedEpoch(shard, said, self._lines.pop(shard))


# -- the client library -------------------------------------------------------------------------------------------


def _places(topics: Topics, shards: Collection[int] | None) -> list[TopicPartition]:
    """The partitions of some shards, None: of all. Raises UsageError if there is none of a shard."""
    for name, (_, n) in topics.items():
        if missing := [shard for shard in shards or () if not 0 <= shard < n]:
            raise UsageError(f"{name} has no partition {missing[0]}, so there is no such shard: it has 0 to {n - 1}")
    places = [TopicPartition(name, n) for name, found in topics.items() for n in range(found[1])]
    return [place for place in places if shards is None or place.partition in shards]


def _where(record: Any) -> str:
    return f"{record.topic}, partition {record.partition}, offset {record.offset}"


def _position(consumer: KafkaConsumer, place: TopicPartition) -> int:
    position = consumer.position(place, int(SILENCE_SECONDS_MAX * 1000))
    if position is None:
        raise ServerUnreachable(f"Kafka does not say where {place.topic} ends: is it being recreated?")
    return int(position)


@contextmanager
def _reaching(bootstrap: str) -> Iterator[None]:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        yield
    except (KafkaError, ssl.SSLError) as error:
        answer = error.message or "" if isinstance(error, BrokerResponseError) else ""
        right = Right([READ_RIGHT], topics_named(str(error)) or ["NAME"])
        raise command_error(bootstrap, answer, right, unanswered=type(error).__name__) from None


def _connection(bootstrap: str) -> dict[str, Any]:
    """Keyword arguments of both clients. Raises if the broker refuses our login, which a client takes for silence."""
    servers = servers_of(bootstrap)
    require_access(servers)
    return {
        "bootstrap_servers": servers,
        "api_version_auto_timeout_ms": CONNECT_MS_MAX,
        "request_timeout_ms": ANSWER_MS_MAX,
        "selector": TicketsSkipped,
        **kafka_python_access(kafka_settings()),
    }


def _admin(bootstrap: str, connection: Mapping[str, Any]) -> KafkaAdminClient:
    """The first client; a Kafka that is still starting is waited for, with a word."""
    try:
        return KafkaAdminClient(**{**connection, "api_version_auto_timeout_ms": min(WORD_MS, CONNECT_MS_MAX)})
    except NoBrokersAvailable:
        if CONNECT_MS_MAX <= WORD_MS:
            raise
        log.warning("waiting for Kafka at %s, which does not answer yet", bootstrap)
        return KafkaAdminClient(**connection)


def _consumer(connection: Mapping[str, Any]) -> KafkaConsumer:
    return KafkaConsumer(
        **connection,
        metrics_enabled=False,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        max_poll_records=5_000,
        check_crcs=False,  # the embedded broker's transaction markers have no valid checksum; TCP has its own
    )


def _topics_there(admin: KafkaAdminClient, names: Sequence[str]) -> Topics:
    """The topics of these names. Waits a moment for one that was just created; raises UsageError if one is missing."""
    until = monotonic() + SEEN_SECONDS_MAX
    while missing := [name for name in names if name not in (found := topics_now(admin, names))]:
        if monotonic() > until:
            raise missing_topic(missing[0])
        sleep(SEEN_AGAIN_SECONDS)
    return {name: found[name] for name in names}
