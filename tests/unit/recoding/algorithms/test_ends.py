"""A bundle leaves a group: its box, its ends and its list are those of the bundles that are left."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.ends import ends_for, ends_of, ncp_without, take_out
from streamer.recoding.algorithms.group_index import Groups, groups_of, loss_of, members_of
from streamer.table.schema import Table
from worlds.microdata import microdata, some_table

AROUND = 2
"""Other groups, which must not notice."""


def group(task: Task, groups: Groups, slot: int) -> tuple[list[list[int]], float, int]:
    leaf = groups.lo.shape[0] // 2 + slot
    box = [groups.lo[leaf].tolist(), groups.hi[leaf].tolist(), groups.lo[1].tolist(), groups.hi[1].tolist()]
    return [members_of(groups, slot).tolist(), *box], float(groups.ncp[slot]), int(groups.rows[slot])


@given(data=st.data(), small=some_table, seed=st.integers(0, 99))
def test_a_group_that_a_bundle_left_is_the_group_of_the_others(data: st.DataObject, small: Table, seed: int) -> None:
    _, task = task_of(data.draw(microdata(small, max_rows=25)), k_anonymity(2))
    m = len(task.bundles.cells)
    qi_group = np.arange(m) % (1 + AROUND)
    groups, ends = groups_of(task, qi_group, 1 + AROUND), ends_for(task)
    members = members_of(groups, 0)
    ends_of(task, members, ends)
    some = np.random.default_rng(seed)
    while len(members):
        at = int(some.integers(len(members)))
        gone, others = members[at], np.delete(members, at)
        if len(others):
            without = ncp_without(task.shape, ends, task.bundles.cells[gone])
            size = int((task.bundles.end[others] - task.bundles.begin[others]).sum())
            assert without * size == loss_of(task, others)
        members = take_out(task, groups, 0, members, at, ends)
        assert members.tolist() == others.tolist()
        anew = np.empty_like(ends)
        ends_of(task, members, anew)
        assert ends.tolist() == anew.tolist()
        left = np.setdiff1d(np.arange(m), np.flatnonzero((qi_group == 0) & ~np.isin(np.arange(m), others)))
        among_others = task._replace(bundles=type(task.bundles)(*(column[left] for column in task.bundles)))
        expected = groups_of(among_others, qi_group[left], 1 + AROUND)
        box, ncp, rows = group(task, groups, 0)
        their_box, their_ncp, their_rows = group(among_others, expected, 0)
        assert (box[1:], ncp, rows) == (their_box[1:], their_ncp, their_rows)
        assert box[0] == left[their_box[0]].tolist()


@given(data=st.data(), small=some_table)
def test_ends_are_the_two_lowest_and_the_two_highest_cells(data: st.DataObject, small: Table) -> None:
    _, task = task_of(data.draw(microdata(small, max_rows=25)), k_anonymity(1))
    m, d = task.bundles.cells.shape
    ends = ends_for(task)
    ends_of(task, np.arange(m), ends)
    for j in range(d):
        cells, n = np.unique(task.bundles.cells[:, j], return_counts=True)
        assert ends[[0, 1, 4, 5], j].tolist() == [cells[0], n[0], cells[-1], n[-1]]
        if len(cells) > 1:
            assert ends[[2, 3, 6, 7], j].tolist() == [cells[1], n[1], cells[-2], n[-2]]
