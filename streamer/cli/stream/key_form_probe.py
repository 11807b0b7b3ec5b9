"""Finds the key form of an input topic in its messages, as `produce` and `load` must write keys in the same form.

The rules of this file
----------------------
* A shard keeps the key form of the first row change that it applied to an empty table: the first insertion since the
  topic began or the table was truncated.
* Only the first and the last records of a shard are read. If they do not show an empty table, all row changes that are
  read must have the same form. If shards or records differ, the form is not guessed.
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
"""How many offsets are read at either end of a shard's input."""

Window = Mapping[Place, tuple[int, int]]


def key_form_seen(consumer: Consumer, topic: str, table: Table, schemas: Schemas) -> AnyKeyForm | None:
    """The key form of the messages in a table's input; None if no message shows it. Raises UsageError in doubt."""
    partitions = shards_in(consumer, topic)
    reach = {one: watermarks(consumer, one) for one in partitions}
    head = {one: (begin, min(end, begin + OFFSETS_LOOKED_AT)) for one, (begin, end) in reach.items()}
    tail = {one: (max(head[one][1], end - OFFSETS_LOOKED_AT), end) for one, (_, end) in reach.items()}
    probes = {one: _Probe(table, one.partition, len(partitions), schemas) for one in partitions}
    for window in (head, tail):
        for one, (first, after) in window.items():
            probes[one].goes_to(first, after)
        for record in _records(consumer, window):
            probes[Place(topic, record.partition())].look_at(record)
    found = {one.partition: probe.forms() for one, probe in probes.items()}
    forms = {form.name: form for forms in found.values() for form in forms}
    if len(forms) > 1:
        raise UsageError(
            f"{topic} has message keys of several forms ({_listed(found)}), and rows whose keys have another form than "
            "their shard's first are refused: send rows through the producer that wrote the others, or empty the table "
            "with `streamer produce --truncate` and let one producer send all rows again"
        )
    return next(iter(forms.values()), None)


def _records(consumer: Consumer, window: Window) -> Iterator[Record]:
    starts = [Place(one.topic, one.partition, begin) for one, (begin, _) in window.items()]
    return chain.from_iterable(batches(consumer, starts, {one: end for one, (_, end) in window.items()}))


def _listed(found: Mapping[int, list[AnyKeyForm]]) -> str:
    names = {shard: ", ".join(form.name for form in forms) for shard, forms in found.items() if forms}
    return "; ".join(f"shard {shard}: {of}" for shard, of in names.items())


class _Probe:
    """What the records of one shard show of its key form."""

    def __init__(self, table: Table, shard: int, shards: int, schemas: Schemas) -> None:
        self._schemas = schemas
        self._decoder = Decoder(table, schemas.known)
        self._contract = KeyContract(table, shard, schemas.known)
        self._shards = shards
        self._learned: AnyKeyForm | None = None  # of the first insertion into a table known to be empty
        self._certain = True  # whether `_learned` is what the shard has learned
        self._reached = 0
        self._seen: dict[str, AnyKeyForm] = {}  # of row changes read while that is uncertain

    def goes_to(self, first: int, after: int) -> None:
        """Reads on at `first`. The table may have been truncated in offsets that are not read."""
        has_gap, self._reached = first > self._reached, after
        if has_gap and self._certain:
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
                self._note(change, self._contract.form_of(message_key, change.source_key))

    def _note(self, change: RowChange, form: AnyKeyForm | None) -> None:
        if form is None:
            return
        if not self._certain:
            self._seen[form.name] = form
        elif self._learned is None and isinstance(change, Insert | Upsert):
            self._learned = form

    def forms(self) -> list[AnyKeyForm]:
        """The form that the shard has learned, or all that it may have learned."""
        if not self._certain:
            return list(self._seen.values())
        return [] if self._learned is None else [self._learned]
