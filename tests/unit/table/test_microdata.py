"""A table as columns of numbers: what is counted in it."""

from __future__ import annotations

import numpy as np

from streamer.table.microdata import Microdata, Subject
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


def test_a_null_is_a_value_of_its_own_at_every_level() -> None:
    n = len(TEXTS[0])
    data = Microdata(PLAIN, np.zeros((n, 1), np.int64), None, np.arange(n).reshape(n, 1), TEXTS)
    above = data.subject(Subject(0, 1))
    by_text = dict(zip(TEXTS[0], above.tolist(), strict=True))
    assert by_text[b'"flu"'] == by_text[b'"cough"'] != by_text[b'"ulcer"']
    assert list(above).count(by_text[b"null"]) == 1
    assert len(set(above.tolist())) == len({PROBLEMS.levels[1, leaf] for leaf in range(PROBLEMS.n_leaves)}) + 1
