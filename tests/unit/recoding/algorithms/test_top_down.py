"""Top-down specialization: nothing could be specialized further, and groups are those of a plain recursion."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.compiled import rules_of
from streamer.privacy.models import AtMostShare, Model, k_anonymity
from streamer.recoding.algorithms.contract import PLAIN
from streamer.recoding.algorithms.top_down import TOP_DOWN, choose, sort_by_part, tree_of, trial_for
from streamer.table.codes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.algorithms_by_hand import chosen_by_hand, said_at
from worlds.microdata import MODELS, VALUES, data_of, holding, microdata, numbers, people, some_model, some_table

# One QI group specialized: along which attribute, and a remainder that takes back what it lacks.

EVERY_MODEL = {**MODELS, "nothing": k_anonymity(1)}


def specialized(data: Microdata, model: Model, members: list[int]) -> tuple[list[int], int, list[list[int]]]:
    """The levels of a group that starts at the tops, the attribute (-1: none), and the parts, the remainder last."""
    rules, tree = rules_of(model, data.subjects(model.subjects)), tree_of(data)
    trial, level, rows = trial_for(rules, tree), tree.n_levels - 1, np.array(members)
    child = np.empty(len(rows), dtype=np.int64)
    j = choose(rules, tree, trial, level, rows, child)
    if j < 0:
        return level.tolist(), j, [members]
    ends = trial.begins[1 : sort_by_part(trial, rows, child)]
    return level.tolist(), j, [part.tolist() for part in np.split(rows, ends)]


@pytest.mark.parametrize("model", EVERY_MODEL.values(), ids=EVERY_MODEL.keys())
@given(data=st.data(), small=some_table)
def test_a_group_amid_others_is_specialized_as_it_is_by_hand(model: Model, data: st.DataObject, small: Table) -> None:
    crowd = data.draw(microdata(small, max_rows=25))
    members = data.draw(st.permutations(range(len(crowd))))[data.draw(st.integers(0, len(crowd) // 4)) :]
    assume(model.holds(crowd.subjects(model.subjects)[members]))
    tops = [attribute.levels.n_levels - 1 for attribute in small.attributes]
    levels, chosen = chosen_by_hand(crowd, model, members, tops)
    if chosen is None:
        assert specialized(crowd, model, members) == (levels, -1, [members])
    else:
        parts = [part for part in (*chosen.children, chosen.remainder) if part]
        assert specialized(crowd, model, members) == (levels, chosen.attribute, parts)


def test_a_remainder_that_does_not_hold_takes_back_what_it_lacks_from_the_largest_child() -> None:
    crowd = numbers([0] * 4 + [4] * 5 + [9])
    assert specialized(crowd, k_anonymity(3), list(range(10)))[2] == [[2, 3, 4, 5, 6, 7, 8], [0, 1, 9]]


def test_children_come_back_whole_where_none_can_spare_what_the_remainder_lacks() -> None:
    crowd = numbers([0] * 3 + [9] * 2)
    tops = [crowd.table.attributes[0].levels.n_levels - 1]
    assert specialized(crowd, k_anonymity(3), list(range(5))) == (tops, -1, [[0, 1, 2, 3, 4]])


LETTERS = people(CategoricalAttribute("letter", Hierarchy.from_rows([[letter, "*"] for letter in "wxyz"]), Decimal(1)))


def test_of_children_of_equal_size_the_later_comes_back_whole() -> None:
    """Of two w, two x and one z, with k = 2: no w can be spared, and no x."""
    crowd = data_of(LETTERS, [(0,), (0,), (1,), (1,), (3,)])
    assert specialized(crowd, k_anonymity(2), list(range(5)))[2] == [[0, 1], [2, 3, 4]]


def test_as_many_children_come_back_as_the_remainder_needs() -> None:
    """Four z of one value, which half of the rows may have: of three children of two values, two come back."""
    crowd = replace(
        data_of(LETTERS, [(letter,) for letter in (0, 0, 1, 1, 2, 2, 3, 3, 3, 3)]),
        values=np.array([1, 2, 1, 2, 1, 2, 0, 0, 0, 0])[:, None],
    )
    model = k_anonymity(2) & Model([AtMostShare(VALUES, Fraction(1, 2))])
    assert specialized(crowd, model, list(range(10)))[2] == [[0, 1], [2, 3, 4, 5, 6, 7, 8, 9]]


@given(data=st.data(), small=some_table, model=some_model)
def test_no_group_could_be_specialized_further_with_all_of_its_children_holding(
    data: st.DataObject, small: Table, model: Model
) -> None:
    rows = data.draw(microdata(small))
    recoding = holding(TOP_DOWN, rows, model)
    subjects = rows.subjects(model.subjects)
    for group in range(recoding.n_groups):
        members = np.flatnonzero(recoding.qi_group == group)
        for j, attribute in enumerate(small.attributes):
            values = [attribute.levels.recode(v, rows.cells[members, j]) for v in range(attribute.levels.n_levels)]
            agreed = [v for v, (lo, _) in enumerate(values) if (lo == lo[0]).all()]
            lo, hi = values[agreed[0]]
            assert (recoding.lo[group, j], recoding.hi[group, j]) == (lo[0], hi[0])
            if agreed[0]:
                children = np.unique(values[agreed[0] - 1][0], return_inverse=True)[1]
                assert not model.holds_by_group(children, int(children.max()) + 1, subjects[members]).all()


@pytest.mark.parametrize("model", EVERY_MODEL.values(), ids=EVERY_MODEL.keys())
@given(data=st.data(), small=some_table)
def test_groups_their_numbers_and_values_are_those_of_a_plain_recursion(
    model: Model, data: st.DataObject, small: Table
) -> None:
    people = data.draw(microdata(small, max_rows=25))
    assume(model.holds(people.subjects(model.subjects)))
    recoding = TOP_DOWN.run(people, model, PLAIN)
    tops = [attribute.levels.n_levels - 1 for attribute in small.attributes]
    expected = by_recursion(people, model, list(range(len(people))), tops)
    assert [np.flatnonzero(recoding.qi_group == g).tolist() for g in range(recoding.n_groups)] == [
        sorted(members) for members, _ in expected
    ]
    for group, (members, levels) in enumerate(expected):
        said = [said_at(people, j, level, members[0]) for j, level in enumerate(levels)]
        assert list(zip(recoding.lo[group].tolist(), recoding.hi[group].tolist(), strict=True)) == said


def by_recursion(
    data: Microdata, model: Model, members: list[int], levels: list[int]
) -> list[tuple[list[int], list[int]]]:
    """The QI groups that `members` end in, with their levels, in the order of their numbers."""
    levels, chosen = chosen_by_hand(data, model, members, levels)
    if chosen is None:
        return [(members, levels)]
    lower = [level - (i == chosen.attribute) for i, level in enumerate(levels)]
    parts = [*((child, lower) for child in chosen.children), (chosen.remainder, levels)]
    return [end for part, at in parts if part for end in by_recursion(data, model, part, at)]
