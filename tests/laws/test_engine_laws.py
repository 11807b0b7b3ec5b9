"""What the engine refuses to let out: every touched QI group is checked before a commit, by `raise`."""

from __future__ import annotations

import pytest

from streamer.errors import LawViolated
from streamer.incremental.events.changes import Insert, Modify
from streamer.incremental.groups.engine import Engine
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
    return engine


def test_a_sound_table_passes(engine: Engine) -> None:
    assert len(engine.drain().published) == 2


def test_a_group_below_k_is_not_let_out(engine: Engine) -> None:
    group = engine._upkeep.groups[3]
    group.members.pop()
    with pytest.raises(LawViolated, match="QI group 3 holds 1 of the k = 2"):
        engine.drain()


def test_a_group_that_miscounts_its_individuals_is_not_let_out() -> None:
    engine = Engine(table(YEARS, k=2, individual="ssn"))
    for i in range(3):
        engine.apply(Insert(f"p{i}", Row((i,), (b'"flu"',), (), f"person {i}")))
    group = engine._upkeep.groups[1]
    group.count_rows([Row((3,), (b'"flu"',), (), "nobody")])
    with pytest.raises(LawViolated, match="QI group 1 counts 4 of its 3"):
        engine.drain()


def test_a_row_outside_its_box_is_not_let_out(engine: Engine) -> None:
    numbers = [number for number, group in engine._upkeep.groups.items() if group.slots.count((b'"cough"',))]
    group = engine._upkeep.groups[max(numbers)]
    engine._rows.cells[group.members[1]] += 1
    with pytest.raises(LawViolated, match=rf"QI group {group.number} has a row outside its box"):
        engine.drain()


def test_a_value_that_is_published_for_nobody_is_not_let_out(engine: Engine) -> None:
    engine._upkeep.groups[3].slots.append((b'"flu"',))
    with pytest.raises(LawViolated, match="QI group 3 has 2 rows and 3 slots"):
        engine.drain()
