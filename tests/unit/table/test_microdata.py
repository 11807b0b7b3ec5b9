"""A table as columns of numbers: what is counted in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.microdata import INDIVIDUAL, NULL, Microdata, Subject, canonical, multiset_ranks
from streamer.table.schema import Table
from worlds.microdata import (
    NANOS,
    PROBLEMS,
    TABLES,
    TEXTS,
    canonical_form,
    microdata,
    moved_in_cells,
    people,
    permuted,
    renamed,
)
from worlds.small_tables import CITY, YEARS

PLAIN, PEOPLE = TABLES["one number"], TABLES["individuals"]
WIDER_THAN_A_NUMBER = people(NANOS, NANOS, CITY, NANOS, individual=True)


@pytest.mark.parametrize("level", [0, 1])
def test_a_null_has_its_own_number_before_the_others_whether_there_is_one_or_not(level: int) -> None:
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


# The canonical form of a table: a function of cells, values and who has which rows, and of nothing else.

some_table = st.sampled_from([*TABLES.values(), WIDER_THAN_A_NUMBER])
seeds = st.integers(0, 2**32 - 1)


def seen(data: Microdata) -> tuple[list[list[int]], ...]:
    """All that an algorithm sees of the rows."""
    who = [] if data.individuals is None else data.individuals.tolist()
    return data.codes.tolist(), data.values.tolist(), who


@given(data=st.data(), small=some_table, seed=seeds)
def test_order_names_and_what_is_finer_than_a_cell_do_not_show(data: st.DataObject, small: Table, seed: int) -> None:
    rows = data.draw(microdata(small))
    other = permuted(renamed(moved_in_cells(rows, seed), seed), seed)
    assert seen(canonical_form(other)) == seen(canonical_form(rows))


@given(data=st.data(), small=some_table)
def test_it_is_the_same_table_with_codes_at_the_beginning_of_their_cells(data: st.DataObject, small: Table) -> None:
    rows = data.draw(microdata(small))
    form = canonical(rows, np.random.default_rng(0))
    assert sorted(form.rows.tolist()) == list(range(len(rows)))
    assert (form.microdata.cells == rows.cells[form.rows]).all()
    assert (form.microdata.codes % small.space.codes_per_cell == 0).all()
    assert (form.microdata.values == rows.values[form.rows]).all()
    if rows.individuals is not None:
        numbers, known = form.microdata.subject(INDIVIDUAL), rows.subject(INDIVIDUAL)[form.rows]
        names = set(zip(numbers.tolist(), known.tolist(), strict=True))
        assert len(names) == len({new for new, _ in names}) == len({old for _, old in names})
        assert {new for new, _ in names} == set(range(len(names)))


@given(data=st.data(), small=some_table)
def test_rows_stand_by_cells_then_values_then_individual(data: st.DataObject, small: Table) -> None:
    form = canonical_form(data.draw(microdata(small)))
    who = np.zeros(len(form), dtype=np.int64) if form.individuals is None else form.individuals
    rows = np.column_stack([form.cells, form.values, who]).tolist()
    assert rows == sorted(rows)


@given(data=st.data(), seed=seeds)
def test_individuals_are_numbered_by_how_many_rows_they_have_then_by_these(data: st.DataObject, seed: int) -> None:
    form = canonical_form(data.draw(microdata(TABLES["individuals"])))
    theirs: dict[int, list[list[int]]] = {}
    for who, *row in np.column_stack([form.subject(INDIVIDUAL), form.cells, form.values]).tolist():
        theirs.setdefault(who, []).append(row)
    by_number = [(len(theirs[who]), sorted(theirs[who])) for who in range(len(theirs))]
    assert by_number == sorted(by_number)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=60))
def test_ranks_of_multisets_are_those_of_sorted_lists(rows: list[tuple[int, int]]) -> None:
    names = sorted({who for who, _ in rows})
    who = np.array([names.index(name) for name, _ in rows], dtype=np.int64)
    kinds = [sorted(kind for other, kind in rows if other == name) for name in names]
    order = sorted({(len(of_one), tuple(of_one)) for of_one in kinds})
    expected = [order.index((len(of_one), tuple(of_one))) for of_one in kinds]
    assert multiset_ranks(who, np.array([kind for _, kind in rows], dtype=np.int64)).tolist() == expected


@pytest.mark.parametrize("last", [0, 1, 2])
def test_individuals_of_100_000_rows_differ_if_only_the_last_of_them_does(last: int) -> None:
    n = 100_000
    kind = np.ones(2 * n, dtype=np.int64)
    kind[n - 1] = last
    ranks = multiset_ranks(np.repeat([0, 1], n), kind).tolist()
    assert ranks == {0: [0, 1], 1: [0, 0], 2: [1, 0]}[last]


def test_chance_orders_rows_and_individuals_that_are_alike() -> None:
    """Six rows of one kind, of three people with two rows each: no seed may prefer an order or a name."""
    nothing = np.zeros((6, 1), dtype=np.int64)
    data = Microdata(people(YEARS, individual=True), nothing, np.array([0, 0, 1, 1, 2, 2]), nothing, TEXTS)
    n = 3_000
    firsts, lasts = Counter[int](), Counter[int]()
    for seed in range(n):
        form = canonical(data, np.random.default_rng(seed))
        assert form.microdata.subject(INDIVIDUAL).tolist() == [0, 0, 1, 1, 2, 2]
        firsts[int(form.rows[0])] += 1
        lasts[int(data.subject(INDIVIDUAL)[form.rows[5]])] += 1
    assert sorted(firsts) == list(range(6))
    assert all(abs(count - n / 6) < 5 * (n * 5 / 36) ** 0.5 for count in firsts.values())
    assert all(abs(count - n / 3) < 5 * (n * 2 / 9) ** 0.5 for count in lasts.values())


def test_no_rows_have_a_canonical_form_too() -> None:
    for small in (TABLES["one number"], replace(TABLES["individuals"], attributes=(YEARS,))):
        nothing = np.empty((0, 1), dtype=np.int64)
        who = None if small.individual is None else np.empty(0, dtype=np.int64)
        assert len(canonical(Microdata(small, nothing, who, nothing, TEXTS), np.random.default_rng(0)).rows) == 0
