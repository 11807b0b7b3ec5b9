"""The rows that `ordered` leaves out: at most as many as allowed, those that lower the loss of the others most."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.catalog import ALGORITHMS, run
from streamer.recoding.algorithms.contract import STAYING, Options
from streamer.recoding.algorithms.group_index import loss_of
from streamer.recoding.algorithms.suppression import left_out
from streamer.recoding.metrics.utility import gcp
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import FEWER, assert_laws, every_model, holding, microdata, numbers, some_table

ORDERED = ALGORITHMS["ordered"]


Groups = list[list[int]]


def some_people(data: st.DataObject, model: Model, small: Table) -> tuple[Microdata, Ints, Task, Ints]:
    """People who hold the model together, their numbers in the order of the task's rows, the task, and its subjects."""
    people = data.draw(microdata(small, max_rows=25))
    subjects = people.subjects(model.subjects)
    assume(model.holds(subjects))
    rows, task = task_of(people, model)
    return people, rows, task, subjects[rows]


def rows_in(task: Task, members: list[int]) -> list[int]:
    return [row for one in members for row in range(task.bundles.begin[one], task.bundles.end[one])]


def lost(task: Task, groups: Groups) -> float:
    return sum(loss_of(task, np.array(members)) for members in groups if members)


Ways = list[tuple[float, list[int]]]


def one_leaves(task: Task, members: list[int], model: Model, subjects: Ints, room: int) -> Ways:
    """What each row left out saves, and who: a member without which the group holds, or all of them."""
    ways = [members]
    for one in members:
        others = rows_in(task, [other for other in members if other != one])
        if len(others) >= task.rows_min and model.holds(subjects[others]):
            ways.append([one])
    loss, found = lost(task, [members]), Ways()
    for way in ways:
        rest, rows = [one for one in members if one not in way], len(rows_in(task, way))
        if rows <= room:
            found.append(((loss - lost(task, [rest])) / rows, way))
    return found


@every_model
@FEWER
@given(data=st.data(), small=some_table, room=st.integers(0, 12))
def test_of_one_group_the_member_that_saves_most_goes_first(
    model: Model, data: st.DataObject, small: Table, room: int
) -> None:
    people, _, task, subjects = some_people(data, model, small)
    members, room = [*range(len(task.bundles.begin))], min(room, len(people) - 1)
    found, _ = left_out(task, np.zeros(len(members), np.int64), 1, room)
    while ways := one_leaves(task, members, model, subjects, room):
        saved, way = max(ways, key=lambda one: round(one[0], 9))
        if saved < lost(task, [members]) / len(rows_in(task, members)) + 1e-9:
            break
        alike = [one for most, one in ways if most > saved - 1e-9]
        assert any(found[one].all() for one in alike), "of equals, any"
        if len(alike) > 1:
            return
        members, room = [one for one in members if one not in way], room - len(rows_in(task, way))
    assert [*np.flatnonzero(~found)] == members


@every_model
@FEWER
@given(data=st.data(), small=some_table, room=st.integers(0, 12))
def test_groups_that_stay_hold_and_the_first_turn_saves_no_less_than_any_member_or_group_would(
    model: Model, data: st.DataObject, small: Table, room: int
) -> None:
    people, rows, task, subjects = some_people(data, model, small)
    recoding = holding(ORDERED, people, model, Options(too_wide=STAYING))
    group, room = recoding.qi_group[rows[task.bundles.begin]], min(room, len(people) - 1)
    gone, found = left_out(task, group, recoding.n_groups, room)
    before = [np.flatnonzero(group == number).tolist() for number in range(recoding.n_groups)]
    after = [np.flatnonzero((found == number) & ~gone).tolist() for number in range(recoding.n_groups)]
    for members in filter(None, after):
        assert model.holds(subjects[rows_in(task, members)])
    assert len(rows_in(task, np.flatnonzero(gone).tolist())) <= room
    assert not gone.all()
    assert not task.scratch.counts.any()
    ways = [way for members in before for way in one_leaves(task, members, model, subjects, room)]
    most = max((saved for saved, _ in ways), default=0.0)
    if most > lost(task, before) / len(people) + 1e-6:
        assert lost(task, before) - lost(task, after) >= most - 1e-6


@every_model
@FEWER
@given(data=st.data(), small=some_table, share=st.sampled_from([0.05, 0.2, 0.5]))
def test_the_others_hold_the_model_and_lose_no_more_than_all_would(
    model: Model, data: st.DataObject, small: Table, share: float
) -> None:
    people = data.draw(microdata(small))
    recoding = assert_laws(ORDERED, people, model, Options(suppression=share))
    if small.space.is_bounded:
        return
    assert (gcp(people, recoding) or 0.0) <= (gcp(people, run(ORDERED, people, model)) or 0.0) + 1e-9


@pytest.mark.parametrize(("allowed", "left"), [(0.0, []), (0.1, [9]), (0.3, [4, 5, 9])])
def test_a_row_far_from_all_others_goes_before_a_group_that_is_wide(allowed: float, left: list[int]) -> None:
    """Numbers in groups of two or three: 9 is with 7 and 7, 4 and 5 are a group."""
    people = numbers([9, 7, 7, 0, 0, 0, 2, 2, 4, 5])
    recoding = run(ORDERED, people, k_anonymity(2), Options(suppression=allowed))
    assert sorted(people.codes[recoding.qi_group < 0, 0].tolist()) == left


def test_a_group_is_dissolved_if_all_but_one_of_its_rows_fit_elsewhere() -> None:
    """3 and 9 are a group; without 9, 3 goes to the others."""
    _, task = task_of(numbers([3, 3, 3, 9]), k_anonymity(2))
    gone, found = left_out(task, np.array([0, 0, 1, 1]), 2, 1)
    assert (gone.tolist(), found.tolist()) == ([False, False, False, True], [0, 0, 0, 0])
