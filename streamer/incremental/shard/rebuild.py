"""A rebuild of a shard, region by region, while its stream goes on.

The parts of this file: how much the table has drifted, regions, what is said of rebuilds, a running rebuild, merging
changes into a region, when a rebuild is due, and QI groups that stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from streamer.errors import UsageError
from streamer.incremental.engine.replacing import NOWHERE, Region
from streamer.incremental.store import base
from streamer.incremental.store.base import Meta, Progress, Rebuild
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import RebuildRules, Table
from streamer.table.space import Space

# Drift: how much more a shard's table loses than a fresh one would, estimated from SAMPLE_REGIONS regions.
#
# * Nothing is replaced for it. A region is a neighbourhood of whole QI groups with at most SAMPLE_ROWS rows; it is
#   anonymized afresh by itself, and the two losses are compared. Rows drawn one by one would make a thinner table.
# * A region pays for its border, so the estimate is too small, the more so the smaller the region: regions of 2,000
#   rows give a drift of 1.23 as 1.12 to 1.14. So regions are as large as those of a rebuild, and a small shard is one
#   region. `benchmarks/rebuild.py` measures how far off the estimate is, `--region-rows` for other sizes.
# * It is a ratio of sums, not a mean of ratios: a region weighs as much as it loses.

SAMPLE_ROWS, SAMPLE_REGIONS = 20_000, 2

T = TypeVar("T")


def drawn(regions: Sequence[T], seed: int) -> list[T]:
    """SAMPLE_REGIONS of the regions, or all if there are no more, by chance."""
    if len(regions) <= SAMPLE_REGIONS:
        return list(regions)
    chosen = np.random.default_rng(seed).choice(len(regions), SAMPLE_REGIONS, replace=False)
    return [regions[i] for i in sorted(chosen.tolist())]


def ratio(now: float, fresh: float) -> float:
    """The loss now over that of a fresh table; 1 or infinite if a fresh one loses nothing."""
    if fresh > 0:
        return now / fresh
    return 1.0 if now <= 0 else float("inf")


# A region is as large as a transaction may be. Smaller ones would keep changes waiting for a shorter time, but lose
# much at their borders: on 15,000 drifted rows, regions of 1,000 end 9 % above one run over all, regions of 8,000 end 2
# % above it (`benchmarks/rebuild.py --region-rows`). An algorithm that recodes all rows alike needs the whole shard as
# one region.

FULL_DOMAIN = frozenset({"ola", "degree-first"})
"""Algorithms that recode all rows of a table alike."""


def region_rows(table: Table, algorithm: str, rows: int) -> int:
    """How many rows a region may have. Raises UsageError if the shard is too large for the algorithm."""
    most = table.limits.transaction_rows_max
    if algorithm in FULL_DOMAIN and rows > most:
        raise UsageError(
            f"{algorithm} recodes all rows of a shard alike, so they have to be replaced in one release: {rows:,} rows "
            f"are more than limits.transaction_rows_max = {most:,}; take another algorithm, or raise the limit"
        )
    return most


def gains(space: Space, region: Region, groups: Sequence[Ints], algorithm: str) -> bool:
    """True if a region loses less in these QI groups, or has to be replaced whatever it loses.

    It never has to if more of it would be withheld (`coarsest`), which counts as loss.
    """
    whatever = algorithm in FULL_DOMAIN and not space.is_bounded
    return whatever or space.loss_of(space.cells(region.rows.codes), groups) < region.ncp


RESTARTS_MAX = 2
"""How often a rebuild that an operator asked for is started again after its worker went away."""


def last_rebuild(rebuilds: Iterable[Progress]) -> Progress | None:
    """The newest one that was a rebuild and not only an answer to a request."""
    return next((one for one in reversed(list(rebuilds)) if not one.is_answer), None)


def gain(progress: Progress) -> float:
    """The share of the loss that the regions done do not lose any more."""
    return 1 - progress.ncp_now / progress.ncp_before if progress.ncp_before > 0 else 0.0


def reached(progress: Progress) -> float:
    """The loss over that of a fresh table after a rebuild, which left some regions as they were; 1 if not known."""
    if not progress.drift:
        return 1.0
    return progress.drift * (1 - gain(progress) * progress.done / max(1, progress.total))


def attempts(meta: Meta, id_: str) -> int:
    """The number of times that the rebuild of that id has ended."""
    return sum(one.rebuild.id == id_ for one in meta.rebuilds)


def how_it_ended(meta: Meta, id_: str) -> Progress | None:
    """The end of a request; None while it waits, runs, or is about to be started again."""
    if meta.rebuild is not None and meta.rebuild.rebuild.id == id_:
        return None
    last = next((one for one in reversed(meta.rebuilds) if one.rebuild.id == id_), None)
    if last is not None and last.state == base.STOPPED and attempts(meta, id_) <= RESTARTS_MAX:
        return None
    return last


def told(progress: Progress) -> str:
    """A rebuild, or the answer to a request, in words."""
    if progress.state == base.ANSWERED:
        return progress.said
    if progress.state == base.REFUSED:
        return f"refused: {progress.said}"
    if progress.state in (base.RUNNING, base.DONE):
        far = f"{progress.done} of {progress.total} regions" if progress.state == base.RUNNING else "done"
        left = f", {progress.left} regions were too busy and stay as they were" if progress.left else ""
        return f"{far}, {_gained(progress)}{left}"
    far = f"{progress.state} with {progress.done} of {progress.total} regions done"
    return f"{far}, {_gained(progress)}: {progress.said}"


def _gained(progress: Progress) -> str:
    seconds = max(0, progress.at - progress.began)
    change = 0.0 - gain(progress)
    return f"loss {change:+.1%}, {progress.rows_published_again:,} rows published again, {seconds} s"


def losses(progress: Progress, space: Space) -> tuple[float | None, float | None]:
    """The mean loss of the regions done, before and after (`Space.mean_loss`); None if their rows are not known."""
    return space.mean_loss(progress.ncp_before, progress.rows), space.mean_loss(progress.ncp_now, progress.rows)


def described(progress: Progress, space: Space) -> dict[str, Any]:
    """The same for programs; times in seconds since 1970."""
    before, now = (None if loss is None else round(loss, 6) for loss in losses(progress, space))
    return {
        "id": progress.rebuild.id,
        "state": progress.state,
        "algorithm": progress.rebuild.algorithm,
        "why": progress.why,
        "began": progress.began,
        "at": progress.at,
        "regions": progress.total,
        "done": progress.done,
        "left": progress.left,
        "rows_published_again": progress.rows_published_again,
        "ncp_before": before,
        "ncp_now": now,
        "gain": round(gain(progress), 6),
        "drift": round(progress.drift, 4) or None,
        "said": progress.said,
    }


# A running rebuild:
#
# * The regions are cut once, when the rebuild begins. QI groups that go away later are missing in theirs, and those
#   that come are in none: the next rebuild has them.
# * A region that changed while its new QI groups were sought is done again, at most REDONE_MAX times, then left as it
#   was and counted.
# * Every region has a seed of its own, drawn from the rebuild's by the shard's secret. So the rebuild's seed does not
#   tell who fell where, and the same state, seed and algorithm give the same QI groups to the last bit.
# * Nothing here is committed: `Progress` is, with every region's commit and once at the end. A rebuild whose worker
#   went away has replaced whole regions only. Its regions were cut in a table that has changed since, so the next
#   worker closes it as stopped.

REDONE_MAX = 3

SEED_BYTES = 8


class RegionTask(NamedTuple):
    """A region that is to be anonymized again: the numbers of its QI groups, and a seed."""

    numbers: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A running rebuild, as a value: each step gives the next one.

    The caller asks for the `task`, seeks QI groups for its region, has them published with `progress`, and says what
    came of it: `replaced` or `changed`. Without a task it is over, and `closed` is what is remembered of it.
    """

    progress: Progress
    waiting: tuple[tuple[int, ...], ...]  # regions, as numbers of QI groups; the first one is in work
    secret: bytes = field(repr=False)
    tries: int = 0  # how often the region in work was done in vain

    @property
    def task(self) -> RegionTask | None:
        """The region to be done now; None if none is left, or the rebuild was ended."""
        if self.progress.state != base.RUNNING or not self.waiting:
            return None
        numbers = self.waiting[0]
        return RegionTask(numbers, region_seed(self.secret, self.progress.rebuild.seed, numbers))

    def replaced(self, progress: Progress) -> Rebuilding:
        """After the task's region was replaced. progress: as it was committed with it."""
        return Rebuilding(progress, self.waiting[1:], self.secret)

    def changed(self) -> Rebuilding:
        """After the task's region had changed: it comes again, or is left as it is."""
        progress = self.progress
        if self.tries == REDONE_MAX:
            return self.replaced(replace(progress, left=progress.left + 1))
        return Rebuilding(progress, self.waiting, self.secret, self.tries + 1)

    def ended(self, state: str) -> Rebuilding:
        """Without the regions that were not begun; the same if there are none."""
        progress = self.progress
        return self.replaced(replace(progress, state=state)) if self.waiting else self

    def closed(self) -> Progress:
        """What is remembered of it."""
        progress = self.progress
        return replace(progress, state=base.DONE) if progress.state == base.RUNNING else progress


