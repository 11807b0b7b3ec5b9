"""Costs of finding the QI group of a tuple, at 1 thousand to 1 million groups, beside a flat scan.

Eight attributes, half of them categories with hierarchies. Tuples come from a Gaussian mixture of 40 centers; the QI
groups are those of a Median Mondrian over a sample, changed 50,000 times after that: tuples join and widen the box they
are located in, boxes shrink to their first size, groups go and others come. Everything is seeded. Beside it a
table of few values: 24 cells and 50,000 QI groups, each one cell.

    python benchmarks/locate.py [--quick] [--json]
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

import ready
from streamer.incremental.core.layout import CENTER, HALF_WIDTH, HI, LO, NONE, CoreTree, Shard, empty_shard
from streamer.incremental.core.scores import set_shape
from streamer.incremental.core.search import locate, nearest
from streamer.incremental.core.tree import put, take_out
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.mondrian import median_tree
from streamer.table.arrays import Floats, Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Axis, Space
from worlds.native import CompiledNow

P = ParamSpec("P")
R = TypeVar("R")

K = 5
CENTERS = 40
SIZES, CHANGES, QUESTIONS = (1_000, 8_000, 65_000, 1_000_000), 50_000, 20_000
QUICK_SIZES, QUICK_CHANGES, QUICK_QUESTIONS = (200, 1_000), 1_000, 1_000
EQUAL_BOXES, QUICK_EQUAL_BOXES = 50_000, 1_000
SCANS, NEAREST = 100, 3_000


def hierarchy(*fans: int) -> Hierarchy:
    """A regular hierarchy with the given numbers of children per level, from the root down."""
    paths: list[tuple[str, ...]] = [("*",)]
    for fan in fans:
        paths = [(f"{path[0]}.{child}", *path) for path in paths for child in range(fan)]
    return Hierarchy.from_rows(paths)


def adult_like_space() -> Space:
    """Four numbers and four categories, about as fine as Adult's; the unit is a fifth of the domain or the leaves."""
    numbers = [Axis(1, cells, True, cells - 1.0, (cells - 1) / 5, None) for cells in (74, 200, 100, 48)]
    trees = [hierarchy(*fans) for fans in ((2, 4, 2), (7,), (2, 3, 2), (2, 5, 4))]
    categories = [Axis(1, tree.n_leaves, True, tree.n_leaves, tree.n_leaves / 5, tree) for tree in trees]
    return Space([axis for pair in zip(numbers, categories, strict=True) for axis in pair])


def mixture(space: Space, random: np.random.Generator) -> Callable[[int], Ints]:
    """Draws tuples (n, d) of codes from a Gaussian mixture."""
    centers = random.random((CENTERS, space.d)) * space.n_cells
    spread = (0.03 + 0.12 * random.random((CENTERS, space.d))) * space.n_cells
    weights = random.dirichlet(np.ones(CENTERS))

    def draw(n: int) -> Ints:
        center = random.choice(CENTERS, n, p=weights)
        codes = np.floor(random.normal(centers[center], spread[center])).astype(np.int64)
        return np.clip(codes, 0, space.n_cells - 1)

    return draw


# -- the compiled loops that are measured ---------------------------------------------------------------------------


def quick(function: Callable[P, R]) -> CompiledNow[P, R]:
    """Compiled as the package is."""
    return CompiledNow(function, "-O3", "-march=native")


@quick
def locate_all(s: Shard, cells: Ints, found: Ints) -> None:
    """The group of each tuple (n, d)."""
    for i in range(len(cells)):
        found[i] = locate(s, cells[i])


@quick
def nearest_all(s: Shard, groups: Ints, found: Ints) -> None:
    """The nearest of each of some groups, searched without any suspicion."""
    for i in range(len(groups)):
        s.state[0].n_found = 0
        found[i] = nearest(s, groups[i])


@quick
def set_boxes(s: Shard, groups: Ints, boxes: Ints, anew: bool) -> None:
    """Groups come, or get other boxes (n, 2, d), as they are or as groups that go and come."""
    for i in range(len(groups)):
        g = groups[i]
        if anew:
            take_out(s, g)
        for j in range(boxes.shape[2]):
            s.groups.box[g, LO, j], s.groups.box[g, HI, j] = boxes[i, LO, j], boxes[i, HI, j]
        set_shape(s.space, s.groups, g)
        put(s, g)


# -- worlds ---------------------------------------------------------------------------------------------------------


