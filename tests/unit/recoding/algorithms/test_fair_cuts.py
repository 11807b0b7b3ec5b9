"""Groups cut fairly: both parts of a cut keep the shares of all sensitive values."""

from __future__ import annotations

from typing import NamedTuple

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

some_strata = st.sampled_from([0, 1, 2, 5])
OF_LAWS = {name: model for name, model in MODELS.items() if model.laws}


class Fairly(NamedTuple):
    """What fair cuts share out: values of a law's subject, of which neighbours are one stratum if `strata` is not 0."""

    law: int
    strata: int


def stratum_of(task: Task, node: Ints, fairly: Fairly) -> dict[int, int]:
    """Each bundle's: value by value, once the last stratum has two bundles, and its share of the node."""
    code = task.rules.subjects[task.bundles.begin[node], task.rules.laws.subject[fairly.law]]
    fewest = max(2, len(node) // fairly.strata) if fairly.strata else 1
    found: list[list[int]] = []
    values = sorted(zip(code.tolist(), node.tolist(), strict=True))
    for i, (value, bundle) in enumerate(values):
        if i == 0 or (value != values[i - 1][0] and len(found[-1]) >= fewest):
            found.append([])
        found[-1].append(bundle)
    return {bundle: number for number, some in enumerate(found) for bundle in some}


def halves(along: Ints, stratum_by: dict[int, int]) -> tuple[Ints, Ints]:
    """Of each stratum's bundles the lower half; the middle ones of odd numbers go down and up by turns."""
    stratum = np.array([stratum_by[bundle] for bundle in along])
    rank = np.array([(stratum[:i] == one).sum() for i, one in enumerate(stratum)])
    all_of = np.array([(stratum == one).sum() for one in stratum])
    middle = 2 * rank + 1 == all_of
    lower = (2 * rank + 1 < all_of) | (middle & (np.cumsum(middle) % 2 == 1))
    return along[lower], along[~lower]


def border(cells: Ints, way: int) -> int:
    """Where a way cuts: between two cells, if some meet at most half a part away; of two such places the nearest."""
    m = len(cells)
    middle = m * way // NODE_PARTS
    far = min(m // (2 * NODE_PARTS), middle - 1, m - middle - 1)
    near = [at for at in range(max(1, middle - far), middle + far + 1) if at < m and cells[at - 1] != cells[at]]
    return min(near, key=lambda at: (abs(at - middle), at), default=middle)


def ways(task: Task, node: Ints, fairly: Fairly) -> list[tuple[float, int, int, Ints, Ints]]:
    """What the parts of each cut lose together, the attribute, the way, and the parts."""
    found, strata = [], stratum_of(task, node, fairly)
    for j in range(task.bundles.cells.shape[1]):
        along = node[np.argsort(task.bundles.cells[node, j], kind="stable")]
        cuts = [
            halves(along, strata),
            *(np.split(along, [border(task.bundles.cells[along, j], way)]) for way in range(1, NODE_PARTS)),
        ]
        for way, (lower, upper) in enumerate(cuts):
            if len(lower) and len(upper):
                found.append((loss_of(task, lower) + loss_of(task, upper), j, way, lower, upper))
    return sorted(found, key=lambda one: one[:3])


def cut_by_hand(
    task: Task, model: Model, strict: Model, subjects: Ints, node: Ints, fairly: Fairly
) -> list[frozenset[int]]:
    def holds(asked: Model, part: Ints) -> bool:
        rows = [row for i in part for row in range(task.bundles.begin[i], task.bundles.end[i])]
        return asked.holds(subjects[rows])

    size = int((task.bundles.end[node] - task.bundles.begin[node]).sum())
    for lost, _, way, lower, upper in ways(task, node, fairly) if size >= 2 * task.rows_min else ():
        asked = model if way == 0 else strict
        if lost < loss_of(task, node) - GAIN_MIN and holds(asked, lower) and holds(asked, upper):
            sides = (np.sort(side) for side in (lower, upper))
            return [part for side in sides for part in cut_by_hand(task, model, strict, subjects, side, fairly)]
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
    fairly = Fairly(data.draw(st.integers(0, len(model.laws) - 1)), data.draw(some_strata))
    found = fair_groups(task, task.rules, *fairly)
    assert sorted(np.unique(found)) == list(range(found.max() + 1))
    for number in range(found.max() + 1):
        node = np.flatnonzero(found == number)
        rows = [row for i in node for row in range(task.bundles.begin[i], task.bundles.end[i])]
        assert model.holds(subjects[rows])
        assert cut_by_hand(task, model, model, subjects, node, fairly) == [frozenset(node.tolist())]
    assert not task.scratch.counts.any()


@pytest.mark.parametrize("name", OF_LAWS)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data(), small=some_table)
def test_the_groups_are_those_of_the_rule_in_plain_python(name: str, data: st.DataObject, small: Table) -> None:
    model, strict = OF_LAWS[name], OF_LAWS[name] & k_anonymity(4)
    task, subjects = laid_out(data.draw(microdata(small, max_rows=30)), model)
    fairly = Fairly(data.draw(st.integers(0, len(model.laws) - 1)), data.draw(some_strata))
    found = fair_groups(task, rules_of(strict, task.rules.subjects), *fairly)
    by_hand = cut_by_hand(task, model, strict, subjects, np.arange(len(task.bundles.begin)), fairly)
    assert groups(found) == set(by_hand)
