"""The rows of a file that a table begins with, by the shard that the input would bring each of them to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from streamer.cli.key_form_seen import key_form_seen
from streamer.errors import ConfigError, UsageError
from streamer.incremental.events.key_form import AnyKeyForm, form_unless_told
from streamer.incremental.events.murmur2 import shard_of
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import open_consumer, reaching
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import read_table
from streamer.table.schema import Table
from streamer.table.unlisted import unlisted_rows

TOPIC = "topic"
"""In place of a file: the input is read again."""


EMPTY_IT = "`streamer produce --truncate` empties a table on purpose"


@dataclass(frozen=True, slots=True)
class Routed:
    """The rows of a file by shard, and the form of message keys by which they were routed; "" where there is one shard.

    seen: whether messages of the input told the form. unlisted: how many rows, by column, have a category
    that only `other` takes.
    """

    rows: Sequence[EncodedRows] = field(repr=False)
    key_form: str
    seen: bool = True
    unlisted: Mapping[str, int] = field(default_factory=dict)


def routed_file(
    table: Table,
    path: str,
    kafka: str,
    shards: int,
    known: Collection[str] = (),
    schemas: Schemas | None = None,
) -> Routed:
    """The rows of a file, each in the shard to which its messages come. known: forms that shards have learned;
    schemas: of a registry.

    Raises ConfigError for a file or a row that is refused; UsageError where nobody can tell a row's shard.
    """
    if shards > 1 and table.partitioner_stated:
        raise UsageError(
            "table.yaml says `input: {partitioner: stated}`, so nobody but the rows' own producer can tell their "
            "shards: let it send all rows, and say --from-source topic"
        )
    frame = read_table(path)
    encoded = Encoder(table).frame(frame)
    if not encoded.source_keys:
        raise ConfigError(f"{path}: holds no rows, so nobody would be published any more; {EMPTY_IT}")
    unlisted = unlisted_rows(table, frame)
    if shards == 1:
        return Routed([encoded], "", unlisted=unlisted)
    with reaching(kafka), open_consumer(kafka) as consumer:
        seen = key_form_seen(consumer, topic_name(table.name, CHANGES), table, schemas or NoSchemas())
    key_form = seen or form_unless_told(table.source_key)
    if others := sorted({form for form in known if form} - {key_form.name}) if seen is None else []:
        raise UsageError(
            f"the shards know message keys as {others[0]}, and the input holds no message any more that shows how a "
            "row's key is written so: let the producer send one change, then call this again"
        )
    return Routed(by_shard(encoded, key_form, shards), key_form.name, seen is not None, unlisted)


def by_shard(encoded: EncodedRows, key_form: AnyKeyForm, shards: int) -> list[EncodedRows]:
    """Rows by the shard that murmur2 of their message keys gives. Raises ConfigError where one cannot be written so."""
    places: list[list[int]] = [[] for _ in range(shards)]
    for place, source_key in enumerate(encoded.source_keys):
        message_key = key_form.written(source_key)
        if message_key is None:
            raise ConfigError(
                f"data row {place + 1}: its key cannot be written as {key_form.name}, as the input's message keys are"
            )
        places[shard_of(message_key, shards)].append(place)
    return [_some(encoded, own) for own in places]


def _some(encoded: EncodedRows, places: Sequence[int]) -> EncodedRows:
    pick = itemgetter(*places) if len(places) > 1 else lambda column: tuple(column[place] for place in places)
    columns = (encoded.source_keys, encoded.values, encoded.exact, encoded.individuals)
    source_keys, values, exact, individuals = (list(pick(column)) for column in columns)
    nulls = list(pick(encoded.nulls)) if encoded.nulls else ()
    return EncodedRows(source_keys, encoded.codes[list(places)], values, exact, individuals, nulls)