def shard_of(space: Space, boxes: Ints, members: Ints) -> Shard:
    """A shard with the tree of boxes (n, 2, d), without rows, that has room for as many."""
    n, s = len(boxes), empty_shard(space, K, recut=True, shrink=True, individuals=False)
    group, box, shape, near, *tree = (roomy(one, n + 64) for one in (*s.groups[:3], s.groups.near, *s.tree))
    near[:] = NONE
    s = s._replace(groups=s.groups._replace(group=group, box=box, shape=shape, near=near), tree=CoreTree(*tree))
    group.members[:n], group.number[:n], group.node = members, np.arange(1, n + 1), NONE
    set_boxes(s, np.arange(n), boxes, False)
    return s


def roomy(array: Any, n: int) -> Any:
    """An array of zeros like another, for n things."""
    return np.zeros((n, *array.shape[1:]), array.dtype).view(type(array))


@dataclass
class World:
    """A shard's tree, its boxes as they were formed, and where new tuples come from."""

    space: Space
    s: Shard
    formed: Ints
    draw: Callable[[int], Ints]
    random: np.random.Generator

    @property
    def n_groups(self) -> int:
        return len(self.formed)


def world_of(n_groups: int) -> World:
    """About n_groups QI groups of a Median Mondrian over tuples of the mixture."""
    space, random = adult_like_space(), np.random.default_rng(n_groups)
    draw = mixture(space, np.random.default_rng(1))
    codes = draw(int(n_groups * 1.4 * K))
    nobody = np.empty((len(codes), 0), dtype=np.int64)
    layout, leaves, *_ = median_tree(space, space.cells(codes), k_anonymity(K), nobody)
    begins = leaves.begins[: leaves.n[0]]
    rows = space.cells(codes)[layout.rows]
    ends = space.generalize(np.minimum.reduceat(rows, begins), np.maximum.reduceat(rows, begins))
    order = random.permutation(len(begins))
    formed = np.stack(ends, axis=1)[order]
    return World(space, shard_of(space, formed, np.diff(begins, append=len(rows))[order]), formed, draw, random)


