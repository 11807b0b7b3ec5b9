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
from itertools import chain

from streamer.errors import EventRefused, UsageError
from streamer.incremental.events.changes import Insert, Truncate, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import ROW_CHANGES, AnyKeyForm, KeyContract, RowChange
from streamer.incremental.events.registered_schemas import Schemas, schema_ids
from streamer.kafka.reading import Consumer, Place, Record, batches, shards_in, watermarks
from streamer.table.schema import Table

OFFSETS_LOOKED_AT = 300
"""At either end of a shard's input."""

Window = Mapping[Place, tuple[int, int]]


def key_form_seen(consumer: Consumer, topic: str, table: Table, schemas: Schemas) -> AnyKeyForm | None:
    """The key form of the messages in a table's input; None where no message tells. Raises UsageError in doubt."""
    places = shards_in(consumer, topic)
    reach = {place: watermarks(consumer, place) for place in places}
    head = {place: (begin, min(end, begin + OFFSETS_LOOKED_AT)) for place, (begin, end) in reach.items()}
    tail = {place: (max(head[place][1], end - OFFSETS_LOOKED_AT), end) for place, (_, end) in reach.items()}
    tellers = {place: _Teller(table, place.partition, len(places), schemas) for place in places}
    for window in (head, tail):
        for place, (first, after) in window.items():
            tellers[place].goes_to(first, after)
        for record in _records(consumer, window):
            tellers[Place(topic, record.partition())].look_at(record)
    said = {place.partition: teller.said() for place, teller in tellers.items()}
    forms = {form.name: form for forms in said.values() for form in forms}
    if len(forms) > 1:
        raise UsageError(
            f"{topic} has message keys of several forms ({_listed(said)}), and rows whose keys have another form than "
            "their shard's first are refused: send rows through the producer that wrote the others, or empty the table "
            "with `streamer produce --truncate` and let one producer send all rows again"
        )
    return next(iter(forms.values()), None)


def _records(consumer: Consumer, window: Window) -> Iterator[Record]:
    starts = [Place(place.topic, place.partition, begin) for place, (begin, _) in window.items()]
    return chain.from_iterable(batches(consumer, starts, {place: end for place, (_, end) in window.items()}))


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

    def look_at(self, record: Record) -> None:
        message_key, value = record.key(), record.value()
        self._schemas.learn(schema_ids([(message_key, value)]))
        with suppress(EventRefused):
            change = self._decoder.decode(message_key, value)
            if isinstance(change, Truncate) and not change.whole_table_only:
                self._certain, self._learned = True, None
            elif isinstance(change, ROW_CHANGES) and message_key:
                self._contract.check_partition(message_key, self._shards)
                self._tell(change, self._contract.form_told(message_key, change.source_key))

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
