"""Groups that are merged: what holds stays as it is, what does not finds others until it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamer.privacy.compiled import add, rules_of, scratch_for
from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.agglomeration import agglomerated, lack_of
from streamer.recoding.algorithms.bundles import task_of
from streamer.recoding.algorithms.orphans import lack
from streamer.table.schema import Table
from worlds.kd import numbers
from worlds.microdata import MODELS, TABLES, microdata

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
some_table = st.sampled_from(list(TABLES.values()))


@every_model
@given(data=st.data(), small=some_table, seats=st.integers(1, 12))
def test_every_group_is_a_union_of_those_given_and_holds(
    model: Model, data: st.DataObject, small: Table, seats: int
) -> None:
    people = data.draw(microdata(small, max_rows=25))
    subjects = people.subjects(model.subjects)
    assume(model.holds(subjects))
    rows, task = task_of(people, model)
    m = len(task.bundles.begin)
    given_groups = np.arange(m) % min(seats, m)
    by_row = np.repeat(np.arange(m), task.bundles.end - task.bundles.begin)
    for strict in (True, False):
        found = agglomerated(task, given_groups, min(seats, m), np.zeros(m), strict)
        for number in np.unique(given_groups):
            assert len(np.unique(found[given_groups == number])) == 1
        assert strict or all(model.holds(subjects[rows[found[by_row] == number]]) for number in np.unique(found))
        assert not task.scratch.counts.any()


def test_the_nearest_is_joined() -> None:
    data = numbers([0, 1, 5, 6, 9])
    _, task = task_of(data, k_anonymity(2))
    found = agglomerated(task, np.arange(5), 5, np.zeros(5), False)
    assert sorted(np.flatnonzero(found == number).tolist() for number in np.unique(found)) == [[0, 1], [2, 3, 4]]


@every_model
@given(data=st.data(), small=some_table)
def test_what_a_group_lacks_is_told_from_its_counts_alone(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small, max_rows=12))
    rules = rules_of(model, people.subjects(model.subjects))
    scratch = scratch_for(rules)
    for row in range(len(people)):
        add(rules, scratch, row)
    assert lack_of(rules, len(people), scratch.top, scratch.n_distinct) == lack(rules, scratch)
