"""The key form of an input, as `produce` and `load` must write keys in the same form: seen in its messages, or assumed.

The rules of this file
----------------------
* A shard keeps the key form of the first row change that it applied to an empty table: the first insertion since the
  topic began or the table was truncated.
* Only the first and the last records of a shard are read. If they do not show an empty table, all row changes that are
  read must have the same form. If shards or records differ, the form is not guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import chain

from streamer.errors import Conflict, EventRefused, UsageError
from streamer.incremental.events.changes import Insert, Truncate, Upsert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import ROW_CHANGES, AnyKeyForm, KeyContract, default_form
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas, schema_ids
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import open_consumer, reaching
from streamer.kafka.reading import Consumer, Place, Record, batches_in, shards_in, watermarks
from streamer.loading.shards import Shards
from streamer.table.schema import Table

OFFSETS_LOOKED_AT = 300  # at either end of a shard's input


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
        for record in chain.from_iterable(batches_in(consumer, window)):
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


def _listed(found: Mapping[int, list[AnyKeyForm]]) -> str:
    names = {shard: ", ".join(form.name for form in forms) for shard, forms in found.items() if forms}
    return "; ".join(f"shard {shard}: {of}" for shard, of in names.items())


class _Probe:
    """Looks at the records of one shard for its key form."""

    def __init__(self, table: Table, shard: int, shards: int, schemas: Schemas) -> None:
        self._shards, self._schemas = shards, schemas
        self._decoder = Decoder(table, schemas.known)
        self._contract = KeyContract(table, shard, schemas.known)
        self._learned: AnyKeyForm | None = None  # of the first insertion into a table known to be empty
        self._certain = True  # `_learned` is what the shard has learned
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
                form = self._contract.form_of(message_key, change.source_key)
                if form is not None and not self._certain:
                    self._seen[form.name] = form
                elif self._learned is None and isinstance(change, Insert | Upsert):
                    self._learned = form

    def forms(self) -> list[AnyKeyForm]:
        """The form that the shard has learned, or all that it may have learned."""
        if not self._certain:
            return list(self._seen.values())
        return [] if self._learned is None else [self._learned]


def routing_form(shards: Shards) -> tuple[AnyKeyForm | None, bool]:
    """The key form of the input, None with one shard; and whether its messages show it.

    Raises UsageError if the shards of rows cannot be computed.
    """
    settings, table = shards.settings, shards.settings.table
    if len(shards) == 1:
        return None, True
    if table.partitioner_stated:
        raise UsageError(
            "table.yaml says `input: {partitioner: stated}`, so only the rows' own producer knows their shards: let it "
            "send all rows, and give --from-source topic"
        )
    with reaching(settings.kafka), open_consumer(settings.kafka) as consumer:
        seen = key_form_seen(consumer, topic_name(table.name, CHANGES), table, settings.schemas or NoSchemas())
    known = [meta.key_form for meta in shards.metas if meta is not None]
    key_form = seen or assumed_form(table, known)
    check_one_form(shards, key_form.name)
    return key_form, seen is not None


def check_one_form(shards: Shards, name: str) -> None:
    """Raises Conflict if shards that are not loaded have their rows by another key form: some rows would be in none."""
    for shard, (store, state) in enumerate(zip(shards.stores, shards.states, strict=True)):
        meta = None if shard in shards.chosen else store.meta()
        if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
            continue  # a shard of a former input has to be loaded again anyway
        if meta.key_form not in ("", name):
            raise Conflict(
                f"shard {shard} has its rows by message keys written as {meta.key_form}, and the others would get "
                f"theirs by {name}, so that some rows would be in two shards and some in none: call `streamer reload` "
                "without --shards"
            )


def assumed_form(table: Table, known: Collection[str]) -> AnyKeyForm:
    """The key form if no message of the input shows one. Raises UsageError if shards have learned another one."""
    key_form = default_form(table.source_key)
    if others := sorted({form for form in known if form} - {key_form.name}):
        raise UsageError(
            f"the shards' message keys are written as {others[0]}, and the input has no message left that shows how: "
            "let the producer send one change, then call this again"
        )
    return key_form
