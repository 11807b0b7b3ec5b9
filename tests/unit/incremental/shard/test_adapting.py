"""What changed while an algorithm was at a region is fitted into its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.adapting import adapted
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Diversity, Table
from worlds.small_tables import TABLES, codes_of

K2 = TABLES["one number"]
DIVERSE = replace(K2, diversity=Diversity(l=2))
TABLES_TRIED = {**TABLES, "diverse": DIVERSE}


def region(people: Mapping[str, tuple[int, ...]], problems: dict[str, bytes] | None = None, d: int = 1) -> Region:
    """People by source key with their codes; k counts them by the name before the dash."""
    codes = np.array(list(people.values()), dtype=np.int64).reshape(len(people), d)
    values: list[tuple[bytes, ...]] = [((problems or {}).get(name, b'"flu"'),) for name in people]
    who: list[str | None] = [name.partition("-")[0] for name in people]
    return Region(
        (1,), EncodedRows(list(people), codes, values, [()] * len(people), who), 0.0, b"", np.zeros(len(people), int)
    )


def named(now: Region, groups: list[Ints]) -> list[list[str]]:
    return sorted(sorted(now.rows.source_keys[i] for i in members.tolist()) for members in groups)


WAS = region({"a": (0,), "b": (0,), "c": (5,), "d": (5,), "e": (5,)})
GROUPS = [np.array([0, 1]), np.array([2, 3, 4])]


def adapted_to(people: Mapping[str, tuple[int, ...]]) -> list[list[str]]:
    now = region(people)
    return named(now, adapted(K2, WAS, GROUPS, now) or [])


def test_where_nothing_changed_the_answer_is_the_algorithms() -> None:
    assert named(WAS, adapted(K2, WAS, GROUPS, WAS) or []) == [["a", "b"], ["c", "d", "e"]]


def test_who_came_or_moved_joins_the_group_that_loses_least() -> None:
    people = {"a": (0,), "b": (0,), "c": (1,), "d": (5,), "e": (5,), "f": (6,)}
    assert adapted_to(people) == [["a", "b", "c"], ["d", "e", "f"]]


def test_who_has_gone_is_left_out() -> None:
    assert adapted_to({"a": (0,), "b": (0,), "d": (5,), "e": (5,)}) == [["a", "b"], ["d", "e"]]


def test_a_group_that_lost_too_many_is_joined_with_another() -> None:
    assert adapted_to({"a": (0,), "c": (5,), "d": (5,), "e": (5,)}) == [["a", "c", "d", "e"]]


@pytest.mark.parametrize("people", [{}, {"x": (3,)}, {"x": (3,), "y": (4,)}])
def test_where_hardly_anybody_is_left_there_is_one_group_at_most(people: dict[str, tuple[int, ...]]) -> None:
    assert adapted_to(people) == ([sorted(people)] if people else [])


def test_where_too_much_has_changed_nothing_is_fitted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.incremental.shard.adapting.FITTED_MOST", 1)
    assert adapted(K2, WAS, GROUPS, region({"a": (0,), "b": (0,), "x": (3,)})) is not None
    assert adapted(K2, WAS, GROUPS, region({"a": (0,), "b": (0,), "x": (3,), "y": (3,)})) is None


@given(data=st.data(), name=st.sampled_from(sorted(TABLES_TRIED)))
def test_everybody_is_in_one_group_that_holds_the_model_whatever_changed(data: st.DataObject, name: str) -> None:
    table: Table = TABLES_TRIED[name]
    d = table.space.d
    keys = [f"{who}-{i}" for i, who in enumerate("aabbccddeeffgghh")]
    places = st.fixed_dictionaries({key: codes_of(table) for key in keys})
    problems = data.draw(st.fixed_dictionaries({key: st.sampled_from([b'"flu"', b'"cough"']) for key in keys}))
    before, after = data.draw(places), data.draw(places)
    stays = data.draw(st.sets(st.sampled_from(keys)))
    was = region({key: before[key] for key in data.draw(st.lists(st.sampled_from(keys), unique=True))}, problems, d)
    there = data.draw(st.lists(st.sampled_from(keys), unique=True))
    now = region({key: before[key] if key in stays else after[key] for key in there}, problems, d)
    label = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(keys), max_size=len(keys))))
    label = label[: len(was.rows.source_keys)]
    groups = [np.flatnonzero(label == number) for number in np.unique(label)]
    found = adapted(table, was, groups, now)
    assert found is not None
    assert sorted(np.concatenate([np.zeros(0, int), *found]).tolist()) == list(range(len(there)))
    assert all(len(members) for members in found)
    microdata, model = microdata_of(table, now.rows), model_of(table)
    subjects = microdata.subjects(model.subjects)
    if len(there) and model.holds(subjects):
        assert all(model.holds(subjects[members]) for members in found)
    else:
        assert len(found) <= 1