def region_seed(secret: bytes, seed: int, numbers: Sequence[int]) -> int:
    """The seed for one region, below 2^64."""
    said = msgspec.msgpack.encode((str(seed), numbers))
    return int.from_bytes(blake2b(said, key=secret, digest_size=SEED_BYTES, person=b"region").digest(), "little")


def next_rebuild(meta: Meta, id_: str, algorithm: str, seed: int) -> Rebuild:
    """A rebuild after all those that the shard has had."""
    turns = [one.rebuild.turn for one in (*meta.rebuilds, meta.rebuild) if one is not None]
    return Rebuild(id_, algorithm, seed, turn=max(turns, default=-1) + 1)


# Merging changes into a region. While an algorithm is at a region, the shard's changes go on. To start again after each
# would never end, and to let them wait would stop the stream. So the algorithm's answer is kept for all rows that are
# still in their cells, and the others are fitted in as an insertion would be:
#
# 1. A row that has gone is left out. A row that came, or lies in other cells now, joins the group that loses least by
#    it.
# 2. A group that no longer holds the model is joined with the one by which least is lost, lowest number first, until
#    all hold. All models are closed under union, so the answer holds the model if the region as a whole does.

FITTED_MOST = 2_000
"""How many rows are fitted in: with more the region is done again, because changes wait for the fitting."""


