"""Several published DataFrames together, beside an adversary who tries every world by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.audit.releases import audit
from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.recoding.frame import anonymize

AGE = {"role": "quasi-identifier", "type": "integer", "domain": [0, 9], "grid": 1}
TABLE: dict[str, Any] = {
    "table": "people",
    "key": "id",
    "columns": {"age": AGE, "problem": {"role": "sensitive"}},
    "privacy": {"k": 2},
    "publish": {"live": {"form": "rows"}},
}
Release = tuple[pd.DataFrame, pd.DataFrame, "pd.Series[Any]"]

pytestmark = pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # tables of a few rows


def people(rows: Sequence[tuple[int, int, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["id", "age", "problem"])


def released(*rows: Sequence[tuple[int, int, str]]) -> list[Release]:
    found = []
    for source in map(people, rows):
        published, index = anonymize(source, TABLE, return_index=True)
        found.append((published, source, index))
    return found


def by_hand(releases: Sequence[Release], ids: Sequence[int]) -> tuple[int, float]:
    """Whose values are one in every world that agrees with all releases, and the best guess; values never change."""
    truth = {row.id: row.problem for _, source, _ in releases for row in source.itertuples()}
    worlds = []
    for values in set(permutations([truth[one] for one in ids])):
        world = dict(zip(ids, values, strict=True))
        if all(
            Counter(world[one] for one in source["id"][index == name]) == Counter(source["problem"][index == name])
            for _, source, index in releases
            for name in index.unique()
        ):
            worlds.append(world)
    guesses = [max(Counter(world[one] for world in worlds).values()) / len(worlds) for one in ids]
    return sum(guess == 1 for guess in guesses), max(guesses)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=5, max_size=6), st.data())
def test_nothing_is_found_that_no_world_shows_and_guesses_are_those_of_all_worlds(
    rows: list[tuple[int, str]], data: st.DataObject
) -> None:
    first = [(i, *row) for i, row in enumerate(rows)]
    gone = data.draw(st.sampled_from(range(len(first))))
    releases = released(first, [row for row in first if row[0] != gone])
    found = audit(releases, TABLE).found
    pinned, best = by_hand(releases, range(len(first)))
    assert found.episodes == len(first)
    if found.exact == found.episodes:
        assert (found.pinned, found.worst) == (pinned, pytest.approx(best))
    assert found.pinned <= pinned and found.worst <= best + 1e-9


def test_one_who_leaves_between_two_releases_is_known() -> None:
    first = [(1, 1, "a"), (2, 1, "b"), (3, 1, "c")]
    audited = audit(released(first, first[:2]), TABLE)
    assert (audited.found.pinned, audited.found.kinds["deleted"], audited.ok) == (1, (1, 1), True)
    assert "row 3: known from release 2 on by rebuild" in repr(audited)
    assert "a" not in [one.value for one in audited.found.examples]
    assert not audit(released(first, first[:2]), TABLE, bound=0.9).ok


def test_a_value_that_changes_is_two_values_of_one_person() -> None:
    first = [(1, 1, "a"), (2, 1, "b"), (3, 8, "c"), (4, 8, "d")]
    found = audit(released(first, [(1, 1, "c"), *first[1:]]), TABLE).found
    assert (found.episodes, found.pinned, found.kinds["modified"].episodes) == (5, 3, 2)


def test_what_is_no_list_of_releases_is_refused_in_a_sentence() -> None:
    (one,) = released([(1, 1, "a"), (2, 1, "b")])
    wrongs: list[Any] = [[], one[0], [one[:2]], [one[::-1]]]
    for wrong in wrongs:
        with pytest.raises(UsageError, match="releases must be a list of"):
            audit(wrong, TABLE)
    with pytest.raises(ConfigError, match="key: is missing"):
        audit([one], {name: said for name, said in TABLE.items() if name != "key"})
    with pytest.raises(UsageError, match="has no sensitive column"):
        audit([one], TABLE | {"columns": {"age": AGE}})
    with pytest.raises(UsageError, match="a source has no column 'id', the key"):
        audit([(one[0], one[1].drop(columns="id"), one[2])], TABLE)
    with pytest.raises(LawViolated, match="law 'values' is broken"):
        audit([(one[0], one[1].assign(problem=["a", "a"]), one[2])], TABLE)
