"""What every algorithm answers: boxes that hold their rows and can be published; nothing else passes the check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.contract import SUPPRESSED, Recoding, check, local_recoding, smallest_boxes
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import GROUPS, SEVEN, TABLES, microdata, recoded
from worlds.small_tables import CITIES


@given(given=recoded())
def test_a_box_is_the_smallest_publishable_one_around_the_rows_of_its_group(given: tuple[Microdata, Recoding]) -> None:
    data, recoding = given
    for group in range(recoding.n_groups):
        lo, hi = data.space.box_of_cells(data.cells[recoding.qi_group == group])
        assert (recoding.lo[group] == lo).all()
        assert (recoding.hi[group] == hi).all()


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())))
def test_gaps_in_numbers_are_closed_and_no_row_changes_its_group(data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    given_numbers = data.draw(st.lists(st.sampled_from([-1, 0, 3, 99]), min_size=len(people), max_size=len(people)))
    recoding = local_recoding(people, np.array(given_numbers))
    assert set(recoding.qi_group.tolist()) - {SUPPRESSED} == set(range(recoding.n_groups))
    together = set(zip(given_numbers, recoding.qi_group.tolist(), strict=True))
    assert len(together) == len({one for one, _ in together}) == len({other for _, other in together})


def test_suppressed_rows_are_in_no_group_and_counted() -> None:
    assert (GROUPS.n_groups, GROUPS.sizes.tolist(), GROUPS.n_suppressed) == (2, [3, 3], 1)


def test_what_an_algorithm_says_of_its_work_goes_with_its_answer() -> None:
    assert local_recoding(SEVEN, np.zeros(7, dtype=np.int64), cuts=4).details == {"cuts": 4}


def test_nothing_published_is_no_groups_and_no_boxes() -> None:
    nothing = local_recoding(SEVEN, np.full(7, SUPPRESSED))
    assert (nothing.n_groups, nothing.lo.shape, nothing.n_suppressed) == (0, (0, 2), 7)
    check(SEVEN, k_anonymity(3), nothing)


def test_a_category_grows_to_the_node_that_covers_its_leaves() -> None:
    cells = np.array([[0, CITIES.code_of["a1"]], [4, CITIES.code_of["b1"]]])
    lo, hi = smallest_boxes(SEVEN.space, cells, np.array([0, 0]), 1)
    assert CITIES.label(int(lo[0, 1]), int(hi[0, 1])) == "west"


# -- laws, each broken by hand ----------------------------------------------------------------------------------------


def test_a_lawful_answer_passes() -> None:
    check(SEVEN, k_anonymity(3), GROUPS)


def _moved(numbers: list[int]) -> Recoding:
    return replace(GROUPS, qi_group=np.array(numbers))


def _with_city(lo: int, hi: int) -> Recoding:
    """Group 1 publishes these leaves."""
    return replace(
        GROUPS, lo=np.array([GROUPS.lo[0], [GROUPS.lo[1, 0], lo]]), hi=np.array([GROUPS.hi[0], [GROUPS.hi[1, 0], hi]])
    )


BROKEN: dict[str, tuple[Callable[[], Recoding], int, str]] = {
    "a row too few": (lambda: _moved([0, 0, 0, 1, 1, 1]), 3, "a row has no QI group that exists"),
    "a group that is not there": (lambda: _moved([0, 0, 0, 1, 1, 1, 2]), 3, "a row has no QI group that exists"),
    "a number below suppressed": (lambda: _moved([0, 0, 0, 1, 1, 1, -2]), 3, "a row has no QI group that exists"),
    "a box too few": (lambda: replace(GROUPS, hi=GROUPS.hi[:1]), 3, "not one box for each"),
    "a row in the wrong box": (lambda: _moved([1, 0, 0, 1, 1, 1, -1]), 3, "outside the box"),
    "a box that is no node": (lambda: _with_city(2, 3), 3, "a category that is no node of its hierarchy"),
    "a group below k": (lambda: GROUPS, 4, "2 of 2 QI groups do not hold the privacy model"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_unlawful_answer_never_leaves_and_the_law_is_named(name: str) -> None:
    forged, k, sentence = BROKEN[name]
    with pytest.raises(LawViolated, match=sentence):
        check(SEVEN, k_anonymity(k), forged())
