"""Top-down specialization: nothing could be specialized further, and a remainder takes back what it lacks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import (
    Model,
    k_anonymity,
)
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import PLAIN
from streamer.recoding.algorithms.top_down import TOP_DOWN
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from streamer.table.space import Space
from streamer.telling import silent
from worlds.kd import numbers
from worlds.microdata import MODELS, TABLES, boxes, holding, microdata
from worlds.models_by_hand import lacking, obeys

some_table = st.sampled_from(list(TABLES.values()))


some_model = st.sampled_from(list(MODELS.values()))


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


EVERY_MODEL = {**MODELS, "nothing": k_anonymity(1)}


@pytest.mark.parametrize("model", EVERY_MODEL.values(), ids=EVERY_MODEL.keys())
@given(data=st.data(), small=some_table)
def test_groups_their_numbers_and_values_are_those_of_a_plain_recursion(
    model: Model, data: st.DataObject, small: Table
) -> None:
    people = data.draw(microdata(small, max_rows=25))
    assume(model.holds(people.subjects(model.subjects)))
    recoding = TOP_DOWN.run(people, model, PLAIN, silent)
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
    """The head of the module, word by word: the QI groups that `members` end in, with their levels."""
    levels = list(levels)
    for j in range(len(levels)):
        while levels[j] > 0 and len({said_at(data, j, levels[j] - 1, i) for i in members}) == 1:
            levels[j] -= 1
    most, best = 0.0, None
    for j in range(len(levels)):
        if levels[j] > 0:
            children, remainder = specialized(data, model, members, j, levels[j] - 1)
            fall = sum(len(c) * fall_of_ncp(data, j, levels[j], c[0]) for c in children if c)
            if fall > most:
                most, best = fall, (j, children, remainder)
    if best is None:
        return [(members, levels)]
    j, children, remainder = best
    lower = [level - (i == j) for i, level in enumerate(levels)]
    parts = [*((child, lower) for child in children), (remainder, levels)]
    return [end for part, at in parts if part for end in by_recursion(data, model, part, at)]


def said_at(data: Microdata, j: int, level: int, row: int) -> tuple[int, int]:
    """What an attribute says of a row at a level: its first cell and its last."""
    lo, hi = data.table.attributes[j].levels.recode(level, data.cells[[row], j])
    return int(lo[0]), int(hi[0])


def fall_of_ncp(data: Microdata, j: int, level: int, row: int) -> float:
    """By how much a row's NCP falls when attribute j goes one level down from `level`."""
    axis = Space([data.table.attributes[j].axis])
    above, below = (axis.ncp(*np.array(said_at(data, j, at, row)).reshape(2, 1, 1))[0] for at in (level, level - 1))
    return float(above - below)


def specialized(
    data: Microdata, model: Model, members: list[int], j: int, level: int
) -> tuple[list[list[int]], list[int]]:
    """The children by first row, and the remainder after it has taken back what it lacks."""
    subjects = data.subjects(model.subjects)
    by_value: dict[tuple[int, int], list[int]] = {}
    for i in members:
        by_value.setdefault(said_at(data, j, level, i), []).append(i)
    children = list(by_value.values())
    sizes, stands = [len(c) for c in children], [obeys(model, subjects[c]) for c in children]
    remainder = [i for c, stood in zip(children, stands, strict=True) if not stood for i in c]
    children = [c if stood else [] for c, stood in zip(children, stands, strict=True)]
    if not any(stands) or not remainder:
        return children, sorted(remainder, key=members.index)
    for c in sorted(range(len(children)), key=lambda c: (-sizes[c], c)):
        for i in list(children[c]):
            missing = lacking(model, subjects[remainder])
            without = [other for other in children[c] if other != i]
            if missing and lacking(model, subjects[[*remainder, i]]) < missing and obeys(model, subjects[without]):
                children[c] = without
                remainder.append(i)
    for c in sorted(range(len(children)), key=lambda c: (sizes[c], -c)):
        if stands[c] and lacking(model, subjects[remainder]):
            remainder += children[c]
            children[c] = []
    return children, sorted(remainder, key=members.index)


def test_a_remainder_that_does_not_hold_takes_back_what_it_lacks_from_the_largest_child() -> None:
    recoding = run(TOP_DOWN, numbers([0] * 4 + [4] * 5 + [9]), k_anonymity(3))
    assert boxes(recoding) == [((0,), (7,), 3), ((0,), (9,), 3), ((4,), (4,), 4)]


def test_children_come_back_whole_where_none_can_spare_what_the_remainder_lacks() -> None:
    recoding = run(TOP_DOWN, numbers([0] * 3 + [9] * 2), k_anonymity(3))
    assert boxes(recoding) == [((0,), (9,), 5)]