def change(world: World, n_changes: int) -> float:
    """Changes boxes as an engine does; returns the seconds spent in the index's upkeep.

    In rounds: tuples join, each eighth time a QI group goes and another of much the same box comes, and the boxes that
    were widened shrink again, but for those of the last round.
    """
    spent, done = 0.0, 0
    while done < n_changes:
        n = min(max(world.n_groups // 8, 1), n_changes - done)
        cells = world.draw(n)
        found = np.zeros(n, dtype=np.int64)
        locate_all(world.s, cells, found)
        joined = np.unique(found)
        spent += timed(set_boxes, world.s, joined, widened(world, cells, found)[joined], False)
        done += len(joined)
        anew = world.random.choice(world.n_groups, n // 8, replace=False)
        world.formed[anew] = moved(world, world.formed[anew])
        spent += timed(set_boxes, world.s, anew, world.formed[anew], True)
        done += len(anew)
        if done + n <= n_changes:
            spent += timed(set_boxes, world.s, joined, world.formed[joined], False)
            done += len(joined)
    return spent / done


def widened(world: World, cells: Ints, found: Ints) -> Ints:
    """All boxes, after tuples (n, d) have joined the groups that they were located in."""
    boxes = world.s.groups.box[: world.n_groups].astype(np.int64)
    np.minimum.at(boxes[:, LO], found, cells)
    np.maximum.at(boxes[:, HI], found, cells)
    world.space.generalize(boxes[:, LO], boxes[:, HI])
    return np.asarray(boxes)


def moved(world: World, boxes: Ints) -> Ints:
    """Boxes up to two cells further on, where they are numbers."""
    step = world.random.integers(3, size=(len(boxes), 1, 1)) * ~world.space.is_category
    return np.asarray(np.minimum(boxes + step, world.space.n_cells - 1))


def timed(call: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of the processor for one call, so that other programs count less."""
    start = time.thread_time()
    call(*arguments)
    return time.thread_time() - start


class FlatScan:
    """The same questions answered by looking at every QI group: what the index is measured against."""

    def __init__(self, world: World) -> None:
        groups = world.s.groups
        self.space, self.n = world.space, world.n_groups
        self.lo, self.hi = (groups.box[: self.n, end].astype(np.int64) for end in (LO, HI))
        self.members = groups.group.members[: self.n].copy()
        self.center, self.half = (groups.shape[: self.n, part].astype(np.float64) for part in (CENTER, HALF_WIDTH))
        self.trees = dict(self.space.trees)
        self.ncp = self.space.ncp(self.lo, self.hi)

    def locate(self, cells: Ints) -> int:
        """The right answer of `locate`."""
        best = self.space.contains(self.lo, self.hi, cells)
        if not best.any():
            scores = self.t_qgssd(cells)
            best = scores == scores.max()
        for column in (self.ncp, self.members):
            best = best & (column == column[best].min())
        return int(best.argmax())

    def t_qgssd(self, cells: Ints) -> Floats:
        """T-QGSSD (Song et al. 2009, definition 6) of a tuple to all groups, in columns."""
        total, middles = np.zeros(self.n), self.space.middles(cells)
        for j, half in enumerate(self.half.T):
            if j not in self.trees:
                total += half / np.maximum(np.abs(middles[j] - self.center[:, j]), half)
                continue
            tree, cell = self.trees[j], cells[j]
            node = tree.cover_many(np.minimum(self.lo[:, j], cell), np.maximum(self.hi[:, j], cell))
            leaves = tree.node_hi[node] - tree.node_lo[node] + 1
            total += np.where((self.lo[:, j] <= cell) & (cell <= self.hi[:, j]), 1.0, half / leaves)
        return total


# -- figures --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """One line of the table; times in microseconds per call."""

    qi_groups: int
    inside: float  # locate, for tuples that lie in some box
    outside: float  # locate, for the others
    outside_share: float
    nearest: float
    upkeep: float
    flat_scan: float
    times_faster: float


def measured(n_groups: int, n_changes: int, n_questions: int) -> Figures:
    """Builds, changes, asks, and compares with the scan's answers."""
    world = world_of(n_groups)
    upkeep = change(world, n_changes)
    cells = world.draw(n_questions)
    found = np.zeros(n_questions, dtype=np.int64)
    locate_all(world.s, cells, found)
    scan, asked = FlatScan(world), cells[:SCANS]
    if [scan.locate(one) for one in asked] != found[:SCANS].tolist():
        raise SystemExit("the index and the scan do not agree")
    inside = world.space.contains(scan.lo[found], scan.hi[found], cells)
    scanned = timed(lambda: [scan.locate(one) for one in asked]) / len(asked)
    time_inside, time_outside = (per_call(locate_all, world.s, cells[which]) for which in (inside, ~inside))
    share = float((~inside).mean())
    return Figures(
        qi_groups=world.n_groups,
        inside=micro(time_inside),
        outside=micro(time_outside),
        outside_share=round(share, 4),
        nearest=micro(per_call(nearest_all, world.s, world.random.choice(world.n_groups, NEAREST))),
        upkeep=micro(upkeep),
        flat_scan=micro(scanned),
        times_faster=round(scanned / (time_inside * (1 - share) + time_outside * share), 1),
    )


def equal_boxes(n_groups: int) -> dict[str, float]:
    """Microseconds per call where thousands of QI groups have one box: four numbers of two or three values."""
    space = Space([Axis(1, cells, True, cells - 1.0, 1.0, None) for cells in (2, 2, 2, 3)])
    cells = np.random.default_rng(7).integers(0, space.n_cells, (n_groups, space.d))
    s = shard_of(space, np.stack([cells, cells], axis=1), np.full(n_groups, K))
    return {
        "qi_groups": n_groups,
        "inside": micro(per_call(locate_all, s, cells[:NEAREST])),
        "nearest": micro(per_call(nearest_all, s, np.arange(min(n_groups, NEAREST)))),
    }


def per_call(loop: Callable[[Shard, Ints, Ints], None], s: Shard, asked: Ints) -> float:
    """Seconds per question: the best of three rounds over all, so that other programs count less."""
    found = np.zeros(len(asked), dtype=np.int64)
    return min(timed(loop, s, asked, found) for _ in range(3)) / max(len(asked), 1)


def micro(value: float) -> float:
    """Seconds as microseconds, to a hundredth."""
    return round(float(value) * 1e6, 2)


def show(lines: list[Figures]) -> None:
    """The table."""
    table = Table(title="Exact nearest QI group, µs per call")
    for name in asdict(lines[0]):
        table.add_column(name.replace("_", " "), justify="right")
    for line in lines:
        table.add_row(*map(str, asdict(line).values()))
    Console(width=120).print(table)


def main() -> None:
    """Measures every size and prints the table and one JSON object."""
    options = ready.options((__doc__ or "").splitlines()[0], "small sizes, for a smoke test").parse_args()
    sizes, n_changes, n_questions, n_equal = (
        (QUICK_SIZES, QUICK_CHANGES, QUICK_QUESTIONS, QUICK_EQUAL_BOXES)
        if options.quick
        else (SIZES, CHANGES, QUESTIONS, EQUAL_BOXES)
    )
    lines = [measured(size, n_changes, n_questions) for size in sizes]
    if not options.json:
        show(lines)
    parts = ("inside", "outside", "nearest")
    growth, last_step = (
        {part: round(getattr(lines[-1], part) / getattr(base, part), 2) for part in parts}
        for base in (lines[0], lines[-2])
    )
    result = {"sizes": [asdict(line) for line in lines], "growth": growth, "last_step": last_step}
    print(json.dumps({**result, "equal_boxes": equal_boxes(n_equal)}))


if __name__ == "__main__":
    main()
