"""Which key form an input topic has, seen in the topic itself: what `produce` writes has to be written the same way.

The rules of this file
----------------------
* A shard keeps the form of the first row change that it applied to an empty table, so that is looked for: the first
  insertion that it could take, since the topic began or the table was truncated.
* Only the first and the last records of a shard are read. Where that does not show the table empty, all row changes
  that are seen must agree; what shards, or records, do not agree about is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from streamer.errors import EventRefused, UsageError
from streamer.incremental.events.changes import Insert, Truncate, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import ROW_CHANGES, AnyKeyForm, KeyContract, RowChange
from streamer.incremental.events.registered_schemas import Schemas, schema_ids
from streamer.incremental.kafka_clients import records_until, shards_in
from streamer.table.schema import Table

OFFSETS_LOOKED_AT = 300
"""At either end of a shard's input."""

Window = Mapping[TopicPartition, tuple[int, int]]


def key_form_seen(consumer: KafkaConsumer, topic: str, table: Table, schemas: Schemas) -> AnyKeyForm | None:
    """The key form of the messages in a table's input; None where no message tells. Raises UsageError in doubt."""
    places = shards_in(consumer, topic)
    begin, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
    head = {place: (begin[place], min(end[place], begin[place] + OFFSETS_LOOKED_AT)) for place in places}
    tail = {place: (max(head[place][1], end[place] - OFFSETS_LOOKED_AT), end[place]) for place in places}
    tellers = {place: _Teller(table, place.partition, len(places), schemas) for place in places}
    for window in (head, tail):
        for place, (first, after) in window.items():
            tellers[place].goes_to(first, after)
        for record in _records(consumer, window):
            tellers[TopicPartition(topic, record.partition)].look_at(record)
    said = {place.partition: teller.said() for place, teller in tellers.items()}
    forms = {form.name: form for forms in said.values() for form in forms}
    if len(forms) > 1:
        raise UsageError(
            f"{topic} has message keys of several forms ({_listed(said)}), and rows whose keys have another form than "
            "their shard's first are refused: send rows through the producer that wrote the others, or empty the table "
            "with `streamer produce --truncate` and let one producer send all rows again"
        )
    return next(iter(forms.values()), None)


def _records(consumer: KafkaConsumer, window: Window) -> Iterator[ConsumerRecord]:
    filled = {place: end for place, (begin, end) in window.items() if begin < end}
    consumer.assign(list(filled))
    for place in filled:
        consumer.seek(place, window[place][0])
    return records_until(consumer, filled)


def _listed(said: Mapping[int, list[AnyKeyForm]]) -> str:
    told = {shard: ", ".join(form.name for form in forms) for shard, forms in said.items() if forms}
    return "; ".join(f"shard {shard}: {names}" for shard, names in told.items())


class _Teller:
    """What the records of one shard tell about its key form.

    learned: the form of the first insertion into a table that was seen empty. seen: the forms of the row changes that
    were read while it is not known what the shard has learned.
    """

    def __init__(self, table: Table, shard: int, shards: int, schemas: Schemas) -> None:
        self._schemas = schemas
        self._decoder = Decoder(table, schemas.known)
        self._contract = KeyContract(table, shard, schemas.known)
        self._shards = shards
        self._learned: AnyKeyForm | None = None
        self._certain = True
        self._reached = 0
        self._seen: dict[str, AnyKeyForm] = {}

    def goes_to(self, first: int, after: int) -> None:
        """The offsets that are read next. Among those that are passed over the table may have been truncated."""
        passed_over, self._reached = first > self._reached, after
        if passed_over and self._certain:
            self._certain = False
            self._seen = {self._learned.name: self._learned} if self._learned else {}

    def look_at(self, record: ConsumerRecord) -> None:
        self._schemas.learn(schema_ids([(record.key, record.value)]))
        with suppress(EventRefused):
            change = self._decoder.decode(record.key, record.value)
            if isinstance(change, Truncate) and not change.whole_table_only:
                self._certain, self._learned = True, None
            elif isinstance(change, ROW_CHANGES) and record.key:
                self._contract.check_partition(record.key, self._shards)
                self._tell(change, self._contract.form_told(record.key, change.source_key))

    def _tell(self, change: RowChange, form: AnyKeyForm | None) -> None:
        if form is None:
            return
        if not self._certain:
            self._seen[form.name] = form
        elif self._learned is None and isinstance(change, Insert | Upsert):
            self._learned = form

    def said(self) -> list[AnyKeyForm]:
        """The one form that the shard has learned, else all that it may have."""
        if not self._certain:
            return list(self._seen.values())
        return [] if self._learned is None else [self._learned]
