"""The similarities attribute by attribute: the definitions' own terms, and the sums that the core decides by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.similarity_terms import qgssd_terms, t_qgssd_terms
from streamer.table.space import Space, in_order
from worlds.published_groups import SONG
from worlds.scanned_boxes import SPACES, Twin, boxes, tuples

QG1, QG2, QG3 = ((4, 2), (4, 3)), ((8, 4), (9, 5)), ((10, 10), (10, 11))
GROUPS = [QG1, QG2, QG3]


def test_the_papers_numbers_of_a_tuple_and_a_group() -> None:
    """(55, 62000): example 8. The paper measures zips; here the middles of cells, which are 2000 further on."""
    lo, hi = (np.array([group[side] for group in GROUPS]) for side in (0, 1))
    terms = t_qgssd_terms(SONG.space, np.array([10, 12]), lo, hi)
    assert terms[2].tolist() == [1.0, pytest.approx(4.5 / 7.5)]
    assert terms[0][0] == pytest.approx(2 / 30)


def test_the_papers_numbers_of_two_groups() -> None:
    lo, hi = (np.array([group[side] for group in GROUPS]) for side in (0, 1))
    terms = qgssd_terms(SONG.space, np.array(QG1[0]), np.array(QG1[1]), lo, hi)
    assert terms[1].tolist() == [pytest.approx(0.044444, abs=1e-6), pytest.approx(0.1)]
    assert terms[2].tolist() == [pytest.approx(0.033333, abs=1e-6), pytest.approx(0.025)]


@given(data=st.data(), space=st.sampled_from(list(SPACES.values())))
def test_their_sums_are_the_scores_of_a_scan_to_the_last_bit(data: st.DataObject, space: Space) -> None:
    some = data.draw(st.lists(boxes(space), min_size=1, max_size=6))
    cells, twin = data.draw(tuples(space)), Twin(space)
    twin.groups = {number: (lo, hi, 1) for number, (lo, hi) in enumerate(some)}
    lo, hi = np.array([one[0] for one in some]), np.array([one[1] for one in some])
    rows = t_qgssd_terms(space, np.array(cells), lo, hi)
    assert in_order(rows).tolist() == pytest.approx([twin.t_qgssd(cells, number) for number in twin.groups], rel=1e-15)
    groups = qgssd_terms(space, lo[0], hi[0], lo, hi)
    assert in_order(groups).tolist() == [twin.qgssd(0, number) for number in twin.groups]
