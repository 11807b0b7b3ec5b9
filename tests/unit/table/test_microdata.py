"""A table as columns of numbers: the one order that does not depend on how its rows came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.microdata import INDIVIDUAL, Microdata, Subject
from streamer.table.schema import Table
from worlds.kd import NANOS
from worlds.microdata import (
    PROBLEMS,
    TABLES,
    TEXTS,
    assert_cities_are_ragged,
    microdata,
    people,
)
from worlds.small_tables import CITY

PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]
WIDER_THAN_A_NUMBER = people(NANOS, NANOS, CITY, NANOS, individual=True)


@pytest.mark.parametrize("small", [*TABLES.values(), WIDER_THAN_A_NUMBER], ids=[*TABLES, "wide"])
@given(data=st.data())
def test_rows_are_sorted_by_codes_then_sensitive_values_then_individual(small: Table, data: st.DataObject) -> None:
    rows = data.draw(microdata(small))
    who = np.zeros(len(rows), dtype=np.int64) if rows.individuals is None else rows.individuals
    columns = np.column_stack([rows.codes, rows.values, who]).tolist()
    assert rows.in_canonical_order().tolist() == sorted(range(len(rows)), key=columns.__getitem__)


def test_no_rows_have_an_order_too() -> None:
    nothing = np.empty((0, 1), dtype=np.int64)
    assert len(Microdata(TABLES["one number"], nothing, None, nothing, TEXTS).in_canonical_order()) == 0


def test_the_trees_of_the_small_tables_are_ragged() -> None:
    assert_cities_are_ragged()


@given(data=st.data(), small=st.sampled_from(list(TABLES.values())))
def test_the_canonical_order_makes_one_table_of_all_orders(data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    shuffled = people.rows(np.array(data.draw(st.permutations(range(len(people))))))
    one, other = people.rows(people.in_canonical_order()), shuffled.rows(shuffled.in_canonical_order())
    assert (one.codes == other.codes).all()
    assert (one.values == other.values).all()
    assert (one.subject(INDIVIDUAL) == other.subject(INDIVIDUAL)).all()


def test_a_null_is_a_value_of_its_own_at_every_level() -> None:
    n = len(TEXTS[0])
    data = Microdata(PLAIN, np.zeros((n, 1), np.int64), None, np.arange(n).reshape(n, 1), TEXTS)
    above = data.subject(Subject(0, 1))
    by_text = dict(zip(TEXTS[0], above.tolist(), strict=True))
    assert by_text[b'"flu"'] == by_text[b'"cough"'] != by_text[b'"ulcer"']
    assert list(above).count(by_text[b"null"]) == 1
    assert len(set(above.tolist())) == len({PROBLEMS.levels[1, leaf] for leaf in range(PROBLEMS.n_leaves)}) + 1
