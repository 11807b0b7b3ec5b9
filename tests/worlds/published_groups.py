"""Published QI groups, the table that their records fold into, and a table that goes through random releases."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import pandas as pd
from hypothesis import strategies as st

from streamer.copies import Changed, Copy
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold, FoldedRelease
from streamer.incremental.release.frames import recorded_frames
from streamer.incremental.release.records import OutboxEntry, PublishedGroup
from streamer.table.codes import CategoricalAttribute, KeptColumn, NumericAttribute
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM, VALUES, YEARS

SONG_AGE = NumericAttribute("age", (Decimal(1), Decimal(120)), Decimal(5), Decimal(1), Decimal(1))


SONG_ZIP = NumericAttribute("zip", (Decimal(1000), Decimal(99000)), Decimal(5000), Decimal(1000), Decimal(1000))


SONG = Table("patients", ("id",), (SONG_AGE, SONG_ZIP), (PROBLEM,), k=2)


ALL_KINDS = Table("people", ("id",), (AGE, BMI, CITY, YEARS), (PROBLEM, KeptColumn("ward", sensitive=False)), k=2)


NODES = sorted(CITIES.node_of)


def applied(rows: dict[bytes, bytes], records: Iterable[OutboxEntry]) -> dict[bytes, bytes]:
    """The table after some records."""
    rows = dict(rows)
    for record in records:
        if record.value is None:
            del rows[record.key]
        else:
            rows[record.key] = record.value
    return rows


FORMS = (ROWS, GROUPS, LOSSY_JOIN)


def of_form(form: str) -> Table:
    return replace(ALL_KINDS, form=form)


def table_of(group: PublishedGroup | None, form: str = ROWS) -> dict[bytes, bytes]:
    """All that is published of a QI group."""
    return applied({}, Changelog(of_form(form), 3).diff(17, None, group)[0])


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ends: list[tuple[int, int]] = []
    for attribute in ALL_KINDS.attributes:
        if isinstance(attribute, CategoricalAttribute):
            ends.append(draw(st.sampled_from(NODES)))
        else:
            cell = st.integers(0, attribute.n_cells - 1)
            one, other = draw(cell), draw(cell)
            ends.append((min(one, other), max(one, other)))
    return tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)


VALUES_OF_TWO = st.tuples(VALUES, st.sampled_from([b"1", b"2.5", b"true"])).map(lambda v: (*v[0], v[1]))


PROBLEMS = (b'"flu"', b'"ulcer"', b"null", b'"o\'brien; \\"x\\""')


class FollowedTable:
    """Song's table in some form, in two shards; groups come, change and go."""

    def __init__(self, form: str, seed: int) -> None:
        self.table: Table = replace(SONG, form=form)
        self._rng = random.Random(seed)
        self._changelogs = [Changelog(self.table, shard) for shard in range(2)]
        self._groups: dict[tuple[int, int], PublishedGroup] = {}
        self._numbers = [0, 0]
        self._fold = Fold(self.table)
        self.last: dict[int, FoldedRelease] = {}

    def releases(self, count: int) -> list[FoldedRelease]:
        """The next ones, some of which change several groups."""
        return [self._release(self._rng.randrange(2)) for _ in range(count)]

    def frames(self) -> Mapping[str, pd.DataFrame]:
        """The whole table as it is now, recorded."""
        return recorded_frames(self.table, self._fold.stored())

    def _release(self, shard: int) -> FoldedRelease:
        records = [record for _ in range(self._rng.randint(1, 3)) for record in self._change(shard)]
        self._numbers[shard] += 1
        release = FoldedRelease(shard, self._numbers[shard], 10 * self._numbers[shard], records)
        for key, value in records:
            self._fold.apply(shard, release.number, release.through, key, value)
        self._fold.finish(shard)
        self.last[shard] = release
        return release

    def _change(self, shard: int) -> Sequence[tuple[bytes, bytes | None]]:
        number = self._rng.randint(1, 6)
        before, after = self._groups.pop((shard, number), None), None
        if before is None or self._rng.random() < 0.7:
            after = self._group()
            self._groups[shard, number] = after
        return [(entry.key, entry.value) for entry in self._changelogs[shard].diff(number, before, after)[0]]

    def _group(self) -> PublishedGroup:
        cells = [(self._rng.randrange(5), self._rng.randrange(5)) for _ in range(self._rng.randint(2, 4))]
        lo, hi = (tuple(end(column) for column in zip(*cells, strict=True)) for end in (min, max))
        values = tuple((self._rng.choice(PROBLEMS),) for _ in cells)
        return PublishedGroup(lo, hi, values, tuple(sorted(cells)))


def followed(copy: Copy, world: FollowedTable, batches: int = 8) -> None:
    """Begins a copy and has it follow some batches of releases."""
    world.releases(5)
    copy.begin(world.frames(), list(world.last.values()))
    for count in range(batches):
        copy.change(Changed(world.table, world.releases(count % 3 + 1), world.frames))


def rows_of(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    """Rows as they stand; a null is None."""
    return [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)]