def adapted(table: Table, was: Region, groups: Sequence[Ints], now: Region) -> list[Ints] | None:
    """QI groups of the rows of `now`, arrays of row numbers; groups: those of `was`, arrays of its row numbers.

    One group if not even the whole region holds the model. None if too much has changed.
    """
    cells = table.space.cells(now.rows.codes)
    label = _labels(table.space, was, groups, now)
    if np.count_nonzero(label == NOWHERE) > FITTED_MOST:
        return None
    fitting = _Fitting(table.space, cells, label, max(1, len(groups)))
    for row in np.flatnonzero(label == NOWHERE).tolist():
        fitting.fit(row)
    microdata, model = microdata_of(table, now.rows), model_of(table)
    subjects = microdata.subjects(model.subjects)
    holds = model.holds_by_group(fitting.label, len(fitting.sizes), subjects)
    broken = [i for i in np.flatnonzero(~holds).tolist() if fitting.sizes[i]]
    while broken:
        i = broken.pop(0)
        if (other := fitting.joined(i)) is None:
            break
        broken = [one for one in broken if one != other]
        if not model.holds(subjects[fitting.label == other]):
            broken.insert(0, other)
    return fitting.groups()


def _labels(space: Space, was: Region, groups: Sequence[Ints], now: Region) -> Ints:
    """The group of every row that still lies in the cells that it lay in; int64 (n,), NOWHERE for the others."""
    former = np.full(len(was.rows.codes), NOWHERE, dtype=np.int64)
    for number, members in enumerate(groups):
        former[members] = number
    place_of = {source_key: i for i, source_key in enumerate(was.rows.source_keys)}
    places = np.array([place_of.get(key, NOWHERE) for key in now.rows.source_keys], dtype=np.int64)
    label = np.full(len(places), NOWHERE, dtype=np.int64)
    there = np.flatnonzero(places != NOWHERE)
    same = (space.cells(was.rows.codes[places[there]]) == space.cells(now.rows.codes[there])).all(axis=1)
    label[there[same]] = former[places[there[same]]]
    return label


