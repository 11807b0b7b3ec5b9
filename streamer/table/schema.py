"""The roles of a table's columns, as plain values.

The rules of this file
----------------------
* A table is what table.yaml says and nothing else: which columns are quasi-identifiers (with domain, resolution and
  grid, or with a hierarchy), which are sensitive or kept, whom k counts. `yaml.loading` builds it; this file only
  holds it, so that everything else can be used without a file. What a quasi-identifier is: `attributes`.
* What is not named in table.yaml does not exist here and never leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from streamer.table.attributes import Attribute, NumericAttribute, TemporalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Space

# What a shard's state was kept by: the engine's version, and a hash of every part of table.yaml that decides about it.
#
# The parts stand side by side in one text, `engine-version:6 columns:1f0c… privacy:…`, so that a streamer that meets
# another one can say what differs. A version is told as it is, a part of table.yaml by its hash alone.

VERSION = "engine-version"
DIGEST_BYTES = 8


class Differences(NamedTuple):
    """Two versions of the engine, and the parts of table.yaml, that differ.

    versions: the one that kept the state ("" if it did not say so) and ours; None: it is the same.
    """

    versions: tuple[str, str] | None
    parts: tuple[str, ...]


def fingerprint_of(version: str, parts: Mapping[str, Iterable[str]]) -> str:
    """The text of an engine's version and of what table.yaml says, by part.

    >>> fingerprint_of("6", {"privacy": ["k 5"]})
    'engine-version:6 privacy:3cb2877fcbf2dbc8'
    """
    return " ".join([f"{VERSION}:{version}", *(f"{name}:{_hash(said)}" for name, said in parts.items())])


def differences(kept: str, ours: str) -> Differences:
    """What differs between the fingerprint of a state and ours.

    >>> differences("engine-version:5 columns:aa privacy:bb", "engine-version:6 columns:aa privacy:cc")
    Differences(versions=('5', '6'), parts=('privacy',))
    """
    before, now = _parts_of(kept), _parts_of(ours)
    version = before.pop(VERSION, ""), now.pop(VERSION, "")
    parts = tuple(name for name in {**now, **before} if before.get(name) != now.get(name)) if before else ()
    return Differences(None if version[0] == version[1] else version, parts)


def _parts_of(fingerprint: str) -> dict[str, str]:
    """The parts by name; none of a fingerprint that is one hash, as streamers before engine version 6 kept it."""
    return dict(part.split(":", 1) for part in fingerprint.split(" ") if ":" in part)


def _hash(said: Iterable[str]) -> str:
    return hashlib.blake2b("\x1e".join(said).encode(), digest_size=DIGEST_BYTES).hexdigest()


ENGINE_VERSION = 6
"""Raised whenever the same events would give another table, or other dead letters: a state is not mixed of two."""

REPAIR_VERSION = 2
"""The same, if that is so with local repair alone: what has none carries on."""

REPAIR = Decimal("0.055")
"""The price of local repair where table.yaml names none: the NCP that a row must save which is published again."""


@dataclass(frozen=True)
class KeptColumn:
    """A column that is published as it is: the sensitive attribute, or one the operator declared linkable."""

    name: str
    sensitive: bool
    type: str | None = None  # "text", "integer", "decimal", "boolean", or the name of a clock; None: any JSON scalar
    hierarchy: Hierarchy | None = None
    other: str | None = None  # the leaf that an unknown category counts as; None: it is a dead letter


@dataclass(frozen=True)
class SourceText:
    """How the texts of one column of the source are written (`streamer.table.source_texts`).

    na: words that are nulls, sorted. written: the pattern of dates or numbers; None: as ISO or JSON has them.
    """

    column: str
    na: tuple[str, ...] = field(default=(), repr=False)
    written: str | None = None


@dataclass(frozen=True)
class Diversity:
    """What a QI group owes beside k; None if nothing is asked. Each holds for every sensitive column by itself.

    l: distinct sensitive values; null_counts: a null is one of them. alpha: largest share of one individual's rows.
    beta: largest share of one sensitive value. r: largest share of sensitive values that have the same ancestor at
    `level` of the hierarchy.
    """

    l: int | None = None  # noqa: E741 - the field writes it so
    alpha: Decimal | None = None
    beta: Decimal | None = None
    r: Decimal | None = None
    level: int = 1
    null_counts: bool = False

    def __bool__(self) -> bool:
        return any(demand is not None for demand in (self.l, self.alpha, self.beta, self.r))


ROWS, GROUPS, LOSSY_JOIN = "rows", "groups", "lossy-join"
"""The forms of what is published: rows by slot, whole QI groups, and Tong's two tables (Tong et al. 2010, 3.2)."""

JSON, CONNECT_JSON, AVRO = "json", "connect-json", "avro"
"""How a published record is written: plain JSON, JSON with Kafka Connect's schema in it, Avro by a registry's."""

