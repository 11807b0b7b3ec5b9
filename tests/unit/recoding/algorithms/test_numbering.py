"""The numbers of QI groups: by their boxes, and where these are equal by chance."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.recoding.algorithms.numbering import merged_by_box, numbered
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.table.microdata import Microdata
from worlds.microdata import TABLES, boxes, microdata


@st.composite
def recodings(draw: st.DrawFn) -> Recoding:
    data: Microdata = draw(microdata(draw(st.sampled_from(list(TABLES.values())))))
    group = draw(st.lists(st.integers(-1, 6), min_size=len(data), max_size=len(data)))
    return local_recoding(data, np.array(group, dtype=np.int64), rounds=3)


def box_of_rows(recoding: Recoding) -> list[tuple[list[int], list[int]] | None]:
    ends = list(zip(recoding.lo.tolist(), recoding.hi.tolist(), strict=True))
    return [None if group < 0 else ends[group] for group in recoding.qi_group.tolist()]


@given(recoding=recodings(), seed=st.integers(0, 99))
def test_numbering_changes_numbers_only_and_puts_them_in_the_order_of_the_boxes(recoding: Recoding, seed: int) -> None:
    found = numbered(recoding, np.random.default_rng(seed))
    assert box_of_rows(found) == box_of_rows(recoding)
    assert boxes(found) == boxes(recoding)
    pairs = set(zip(recoding.qi_group.tolist(), found.qi_group.tolist(), strict=True))
    assert len(pairs) == len({before for before, _ in pairs}) == len({after for _, after in pairs})
    ends = np.concatenate([found.lo, found.hi], axis=1).tolist()
    assert ends == sorted(ends)
    assert found.details == {"rounds": 3}


def test_groups_of_one_box_have_every_order_equally_often() -> None:
    box = np.array([[0], [0], [0], [5]])
    recoding = Recoding(np.array([0, 1, 2, 3, -1]), box, box + 1)
    n = 6_000
    found = Counter(tuple(numbered(recoding, np.random.default_rng(seed)).qi_group.tolist()) for seed in range(n))
    assert {order[3:] for order in found} == {(3, -1)}
    assert len(found) == 6
    assert all(abs(count - n / 6) < 5 * (n * 5 / 36) ** 0.5 for count in found.values())


@given(recoding=recodings())
def test_merging_leaves_every_box_once_and_every_row_in_its_box(recoding: Recoding) -> None:
    found = merged_by_box(recoding)
    assert box_of_rows(found) == box_of_rows(recoding)
    ends = np.concatenate([found.lo, found.hi], axis=1)
    assert len(np.unique(ends, axis=0)) == found.n_groups
    assert (found.sizes > 0).all()
