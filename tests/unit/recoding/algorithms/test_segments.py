"""The best segments of an order, against all segmentations of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.segments import best_segments
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, TABLES, microdata

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


def loss(data: Microdata, rows: np.ndarray) -> float:
    return len(rows) * float(data.space.ncp(*data.space.box_of_cells(data.cells[rows])))


def all_segmentations(n: int) -> list[list[int]]:
    """Every way to cut n positions into runs: where each begins, and n."""
    return [[0, *(i for i in range(1, n) if chosen >> i & 1), n] for chosen in range(0, 1 << n, 2)]


@given(data=st.data(), small=some_table, k=st.integers(1, 4), seed=st.integers(0, 99))
def test_under_k_anonymity_no_segmentation_of_the_order_loses_less(
    data: st.DataObject, small: Table, k: int, seed: int
) -> None:
    people = data.draw(microdata(small, max_rows=9))
    assume(len(people) >= k)
    rows, task = task_of(people, k_anonymity(k))
    bundles = task.bundles
    order = np.random.default_rng(seed).permutation(len(bundles.begin))
    along = [rows[bundles.begin[bundle] : bundles.end[bundle]] for bundle in order]
    found, segment = best_segments(task, order, whole(order), np.inf)
    ways = [[np.concatenate(along[a:b]) for a, b in pairwise(positions)] for positions in all_segmentations(len(order))]
    least = min(sum(loss(people, run) for run in way) for way in ways if min(map(len, way)) >= k)
    assert found == pytest.approx(least)
    cut = [
        np.concatenate([along[position] for position in np.flatnonzero(segment == i)]) for i in range(segment[-1] + 1)
    ]
    assert sum(loss(people, members) for members in cut) == pytest.approx(found)


def whole(order: np.ndarray) -> np.ndarray:
    """One tile: the whole order."""
    tile = np.zeros(len(order), dtype=np.int64)
    tile[0] = len(order)
    return tile


@every_model
@given(data=st.data(), small=some_table)
def test_every_segment_holds_and_they_lose_no_more_than_the_tiles(
    model: Model, data: st.DataObject, small: Table
) -> None:
    people = data.draw(microdata(small))
    assume(model.holds(people.subjects(model.subjects)))
    rows, task = task_of(people, model)
    bundles, subjects = task.bundles, people.subjects(model.subjects)
    order, tile = order_of(task, 0)
    found, segment = best_segments(task, order, tile, np.inf)
    assert (np.diff(segment, prepend=0) >= 0).all()
    along = [rows[bundles.begin[bundle] : bundles.end[bundle]] for bundle in order]
    for i in range(segment[-1] + 1):
        assert model.holds(subjects[np.concatenate([along[position] for position in np.flatnonzero(segment == i)])])
    tiles = [np.concatenate(along[begin : tile[begin]]) for begin in np.flatnonzero(tile)]
    assert found <= sum(loss(people, members) for members in tiles) + 1e-9
    again, same = best_segments(task, order, tile, found + 1e-9)
    assert (again, same.tolist()) == (found, segment.tolist())
    assert best_segments(task, order, tile, found)[0] == np.inf
