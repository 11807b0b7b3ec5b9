"""A table as columns of numbers: what is counted in it."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.table.microdata import NULL, Microdata, Subject
from worlds.kd import NANOS
from worlds.microdata import (
    PROBLEMS,
    TABLES,
    TEXTS,
    assert_cities_are_ragged,
    people,
)
from worlds.small_tables import CITY

PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]
WIDER_THAN_A_NUMBER = people(NANOS, NANOS, CITY, NANOS, individual=True)


def test_the_trees_of_the_small_tables_are_ragged() -> None:
    assert_cities_are_ragged()


@pytest.mark.parametrize("level", [0, 1])
def test_a_null_has_its_own_number_and_the_others_begin_behind_it_whether_there_is_one_or_not(level: int) -> None:
    n = len(TEXTS[0])
    data = Microdata(PLAIN, np.zeros((n, 1), np.int64), None, np.arange(n).reshape(n, 1), TEXTS)
    numbers = data.subject(Subject(0, level))
    by_text = dict(zip(TEXTS[0], numbers.tolist(), strict=True))
    assert (by_text[b'"flu"'] == by_text[b'"cough"']) == (level == 1)
    assert by_text[b'"flu"'] != by_text[b'"ulcer"']
    assert by_text.pop(b"null") == NULL
    n_nodes = len({PROBLEMS.levels[level, leaf] for leaf in range(PROBLEMS.n_leaves)})
    assert set(by_text.values()) == set(range(1, n_nodes + 1))
    texts = (tuple(text for text in TEXTS[0] if text != b"null"),)
    known = Microdata(PLAIN, data.codes[1:], None, np.arange(n - 1).reshape(n - 1, 1), texts)
    assert known.subject(Subject(0, level)).tolist() == list(by_text.values())