ROW_BYTES_MAX = 1_000_000
"""What fits, with headers and framing, into a batch of 1,048,588 bytes: Kafka's own limit where nobody set another."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one step, of one statement, of one message and of one published row (key and value)."""

    batch_events_max: int = 2_000
    batch_ms_max: int = 50
    transaction_rows_max: int = 20_000
    statement_rows_max: int = 100_000
    event_bytes_max: int = 900_000
    row_bytes_max: int = ROW_BYTES_MAX
    dead_letters_share_max: float = 0.05  # of the latest messages of a shard; above it `status` is red


LIMITS_THAT_REFUSE = ("event_bytes_max", "statement_rows_max", "row_bytes_max")
"""The limits that decide which messages are refused."""


@dataclass(frozen=True)
class RebuildRules:
    """When a shard is anonymized anew as a whole behind the stream, and by which algorithm.

    every: seconds between two rebuilds; drift: the loss over that of a fresh table at which one is due. None: never.
    """

    algorithm: str = "ordered"
    every: int | None = None
    drift: Decimal | None = Decimal("1.2")


@dataclass(frozen=True)
class Table:
    """A table about people: its source key, whom k counts, its columns by role, and how it is kept anonymous."""

    name: str
    source_key: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    kept: tuple[KeptColumn, ...]
    k: int
    individual: str | None = None
    recut: bool = True
    shrink: bool = True
    repair: float = 0.0  # the NCP that a row must save which local repair publishes again; 0: there is none
    durability_stated: bool = False
    partitioner_stated: bool = False  # all messages of a row share a shard, though not the one that murmur2 gives
    input_rows: bool = False  # a message that is a row without any mark says how it is now, null that it is gone
    decimals_are_text: bool = False  # no message without a schema has decimals as bytes
    source_texts: tuple[SourceText, ...] = ()  # of columns whose texts are written in a way of their own
    limits: Limits = Limits()
    diversity: Diversity = Diversity()
    rebuilding: RebuildRules = RebuildRules()
    form: str = ROWS
    format: str = JSON

    @cached_property
    def space(self) -> Space:
        """The geometry of the quasi-identifiers, in table.yaml order."""
        return Space([attribute.axis for attribute in self.attributes])

    @cached_property
    def stepless(self) -> tuple[int, ...]:
        """Numbers of the attributes whose exact texts a row carries beside its codes: decimals without a step."""
        return tuple(j for j, a in enumerate(self.attributes) if isinstance(a, NumericAttribute) and a.step is None)

    @cached_property
    def nullable(self) -> tuple[int, ...]:
        """Numbers of the attributes that may be null; a null in another one is a dead letter."""
        return tuple(j for j, a in enumerate(self.attributes) if a.null_code is not None)

    @cached_property
    def sensitive(self) -> tuple[int, ...]:
        """Numbers of the sensitive columns among the kept ones."""
        return tuple(i for i, column in enumerate(self.kept) if column.sensitive)

    @cached_property
    def fingerprint(self) -> str:
        """All that decides what a shard's state means, part by part: two tables with the
        same one may share a state."""
        engine = f"{ENGINE_VERSION}.{REPAIR_VERSION}" if self.repair else f"{ENGINE_VERSION}"
        parts = {
            "columns": [f"key {self.source_key}", f"individual {self.individual}", *self._columns_say()],
            "privacy": [f"k {self.k}", str(self.diversity)],
            "engine": [f"recut {self.recut} shrink {self.shrink} repair {self.repair}"],
            "limits": [str(getattr(self.limits, name)) for name in LIMITS_THAT_REFUSE],
            "input": [f"stated {self.partitioner_stated} rows {self.input_rows} decimals {self.decimals_are_text}"],
            "publish": [f"form {self.form} format {self.format}"],
        }
        return fingerprint_of(engine, parts)

    def _columns_say(self) -> Iterator[str]:
        """What table.yaml says of the columns, and the hierarchies."""
        for a in self.attributes:
            if isinstance(a, TemporalAttribute):
                span, clock = a.calendar, a.calendar.clock.name
                yield f"{a.name} {clock} {span.first} {span.last} {span.grid} {a.unit} {a.null_code}"
            elif isinstance(a, NumericAttribute):
                yield f"{a.name} {a.domain} {a.grid} {a.step} {a.unit} {a.integer} {a.null_code}"
            else:
                yield f"{a.name} {a.hierarchy.fingerprint()} {a.unit} {a.null_code} {a.other_code}"
        for c in self.kept:
            tree = c.hierarchy.fingerprint() if c.hierarchy else None
            yield f"{c.name} {c.sensitive} {c.type} {tree} {c.other}"
        for text in self.source_texts:  # decides what texts mean
            yield f"texts {text.column} {text.na} {text.written}"
