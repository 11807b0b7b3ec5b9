"""A table as table.yaml describes it: its columns by role, whom k counts, and how it is kept anonymous.

`streamer.table.yaml` builds it; everything else can be used without a file. A column that table.yaml does not name does
not exist here, and is never published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import NamedTuple

from streamer.table.codes import Attribute, Diversity, KeptColumn, NumericAttribute, SourceText, TemporalAttribute
from streamer.table.codes.disguise import Pseudonym
from streamer.table.codes.same_text import CountedText, counted_text, counted_value
from streamer.table.space import Space

# The fingerprint of a shard's state: the engine's version, and a hash of each part of table.yaml that decides the
# state: `engine-version:6 columns:1f0c… privacy:…`. So a worker that meets another fingerprint can say which parts
# differ.

VERSION = "engine-version"


class Differences(NamedTuple):
    """The differences between two fingerprints."""

    versions: tuple[str, str] | None  # the engine that kept the state ("": unknown) and ours; None: they are the same
    parts: tuple[str, ...]  # of table.yaml


def fingerprint_of(version: str, parts: Mapping[str, Iterable[str]]) -> str:
    """The fingerprint of an engine's version and of the parts of table.yaml.

    >>> fingerprint_of("6", {"privacy": ["k 5"]})
    'engine-version:6 privacy:3cb2877fcbf2dbc8'
    """
    texts = {name: "\x1e".join(said).encode() for name, said in parts.items()}
    hashes = {name: hashlib.blake2b(text, digest_size=8).hexdigest() for name, text in texts.items()}
    return " ".join(f"{name}:{value}" for name, value in {VERSION: version, **hashes}.items())


def differences(kept: str, ours: str) -> Differences:
    """The differences between the fingerprint of a state and ours.

    >>> differences("engine-version:5 columns:aa privacy:bb", "engine-version:6 columns:aa privacy:cc")
    Differences(versions=('5', '6'), parts=('privacy',))
    """
    before, now = _parts_of(kept), _parts_of(ours)
    version = before.pop(VERSION, ""), now.pop(VERSION, "")
    parts = tuple(name for name in {**now, **before} if before.get(name) != now.get(name)) if before else ()
    return Differences(None if version[0] == version[1] else version, parts)


def version_of(fingerprint: str) -> str:
    """The version of the engine that a fingerprint says; "" if it says none.

    >>> version_of("engine-version:6.2 columns:aa")
    '6.2'
    """
    return _parts_of(fingerprint).get(VERSION, "")


def precedes(version: str, other: str) -> bool:
    """True if one version of the engine is older than another; an unknown one is not.

    >>> precedes("6.2", "6.10"), precedes("7.1", "6.2"), precedes("", "6")
    (True, False, False)
    """
    return bool(version) and _numbers(version) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _parts_of(fingerprint: str) -> dict[str, str]:
    """The parts by name; none before engine version 6, whose fingerprint was one hash."""
    return dict(part.split(":", 1) for part in fingerprint.split(" ") if ":" in part)


ENGINE_VERSION = 8
"""To be raised whenever the same events would give another table or other dead letters.

A higher version adopts the QI groups that a lower one kept, if table.yaml is the same: so the hash of a part of
table.yaml stays as it is where what is new is not used.
"""

REPAIR_VERSION = 6
"""The same, if only tables with local repair are concerned."""


@dataclass(frozen=True)
class Repair:
    """The NCP, summed over the columns, that local repair must save by each row it publishes again; neither: it is off.

    >>> print(Repair(share=0.05), Repair(price=0.055), Repair())
    5% 0.055 off
    """

    price: float = 0.0
    share: float = 0.0  # of the mean loss of a row, as the table stands before each change

    def __bool__(self) -> bool:
        return self.price > 0 or self.share > 0

    def __str__(self) -> str:
        return f"{100 * self.share:g}%" if self.share else f"{self.price:g}" if self.price else "off"


NO_REPAIR = Repair()

REPAIR = Repair(share=0.05)
"""Local repair by default: a share, so that it serves few and many columns and rows alike."""

REPAIR_HASHED = {REPAIR: "0.055", Repair(price=0.055): "0.055, stated"}
"""Texts for the fingerprint: the default keeps that of its first version, which states of older engines have."""

REPAIR_HASHED_BEFORE = ("7.5", {Repair(share=0.07): "0.055", REPAIR: "5%"})
"""Texts by versions below this one, whose default was another share: a table.yaml that states either is the same."""


ROWS, GROUPS, LOSSY_JOIN = "rows", "groups", "lossy-join"
"""The forms of publication: rows by slot, whole QI groups, or two tables (Tong et al. 2010, 3.2)."""

JSON, CONNECT_JSON, AVRO = "json", "connect-json", "avro"
"""How a record is written: plain JSON, JSON with Kafka Connect's schema in it, or Avro with a registry's schema."""

ROW_BYTES_MAX = 1_000_000
"""Fits, with headers and framing, into a batch of 1,048,588 bytes, which is Kafka's default limit."""