class _Fitting:
    """Groups whose boxes grow: of each row its group (n,), of each group its rows, and its box (g, d)."""

    def __init__(self, space: Space, cells: Ints, label: Ints, n_groups: int) -> None:
        self.label = label.copy()
        placed = label != NOWHERE
        self.sizes: Ints = np.bincount(label[placed], minlength=n_groups)
        self._space, self._cells = space, cells
        self._lo = np.full((n_groups, space.d), np.iinfo(np.int64).max, dtype=np.int64)
        self._hi = np.full((n_groups, space.d), -1, dtype=np.int64)
        np.minimum.at(self._lo, label[placed], cells[placed])
        np.maximum.at(self._hi, label[placed], cells[placed])
        self._own = np.zeros(n_groups)
        some = self.sizes > 0
        self._lo[some], self._hi[some] = space.generalize(self._lo[some], self._hi[some])
        self._own[some] = space.ncp(self._lo[some], self._hi[some])

    def fit(self, row: int) -> None:
        """Gives a row to the group that loses least by it."""
        cells = self._cells[row]
        best = self._best(cells, cells, 1)
        self.label[row] = best = 0 if best is None else best
        self._grow(best, cells, cells, 1)

    def joined(self, i: int) -> int | None:
        """Joins a group with the one by which least is lost, and returns that; None if there is no other."""
        rows, self.sizes[i] = int(self.sizes[i]), 0  # it is not the one to join
        other = self._best(self._lo[i], self._hi[i], rows)
        if other is None:
            self.sizes[i] = rows
        else:
            self.label[self.label == i] = other
            self._grow(other, self._lo[i], self._hi[i], rows)
        return other

    def groups(self) -> list[Ints]:
        """The rows of every group that has any."""
        order = np.argsort(self.label, kind="stable")
        sizes = self.sizes[self.sizes > 0]
        return np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []

    def _best(self, lo: Ints, hi: Ints, rows: int) -> int | None:
        """The group whose loss grows least by `rows` rows in a box; equal: the lowest number. None: there is none."""
        least = np.where(self.sizes > 0, self._own * rows, np.inf)  # the growth of a group whose box contains the other
        inside = (self._lo <= lo).all(axis=1) & (self._hi >= hi).all(axis=1) & (self.sizes > 0)
        among = np.flatnonzero(least <= least[inside].min() if inside.any() else self.sizes > 0)
        if len(among) < 2:
            return int(among[0]) if len(among) else None
        wide = self._space.ncp(
            *self._space.generalize(np.minimum(self._lo[among], lo), np.maximum(self._hi[among], hi))
        )
        grown = wide * (self.sizes[among] + rows) - self._own[among] * self.sizes[among]
        return int(among[np.argmin(grown)])

    def _grow(self, i: int, lo: Ints, hi: Ints, rows: int) -> None:
        wide = self._space.generalize(np.minimum(self._lo[i], lo), np.maximum(self._hi[i], hi))
        self._lo[i], self._hi[i] = wide
        self._own[i] = self._space.ncp(*wide)
        self.sizes[i] += rows


# When a shard rebuilds itself, by the clock or after drift:
#
# * `every` counts from the end of the last rebuild, whatever began it and however it ended; before the first one, from
#   the first take-over. A shard is up to EARLIER_MOST of that time early, each by another share, so that shards that
#   began together do not rebuild together.
# * Drift is compared with what the last rebuild reached, if that was above a fresh table: a rebuild that gained
#   nothing, by a coarse algorithm or because it was cancelled, is not repeated until the table has lost as much once
#   more.
# * Drift is looked for at most every LOOK_SECONDS, only after so many changes that it may be another, and for at most a
#   small share of the time.

