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
    tally_count,
)
from streamer.incremental.core.repair import move_row
from streamer.incremental.engine.engine import Engine
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.core_arrays import CoreTable, check_arrays, members_of
from worlds.small_tables import MODEL_TABLES, PROBLEMS, YEARS, codes_of, table, values_of
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
    """Also after rows have changed groups: of laws, only the counts of the group that was asked about last are kept."""
    world, twin, indexes = groups_of(small, *data.draw(st.lists(people(small), min_size=2, max_size=3)))
    assert_counts_say_the_same(world, twin, indexes)
    for _ in range(data.draw(st.integers(0, 3))):
        numbers = st.permutations(range(len(indexes)))
        g, h, *_ = data.draw(numbers.filter(lambda drawn: indexes[drawn[0]]))
        index = data.draw(st.sampled_from(indexes[g]))
        can_lose(world.s, index)
        move_row(world.s, index, h)
        indexes[g].remove(index)
        indexes[h].append(index)
        asked_first = data.draw(st.sampled_from([g, h]))
        assert_counts_say_the_same(world, twin, indexes, asked_first)


def assert_counts_say_the_same(world: CoreTable, twin: Twin, indexes: list[list[int]], first: int = 0) -> None:
    for g in sorted(range(len(indexes)), key=lambda number: number != first):
        keys = [str(index) for index in indexes[g]]
        whose = [twin.rows[key].individual for key in keys]
        others = {key: [other for other in keys if other != key] for key in keys}
        spared = [key for key in keys if twin.count(keys) > twin.table.k and twin.holds(others[key])]
        for key, one in zip(keys, whose, strict=True):
            alone = not twin.table.individual or whose.count(one) == 1
            assert can_lose(world.s, int(key)) == (key in spared and alone)
        assert can_spare_one(world.s, g) == bool(spared)
        for h, takers in enumerate(indexes):
            for key in keys if h != g else ():
                assert can_take(world.s, int(key), h) == twin.holds([*map(str, takers), key])


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
