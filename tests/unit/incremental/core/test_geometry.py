"""The core's figures over boxes are those of the space and the hierarchies, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.core import geometry
from streamer.incremental.core.layout import empty_shard
from streamer.incremental.core.layout import geometry as arrays_of
from streamer.incremental.core.record_types import CENTER, HALF_WIDTH, HI, LO
from streamer.jit import entry
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Space
from worlds.scanned_boxes import SPACES, random_box, random_cells, tree_axis

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
            assert geometry.first_edge(arrays, j, int(lo[j])) == first[j]
            assert geometry.last_edge(arrays, j, int(hi[j])) == last[j]
            assert geometry.middle(arrays, j, int(lo[j])) == middles[j]


@EVERY_SPACE
def test_the_smallest_node_over_every_run_of_leaves_is_the_hierarchy_s(name: str) -> None:
    space = WORLDS[name]
    arrays = arrays_of(space)
    for j, tree in space.trees:
        for lo in range(tree.n_leaves):
            for hi in range(lo, tree.n_leaves):
                first, last = tree.cover(lo, hi)
                assert geometry.cover(arrays, j, lo, hi) == (first, last)
                assert geometry.leaves_of_cover(arrays, j, lo, hi) == last - first + 1


@EVERY_SPACE
def test_shapes_and_losses_are_those_of_the_space(name: str) -> None:
    space, random = WORLDS[name], np.random.default_rng(2)
    s = empty_shard(space, k=2, recut=True, shrink=True, individuals=False)
    for g in range(100):
        lo, hi = random_box(random, space)
        s.groups.box[g, LO], s.groups.box[g, HI] = lo, hi
        geometry.take_shape(s.space, s.groups, g)
        number, (first, last) = ~space.is_category, space.edges(lo, hi)
        center = (first + last) / 2
        half = np.maximum(np.maximum(last - center, center - first), 0.5)
        assert s.groups.shape[g, CENTER][number].tolist() == center[number].tolist()
        assert s.groups.shape[g, HALF_WIDTH][number].tolist() == half[number].tolist()
        assert s.groups.shape[g, CENTER][~number].tolist() == ((lo + hi) / 2)[~number].tolist()
        assert s.groups.shape[g, HALF_WIDTH][~number].tolist() == (hi - lo + 1)[~number].tolist()
        assert s.groups.group[g].ncp == space.ncp(lo, hi)
        cells = random_cells(random, space)
        assert geometry.box_contains(s.groups, g, cells) == space.contains(lo, hi, cells)
        assert geometry.box_contains(s.groups, g, lo)


def test_compiled_shapes_are_those_of_an_uncompiled_run() -> None:
    space, random = SPACES["mixed"], np.random.default_rng(3)
    plain, fast = (empty_shard(space, k=2, recut=True, shrink=True, individuals=False) for _ in range(2))
    take = entry(geometry.take_shape)
    for g in range(100):
        lo, hi = random_box(random, space)
        for s in (plain, fast):
            s.groups.box[g, LO], s.groups.box[g, HI] = lo, hi
        geometry.take_shape(plain.space, plain.groups, g)
        take(fast.space, fast.groups, g)
    assert fast.groups.shape.tolist() == plain.groups.shape.tolist()
    assert fast.groups.group.ncp.tolist() == plain.groups.group.ncp.tolist()
