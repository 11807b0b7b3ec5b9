"""Which key form an input topic has, seen in the topic itself: what `produce` writes has to be written the same way.

The rules of this file
----------------------
* A shard keeps the form of the first row change that it applied, so that is looked for: the first insertion that its
  shard could take. Where the beginning has expired, or holds none, all row changes that are seen must agree.
* Only the first and the last records of a shard are read. What shards, or records, do not agree about is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from streamer.errors import EventRefused, UsageError
from streamer.incremental.events.changes import Change, Insert, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import ROW_CHANGES, KeyContract, KeyForm
from streamer.incremental.kafka_clients import records_until, shards_in
from streamer.table.schema import Table

OFFSETS_LOOKED_AT = 300
"""At either end of a shard's input."""

Window = Mapping[TopicPartition, tuple[int, int]]


def key_form_seen(consumer: KafkaConsumer, topic: str, table: Table) -> KeyForm | None:
    """The key form of the messages in a table's input; None where no message tells. Raises UsageError in doubt."""
    places = shards_in(consumer, topic)
    begin, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
    head = {place: (begin[place], min(end[place], begin[place] + OFFSETS_LOOKED_AT)) for place in places}
    tail = {place: (max(head[place][1], end[place] - OFFSETS_LOOKED_AT), end[place]) for place in places}
    tellers = {place: _Teller(table, place.partition, len(places), whole=begin[place] == 0) for place in places}
    for window in (head, tail):
        for record in _records(consumer, window):
            tellers[TopicPartition(topic, record.partition)].look_at(record)
    said = {place.partition: teller.said() for place, teller in tellers.items()}
    forms = {form.name: form for forms in said.values() for form in forms}
    if len(forms) > 1:
        raise UsageError(
            f"{topic} has message keys of several forms ({_listed(said)}), and rows under another form than their "
            "shard's are refused there: let one producer's key.converter write all of them, on topics and state made "
            "anew; until then, send rows through the producer that wrote the others (statements can be sent)"
        )
    return next(iter(forms.values()), None)


def _records(consumer: KafkaConsumer, window: Window) -> Iterator[ConsumerRecord]:
    filled = {place: end for place, (begin, end) in window.items() if begin < end}
    consumer.assign(list(filled))
    for place in filled:
        consumer.seek(place, window[place][0])
    return records_until(consumer, filled)


def _listed(said: Mapping[int, list[KeyForm]]) -> str:
    told = {shard: ", ".join(form.name for form in forms) for shard, forms in said.items() if forms}
    return "; ".join(f"shard {shard}: {names}" for shard, names in told.items())


class _Teller:
    """What the records of one shard tell about its key form; `whole`: they are seen from the first one on."""

    def __init__(self, table: Table, shard: int, shards: int, whole: bool) -> None:
        self._decoder = Decoder(table)
        self._contract = KeyContract(table, shard)
        self._shards = shards
        self._whole = whole
        self._learned: KeyForm | None = None
        self._seen: dict[str, KeyForm] = {}

    def look_at(self, record: ConsumerRecord) -> None:
        if self._learned is not None or not record.key:
            return
        try:
            change = self._decoder.decode(record.key, record.value)
            form = self._form_of(record.key, change)
        except EventRefused:
            return
        if form is None:
            return
        self._seen[form.name] = form
        if self._whole and record.offset < OFFSETS_LOOKED_AT and isinstance(change, Insert | Upsert):
            self._learned = form

    def _form_of(self, message_key: bytes, change: Change) -> KeyForm | None:
        if not isinstance(change, ROW_CHANGES):
            return None
        self._contract.check_partition(message_key, self._shards)
        return self._contract.form_told(message_key, change.source_key)

    def said(self) -> list[KeyForm]:
        """The one form that the shard has learned, else all that were seen."""
        return list(self._seen.values()) if self._learned is None else [self._learned]