EARLIER_MOST = 0.1
GOLDEN = 0.618_033_988_749_895
"""Multiples of it, modulo 1, spread 0, 1, 2 ... as evenly as possible, however many there are."""

LOOK_SECONDS = 300
LOOK_SHARE_MOST = 0.02
"""Of the time, for looking."""

CHANGED_SHARE, CHANGED_LEAST = 0.05, 500
"""How many changes come between two looks: this share of the rows, and at least this number."""

CLOCK, DRIFT, OPERATOR = "clock", "drift", "operator"
"""Why a rebuild begins."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Facts that decide whether a rebuild is due; times in seconds since 1970."""

    now: float
    since: float  # the end of the last rebuild, or the first take-over
    drift: float | None = None  # the estimated loss over that of a fresh table; None before the first look
    reached: float = 1.0  # the same after the last rebuild; 1 if it is not known


def due(settings: RebuildRules, shard: int, known: Situation) -> str | None:
    """Why a rebuild is due now, or None."""
    if settings.every is not None and known.now - known.since >= waits(settings.every, shard):
        return CLOCK
    if settings.drift is None or known.drift is None:
        return None
    return DRIFT if known.drift >= float(settings.drift) * max(1.0, known.reached) else None


def waits(every: int, shard: int) -> float:
    """Seconds between two rebuilds of a shard by the clock: `every` at most.

    >>> [round(waits(1000, shard)) for shard in range(4)]
    [1000, 938, 976, 915]
    """
    return every * (1 - EARLIER_MOST * (shard * GOLDEN % 1))


@dataclass(frozen=True, slots=True)
class Looked:
    """A look for drift that is over."""

    at: float  # by the clock
    seconds: float  # that it took
    messages: int  # that had been read by then


def look_is_due(settings: RebuildRules, now: float, last: Looked, messages: int, rows: int) -> bool:
    """True if it is time to look for drift again. messages: in all so far; rows: of the table."""
    if settings.drift is None or now - last.at < max(LOOK_SECONDS, last.seconds / LOOK_SHARE_MOST):
        return False
    return messages - last.messages >= max(CHANGED_LEAST, CHANGED_SHARE * rows)


# QI groups of a region that stay as they are, because the algorithm's answer for them is not worth publishing again.
#
# * QI groups as they stand are put back into the answer, one after the other, if the loss that this costs is at most a
#   price for every row that is not published again: LOST_MORE_MAX of what a row of the answer loses. (A fixed price
#   would be most of the loss in a large table, and nothing in a small one.) The group that costs least by the answer's
#   boxes comes first; if equal, the lower number. So the region ends near what the algorithm has reached.
# * A group that is put back takes its rows out of the answer's groups. What is left of those has to hold the model; if
#   it does not, the groups that stand around its rows are put back as well, up to TOGETHER_MAX rows in all.
# * A group whose box is larger than its rows need is published again anyway, and is not put back: `Region.standing` is
#   NOWHERE for its rows.
# * Only boxes, models and public numbers decide. It is done beside the algorithm, never while changes wait.

LOST_MORE_MAX = 0.05
"""How much more a row may lose if it is not published again, as a share of the answer's mean loss per row."""

TOGETHER_MAX = 60
"""Rows of groups that are put back together: larger sets gain little and take long to find."""

HOPELESS = 3.0
"""A group is not tried if, by the answer's boxes, it costs more than this many times the price per row."""


def spared(table: Table, rows: EncodedRows, standing: Ints, groups: Sequence[Ints]) -> list[Ints]:
    """The answer's groups with those that stay as they are; arrays of row numbers, as `groups`.

    standing: of each row (n,) the number 0..g-1 of its group as it is now, or NOWHERE.
    """
    if not len(groups) or not (standing != NOWHERE).any():
        return list(groups)
    sparing = _KeepUnchanged(table, rows, standing, groups)
    for number in sparing.cheapest_first():
        sparing.put_back(number)
    return sparing.groups()


