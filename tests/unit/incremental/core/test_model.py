"""What the model asks beyond k: counted with every row, kept by every move, and repaired if an event breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.incremental.core.cut import cut
from streamer.incremental.core.layout import FORM, GATHER, NO_GROUP_YET, NONE, empty_shard
from streamer.incremental.core.model import (
    can_lose,
    can_spare_one,
    can_take,
    count_in,
    count_out,
    holds,
    may_be_cut,
    one_row_may_suffice,
    pending_hold,
    tally_count,
)
from streamer.incremental.engine.engine import Engine
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.core_arrays import CoreTable, check_arrays, members_of
from worlds.small_tables import MODEL_TABLES, PROBLEMS, YEARS, asking, codes_of, table, values_of
from worlds.small_tables import rows as small_tables_rows
from worlds.twin import Twin

# The tally is a counter by QI group and individual (how it counts: tests/unit/kernels/test_counts.py).


def test_the_tally_tells_groups_and_individuals_apart_up_to_the_largest_numbers() -> None:
    shard = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=True)
    pairs = [(group, who) for group in (-9, NO_GROUP_YET, 0, 7, 2**31 - 1) for who in (-(2**31), -2, 0, 1, 2**31 - 1)]
    for n, pair in enumerate(pairs):
        assert [count_in(shard, *pair) for _ in range(n % 3 + 1)] == list(range(1, n % 3 + 2))
    assert [tally_count(shard, *pair) for pair in pairs] == [n % 3 + 1 for n in range(len(pairs))]
    assert int(shard.state.tally_used[0]) == len(pairs)
    for pair in pairs[::3]:
        assert count_out(shard, *pair) == 0
    assert int(shard.state.tally_used[0]) == len(pairs) - len(pairs[::3])


TWO_KINDS, HALF_AT_MOST = asking(YEARS, l=2), asking(YEARS, beta="0.5")


def model_whole(small: Table) -> Table:
    """Merged groups stay as they are."""
    return replace(small, recut=False)


def table_of(small: Table, *groups: dict[int, str]) -> CoreTable:
    """QI groups of these years with their values, numbered from 1, whose rows have indexes in this order."""
    world = CoreTable(small)
    for group in groups:
        world.form(*group, values=tuple(group.values()))
    return world


def test_a_deletion_that_takes_the_last_row_of_a_value_has_the_group_merged() -> None:
    world = table_of(model_whole(TWO_KINDS), {0: "flu", 1: "cough", 2: "flu"}, {8: "flu", 9: "ulcer"})
    world.take(0)
    assert world.cells_by_number() == {1: [1, 2], 2: [8, 9]}
    world.take(1)
    assert world.cells_by_number() == {2: [2, 8, 9]}


def test_an_insertion_that_breaks_a_share_has_the_group_merged_as_often_as_it_takes() -> None:
    world = table_of(model_whole(HALF_AT_MOST), {0: "flu", 1: "cough"}, {4: "flu", 5: "ulcer"}, {8: "null", 9: "cough"})
    world.insert(2, "flu")
    assert world.cells_by_number() == {1: [0, 1, 2, 4, 5, 8, 9]}


def test_a_merge_goes_on_only_until_the_group_holds() -> None:
    world = table_of(
        model_whole(HALF_AT_MOST), {0: "flu", 1: "cough"}, {4: "itch", 5: "ulcer"}, {8: "null", 9: "cough"}
    )
    world.insert(2, "flu")
    assert world.cells_by_number() == {1: [0, 1, 2, 4, 5], 3: [8, 9]}


def test_what_was_merged_is_cut_where_both_halves_hold_and_not_where_it_costs_least() -> None:
    world = table_of(HALF_AT_MOST, {0: "flu", 1: "cough"}, {8: "ulcer", 9: "null"})
    world.insert(2, "flu")  # 0, 1, 2 | 8, 9 would cost least
    assert sorted(world.cells_by_number().values()) == [[0, 1], [2, 8, 9]]


def test_a_rewritten_value_breaks_a_group_though_no_row_moves() -> None:
    for small in (TWO_KINDS, HALF_AT_MOST):
        world = table_of(model_whole(small), {0: "flu", 1: "cough"}, {8: "ulcer", 9: "itch"})
        world.rewrite(1, 1, "flu")
        assert world.cells_by_number() == {1: [0, 1, 8, 9]}
        assert sorted(world.slots(1)) == ["flu", "flu", "itch", "ulcer"]


def test_the_last_group_that_does_not_hold_is_dissolved_and_forms_again_when_all_rows_together_hold() -> None:
    world = table_of(HALF_AT_MOST, {0: "flu", 1: "cough"})
    world.insert(2, "flu")
    assert (world.numbers(), world.core.field("n_pending")) == ([], 3)
    world.insert(3, "flu")
    world.insert(4, "ulcer")
    assert (world.numbers(), world.core.field("n_pending")) == ([], 5)
    world.rewrite(3, 3, "itch")
    assert world.core.field("n_pending") == 0
    assert sorted(world.cells_by_number().values()) == [[0, 1], [2, 3, 4]]


def test_k_pending_rows_stay_pending_until_another_value_comes() -> None:
    world = CoreTable(TWO_KINDS)
    for year in range(5):
        world.insert(year, "flu")
    assert (world.numbers(), world.core.field("n_pending"), pending_hold(world.s)) == ([], 5, False)
    world.insert(9, "cough")
    assert world.cells_by_number() == {1: [0, 1, 2, 3, 4, 9]}


def test_an_individual_with_too_large_a_share_breaks_its_group() -> None:
    world = CoreTable(asking(YEARS, individual="ssn", alpha="0.5"))
    for year, who in ((0, 0), (1, 1)):
        world.insert(year, who=who)
    assert world.numbers() == [1]
    world.insert(2, who=0)
    assert (world.numbers(), world.core.field("n_pending")) == ([], 3)
    world.insert(3, who=1)
    assert world.core.field("n_pending") == 0


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
    indexes, values = data.draw(st.lists(codes_of(small), min_size=1, max_size=4)), values_of(small)
    person = st.none() if small.individual is None else st.sampled_from("abcdefgh")
    alike = st.builds(
        lambda codes, value, who: Row(codes, value, tuple(f"code {codes[j]}" for j in small.stepless), who),
        st.sampled_from(indexes),
        values,
        person,
    )
    people = data.draw(st.lists(st.one_of(alike, small_tables_rows(small)), min_size=2, max_size=24))
    twin, keys = Twin(small, b"secret"), [str(i) for i in range(len(people))]
    twin.rows = dict(zip(keys, people, strict=True))
    if not twin.holds(keys):
        return
    engine = Engine(small, secret=b"secret")
    codes = np.array([row.codes for row in people])
    engine.load_initial(keys, people, codes, [np.arange(len(people))])
    engine.run()
    check_arrays(engine.arrays)
    twin.form(twin.new_number(), keys)
    s, halves = engine.arrays, twin.cut(1) if twin.count(keys) >= 2 * small.k else None
    open_to_cut = may_be_cut(s, 0)
    position, lower_stays = cut(s, 0)
    assert holds(s, 0)
    assert open_to_cut or halves is None
    assert (position > 0) == (halves is not None)
    if halves is not None:
        lower = set(s.work.ints[0, :position].tolist())
        assert (lower if lower_stays else set(members_of(s, 0)) - lower) == set(map(int, halves[0]))


# What the counts say of a QI group with one row less or one more is what its rows say, counted from the start.

Person = tuple[str, int]
"""What the row publishes, and whose it is."""

VALUES = ["null", *(f'"{leaf}"' for leaf in PROBLEMS.leaves)]
NOBODY_YET = 9

few_examples = settings(max_examples=max(20, settings().max_examples // 4))


def groups_of(small: Table, *groups: list[Person]) -> tuple[CoreTable, Twin, list[list[int]]]:
    """The core and its twin with these QI groups, whether they hold or not, and the indexes of their rows."""
    small = replace(small, attributes=(YEARS,))
    world, twin, indexes = CoreTable(small), Twin(small), []
    for group in groups:
        indexes.append([world.load(0, value, who) for value, who in group])
        named = [(GATHER, index, 0, "null", NONE) for index in indexes[-1]]
        world.run(*named, (FORM, NONE, 0, "null", NONE), ends=False)
        for index, (value, who) in zip(indexes[-1], group, strict=True):
            twin.rows[str(index)] = Row((0,), (value.encode(),), (), f"person {who}")
    return world, twin, indexes


def people(small: Table) -> st.SearchStrategy[list[Person]]:
    who = st.integers(0, 7) if small.individual else st.just(NONE)
    return st.lists(st.tuples(st.sampled_from([*VALUES, VALUES[1]]), who), min_size=1, max_size=8)


@pytest.mark.parametrize("small", MODEL_TABLES.values(), ids=MODEL_TABLES.keys())
@few_examples
@given(data=st.data())
def test_counts_say_which_row_a_group_can_lose_and_which_it_can_take(small: Table, data: st.DataObject) -> None:
    groups = data.draw(st.lists(people(small), min_size=2, max_size=3))
    world, twin, indexes = groups_of(small, *groups)
    for g, members in enumerate(indexes):
        keys = [str(index) for index in members]
        others = {key: [other for other in keys if other != key] for key in keys}
        spared = [key for key in keys if twin.count(keys) > small.k and twin.holds(others[key])]
        assert can_spare_one(world.s, g) == bool(spared)
        for index, (_, who) in zip(members, groups[g], strict=True):
            alone = not small.individual or [one for _, one in groups[g]].count(who) == 1
            assert can_lose(world.s, index) == (str(index) in spared and alone)
            for h, takers in enumerate(indexes):
                if h != g:
                    assert can_take(world.s, index, h) == twin.holds([*map(str, takers), str(index)])


@pytest.mark.parametrize("small", MODEL_TABLES.values(), ids=MODEL_TABLES.keys())
@few_examples
@given(data=st.data())
def test_no_row_at_all_suffices_if_the_counts_say_so(small: Table, data: st.DataObject) -> None:
    world, twin, ((*indexes,),) = groups_of(small, data.draw(people(small)))
    if not one_row_may_suffice(world.s, 0):
        for value in VALUES:
            twin.rows["newcomer"] = Row((0,), (value.encode(),), (), f"person {NOBODY_YET}")
            assert not twin.holds([*map(str, indexes), "newcomer"])


def test_one_row_may_suffice_if_one_value_is_missing_and_not_if_two_are() -> None:
    for flu, may in (([('"flu"', NONE), ('"cough"', NONE)], True), ([('"flu"', NONE)] * 2, False)):
        assert one_row_may_suffice(groups_of(MODEL_TABLES["distinct l"], flu)[0].s, 0) is may