NO_DIVERSITY = Diversity()


@dataclass(frozen=True)
class Limits:
    """Limits of one step, one statement, one message and one published row (key and value)."""

    batch_events_max: int = 2_000
    batch_ms_max: int = 0
    transaction_rows_max: int = 20_000
    statement_rows_max: int = 100_000
    event_bytes_max: int = 900_000
    row_bytes_max: int = ROW_BYTES_MAX
    dead_letters_share_max: float = 0.05  # of the latest messages of a shard; above it `status` is red


LIMITS_THAT_REFUSE = ("event_bytes_max", "statement_rows_max", "row_bytes_max")
"""The limits that decide which messages are refused."""


@dataclass(frozen=True)
class RebuildRules:
    """When a shard is anonymized again as a whole while the stream goes on; None: never."""

    algorithm: str = "ordered"
    every: int | None = None  # seconds between two rebuilds
    drift: Decimal | None = Decimal("1.2")  # the loss, as a multiple of a fresh table's, at which a rebuild is due


@dataclass(frozen=True)
class EpochLength:
    """When an epoch of a sealed changelog ends: by the clock, or after a number of row changes of a shard."""

    seconds: int | None = None
    events: int | None = None

    def __str__(self) -> str:
        return f"{self.events} events" if self.seconds is None else f"{self.seconds}s"


@dataclass(frozen=True)
class SealedRules:
    """How people are published in sealed cohorts (`streamer.incremental.sealed`)."""

    epoch: EpochLength
    alpha: Decimal = Decimal("0.5")  # the largest share of one sensitive value in a cohort that shows its values
    l: int = 1  # noqa: E741 - the least number of distinct values of each sensitive column in such a cohort
    theta: Decimal = Decimal(0)  # the share of its people, or fewer, with which a cohort is retired; 0: nobody is left
    tau: Decimal | None = None  # the largest loss of a cohort that is formed before its people have waited `delta`
    delta: int = 1  # the epochs that a row waits at most, if enough others do
    counters: bool = True  # whether it is published how many of a cohort's people are left

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in vars(self).items())


