"""The index table of a shard: who is pending, counted as rows come, go and are assigned."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.kept import PENDING
from streamer.incremental.groups.rows import FIRST_CAPACITY, Rows
from streamer.table.row import Row
from worlds.small_tables import YEARS, table

SPACE = table(YEARS).space
CODES = np.zeros(1, dtype=np.int64)


def row(individual: str | None) -> Row:
    return Row((0,), (b"null",), (), individual)


@given(data=st.data(), declared=st.booleans())
def test_the_pending_are_counted_as_counting_anew_would_find(data: st.DataObject, declared: bool) -> None:
    people = st.sampled_from("abc") if declared else st.none()
    start = data.draw(st.lists(people, max_size=5))
    numbers = [data.draw(st.integers(PENDING, 2)) for _ in start]
    rows = Rows(SPACE)
    rows.add_many([f"s{i}" for i in range(len(start))], list(map(row, start)), np.zeros((len(start), 1), int), numbers)
    for i in range(data.draw(st.integers(0, 20))):
        known = list(rows.place_of.values())
        match data.draw(st.sampled_from(["add", "remove", "assign"])) if known else "add":
            case "add":
                rows.add(f"r{i}", row(data.draw(people)), CODES)
            case "remove":
                rows.remove(data.draw(st.sampled_from(known)))
            case "assign":
                rows.assign(data.draw(st.sampled_from(known)), data.draw(st.integers(PENDING, 2)))
        waiting = rows.pending()
        individuals = {rows.rows[place].individual for place in waiting}
        assert rows.n_pending == len(waiting)
        assert rows.pending_count == (len(individuals) if declared else len(waiting))


def test_a_place_is_used_again_and_the_columns_grow_as_they_are_needed() -> None:
    rows = Rows(SPACE)
    places = [rows.add(f"r{i}", row(None), CODES + i % 9) for i in range(FIRST_CAPACITY + 1)]
    assert rows.codes[places[10]] == 1
    rows.remove(places[3])
    assert rows.add("new", row(None), CODES + 5) == places[3]
    assert (len(rows), rows.cells[places[3]]) == (FIRST_CAPACITY + 1, 5)
    assert rows.record("r3") is None
