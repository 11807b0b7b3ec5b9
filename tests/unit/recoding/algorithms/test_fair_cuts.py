"""Groups cut fairly: both parts of a cut keep the shares of all sensitive values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from streamer.privacy.compiled import rules_of
from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.fair_cuts import NODE_PARTS, fair_groups
from streamer.recoding.algorithms.group_index import GAIN_MIN, loss_of
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import MODELS, microdata, some_table

OF_LAWS = {name: model for name, model in MODELS.items() if model.laws}


def halves(task: Task, along: Ints) -> tuple[Ints, Ints]:
    """Of each value's bundles the lower half; the middle ones of odd numbers go down and up by turns."""
    code = task.rules.subjects[task.bundles.begin[along], task.rules.laws.subject[0]]
    rank = np.array([(code[:i] == one).sum() for i, one in enumerate(code)])
    all_of = np.array([(code == one).sum() for one in code])
    middle = 2 * rank + 1 == all_of
    lower = (2 * rank + 1 < all_of) | (middle & (np.cumsum(middle) % 2 == 1))
    return along[lower], along[~lower]


def ways(task: Task, node: Ints) -> list[tuple[float, int, int, Ints, Ints]]:
    """What the parts of each cut lose together, the attribute, the way, and the parts."""
    found = []
    for j in range(task.bundles.cells.shape[1]):
        along = node[np.argsort(task.bundles.cells[node, j], kind="stable")]
        cuts = [
            halves(task, along),
            *(np.split(along, [len(along) * way // NODE_PARTS]) for way in range(1, NODE_PARTS)),
        ]
        for way, (lower, upper) in enumerate(cuts):
            if len(lower) and len(upper):
                found.append((loss_of(task, lower) + loss_of(task, upper), j, way, lower, upper))
    return sorted(found, key=lambda one: one[:3])


def cut_by_hand(task: Task, model: Model, strict: Model, subjects: Ints, node: Ints) -> list[frozenset[int]]:
    def holds(asked: Model, part: Ints) -> bool:
        rows = [row for i in part for row in range(task.bundles.begin[i], task.bundles.end[i])]
        return asked.holds(subjects[rows])

    size = int((task.bundles.end[node] - task.bundles.begin[node]).sum())
    for lost, _, way, lower, upper in ways(task, node) if size >= 2 * task.rows_min else ():
        asked = model if way == 0 else strict
        if lost < loss_of(task, node) - GAIN_MIN and holds(asked, lower) and holds(asked, upper):
            return [
                part for side in (lower, upper) for part in cut_by_hand(task, model, strict, subjects, np.sort(side))
            ]
    return [frozenset(node.tolist())]


def groups(found: Ints) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(found == number).tolist()) for number in np.unique(found)}


def laid_out(people: Microdata, model: Model) -> tuple[Task, Ints]:
    """The task, and the subjects of its rows."""
    assume(model.holds(people.subjects(model.subjects)))
    rows, task = task_of(people, model)
    return task, people.rows(rows).subjects(model.subjects)


@pytest.mark.parametrize("name", OF_LAWS)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data(), small=some_table)
def test_groups_hold_and_no_allowed_cut_would_improve_one(name: str, data: st.DataObject, small: Table) -> None:
    model = OF_LAWS[name]
    task, subjects = laid_out(data.draw(microdata(small, max_rows=30)), model)
    found = fair_groups(task, task.rules)
    assert sorted(np.unique(found)) == list(range(found.max() + 1))
    for number in range(found.max() + 1):
        node = np.flatnonzero(found == number)
        rows = [row for i in node for row in range(task.bundles.begin[i], task.bundles.end[i])]
        assert model.holds(subjects[rows])
        assert cut_by_hand(task, model, model, subjects, node) == [frozenset(node.tolist())]
    assert not task.scratch.counts.any()


@pytest.mark.parametrize("name", OF_LAWS)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data(), small=some_table)
def test_the_groups_are_those_of_the_rule_in_plain_python(name: str, data: st.DataObject, small: Table) -> None:
    model, strict = OF_LAWS[name], OF_LAWS[name] & k_anonymity(4)
    task, subjects = laid_out(data.draw(microdata(small, max_rows=30)), model)
    found = fair_groups(task, rules_of(strict, task.rules.subjects))
    by_hand = cut_by_hand(task, model, strict, subjects, np.arange(len(task.bundles.begin)))
    assert groups(found) == set(by_hand)
