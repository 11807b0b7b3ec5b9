"""Where a QI group is cut in two: the allowed cut of least information loss."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.cut import best_cut
from streamer.incremental.groups.lots import lots
from streamer.table.arrays import Ints
from streamer.table.space import Space
from worlds.small_tables import YEARS, table


def halves_of(space: Space, cells: Ints, drawn: list[int], who: list[str] | None, k: int) -> tuple[Ints, Ints]:
    halves = best_cut(space, cells, np.array(drawn), who, k)
    assert halves is not None
    return halves


def test_a_cut_keeps_the_records_of_one_individual_with_one_qi_together() -> None:
    space = table(YEARS).space
    cells = np.array([[1], [1], [1], [1], [1], [1]])
    drawn, who = [1, 3, 6, 4, 5, 7], ["ann", "bob", "ann", "cy", "bob", "dee"]
    lower, upper = halves_of(space, cells, drawn, who, 2)
    assert {who[i] for i in lower} == {"ann", "bob"}
    assert {who[i] for i in upper} == {"cy", "dee"}


def test_no_cut_is_allowed_where_a_half_would_hold_fewer_than_k_individuals() -> None:
    space = table(YEARS).space
    cells = np.array([[1], [2], [3], [4]])
    assert best_cut(space, cells, np.arange(4), ["ann", "ann", "bob", "cy"], 2) is None


@given(data=st.data(), k=st.integers(1, 4))
def test_2k_individuals_can_always_be_cut_however_their_rows_lie(data: st.DataObject, k: int) -> None:
    """So a group that an insertion leaves whole has fewer: nothing is searched in vain at the next one."""
    space = table(YEARS, YEARS).space
    person = st.sampled_from("abcdefghij"[: 2 * k + 2])
    rows = data.draw(st.lists(st.tuples(person, st.integers(0, 2), st.integers(0, 2)), max_size=30))
    rows += [(who, 0, 0) for who in "abcdefghij"[: 2 * k]]
    cells = np.array([row[1:] for row in rows])
    individuals = [who for who, *_ in rows]
    halves = best_cut(space, cells, lots(b"secret", map(str, range(len(rows)))), individuals, k)
    assert halves is not None
    assert all(len({individuals[i] for i in half}) >= k for half in halves)


def test_the_cheapest_cut_wins_over_all_attributes_then_the_earlier_one_then_the_lower_place() -> None:
    space = table(YEARS, YEARS).space
    cells = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
    lower, _ = halves_of(space, cells, [4, 3, 2, 1], None, 2)
    assert sorted(lower.tolist()) == [0, 1]  # both attributes cost the same: the first is cut
    cells = np.array([[0, 0], [5, 0], [4, 9], [9, 9]])
    lower, _ = halves_of(space, cells, [4, 3, 2, 1], None, 2)
    assert sorted(lower.tolist()) == [0, 1]  # along the second attribute: 0, 0 | 9, 9
