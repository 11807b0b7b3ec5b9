"""One numeric column of single years and QI groups over it: tables so small that every move can be told by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.events.changes import Change, Insert
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.small_tables import YEARS, table

OF_TWO = table(YEARS, k=2)
OF_PEOPLE = table(YEARS, k=2, individual="ssn")


def row_of(year: int, problem: str = "flu", individual: str | None = None) -> Row:
    return Row((year,), (b'"%b"' % problem.encode(),), individual=individual)


def engine_with(years: Mapping[str, int], small: Table = OF_TWO) -> Engine:
    """A shard that these rows were inserted into, one by one, and whose news was drained."""
    engine = Engine(small)
    for source_key, year in years.items():
        engine.apply(Insert(source_key, row_of(year, individual=source_key if small.individual else None)))
    engine.drain()
    return engine


def apply_valid(engine: Engine, some: Iterable[Change]) -> None:
    """Applies changes; those that are refused change nothing."""
    for change in some:
        with suppress(EventRefused):
            engine.apply(change)


def groups_of(engine: Engine) -> set[frozenset[str]]:
    """Who is with whom."""
    together: dict[int, set[str]] = {}
    for source_key, number in engine.index_table():
        together.setdefault(number, set()).add(source_key)
    return set(map(frozenset, together.values()))


def sets_of(*names: str) -> set[frozenset[str]]:
    """`sets_of("ab", "cd")`: {a, b} and {c, d}."""
    return set(map(frozenset, names))


def boxes_in(drained: Drained) -> dict[int, tuple[int, int] | None]:
    """The published interval of every QI group that changed, None for one that went."""
    return {n: None if after is None else (after.lo[0], after.hi[0]) for n, _, after in drained.published}


def numbers_in(engine: Engine) -> set[int]:
    return {number for _, number in engine.index_table()}


def keys_in(engine: Engine) -> Iterable[str]:
    return sorted(source_key for source_key, _ in engine.index_table())
