"""Clusters that fail the model join others, the smallest first, where the least is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.cluster_repair import losses_of, merged, term
from streamer.table.microdata import Microdata
from streamer.table.schema import NumericAttribute, Table
from worlds.microdata import (
    TABLES,
    canonical_form,
    microdata,
    unlike,
)

some_table = st.sampled_from(list(TABLES.values()))


def losses_by_hand(data: Microdata, rows: list[int]) -> list[float]:
    """Equation 6 for one class, attribute by attribute, climbing the trees."""
    lo, hi = data.cells[rows].min(axis=0), data.cells[rows].max(axis=0)
    widths = data.space.ncp_terms(lo, hi).tolist()
    for j, tree in data.space.trees:
        widths[j] = float(unlike(tree, int(lo[j]), int(hi[j])))
    return widths


def rise_by_hand(data: Microdata, one: list[int], other: list[int]) -> float:
    """Equations 3 to 5: by how much two classes lose more as one."""
    parts = zip(*(losses_by_hand(data, rows) for rows in (one + other, one, other)), strict=True)
    return sum(len(one) * (both - a) + len(other) * (both - b) for both, a, b in parts)


@given(data=st.data(), small=some_table)
def test_the_smallest_cluster_that_fails_joins_the_one_with_least_loss(data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small, max_rows=14))
    people = canonical_form(people)
    if len(people) < 3:
        return
    start = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=len(people), max_size=len(people))))
    found, n_merges = merged(people, k_anonymity(3), start)
    expected = merged_by_hand(people, 3, start.tolist())
    assert {frozenset(np.flatnonzero(found == c).tolist()) for c in set(found.tolist())} == expected
    assert n_merges >= 0


def merged_by_hand(people: Microdata, k: int, start: list[int]) -> set[frozenset[int]]:
    numbers, alone = [], max(start) + 1
    for c in start:
        numbers.append(alone if c < 0 else c)
        alone += c < 0
    clusters = {c: [i for i, d in enumerate(numbers) if d == c] for c in sorted(set(numbers))}
    while True:
        failing = [c for c, rows in clusters.items() if len(rows) < k]
        if not failing or len(clusters) == 1:
            return {frozenset(rows) for rows in clusters.values()}
        c = min(failing, key=lambda c: (len(clusters[c]), c))
        rows = clusters.pop(c)
        o = min(clusters, key=lambda o: (rise_by_hand(people, rows, clusters[o]), o))
        clusters[o] = clusters[o] + rows


@given(data=st.data(), small=some_table)
def test_an_attributes_loss_is_its_height_or_its_width(data: st.DataObject, small: Table) -> None:
    losses = losses_of(small.space)
    for j, attribute in enumerate(small.attributes):
        lo, hi = sorted(data.draw(st.tuples(*[st.integers(0, attribute.axis.n_cells - 1)] * 2)))
        if isinstance(attribute, NumericAttribute):
            box = np.zeros((2, small.space.d), dtype=np.int64)
            box[0, j], box[1, j] = lo, hi
            assert term(losses, j, lo, hi) == small.space.ncp_terms(*box)[j]
        else:
            assert term(losses, j, lo, hi) == float(unlike(attribute.hierarchy, lo, hi))
