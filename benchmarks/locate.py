"""What it costs to find the QI group of a tuple, at 1 thousand to 65 thousand groups, beside a flat scan.

Eight attributes, half of them categories with hierarchies. Tuples come from a Gaussian mixture of 40 centers; the QI
groups are those of a Median Mondrian over a sample, changed 50,000 times after that: tuples join and widen the box they
are located in, boxes shrink to what they were at first, groups go and others come. Everything is seeded.

    python benchmarks/locate.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

from streamer.incremental.groups.index import GroupIndex
from streamer.incremental.groups.similarity import Similarity
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.mondrian import median_tree
from streamer.table.arrays import Floats, Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Axis, Space

K = 5
CENTERS = 40
SIZES, CHANGES, QUESTIONS = (1_000, 8_000, 65_000), 50_000, 4_000
QUICK_SIZES, QUICK_CHANGES, QUICK_QUESTIONS = (200, 1_000), 1_000, 200
SCANS = 200


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


@dataclass
class World:
    """An index with its QI groups as they were formed and as they are now, and where new tuples come from."""

    space: Space
    index: GroupIndex
    draw: Callable[[int], Ints]
    random: np.random.Generator
    formed: dict[int, tuple[Ints, Ints]] = field(default_factory=dict)
    now: dict[int, tuple[Ints, Ints, int]] = field(default_factory=dict)
    next_number: int = 1

    def insert(self, codes: Ints) -> None:
        """A new QI group around tuples (n, d)."""
        lo, hi = self.space.box_of_cells(self.space.cells(codes))
        self.formed[self.next_number] = lo, hi
        self.put(self.next_number, lo, hi, len(codes))
        self.next_number += 1

    def put(self, number: int, lo: Ints, hi: Ints, members: int) -> float:
        """A new QI group or a changed box; the seconds that the index spent on it."""
        start = time.perf_counter()
        self.index.put(number, lo, hi, members)
        spent = time.perf_counter() - start
        self.now[number] = lo, hi, members
        return spent


def world_of(n_groups: int) -> World:
    """About n_groups QI groups of a Median Mondrian over tuples of the mixture."""
    space, random = adult_like_space(), np.random.default_rng(n_groups)
    world = World(space, GroupIndex(space), mixture(space, np.random.default_rng(1)), random)
    codes = world.draw(int(n_groups * 1.4 * K))
    nobody = np.empty((len(codes), 0), dtype=np.int64)
    layout, leaves = median_tree(space, space.cells(codes), k_anonymity(K), nobody)
    for members in np.split(layout.rows, leaves.begins[1 : leaves.n[0]]):
        world.insert(codes[members])
    return world


def change(world: World, n_changes: int) -> float:
    """Changes boxes as an engine does; returns the seconds spent in the index's upkeep.

    A tenth: a QI group goes and another comes. Else a tuple joins; with a quarter of the boxes widened so, the one that
    was widened first shrinks to what it was.
    """
    index, random = world.index, world.random
    numbers = list(world.formed)
    widened: deque[int] = deque()
    spent = 0.0
    for codes, chance in zip(world.draw(n_changes), random.random(n_changes), strict=True):
        if chance < 0.1:
            spent += replace(world, numbers)
        elif len(widened) < len(numbers) / 4:
            number = index.locate(codes)
            widened.append(number)
            spent += join(world, number, codes)
        elif (number := widened.popleft()) in world.formed:
            spent += world.put(number, *world.formed[number], K)
    return spent


def join(world: World, number: int, codes: Ints) -> float:
    """A tuple joins a QI group; seconds."""
    cells, (lo, hi, members) = world.space.cells(codes), world.now[number]
    return world.put(number, *world.space.generalize(np.minimum(lo, cells), np.maximum(hi, cells)), members + 1)


def replace(world: World, numbers: list[int]) -> float:
    """A QI group goes, one of much the same box comes; seconds for one of both."""
    at, moved = int(world.random.integers(len(numbers))), int(world.random.integers(3))
    space, fresh = world.space, world.next_number
    lo, hi = (np.where(space.is_category, end, end + moved) for end in world.formed.pop(numbers[at]))
    box = np.minimum(lo, space.n_cells - 1), np.minimum(hi, space.n_cells - 1)
    start = time.perf_counter()
    world.index.remove(numbers[at])
    spent = time.perf_counter() - start + world.put(fresh, *box, K)
    del world.now[numbers[at]]
    numbers[at], world.formed[fresh], world.next_number = fresh, box, fresh + 1
    return spent / 2


class FlatScan:
    """The same questions answered by looking at every QI group: what the index is measured against."""

    def __init__(self, world: World) -> None:
        self.space = world.space
        self.numbers = np.array(sorted(world.formed))
        lo, hi, members = zip(*(world.now[number] for number in self.numbers.tolist()), strict=True)
        self.lo, self.hi, self.members = np.array(lo), np.array(hi), np.array(members)
        self.similarity = Similarity(self.space)
        self.shapes = self.similarity.shapes(self.lo, self.hi)
        self.ncp = self.space.ncp(self.lo, self.hi)

    def contains(self, codes: Ints) -> bool:
        """Whether any box contains the tuple."""
        return bool(self.space.contains(self.lo, self.hi, self.space.cells(codes)).any())

    def locate(self, codes: Ints) -> int:
        """What GroupIndex.locate must answer."""
        best = self.space.contains(self.lo, self.hi, self.space.cells(codes))
        if not best.any():
            scores = self.similarity.t_qgssd(codes, self.shapes)
            best = scores == scores.max()
        for column in (self.ncp, self.members, self.numbers):
            best = best & (column == column[best].min())
        return int(self.numbers[best][0])


@dataclass(frozen=True)
class Figures:
    """One line of the table; times in microseconds per call."""

    qi_groups: int
    locate: float
    inside: float  # locate, for tuples that lie in some box
    outside: float  # locate, for the others
    outside_share: float
    flat_scan: float
    times_faster: float
    nearest: float
    upkeep: float


def measured(n_groups: int, n_changes: int, n_questions: int) -> Figures:
    """Builds, changes, asks, and compares with the scan's answers."""
    world = world_of(n_groups)
    upkeep = change(world, n_changes) / n_changes
    scan, index = FlatScan(world), world.index
    questions = list(world.draw(n_questions))
    if any(index.locate(codes) != scan.locate(codes) for codes in questions[:SCANS]):
        raise SystemExit("the index and the scan do not agree")
    outside = np.array([not scan.contains(codes) for codes in questions])
    times = seconds(index.locate, questions)
    scans = seconds(scan.locate, questions[:SCANS])
    nearest = seconds(index.nearest, world.random.choice(scan.numbers, min(n_questions, 1000)).tolist())
    return Figures(
        qi_groups=len(index),
        locate=micro(times.mean()),
        inside=micro(times[~outside].mean()),
        outside=micro(times[outside].mean()),
        outside_share=round(float(outside.mean()), 4),
        flat_scan=micro(scans.mean()),
        times_faster=round(float(scans.mean() / times.mean()), 1),
        nearest=micro(nearest.mean()),
        upkeep=micro(upkeep),
    )


def seconds(call: Callable[..., object], arguments: Sequence[object]) -> Floats:
    """How long each call takes: the best of three rounds over all, so that other programs do not count."""
    rounds = np.empty((3, len(arguments)))
    for times in rounds:
        for i, argument in enumerate(arguments):
            start = time.perf_counter()
            call(argument)
            times[i] = time.perf_counter() - start
    return rounds.min(axis=0)


def micro(value: float) -> float:
    """Seconds as microseconds, to a tenth."""
    return round(float(value) * 1e6, 1)


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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke test")
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    options = parser.parse_args()
    sizes, n_changes, n_questions = (
        (QUICK_SIZES, QUICK_CHANGES, QUICK_QUESTIONS) if options.quick else (SIZES, CHANGES, QUESTIONS)
    )
    lines = [measured(size, n_changes, n_questions) for size in sizes]
    if not options.json:
        show(lines)
    growth = {
        part: round(getattr(lines[-1], part) / getattr(lines[0], part), 2) for part in ("locate", "inside", "outside")
    }
    print(json.dumps({"sizes": [asdict(line) for line in lines], "growth": growth}))


if __name__ == "__main__":
    main()
