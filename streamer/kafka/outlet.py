"""Publishes one shard's records in Kafka transactions.

The rules of this file
----------------------
* Each shard has one transactional id (`<table>-shard-<n>`). Initializing a producer with it fences the former producer
  and aborts its open transaction. `fence` always makes a new producer.
* One transaction holds a commit's records and the shard's position, a record of `<table>.positions`. It sends no
  offsets (`send_offsets_to_transaction` hangs after a restart of the broker): the position says all.
* The shard's secret goes into the control topic in a transaction of its own, which the fence protects like the others.
* Every record goes to the partition that has the shard's number, whatever its key. Only a shard's records to other
  shards, in the control topic, go to the partition that their key names.
* One request in flight: if several are, and the first is refused because a topic has no leader yet, the broker takes
  the second as the beginning, calls the repeated first one a duplicate, and commits a transaction without its records.
* Records of `live` get the format of table.yaml here, one by one as the client takes them. What the format needs from a
  schema registry is fetched before the former writer is fenced.
* A lossy join publishes into two topics; what is said here of `live` holds for both.
* The offset of the last record shows, before the transaction ends, whether `live` was recreated (`shard.outlet`).
  Answers about the records before it are not needed: if Kafka refuses one, the transaction cannot be committed.
* The position says where the rows end. It goes out with them and says what is foreseen, as nobody else writes there. If
  Kafka has taken them elsewhere, another position follows in the same transaction, and the last one counts.
* After any error the producer is dropped: `fence` makes another, and `position` says what became of the transaction.
* What Kafka has given up because it took too long would take as long the next time: it is refused, with the remedy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from msgspec.structs import replace

from streamer.errors import Conflict, ServerUnreachable, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.formats.live_format import PLAIN, LiveFormat, is_written
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.outlet import LiveEnd, Position, PublishedRecord
from streamer.incremental.topics import CONTROL, DEAD_LETTERS, LIVE, POSITIONS, RECORD_BYTES_MAX, SEALED
from streamer.kafka.clients import Confirmations, KafkaCalls, OnDelivery, client_settings, flush, produce, transaction
from streamer.kafka.errors import MISSING, NO_ANSWER, READ_RIGHT, WRITE
from streamer.kafka.reading import CALL_SECONDS_MAX, last_value
from streamer.kafka.secret_records import record_of, secret_keys
from streamer.kafka.shard_input import KafkaReading

TRANSACTION_MS_MAX = 300_000
"""The longest time of a transaction: one may hold a whole table. A fence ends one that was left open."""


class KafkaOutlet:
    """One shard's `streamer.incremental.shard.outlet.Outlet`; to be used from one thread.

    outputs: the kinds of topics with what is published. live_format: the format of rows.
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
        self._producer: Producer | None = None
        self._ends = {kind: LiveEnd(0) for kind in outputs}
        self._rows = tuple(kind for kind in outputs if kind != SEALED)

    # -- fencing --------------------------------------------------------------------------------------------------

    def fence(self) -> None:
        self._producer = None
        self._format.begin()
        with self._kafka.failures("shutting out the former writer", READ_RIGHT, *self._ends):
            producer = Producer(self._producer_settings())
            producer.init_transactions(CALL_SECONDS_MAX)
            with self._kafka.consumer() as consumer:
                ends = {kind: self._kafka.watermarks(consumer, kind)[1] for kind in self._ends}
                if self._format is not PLAIN:
                    self._check_keys(consumer)
        self._ends = {kind: LiveEnd(end) for kind, end in ends.items()}
        self._producer = producer

    def _check_keys(self, consumer: Consumer) -> None:
        """Raises ShardRefused if the published records have other keys than the format gives now."""
        for kind in self._rows:
            first, end = self._kafka.watermarks(consumer, kind)
            record = next(self._kafka.records(consumer, kind, first), None) if first < end else None
            if record is not None and not is_written(record.key() or b"", self._format):
                remedy = remedies.publish_again(self._kafka.table_name)
                raise ShardRefused(
                    f"{self._kafka.name}: {self._kafka.topic(kind)} has other keys than would be written now: the"
                    f" schema registry has given their schema another id; {remedy}"
                )

    def _producer_settings(self) -> dict[str, object]:
        return {
            **client_settings(self._kafka.bootstrap),
            "transactional.id": f"{self._kafka.table_name}-shard-{self._kafka.shard}",
            "transaction.timeout.ms": TRANSACTION_MS_MAX,
            "acks": "all",
            "message.max.bytes": RECORD_BYTES_MAX,
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 1,
            "retry.backoff.ms": 2,  # a transaction waits in such steps for the end of the one before
            "retry.backoff.max.ms": 20,
        }

    @property
    def ends(self) -> dict[str, int]:
        """The ends of the topics of rows by what was published, with the marker of the last transaction; by kind."""
        return {kind: end.end for kind, end in self._ends.items()}

    # -- publishing -----------------------------------------------------------------------------------------------

    def keep_secret(self, secret: bytes) -> None:
        shard = self._kafka.shard
        record = record_of(shard, secret, secret_keys())
        with self._transaction("keeping the secret", CONTROL) as (producer, taken):
            produce(producer, self._kafka.topic(CONTROL), shard, record.to_json(), b"%d" % shard, [], taken)
            flush(producer, CALL_SECONDS_MAX)

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        kinds = *self._ends, POSITIONS, DEAD_LETTERS, CONTROL
        counts = Counter(record.topic for record in records)
        foreseen = {kind: end.after(counts[kind]) for kind, end in self._ends.items()}
        with self._transaction("publishing", *kinds) as (producer, taken):
            self._produce_all(producer, records, counts, taken)
            self._produce_position(producer, replace(position, ends=foreseen), taken)
            if fell := [self._kafka.topic(kind) for kind, end in self._ends.items() if end.fell]:
                # before the transaction ends: no reader may see records in a recreated topic
                raise Conflict(f"{self._kafka.name}: recreated since the shard was taken over: {', '.join(fell)}")
            if self.ends != foreseen:
                self._produce_position(producer, replace(position, ends=self.ends), taken)

    def _produce_position(self, producer: Producer, position: Position, taken: Confirmations) -> None:
        """Queues the position, and waits until Kafka has taken it and all records before it."""
        shard = self._kafka.shard
        produce(producer, self._kafka.topic(POSITIONS), shard, position.to_json(), b"%d" % shard, [], taken)
        flush(producer, CALL_SECONDS_MAX)

    @contextmanager
    def _transaction(self, doing: str, *kinds: str) -> Iterator[tuple[Producer, _RowConfirmations]]:
        producer, self._producer = self._producer, None  # after an error below, `fence` has to be called again
        if producer is None:
            raise ServerUnreachable(f"{self._kafka.name}: the outlet has no producer: call fence first")
        taken = _RowConfirmations(self._ends)
        with (
            self._kafka.failures(doing, WRITE, *kinds),
            self._refused_where_too_long(doing),
            self._conflict_where_missing(),
            transaction(producer, taken),
        ):
            yield producer, taken
        self._producer = producer

    @contextmanager
    def _refused_where_too_long(self, doing: str) -> Iterator[None]:
        began = monotonic()
        try:
            yield
        except KafkaException as error:
            if error.args[0].name() in NO_ANSWER or monotonic() - began < TRANSACTION_MS_MAX / 1000:
                raise
            name, kinds = self._kafka.table_name, self._rows
            raise ShardRefused(
                f"{self._kafka.name}: {doing} took longer than the {TRANSACTION_MS_MAX // 1000} s that Kafka gives a "
                f"transaction; {remedies.in_several_releases(name, kinds)}"
            ) from None

    @contextmanager
    def _conflict_where_missing(self) -> Iterator[None]:
        """A missing topic may be about to be recreated: Conflict leads to a take-over, which waits for it."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].name() not in MISSING:
                raise
            raise Conflict(f"{self._kafka.name}: a topic is gone since the shard was taken over") from None

    def _produce_all(
        self, producer: Producer, records: Sequence[Outgoing], counts: Mapping[str, int], taken: _RowConfirmations
    ) -> None:
        """Queues the records of a commit. Of rows, it asks for the answer about each topic's last one only.

        counts: how many records each kind of topic gets.
        """
        last = {record.topic: i for i, record in enumerate(records)}
        topics = {kind: self._kafka.topic(kind) for kind in counts}
        queue, shard = producer.produce, self._kafka.shard
        written_key, written_value = self._format.written_key, self._format.written_value
        for i, record in enumerate(records):
            answer: OnDelivery | None = taken
            key, value = record.key, record.value
            if record.topic in self._ends:
                if record.topic != SEALED:
                    key, value = written_key(key), None if value is None else written_value(value)
                is_last = i == last[record.topic]
                answer = partial(taken.last_row, record.topic, counts[record.topic]) if is_last else None
            headers = list(record.headers)
            partition = int(record.key) if record.topic == CONTROL else shard
            try:
                queue(topics[record.topic], value, key, partition, answer, headers=headers, timestamp=record.at)
            except BufferError:
                produce(producer, topics[record.topic], partition, value, key, headers, answer, record.at)

    # -- reading back ---------------------------------------------------------------------------------------------

    def published(self) -> Iterator[PublishedRecord]:
        calls = self._kafka
        return KafkaReading(calls.bootstrap, calls.table_name, calls.shard, [*self._ends], self._format).records()

    def position(self) -> Position | None:
        with self._kafka.failures("reading the position", READ_RIGHT, POSITIONS), self._kafka.consumer() as consumer:
            value = last_value(consumer, self._kafka.partition(POSITIONS), monotonic() + CALL_SECONDS_MAX)
        return None if value is None else Position.from_json(value)


class _RowConfirmations(Confirmations):
    """Also notes where the topics of rows end, by kind."""

    def __init__(self, ends: dict[str, LiveEnd]) -> None:
        super().__init__()
        self._ends = ends

    def last_row(self, kind: str, count: int, error: KafkaError | None, message: Message) -> None:
        """The answer about the last of `count` rows."""
        if error is None:
            self._ends[kind] = self._ends[kind].took(message.offset(), count)
        self(error, message)
