"""Changelogs with the source and the index table behind them: 40 busy days, the same at every run."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache

from streamer.errors import EventRefused
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.checks.source import IndexTable, index_table
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.events.changes import Change, Delete, Insert, Modify
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import ReleasePart, parse_part
from streamer.incremental.release.records import Outgoing, outgoing
from streamer.table.codes import Diversity
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.small_tables import TABLES


@dataclass
class History:
    """A changelog and, per release, the source rows and the index table behind it."""

    table: Table
    records: list[LiveRecord] = field(default_factory=list)
    sources: list[dict] = field(default_factory=list)


def history_of(table: Table, batches: Iterable[Iterable[Change]]) -> History:
    """What the engine makes of some batches of changes."""
    history, engine, log = History(table), Engine(table), Changelog(table, 0)
    source: dict = {}
    through = release = 0
    for batch in batches:
        for change in batch:
            through += 1
            try:
                engine.apply(change)
            except EventRefused:
                continue
        drained = engine.drain()
        source = {key: record for key, record in {**source, **drained.records}.items() if record is not None}
        entries = [entry for group in drained.published for entry in log.diff(*group)[0]]
        if entries:
            release += 1
            history.records += [
                LiveRecord(0, release, through, sent.key, sent.value, part_of(sent), sent.topic)
                for sent in outgoing(entries, release, through)
            ]
            history.sources.append(source)
    return history


def part_of(sent: Outgoing) -> ReleasePart:
    return parse_part(dict(sent.headers)["part"])


def index_of(source: dict) -> IndexTable:
    lines = ((key, None if row.qi_group == PENDING else (0, row.qi_group)) for key, row in source.items())
    return index_table({key: record.row for key, record in source.items()}, lines)


def check(table: Table, records: Iterable[LiveRecord]) -> ChangelogLaws:
    laws = ChangelogLaws(table)
    for release in in_releases(records):
        laws.check(release)
    return laws


SMALL = replace(TABLES["individuals"], diversity=Diversity(l=2, alpha=Decimal("0.5")))


@cache
def busy_days() -> History:
    """40 batches of insertions, changes and deletions, the same at every run."""
    chance = random.Random(7)
    living: list[str] = []

    def row() -> Row:
        values = (b'"%b"' % chance.choice([b"flu", b"cough", b"ulcer"]),)
        return Row((chance.randrange(23), chance.randrange(6)), values, (), f"person {chance.randrange(10**6)}")

    def change(number: int) -> Change:
        kind = chance.random()
        if kind < 0.5 or len(living) < 10:
            living.append(str(number))
            return Insert(str(number), row())
        if kind < 0.75:
            return Delete(living.pop(chance.randrange(len(living))))
        changed = row()
        return Modify(chance.choice(living), dict(enumerate(changed.codes)), {}, {0: changed.values[0]})

    return history_of(SMALL, [[change(7 * batch + i) for i in range(7)] for batch in range(40)])
