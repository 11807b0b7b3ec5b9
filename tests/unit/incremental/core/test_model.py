"""What the model asks beyond k: counted with every row, kept by every move, and mended where an event breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.cut import cut
from streamer.incremental.core.model import holds, may_be_cut, pending_hold
from streamer.incremental.groups.engine import Engine
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.checked_arrays import check_arrays, members_of
from worlds.core_tables import CoreTable
from worlds.model_tables import MODEL_TABLES, asking
from worlds.small_tables import YEARS, codes_of, rows, values_of
from worlds.twin import Twin

TWO_KINDS, HALF_AT_MOST = asking(YEARS, l=2), asking(YEARS, beta="0.5")


def whole(small: Table) -> Table:
    """Merged groups stay as they are."""
    return replace(small, recut=False)


def table_of(small: Table, *groups: dict[int, str]) -> CoreTable:
    """QI groups of these years with their values, numbered from 1, whose rows have places in this order."""
    world = CoreTable(small)
    for group in groups:
        world.form(*group, values=tuple(group.values()))
    return world


def test_a_deletion_that_takes_the_last_row_of_a_value_has_the_group_merged() -> None:
    world = table_of(whole(TWO_KINDS), {0: "flu", 1: "cough", 2: "flu"}, {8: "flu", 9: "ulcer"})
    world.take(0)
    assert world.cells_by_number() == {1: [1, 2], 2: [8, 9]}
    world.take(1)
    assert world.cells_by_number() == {2: [2, 8, 9]}


def test_an_insertion_that_breaks_a_share_has_the_group_merged_as_often_as_it_takes() -> None:
    world = table_of(whole(HALF_AT_MOST), {0: "flu", 1: "cough"}, {4: "flu", 5: "ulcer"}, {8: "null", 9: "cough"})
    world.insert(2, "flu")
    assert world.cells_by_number() == {1: [0, 1, 2, 4, 5, 8, 9]}


def test_a_merge_goes_on_only_until_the_group_holds() -> None:
    world = table_of(whole(HALF_AT_MOST), {0: "flu", 1: "cough"}, {4: "itch", 5: "ulcer"}, {8: "null", 9: "cough"})
    world.insert(2, "flu")
    assert world.cells_by_number() == {1: [0, 1, 2, 4, 5], 3: [8, 9]}


def test_what_was_merged_is_cut_where_both_halves_hold_and_not_where_it_costs_least() -> None:
    world = table_of(HALF_AT_MOST, {0: "flu", 1: "cough"}, {8: "ulcer", 9: "null"})
    world.insert(2, "flu")  # 0, 1, 2 | 8, 9 would cost least
    assert sorted(world.cells_by_number().values()) == [[0, 1], [2, 8, 9]]


def test_a_rewritten_value_breaks_a_group_though_no_row_moves() -> None:
    for small in (TWO_KINDS, HALF_AT_MOST):
        world = table_of(whole(small), {0: "flu", 1: "cough"}, {8: "ulcer", 9: "itch"})
        world.rewrite(1, 1, "flu")
        assert world.cells_by_number() == {1: [0, 1, 8, 9]}
        assert sorted(world.slots(1)) == ["flu", "flu", "itch", "ulcer"]


def test_the_last_group_that_does_not_hold_is_dissolved_and_forms_again_when_all_rows_together_hold() -> None:
    world = table_of(HALF_AT_MOST, {0: "flu", 1: "cough"})
    world.insert(2, "flu")
    assert (world.numbers(), world.held.say("n_pending")) == ([], 3)
    world.insert(3, "flu")
    world.insert(4, "ulcer")
    assert (world.numbers(), world.held.say("n_pending")) == ([], 5)
    world.rewrite(3, 3, "itch")
    assert world.held.say("n_pending") == 0
    assert sorted(world.cells_by_number().values()) == [[0, 1], [2, 3, 4]]


def test_rows_that_wait_are_k_and_wait_for_another_value_still() -> None:
    world = CoreTable(TWO_KINDS)
    for year in range(5):
        world.insert(year, "flu")
    assert (world.numbers(), world.held.say("n_pending"), pending_hold(world.s)) == ([], 5, False)
    world.insert(9, "cough")
    assert world.cells_by_number() == {1: [0, 1, 2, 3, 4, 9]}


def test_an_individual_with_too_large_a_share_breaks_its_group() -> None:
    world = CoreTable(asking(YEARS, individual="ssn", alpha="0.5"))
    for year, who in ((0, 0), (1, 1)):
        world.insert(year, who=who)
    assert world.numbers() == [1]
    world.insert(2, who=0)
    assert (world.numbers(), world.held.say("n_pending")) == ([], 3)
    world.insert(3, who=1)
    assert world.held.say("n_pending") == 0


def test_2k_rows_are_left_whole_where_no_two_halves_hold() -> None:
    world = table_of(TWO_KINDS, {0: "flu", 1: "cough"})
    for year in range(2, 9):
        world.insert(year, "flu")
    assert world.numbers() == [1]
    assert not may_be_cut(world.s, world.group(1))
    world.insert(9, "cough")
    assert len(world.numbers()) > 1


@pytest.mark.parametrize("name", MODEL_TABLES)
@given(data=st.data())
def test_a_cut_is_that_of_the_plain_twin_and_what_counts_rule_out_there_is_none_of(
    name: str, data: st.DataObject
) -> None:
    small = MODEL_TABLES[name]
    places, values = data.draw(st.lists(codes_of(small), min_size=1, max_size=4)), values_of(small)
    person = st.none() if small.individual is None else st.sampled_from("abcdefgh")
    alike = st.builds(
        lambda codes, value, who: Row(codes, value, tuple(f"code {codes[j]}" for j in small.stepless), who),
        st.sampled_from(places),
        values,
        person,
    )
    people = data.draw(st.lists(st.one_of(alike, rows(small)), min_size=2, max_size=24))
    twin, keys = Twin(small, b"secret"), [str(i) for i in range(len(people))]
    twin.rows = dict(zip(keys, people, strict=True))
    if not twin.holds(keys):
        return
    engine = Engine(small, secret=b"secret")
    codes = np.array([row.codes for row in people])
    engine.load_initial(keys, people, codes, [np.arange(len(people))])
    engine.run()
    check_arrays(engine._held.arrays)
    twin.form(twin.new_number(), keys)
    s, halves = engine._held.arrays, twin.cut(1) if twin.count(keys) >= 2 * small.k else None
    open_to_cut = may_be_cut(s, 0)
    position, lower_stays = cut(s, 0)
    assert holds(s, 0)
    assert open_to_cut or halves is None
    assert (position > 0) == (halves is not None)
    if halves is not None:
        lower = set(s.work.ints[0, :position].tolist())
        assert (lower if lower_stays else set(members_of(s, 0)) - lower) == set(map(int, halves[0]))