class _KeepUnchanged:
    """The answer while groups are put back: of every group its rows and its loss; of every row its group."""

    def __init__(self, table: Table, rows: EncodedRows, standing: Ints, groups: Sequence[Ints]) -> None:
        self._space, self._cells = table.space, table.space.cells(rows.codes)
        self._model, microdata = model_of(table), microdata_of(table, rows)
        self._subjects = microdata.subjects(self._model.subjects)
        self._standing: list[int] = standing.tolist()
        order = np.argsort(standing, kind="stable")[np.count_nonzero(standing == NOWHERE) :]
        sizes = np.bincount(standing[order])
        self._stands = [set(some.tolist()) for some in np.split(order, np.cumsum(sizes)[:-1])]
        self._stands_loss = [self._loss(some) for some in self._stands]
        self._rows = {number: set(members.tolist()) for number, members in enumerate(groups)}
        self._losses = {number: self._loss(some) for number, some in self._rows.items()}
        self._price = LOST_MORE_MAX * sum(self._losses.values()) / len(standing)
        self._group_of = [0] * len(standing)
        for number, some in self._rows.items():
            self._take(number, some)
        self._back: set[int] = set()

    def _loss(self, rows: Set[int]) -> float:
        """NCP times rows of the smallest box around some rows."""
        if not rows:
            return 0.0
        return float(self._space.ncp(*self._space.box_of_cells(self._cells[list(rows)]))) * len(rows)

    def _take(self, group: int, rows: Iterable[int]) -> None:
        for row in rows:
            self._group_of[row] = group

    def cheapest_first(self) -> list[int]:
        """The groups as they stand, as numbers, but those that are hopeless."""
        by_row = {number: loss / len(self._rows[number]) for number, loss in self._losses.items()}
        now = [by_row[group] for group in self._group_of]
        more = [
            (loss - sum(now[row] for row in rows)) / len(rows) if rows else np.inf
            for rows, loss in zip(self._stands, self._stands_loss, strict=True)
        ]
        return [i for i in sorted(range(len(more)), key=more.__getitem__) if more[i] <= HOPELESS * self._price]

    def put_back(self, number: int) -> None:
        """Puts a group back as it stands, with those that have to go with it, if that is worth it."""
        if number in self._back:
            return
        together = self._together(number)
        if together is None:
            return
        rows: set[int] = set().union(*(self._stands[one] for one in together))
        left = {group: self._rows[group] - rows for group in {self._group_of[row] for row in rows}}
        losses = {group: self._loss(some) for group, some in left.items()}
        before = sum(self._losses[group] for group in left)
        if sum(self._stands_loss[one] for one in together) + sum(losses.values()) - before > self._price * len(rows):
            return
        self._rows.update(left)
        self._losses.update(losses)
        for one in together:
            group = len(self._rows)
            self._rows[group], self._losses[group] = self._stands[one], self._stands_loss[one]
            self._take(group, self._stands[one])
        self._back.update(together)

    def _together(self, number: int) -> set[int] | None:
        """The groups that are to be put back with one, so that all others hold the model; None: too many, or none."""
        together, rows = {number}, set(self._stands[number])
        while True:
            broken: set[int] = set()
            for group in {self._group_of[row] for row in rows}:
                left = self._rows[group] - rows
                if left and not self._holds(left):
                    broken |= left
            if not broken:
                return together
            more = {self._standing[row] for row in broken}
            if NOWHERE in more or more & self._back:
                return None
            together |= more
            rows = rows.union(*(self._stands[one] for one in more))
            if len(rows) > TOGETHER_MAX:
                return None

    def _holds(self, rows: Set[int]) -> bool:
        return len(rows) >= self._model.rows_min and self._model.holds(self._subjects[list(rows)])

    def groups(self) -> list[Ints]:
        """All groups that have rows."""
        return [np.array(sorted(rows), dtype=np.int64) for rows in self._rows.values() if rows]
