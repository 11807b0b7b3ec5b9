"""Top-down specialization: nothing could be specialized further, and groups are those of a plain recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.contract import PLAIN
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.algorithms_by_hand import chosen_by_hand, said_at
from worlds.microdata import MODELS, holding, microdata, some_model, some_table

# One QI group specialized: along which attribute, and a remainder that takes back what it lacks.

EVERY_MODEL = {**MODELS, "nothing": k_anonymity(1)}


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
