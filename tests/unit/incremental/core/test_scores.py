"""Scores are those of the paper's definitions, and no bound of a node is below the score of a group in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from streamer.incremental.core import scores
from streamer.incremental.core.layout import CENTER, HALF_WIDTH, HI, LO, NONE, Shard, empty_shard
from streamer.kernels import boxes
from streamer.kernels.boxes import geometry as arrays_of
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import FINENESS, Axis, Space
from worlds.boxes import SPACES, Box, ShardBoxes, grown, random_box, random_cells, tree_axis
from worlds.native import compiled_now

# The core's figures over boxes are those of the space and the hierarchies, to the last bit.

UNEVEN = Hierarchy.from_rows(
    [(f"{i}", *([f"{i // 3}a"] if i % 4 else []), f"{i // 6}b", f"{i // 12}c", "*") for i in range(36)]
)
WORLDS = {**SPACES, "uneven": Space([tree_axis(UNEVEN), tree_axis(UNEVEN)])}
EVERY_SPACE = pytest.mark.parametrize("name", WORLDS)


@EVERY_SPACE
def test_edges_and_middles_are_those_of_the_space(name: str) -> None:
    space = WORLDS[name]
    arrays, random = arrays_of(space), np.random.default_rng(1)
    for _ in range(30):
        lo, hi = random_box(random, space)
        first, last = space.edges(lo, hi)
        middles = space.middles(lo)
        for j in range(space.d):
            assert boxes.first_edge(arrays, j, int(lo[j])) == first[j]
            assert boxes.last_edge(arrays, j, int(hi[j])) == last[j]
            assert scores.middle(arrays, j, int(lo[j])) == middles[j]


@EVERY_SPACE
def test_the_smallest_node_over_every_run_of_leaves_is_the_hierarchy_s(name: str) -> None:
    space = WORLDS[name]
    arrays = arrays_of(space)
    for j, tree in space.trees:
        for lo in range(tree.n_leaves):
            for hi in range(lo, tree.n_leaves):
                first, last = tree.cover(lo, hi)
                assert boxes.cover(arrays, j, lo, hi) == (first, last)
                assert boxes.leaves_of_cover(arrays, j, lo, hi) == last - first + 1


@EVERY_SPACE
def test_shapes_and_losses_are_those_of_the_space(name: str) -> None:
    space, random = WORLDS[name], np.random.default_rng(2)
    s = empty_shard(space, k=2, recut=True, shrink=True, individuals=False)
    for g in range(100):
        lo, hi = random_box(random, space)
        s.groups.box[g, LO], s.groups.box[g, HI] = lo, hi
        scores.set_shape(s.space, s.groups, g)
        number, (first, last) = ~space.is_category, space.edges(lo, hi)
        center = (first + last) / 2
        half = np.maximum(np.maximum(last - center, center - first), 0.5)
        assert s.groups.shape[g, CENTER][number].tolist() == center[number].tolist()
        assert s.groups.shape[g, HALF_WIDTH][number].tolist() == half[number].tolist()
        assert s.groups.shape[g, CENTER][~number].tolist() == ((lo + hi) / 2)[~number].tolist()
        assert s.groups.shape[g, HALF_WIDTH][~number].tolist() == (hi - lo + 1)[~number].tolist()
        assert s.groups.group[g].ncp == min(space.ncp(lo, hi), space.d + 1)  # what is withheld loses everything once
        cells = random_cells(random, space)
        assert scores.box_contains(s.groups, g, cells) == space.contains(lo, hi, cells)
        assert scores.box_contains(s.groups, g, lo)


def test_compiled_shapes_are_those_of_an_uncompiled_run() -> None:
    space, random = SPACES["mixed"], np.random.default_rng(3)
    plain, fast = (empty_shard(space, k=2, recut=True, shrink=True, individuals=False) for _ in range(2))
    compiled = compiled_now(scores.set_shape)
    for g in range(100):
        lo, hi = random_box(random, space)
        for s in (plain, fast):
            s.groups.box[g, LO], s.groups.box[g, HI] = lo, hi
        scores.set_shape(plain.space, plain.groups, g)
        compiled(fast.space, fast.groups, g)
    assert fast.groups.shape.tolist() == plain.groups.shape.tolist()
    assert fast.groups.group.ncp.tolist() == plain.groups.group.ncp.tolist()


EVERY_PLAIN_SPACE = pytest.mark.parametrize("name", SPACES)


def bounds_above(world: ShardBoxes, g: int, score: Callable[[Shard, int], None]) -> list[float]:
    """What is said of g in its leaf, and of the nodes it is in by those above them."""
    bounds, child, node = [], g, int(world.s.groups.group[g].node)
    while node != NONE:
        score(world.s, node)
        children = world.s.tree.child[node, : world.s.tree.node[node].n].tolist()
        bounds.append(float(world.s.work.bounds[children.index(child)]))
        child, node = node, int(world.s.tree.node[node].parent)
    return bounds


@EVERY_PLAIN_SPACE
def test_t_qgssd_is_the_paper_s_and_no_bound_is_below_it(name: str) -> None:
    world, random = grown(name, 80, seed=8)
    for _ in range(8):
        cells = random_cells(random, world.space)
        scores.set_query_tuple(world.s, cells)
        for number, g in world.indexes.items():
            score, *bounds = bounds_above(world, g, scores.t_qgssd_of_children)
            assert score == world.twin.t_qgssd(cells.tolist(), number)
            assert all(bound >= score for bound in bounds)


@EVERY_PLAIN_SPACE
def test_qgssd_is_the_paper_s_and_no_bound_is_below_it(name: str) -> None:
    world, random = grown(name, 80, seed=8)
    s = world.s
    for one in random.choice(sorted(world.indexes), 8).tolist():
        scores.set_query_group(s, world.indexes[one])
        for other, h in world.indexes.items():
            if one != other:
                score, *bounds = bounds_above(world, h, scores.qgssd_of_children)
                assert score == world.twin.qgssd(one, other)
                assert scores.qgssd_from(s.space, s.groups, world.indexes[one], h) == score
                assert all(bound >= score for bound in bounds)


# -- by hand: the golden numbers, and where the paper is silent -------------------------------------------------------

AGE = Axis(codes_per_cell=5, n_cells=24, closed=True, width_codes=119.0, unit_codes=1.0, hierarchy=None)
ZIP = Axis(codes_per_cell=5, n_cells=20, closed=True, width_codes=98.0, unit_codes=1.0, hierarchy=None)


def world_of(space: Space, *boxes: Box) -> ShardBoxes:
    """QI groups with these boxes, numbered from 1."""
    world = ShardBoxes(space)
    for number, (lo, hi) in enumerate(boxes, start=1):
        world.put(number, lo, hi, 2)
    return world


def t_qgssd(world: ShardBoxes, cells: list[int], at: list[float] | None = None) -> list[float]:
    """Of the tuple in these cells to every QI group; at: where it stands, if not in the middle of its cells."""
    scores.set_query_tuple(world.s, np.array(cells, dtype=np.int32))
    if at is not None:
        world.s.work.query_center[:] = at
    return [bounds_above(world, g, scores.t_qgssd_of_children)[0] for g in world.indexes.values()]


def qgssd(world: ShardBoxes, one: int, other: int) -> float:
    return float(scores.qgssd_from(world.s.space, world.s.groups, world.indexes[one], world.indexes[other]))


def golden() -> ShardBoxes:
    """The QI groups of table 1(b): years and thousands, in cells of five."""
    return world_of(Space([AGE, ZIP]), ([4, 2], [4, 3]), ([8, 4], [9, 5]), ([10, 10], [10, 11]))


@pytest.mark.parametrize(
    ("age", "thousands", "expected"),
    [
        (21, 12, (2.0, 0.517007, None)),
        (24, 17, (2.0, None, None)),
        (55, 62, (0.159274, 0.596972, 1.692308)),
    ],
)
def test_t_qgssd_has_the_golden_numbers(age: int, thousands: int, expected: tuple[float | None, ...]) -> None:
    """Of tuples that stand where they are, not in the middle of their cells."""
    cells, at = [(age - 1) // 5, (thousands - 1) // 5], [age - 1.0, thousands - 1.0]
    for score, degree in zip(t_qgssd(golden(), cells, at), expected, strict=True):
        assert degree is None or round(score, 6) == degree


@pytest.mark.parametrize(("one", "other", "degree"), [(1, 2, 0.144444), (1, 3, 0.058333), (2, 3, 0.166667)])
def test_qgssd_has_the_golden_numbers(one: int, other: int, degree: float) -> None:
    assert round(qgssd(golden(), one, other), 6) == round(qgssd(golden(), other, one), 6) == degree


@pytest.mark.parametrize("cells", [7 / 3, 1.0, 99_999.7 / 0.3])
def test_a_decimal_inside_the_box_scores_exactly_one_up_to_the_clipped_edge(cells: float) -> None:
    n_cells = int(np.ceil(cells))
    for lo in {0, n_cells // 2, n_cells - 1}:
        world = world_of(Space([Axis(FINENESS, n_cells, False, cells * FINENESS, 1.0, None)]), ([lo], [n_cells - 1]))
        assert [t_qgssd(world, [cell])[0] for cell in (lo, n_cells - 1)] == [1.0, 1.0]
