"""What the engine refuses to let out: every touched QI group is checked before a commit, by `raise`.

Rows and slots of a QI group share one length, so none can have a slot too many.
"""

from __future__ import annotations

import numpy as np
import pytest

from streamer.errors import LawViolated
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Insert, Modify
from streamer.table.row import Row
from worlds.small_tables import CITY, YEARS, table


@pytest.fixture
def engine() -> Engine:
    """Three QI groups of two rows each, and a change to the second and the third."""
    engine = Engine(table(YEARS, CITY, k=2))
    for i in range(6):
        engine.apply(Insert(f"p{i}", Row((i // 2 * 4, i // 2), (b'"flu"',))))
    engine.drain()
    assert engine.n_qi_groups == 3
    for key in ("p2", "p4"):
        engine.apply(Modify(key, values={0: b'"cough"'}))
    engine.run()
    return engine


def group_of(engine: Engine, number: int) -> np.record:
    """The QI group in the core's arrays."""
    group = engine.arrays.groups.group
    found: np.record = group[int(np.flatnonzero((group.number == number) & (group.alive == 1))[0])]
    return found


def number_of(engine: Engine, source_key: str) -> int:
    return dict(engine.index_table())[source_key]


def test_a_sound_table_passes(engine: Engine) -> None:
    assert len(engine.drain().published) == 2


def test_a_group_below_k_is_not_let_out(engine: Engine) -> None:
    number = number_of(engine, "p4")
    group = group_of(engine, number)
    group["members"] -= 1
    group["count"] -= 1
    with pytest.raises(LawViolated, match=f"QI group {number} holds fewer than the k = 2"):
        engine.drain()


def test_a_group_that_miscounts_its_rows_is_not_let_out(engine: Engine) -> None:
    number = number_of(engine, "p2")
    group_of(engine, number)["count"] += 1
    with pytest.raises(LawViolated, match=f"QI group {number} miscounts"):
        engine.drain()


def test_a_group_that_miscounts_its_individuals_is_not_let_out() -> None:
    engine = Engine(table(YEARS, k=2, individual="ssn"))
    for i in range(3):
        engine.apply(Insert(f"p{i}", Row((i,), (b'"flu"',), (), f"person {i}")))
    engine.run()
    row = engine.arrays.rows.row
    row.who[1] = row.who[0]
    with pytest.raises(LawViolated, match="QI group 1 miscounts"):
        engine.drain()


def test_a_row_outside_its_box_is_not_let_out(engine: Engine) -> None:
    number = number_of(engine, "p4")
    group, arrays = group_of(engine, number), engine.arrays
    arrays.rows.cells[arrays.groups.pool[0, group["block"] + 1]] += 1
    with pytest.raises(LawViolated, match=f"QI group {number} has a row outside its box"):
        engine.drain()


def test_what_was_refused_once_stays_inside(engine: Engine) -> None:
    group_of(engine, number_of(engine, "p4"))["count"] += 1
    for _ in range(2):
        with pytest.raises(LawViolated):
            engine.drain()
