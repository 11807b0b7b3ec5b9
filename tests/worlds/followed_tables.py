"""A published table that goes through random releases, as a reader that keeps copies of it is told of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from streamer.cli.stream.subscribe import Changed, Copy
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.fold import Fold, FoldedRelease
from streamer.incremental.release.frames import recorded_frames
from streamer.incremental.release.records import PublishedGroup
from streamer.table.schema import Table
from worlds.published_groups import SONG

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
