"""The way out of one shard by Kafka transactions, and nothing else.

The rules of this file
----------------------
* One transactional producer per shard, under a name that stays (`<table>-shard-<n>`): whoever initializes it shuts out
  the one before and has its open transaction aborted. `fence` always makes a new producer.
* A commit's records and the shard's position, a record of `<table>.positions`, go out in one transaction. Offsets are
  not sent in it (`send_offsets_to_transaction` hangs after a restart of the broker): the position says all.
* Every record goes to the partition that has the shard's number, whatever its key; only what a shard says to others in
  the control topic has the number of that partition as its key.
* One request at a time: where the first of several is refused because a topic has no leader yet, the broker takes the
  second as the beginning, calls the repeated first one a duplicate, and commits a transaction without its records.
* Records of `live` are put into the format of table.yaml here, one by one as they are handed to Kafka; what the format
  needs of a schema registry is there before the former writer is shut out.
* A lossy join has two topics for what is published; what is said here of `live` holds for each.
* A `live` made anew is told by the offset that its last record gets, before the transaction ends (`shard.outlet`).
  Of the records before it no answer is asked for: if Kafka does not take one, the transaction cannot be committed.
* Whatever fails, the producer is done with: `fence` begins anew, and `position` tells what became of the transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamer.errors import Conflict, ServerUnreachable, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.formats.live_format import PLAIN, LiveFormat, is_written
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.outlet import LiveEnd, Position
from streamer.incremental.topics import CONTROL, DEAD_LETTERS, LIVE, POSITIONS, RECORD_BYTES_MAX, topic_name
from streamer.kafka.clients import Confirmations, KafkaCalls, OnDelivery, client_settings, flush, produce, transaction
from streamer.kafka.errors import MISSING, READ_RIGHT, WRITE
from streamer.kafka.reading import CALL_SECONDS_MAX, last_value

TRANSACTION_MS_MAX = 30_000


class KafkaOutlet:
    """The outlet of one shard; to be used from one thread. Implements `streamer.incremental.shard.outlet.Outlet`.

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
        self._producer: Producer | None = None
        self._ends = {kind: LiveEnd(0) for kind in outputs}

    # -- shutting the former writer out ---------------------------------------------------------------------------

    def fence(self) -> None:
        self._producer = None
        self._format.begin()
        with self._kafka.failures("shutting out the former writer", READ_RIGHT, *self._ends):
            producer = Producer(self._producer_settings())
            producer.init_transactions(CALL_SECONDS_MAX)
            with self._kafka.consumer() as consumer:
                ends = {kind: self._kafka.watermarks(consumer, self._place(kind))[1] for kind in self._ends}
                if self._format is not PLAIN:
                    self._check_keys(consumer)
        self._ends = {kind: LiveEnd(end) for kind, end in ends.items()}
        self._producer = producer

    def _check_keys(self, consumer: Consumer) -> None:
        """Raises ShardRefused if the records that are there have other keys than would be written now."""
        for kind in self._ends:
            first, end = self._kafka.watermarks(consumer, place := self._place(kind))
            deadline = monotonic() + CALL_SECONDS_MAX
            record = next(self._kafka.records(consumer, place, first, deadline), None) if first < end else None
            if record is not None and not is_written(record.key() or b"", self._format):
                raise ShardRefused(
                    f"{self._kafka.name}: {place.topic} has other keys than would be written now: the schema registry"
                    f" has given their schema another id; {remedies.publish_again(self._kafka.table_name)}"
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
            "retry.backoff.ms": 2,  # a transaction that follows another waits for its end in steps of this
            "retry.backoff.max.ms": 20,
        }

    # -- publishing -----------------------------------------------------------------------------------------------

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        producer, self._producer = self._producer, None  # an error below leaves the outlet to be fenced anew
        if producer is None:
            raise ServerUnreachable(f"{self._kafka.name}: the outlet has no producer: call fence first")
        taken, shard = _RowConfirmations(), self._kafka.shard
        with (
            self._kafka.failures("publishing", WRITE, *self._ends, POSITIONS, DEAD_LETTERS, CONTROL),
            self._conflict_where_missing(),
            transaction(producer, taken),
        ):
            self._produce_all(producer, records, taken)
            positions = topic_name(self._kafka.table_name, POSITIONS)
            produce(producer, positions, shard, position.to_json(), b"%d" % shard, [], taken)
            flush(producer, CALL_SECONDS_MAX)
            self._check_same_live()  # before the transaction ends: nobody shall see what another topic took
        self._producer = producer

    @contextmanager
    def _conflict_where_missing(self) -> Iterator[None]:
        """A topic that is missing may be on its way: whether it is, the take-over that follows waits to see."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].name() not in MISSING:
                raise
            raise Conflict(f"{self._kafka.name}: a topic is gone since the shard was taken over") from None

    def _check_same_live(self) -> None:
        fell = [topic_name(self._kafka.table_name, kind) for kind, end in self._ends.items() if end.fell]
        if fell:
            name = ", ".join(fell)
            raise Conflict(f"{self._kafka.name}: made anew since the shard was taken over: {name}")

    def _produce_all(self, producer: Producer, records: Sequence[Outgoing], taken: _RowConfirmations) -> None:
        """Queues the records of a commit; of rows only the answer about each topic's last one is waited for."""
        counts = Counter(record.topic for record in records)
        last = {record.topic: i for i, record in enumerate(records)}
        topics = {kind: topic_name(self._kafka.table_name, kind) for kind in {record.topic for record in records}}
        queue, shard = producer.produce, self._kafka.shard
        written_key, written_value = self._format.written_key, self._format.written_value
        for i, record in enumerate(records):
            answer: OnDelivery | None = taken
            key, value = record.key, record.value
            if record.topic in self._ends:
                key, value = written_key(key), None if value is None else written_value(value)
                is_last = i == last[record.topic]
                answer = partial(taken.last_row, self._ends[record.topic], counts[record.topic]) if is_last else None
            headers = list(record.headers)
            place = int(record.key) if record.topic == CONTROL else shard
            try:
                queue(topics[record.topic], value, key, place, answer, headers=headers)
            except BufferError:
                produce(producer, topics[record.topic], place, value, key, headers, answer)

    # -- reading back ---------------------------------------------------------------------------------------------

    def position(self) -> Position | None:
        with self._kafka.failures("reading the position", READ_RIGHT, POSITIONS), self._kafka.consumer() as consumer:
            value = last_value(consumer, self._place(POSITIONS), monotonic() + CALL_SECONDS_MAX)
        return None if value is None else Position.from_json(value)

    def _place(self, kind: str) -> TopicPartition:
        return TopicPartition(topic_name(self._kafka.table_name, kind), self._kafka.shard)


class _RowConfirmations(Confirmations):
    """Where `live` took the last row, too."""

    def last_row(self, live_end: LiveEnd, count: int, error: KafkaError | None, message: Message) -> None:
        """The answer about the last of `count` rows."""
        if error is None:
            live_end.took(message.offset(), count)
        self(error, message)
