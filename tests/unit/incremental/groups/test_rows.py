"""The index table in columns: rows by source key, their places used again, and who is pending always counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.kept import PENDING, Record
from streamer.incremental.groups.rows import FIRST_CAPACITY, Rows
from worlds.shard_tables import row_of
from worlds.small_tables import AGE, table

SPACE = table(AGE).space


def rows_with(*source_keys: str) -> Rows:
    rows = Rows(SPACE)
    for year, source_key in enumerate(source_keys):
        rows.add(source_key, row_of(year), np.array([year]))
    return rows


def test_a_row_comes_in_pending_with_its_codes_and_their_cells() -> None:
    rows = Rows(SPACE)
    place = rows.add("ann", row_of(11), np.array([11]))
    assert (rows.codes[place].tolist(), rows.cells[place].tolist()) == ([11], [2])  # AGE: five years are a cell
    assert (rows.qi_group[place], rows.n_pending, rows.pending()) == (PENDING, 1, [place])
    assert rows.record("ann") == Record(row_of(11), PENDING)


def test_a_place_is_used_again_and_nothing_is_left_of_who_had_it() -> None:
    rows = rows_with("ann", "bob")
    place = rows.place_of["ann"]
    rows.assign(place, 4)
    rows.remove(place)
    assert rows.record("ann") is None
    assert rows.add("cy", row_of(7), np.array([7])) == place
    assert (rows.source_keys[place], rows.qi_group[place], len(rows)) == ("cy", PENDING, 2)


def test_a_rewritten_row_stays_in_its_qi_group() -> None:
    rows = rows_with("ann")
    rows.assign(0, 3)
    rows.rewrite(0, row_of(20), np.array([20]))
    assert rows.record("ann") == Record(row_of(20), 3)
    assert rows.cells[0].tolist() == [4]


def test_the_table_grows_beyond_its_first_capacity_and_loses_nothing() -> None:
    rows = Rows(SPACE)
    for i in range(FIRST_CAPACITY + 1):
        rows.add(f"{i}", row_of(i % 23), np.array([i % 23]))
    assert rows.codes[: FIRST_CAPACITY + 1, 0].tolist() == [i % 23 for i in range(FIRST_CAPACITY + 1)]
    rows.remove(rows.place_of["3"])
    assert rows.add("new", row_of(5), np.array([5])) == 3, "a place that is free is used before the columns grow"
    assert (len(rows), rows.codes[3].tolist(), rows.cells[3].tolist()) == (FIRST_CAPACITY + 1, [5], [1])


def test_rows_that_are_loaded_at_once_are_those_that_came_one_by_one() -> None:
    rows = rows_with("ann", "bob", "cy")
    rows.assign(1, 9)
    loaded = Rows(SPACE)
    contents = [row_of(year) for year in range(3)]
    loaded.add_many(["ann", "bob", "cy"], contents, np.array([[0], [1], [2]]), [PENDING, 9, PENDING])
    assert loaded.n_pending == rows.n_pending == 2
    assert [loaded.record(key) for key in loaded.place_of] == [rows.record(key) for key in rows.place_of]


def test_a_statement_sees_the_rows_that_are_there_as_columns() -> None:
    rows = rows_with("ann", "bob", "cy")
    rows.remove(rows.place_of["bob"])
    view = rows.view()
    assert view.codes.tolist() == [[0], [2]]
    assert view.values == [row_of(0).values, row_of(2).values]
    assert view.exact == [(), ()]


@given(data=st.data(), declared=st.booleans())
def test_the_pending_are_counted_as_counting_anew_would_find(data: st.DataObject, declared: bool) -> None:
    people = st.sampled_from("abc") if declared else st.none()
    start = [row_of(0, individual=who) for who in data.draw(st.lists(people, max_size=5))]
    numbers = [data.draw(st.integers(PENDING, 2)) for _ in start]
    rows = Rows(SPACE)
    rows.add_many([f"s{i}" for i in range(len(start))], start, np.zeros((len(start), 1), int), numbers)
    for i in range(data.draw(st.integers(0, 20))):
        known = list(rows.place_of.values())
        match data.draw(st.sampled_from(["add", "remove", "assign"])) if known else "add":
            case "add":
                rows.add(f"r{i}", row_of(0, individual=data.draw(people)), np.array([0]))
            case "remove":
                rows.remove(data.draw(st.sampled_from(known)))
            case "assign":
                rows.assign(data.draw(st.sampled_from(known)), data.draw(st.integers(PENDING, 2)))
        waiting = rows.pending()
        individuals = {rows.rows[place].individual for place in waiting}
        assert rows.n_pending == len(waiting)
        assert rows.pending_count == (len(individuals) if declared else len(waiting))