@dataclass(frozen=True)
class Table:
    """A table about people: its source key, whom k counts, its columns by role, and how it is kept anonymous."""

    name: str
    source_key: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    kept: tuple[KeptColumn, ...]
    k: int
    individual: str | None = None
    capitals_count: bool = False  # whether individuals and values that differ in capitals count as different ones
    recut: bool = True
    shrink: bool = True
    repair: Repair = NO_REPAIR
    durability_stated: bool = False
    partitioner_stated: bool = False  # all messages of a row share a shard, but not the one that murmur2 gives
    input_rows: bool = False  # a bare row is an upsert, and a null value removes the row
    decimals_are_text: bool = False  # messages without a schema never have decimals as bytes
    source_texts: tuple[SourceText, ...] = ()  # of columns with words for nulls or a pattern
    limits: Limits = Limits()
    diversity: Diversity = NO_DIVERSITY
    rebuilding: RebuildRules = RebuildRules()
    form: str = ROWS
    format: str = JSON
    live: bool = True  # whether the changelog of the table is published
    sealed: SealedRules | None = None  # how the sealed changelog is, if one is published

    @cached_property
    def space(self) -> Space:
        """The geometry of the quasi-identifiers, in table.yaml order."""
        return Space([attribute.axis for attribute in self.attributes])

    @property
    def counted_text(self) -> CountedText:
        """A text -> what counts as the same individual or value."""
        return counted_text(self.capitals_count)

    @property
    def counted_value(self) -> Callable[[bytes], str | None]:
        """The same of a value's JSON text; None for a null."""
        return partial(counted_value, counted=self.counted_text)

    @cached_property
    def named(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        individual = () if self.individual is None else (self.individual,)
        columns = (column.name for column in (*self.attributes, *self.kept))
        return tuple(dict.fromkeys((*self.source_key, *individual, *columns)))

    @cached_property
    def stepless(self) -> tuple[int, ...]:
        """Numbers of the attributes without a step, whose exact texts a row has in addition to codes."""
        return tuple(j for j, a in enumerate(self.attributes) if isinstance(a, NumericAttribute) and a.step is None)

    @cached_property
    def coarse(self) -> frozenset[str]:
        """The columns of which other values than those of the source are kept: rounded, capped, or disguised."""
        numeric = (a for a in self.attributes if isinstance(a, NumericAttribute | TemporalAttribute))
        return frozenset(
            {a.name for a in numeric if a.ends_take_all}
            | {column.name for column in self.kept if column.is_coarse or column.disguise}
        )

    @property
    def pseudonyms(self) -> list[str]:
        """The columns that publish pseudonyms."""
        return [column.name for column in self.kept if isinstance(column.disguise, Pseudonym)]

    @cached_property
    def as_published(self) -> Table:
        """The table of a source that is as this one is published: for queries of readers, who have no keys."""
        return replace(self, kept=tuple(replace(column, disguise=None, disguised=None) for column in self.kept))

    @cached_property
    def nullable(self) -> tuple[int, ...]:
        """Numbers of the attributes that may be null; a null in any other is a dead letter."""
        return tuple(j for j, a in enumerate(self.attributes) if a.null_code is not None)

    @cached_property
    def sensitive(self) -> tuple[int, ...]:
        """Numbers of the sensitive columns among the kept ones."""
        return tuple(i for i, column in enumerate(self.kept) if column.sensitive)

    @property
    def demands(self) -> Iterator[tuple[int, Diversity]]:
        """What QI groups must hold for each sensitive column, by its number: the table's demands, and its own."""
        for i in self.sensitive:
            yield from ((i, asked) for asked in (self.diversity, self.kept[i].diversity) if asked is not None)

    @cached_property
    def fingerprint(self) -> str:
        """All that decides what a shard's state means: tables with the same one may share a state.

        Raises ConfigError if the key of a disguised column is missing.
        """
        repair = str(self.repair) if self.repair.share else str(self.repair.price)
        return self._fingerprint(REPAIR_HASHED.get(self.repair, repair))

    def differences(self, kept: str) -> Differences:
        """The differences between the fingerprint of a state and ours, hashed as the engine that kept it did."""
        found, (version, before) = differences(kept, self.fingerprint), REPAIR_HASHED_BEFORE
        if self.repair in before and precedes(version_of(kept), version):
            other = differences(kept, self._fingerprint(before[self.repair]))
            return min(found, other, key=lambda one: len(one.parts))
        return found

    def _fingerprint(self, repair: str) -> str:
        engine = f"{ENGINE_VERSION}.{REPAIR_VERSION}" if self.repair else f"{ENGINE_VERSION}"
        parts = {
            "columns": [f"key {self.source_key}", f"individual {self.individual}", *self._column_texts()],
            "privacy": [f"k {self.k}", str(self.diversity), *self._privacy_texts()],
            "engine": [f"recut {self.recut} shrink {self.shrink} repair {repair}"],
            "limits": [str(getattr(self.limits, name)) for name in LIMITS_THAT_REFUSE],
            "input": [f"stated {self.partitioner_stated} rows {self.input_rows} decimals {self.decimals_are_text}"],
            "publish": [f"form {self.form} format {self.format}", *(() if self.live else ("live False",))],
            **self._sealed_parts(),
        }
        return fingerprint_of(engine, parts)

    def _privacy_texts(self) -> Iterator[str]:
        """Of settings that came later: a table without them has the fingerprint that it had before."""
        if self.capitals_count:
            yield "capitals count"
        yield from (f"{column.name} {column.diversity}" for column in self.kept if column.diversity)
        yield from (f"{column.name} {column.distribution.hashed}" for column in self.kept if column.distribution)

    def _sealed_parts(self) -> dict[str, list[str]]:
        """The promise, and how it is published; a table without `sealed` keeps the fingerprint that it had before."""
        if self.sealed is None:
            return {}
        rules = self.sealed
        how = f"{rules.epoch} theta {rules.theta} tau {rules.tau} delta {rules.delta} counters {rules.counters}"
        return {"sealed": [f"alpha {rules.alpha} l {rules.l}"], "epochs": [how]}

    def _column_texts(self) -> Iterator[str]:
        """Columns and hierarchies as texts."""
        for a in self.attributes:
            if isinstance(a, TemporalAttribute):
                span, clock = a.calendar, a.calendar.clock.name
                ends = " ends" * a.ends_take_all
                yield f"{a.name} {clock} {span.first} {span.last} {span.grid} {a.unit} {a.null_code}{ends}{_ruled(a)}"
            elif isinstance(a, NumericAttribute):
                more = "" if a.width is None else f" width {a.width}"  # a table without has the hash that it had
                more += " ends" * a.ends_take_all + _ruled(a)
                yield f"{a.name} {a.domain} {a.grid} {a.step} {a.unit} {a.integer} {a.null_code}{more}"
            else:
                yield f"{a.name} {a.hierarchy.fingerprint()} {a.unit} {a.null_code} {a.other_code}{_ruled(a)}"
        for c in self.kept:
            yield _text_of(c)
            if c.disguise is not None:
                yield f"{c.disguise.fingerprint} {_text_of(c.source)}"
        for text in self.source_texts:  # decides what texts mean
            yield f"texts {text.column} {text.na} {text.written}"


def _ruled(attribute: Attribute) -> str:
    """Its weight and bound; a table without them has the hash that it had before."""
    weight = "" if attribute.weight == 1 else f" weight {attribute.weight}"
    return weight + ("" if attribute.coarsest is None else f" coarsest {attribute.coarsest}")


def _text_of(column: KeptColumn) -> str:
    """A kept column as a text."""
    tree = column.hierarchy.fingerprint() if column.hierarchy else None
    coarse = f" grid {column.grid} domain {column.domain}" * column.is_coarse
    return f"{column.name} {column.sensitive} {column.type} {tree} {column.other}{coarse}"
