"""Rows that are alike are found in sorted files of hashes, range by range, as in the table itself."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.engines import alike
from streamer.recoding.report.findings import alike_rows, united_alike
from streamer.table.arrays import Ints, row_numbers
from worlds.microdata import TABLES

INDIVIDUALS = TABLES["individuals"]
some_rows = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3), st.integers(0, 9)), min_size=1, max_size=60).map(
    lambda rows: np.array(rows, dtype=np.int64)
)


def left(folder: Path, lines: Ints, parts: int) -> list[Path]:
    """The files of a table in several parts."""
    paths = [alike.path_of(folder, alike.BEFORE, i) for i in range(parts)]
    for path, part in zip(paths, np.array_split(np.arange(len(lines)), parts), strict=True):
        alike.leave(path, lines[part])
    return paths


@given(some_rows, st.integers(1, 4), st.integers(1, 9), st.integers(0, 3))
def test_crowds_are_those_of_the_whole_table(rows: Ints, parts: int, ranges: int, n_dropped: int) -> None:
    values, who, numbers = rows[:, :2], rows[:, 2], np.arange(len(rows))
    counts = (np.arange(len(rows)) >= min(n_dropped, len(rows) - 1)) | (rows[:, 1] < 0)
    is_open = rows[:, 1] < 0
    lines = np.column_stack([alike.hashes_of_numbers(values), np.where(is_open, alike.OPEN, numbers), who])
    ends = [(i << 63) // ranges for i in range(ranges + 1)]
    with TemporaryDirectory() as folder:
        paths = left(Path(folder), lines, parts)
        found = united_alike(
            alike.crowds_between(INDIVIDUALS, paths, low, high, numbers[~counts]) for low, high in pairwise(ends)
        )
    dense = np.unique(who[counts], return_inverse=True)[1].astype(np.int64)
    number = row_numbers(values[counts] + 3)
    expected = alike_rows(INDIVIDUALS, number, number, is_open[counts], dense)
    assert found.crowds is not None
    assert expected.crowds is not None
    assert (found.most, found.usual) == (expected.most, expected.usual)
    assert found.crowds.pop("chance_mean") == pytest.approx(expected.crowds.pop("chance_mean"))
    assert found.crowds == expected.crowds


@given(some_rows, st.integers(1, 4))
def test_a_row_that_an_earlier_one_is_like_is_repeated(rows: Ints, parts: int) -> None:
    values = rows[:, 0]
    texts = np.array([f"key {value}" for value in values], dtype=object)
    lines = np.column_stack([alike.hashes_of_texts(texts), np.arange(len(rows))])
    with TemporaryDirectory() as folder:
        found = [alike.repeated(left(Path(folder), lines, parts), low, high) for low, high in alike.ranges(len(rows))]
    first = np.unique(values, return_index=True)[1]
    assert np.concatenate(found).tolist() == sorted(set(range(len(rows))) - set(first.tolist()))


def test_ranges_hold_every_hash_once_and_few_enough_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "COMPARED_AT_ONCE", 10)
    found = list(alike.ranges(95))
    assert (len(found), found[0][0], found[-1][1]) == (10, 0, 1 << 63)
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert len(list(alike.ranges(0))) == 1


def test_hashes_tell_rows_apart_by_every_column_and_by_its_place() -> None:
    rows = np.array([[0, 1], [1, 0], [0, 0], [1, 1], [-1, 0]], dtype=np.int64)
    hashes = alike.hashes_of_numbers(rows)
    assert len({*hashes[:, 0].tolist()}) == len({*hashes[:, 1].tolist()}) == len(rows)
    assert (hashes >= 0).all()
    assert (hashes[:, 0] != hashes[:, 1]).all()
