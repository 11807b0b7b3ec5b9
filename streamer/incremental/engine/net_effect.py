"""The net effect of a batch: rows, QI groups, similarity lists and published groups, made of the core's export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TypeAlias, cast

import numpy as np

from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.last_changes import Remembered
from streamer.incremental.engine.rows import Rows
from streamer.incremental.engine.stored_state import HOW, Degrees, How, QIGroupState, RecordColumns
from streamer.incremental.events.changes import RowChange
from streamer.incremental.release.records import PublishedGroup
from streamer.table.arrays import Ints, row_numbers
from streamer.table.row import Values

Seen: TypeAlias = tuple[int, PublishedGroup | None, PublishedGroup | None]
"""Number of a QI group, and the group as readers see it before and after."""

CellsOf: TypeAlias = Callable[[Iterable[str]], Ints]
"""The cells (n, d) of the rows with some source keys."""


class LossyJoinCells:
    """The distinct cells of every published QI group, for `form: lossy-join`, which alone publishes them.

    The core nets boxes and values, not cells within a box. So the cells of touched groups are collected from their
    members and compared with those of the last time, kept as bytes.
    """

    def __init__(self, d: int) -> None:
        self._d = d
        self._cells: dict[int, bytes] = {}

    def begin(self, numbers: Ints, cells: Ints) -> None:
        """Takes a table as it is published. numbers: QI group of each row, int64 (n,); cells (n, d)."""
        self._cells = dict(_gathered(numbers, cells))

    def completed(
        self, published: Iterable[Seen], touched: Mapping[int, QIGroupState | None], cells_of: CellsOf
    ) -> list[Seen]:
        """The QI groups in which readers see a difference, cells included, by number.

        published: those whose box or values differ; touched: all that changed, as they are now.
        """
        there = {number: state for number, state in touched.items() if state is not None}
        now = self._now(there, cells_of)
        seen = {number: (before, after) for number, before, after in published}
        for number, state in there.items():
            if number not in seen and now[number] != self._cells[number]:
                same = PublishedGroup(state.lo, state.hi, state.slots)
                seen[number] = same, same
        completed = [
            (number, self._with(before, self._cells.get(number)), self._with(after, now.get(number)))
            for number, (before, after) in sorted(seen.items())
        ]
        for number in touched:
            self._cells.pop(number, None)
        self._cells.update(now)
        return completed

    def _now(self, there: Mapping[int, QIGroupState], cells_of: CellsOf) -> dict[int, bytes]:
        sizes = [len(state.members) for state in there.values()]
        numbers = np.repeat(np.fromiter(there, np.int64, len(there)), sizes)
        members = chain.from_iterable(state.members for state in there.values())
        return dict(_gathered(numbers, cells_of(members))) if there else {}

    def _with(self, group: PublishedGroup | None, cells: bytes | None) -> PublishedGroup | None:
        if group is None or cells is None:
            return None
        vectors = np.frombuffer(cells, np.int32).reshape(-1, self._d).tolist()
        return PublishedGroup(group.lo, group.hi, group.slots, tuple(map(tuple, vectors)))


def _gathered(numbers: Ints, cells: Ints) -> Iterable[tuple[int, bytes]]:
    """The distinct cells of every QI group, sorted, as bytes of int32."""
    rows = np.column_stack([numbers, cells])
    _, first = np.unique(row_numbers(rows), return_index=True)
    distinct = rows[first]
    ends = np.flatnonzero(np.diff(distinct[:, 0], append=-1)) + 1
    start = 0
    for end in ends.tolist():
        yield int(distinct[start, 0]), distinct[start:end, 1:].astype(np.int32).tobytes()
        start = end


Changed: TypeAlias = dict[int, QIGroupState | None]
"""QI groups by number; None for one that is gone."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The net effect of all changes since the last drain; None stands for a removal."""

    records: RecordColumns = field(repr=False)
    qi_groups: Changed = field(repr=False)
    similarity: dict[int, Degrees | None]  # of groups whose next loss would merge them, if they were searched for
    published: list[Seen] = field(repr=False)  # groups whose published rows differ, by number
    formed: dict[int, How]  # how groups were formed that are new or have new members
    statement_ids: list[str]
    qi_group_next: int
    merges: int
    splits: int
    row_changes: Sequence[RowChange] = field(default=(), repr=False)  # if the table publishes a sealed changelog
    last_changes: dict[int, Remembered | None] = field(default_factory=dict)


def net_effect(rows: Rows, core: CoreArrays, gone: Sequence[str], statement_ids: list[str]) -> Drained:
    """The core's export as values; gone: the source keys of rows that are not there any more."""
    export = core.arrays.export
    rows_end = 1 + 4 * int(export.numbers[0])
    records = rows.records(export.numbers[1:rows_end], gone)
    numbers: list[int] = export.numbers[rows_end : core.field("n_numbers")].tolist()
    scores: list[float] = export.scores[: core.field("n_scores")].tolist()
    qi_groups, published, formed, groups_end = _groups(rows, numbers, 0)
    return Drained(
        records=records,
        qi_groups=qi_groups,
        similarity={**_out_of_date(qi_groups, formed), **_similarity(numbers, groups_end, scores)},
        published=published,
        formed=formed,
        statement_ids=statement_ids,
        qi_group_next=core.field("qi_group_next"),
        merges=core.field("merges"),
        splits=core.field("splits"),
    )


def _groups(rows: Rows, numbers: list[int], at: int) -> tuple[Changed, list[Seen], dict[int, How], int]:
    """The touched QI groups as they are, by number; those with a difference for readers; how they were formed.

    Also the index after their numbers.
    """
    values_of = cast(Callable[[int], Values], rows.values.things.__getitem__)
    key_of = rows.source_keys.__getitem__
    d = rows.d

    def published_at(at: int, n: int) -> PublishedGroup:
        hi, slots = at + d, at + 2 * d
        values = map(values_of, numbers[slots : slots + n])
        return PublishedGroup(tuple(numbers[at:hi]), tuple(numbers[hi:slots]), tuple(values))

    qi_groups: Changed = {}
    published: list[Seen] = []
    formed: dict[int, How] = {}
    n, at = numbers[at], at + 1
    for _ in range(n):
        number, seen, n_before, n_now, origin = numbers[at : at + 5]
        at += 5
        before = after = None
        if seen and n_before:
            before, at = published_at(at, n_before), at + 2 * d + n_before
        if n_now:
            after, at = published_at(at, n_now), at + 2 * d + n_now
            members = tuple(map(key_of, numbers[at : at + n_now]))
            qi_groups[number] = QIGroupState(after.lo, after.hi, members, after.slots)
            at += n_now
            if origin:
                formed[number] = HOW[origin - 1]
        elif n_before:
            qi_groups[number] = None
        if seen:
            published.append((number, before, after))
    published.sort(key=itemgetter(0))
    return qi_groups, published, formed, at


def _out_of_date(qi_groups: Changed, formed: Mapping[int, How]) -> dict[int, None]:
    """The QI groups whose stored similarity lists are another group's: they are gone, or have other members."""
    return dict.fromkeys(number for number, state in qi_groups.items() if state is None or number in formed)


def _similarity(numbers: list[int], at: int, scores: list[float]) -> dict[int, Degrees]:
    """The similarity lists that the batch found."""
    found: dict[int, Degrees] = {}
    n, at, score = numbers[at], at + 1, 0
    for _ in range(n):
        number, length, first = numbers[at], numbers[at + 1], at + 2
        at, end = first + length, score + length
        found[number] = tuple(zip(numbers[first:at], scores[score:end], strict=True))
        score = end
    return found
