"""QI groups that stay as they are although an algorithm has others: cheap, within the model, and nobody is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.replacing import NOWHERE
from streamer.incremental.shard.drift import loss
from streamer.incremental.shard.sparing import LOST_MORE_MAX, spared
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Diversity, Table
from worlds.small_tables import TABLES, codes_of

K2 = TABLES["one number"]
TABLES_TRIED = {**TABLES, "diverse": replace(K2, diversity=Diversity(l=2))}


def rows_at(*codes: int) -> EncodedRows:
    n = len(codes)
    keys = [f"p{i}" for i in range(n)]
    return EncodedRows(keys, np.array(codes).reshape(n, 1), [(b'"flu"',)] * n, [()] * n, list(keys))


def found(codes: list[int], standing: list[int], *groups: list[int]) -> list[list[int]]:
    answer = spared(K2, rows_at(*codes), np.array(standing), [np.array(group) for group in groups])
    return sorted(group.tolist() for group in answer)


def test_groups_that_were_only_shuffled_about_stay_as_they_are() -> None:
    assert found([0, 0, 0, 0], [0, 0, 1, 1], [0, 2], [1, 3]) == [[0, 1], [2, 3]]


def test_groups_that_lose_far_more_go() -> None:
    assert found([0, 9, 0, 9], [0, 0, 1, 1], [0, 2], [1, 3]) == [[0, 2], [1, 3]]


def test_one_stays_where_the_other_is_worth_its_change() -> None:
    codes, standing = [5, 5, 0, 9, 0, 9, 5, 5], [0, 0, 1, 1, 2, 2, 3, 3]
    assert found(codes, standing, [0, 6], [1, 7], [2, 4], [3, 5]) == [[0, 1], [2, 4], [3, 5], [6, 7]]


def test_what_is_published_again_anyway_is_the_algorithms() -> None:
    assert found([0, 0, 0, 0], [NOWHERE] * 4, [0, 2], [1, 3]) == [[0, 2], [1, 3]]
    assert found([0, 0, 0, 0], [0, 0, NOWHERE, NOWHERE], [0, 2], [1, 3]) == [[0, 2], [1, 3]]


def test_no_rows_have_no_groups() -> None:
    assert found([], []) == []


@pytest.mark.parametrize("name", sorted(TABLES_TRIED))
@given(data=st.data())
def test_everybody_is_in_one_group_that_holds_and_little_more_is_lost(name: str, data: st.DataObject) -> None:
    table: Table = TABLES_TRIED[name]
    people = [f"{who}-{i}" for i, who in enumerate("aabbccddeeffgghh")]
    codes = np.array([data.draw(codes_of(table)) for _ in people]).reshape(len(people), table.space.d)
    values: list[tuple[bytes, ...]] = [(data.draw(st.sampled_from([b'"flu"', b'"cough"'])),) for _ in people]
    rows = EncodedRows(people, codes, values, [()] * len(people), [name.partition("-")[0] for name in people])
    answer = held(table, rows, data.draw(labels(len(people))))
    now = held(table, rows, data.draw(labels(len(people))))
    standing = np.full(len(people), NOWHERE)
    for number, group in enumerate(now):
        standing[group] = number
    groups = spared(table, rows, standing, answer)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(people)))
    again = spared(table, rows, standing, answer)
    assert [group.tolist() for group in groups] == [group.tolist() for group in again]
    model, subjects = model_of(table), microdata_of(table, rows).subjects(model_of(table).subjects)
    if model.holds(subjects):
        assert all(model.holds(subjects[group]) for group in groups)
    most = loss(table.space, codes, answer) * (1 + LOST_MORE_MAX)
    assert loss(table.space, codes, groups) <= most + 1e-9


def labels(n: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 5), min_size=n, max_size=n)


def held(table: Table, rows: EncodedRows, label: list[int]) -> list[Ints]:
    """Groups by label; those that do not hold the model are one with the next, the last with the one before."""
    model = model_of(table)
    subjects = microdata_of(table, rows).subjects(model.subjects)
    done: list[list[int]] = []
    waiting: list[int] = []
    for number in sorted(set(label)):
        waiting += [i for i, one in enumerate(label) if one == number]
        if model.holds(subjects[waiting]):
            done.append(waiting)
            waiting = []
    if waiting:
        done = [*done[:-1], [*(done[-1] if done else []), *waiting]]
    return [np.array(group) for group in done]
