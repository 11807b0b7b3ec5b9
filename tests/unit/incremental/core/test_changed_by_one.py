"""What the counts say of a QI group with one row less or one more is what its rows say, counted anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.incremental.core.changed_by_one import can_lose, can_spare_one, can_take, one_may_do
from streamer.incremental.core.record_types import FORM, GATHER, NONE
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.core_tables import CoreTable
from worlds.model_tables import MODEL_TABLES, PROBLEMS
from worlds.small_tables import YEARS
from worlds.twin import Twin

Person = tuple[str, int]
"""What the row publishes, and whose it is."""

VALUES = ["null", *(f'"{leaf}"' for leaf in PROBLEMS.leaves)]
NOBODY_YET = 9

few_examples = settings(max_examples=max(20, settings().max_examples // 4))


def groups_of(small: Table, *groups: list[Person]) -> tuple[CoreTable, Twin, list[list[int]]]:
    """The core and its twin with these QI groups, whether they hold or not, and the places of their rows."""
    small = replace(small, attributes=(YEARS,))
    world, twin, places = CoreTable(small), Twin(small), []
    for group in groups:
        places.append([world.load(0, value, who) for value, who in group])
        named = [(GATHER, place, 0, "null", NONE) for place in places[-1]]
        world.run(*named, (FORM, NONE, 0, "null", NONE), ends=False)
        for place, (value, who) in zip(places[-1], group, strict=True):
            twin.rows[str(place)] = Row((0,), (value.encode(),), (), f"person {who}")
    return world, twin, places


def people(small: Table) -> st.SearchStrategy[list[Person]]:
    who = st.integers(0, 7) if small.individual else st.just(NONE)
    return st.lists(st.tuples(st.sampled_from([*VALUES, VALUES[1]]), who), min_size=1, max_size=8)


@pytest.mark.parametrize("small", MODEL_TABLES.values(), ids=MODEL_TABLES.keys())
@few_examples
@given(data=st.data())
def test_counts_say_which_row_a_group_can_lose_and_which_it_can_take(small: Table, data: st.DataObject) -> None:
    groups = data.draw(st.lists(people(small), min_size=2, max_size=3))
    world, twin, places = groups_of(small, *groups)
    for g, members in enumerate(places):
        keys = [str(place) for place in members]
        others = {key: [other for other in keys if other != key] for key in keys}
        spared = [key for key in keys if twin.count(keys) > small.k and twin.holds(others[key])]
        assert can_spare_one(world.s, g) == bool(spared)
        for place, (_, who) in zip(members, groups[g], strict=True):
            alone = not small.individual or [one for _, one in groups[g]].count(who) == 1
            assert can_lose(world.s, place) == (str(place) in spared and alone)
            for h, takers in enumerate(places):
                if h != g:
                    assert can_take(world.s, place, h) == twin.holds([*map(str, takers), str(place)])


@pytest.mark.parametrize("small", MODEL_TABLES.values(), ids=MODEL_TABLES.keys())
@few_examples
@given(data=st.data())
def test_no_row_at_all_would_do_where_the_counts_say_so(small: Table, data: st.DataObject) -> None:
    world, twin, ((*places,),) = groups_of(small, data.draw(people(small)))
    if not one_may_do(world.s, 0):
        for value in VALUES:
            twin.rows["newcomer"] = Row((0,), (value.encode(),), (), f"person {NOBODY_YET}")
            assert not twin.holds([*map(str, places), "newcomer"])


def test_one_row_may_do_where_one_value_is_missing_and_not_where_two_are() -> None:
    for flu, may in (([('"flu"', NONE), ('"cough"', NONE)], True), ([('"flu"', NONE)] * 2, False)):
        assert one_may_do(groups_of(MODEL_TABLES["distinct l"], flu)[0].s, 0) is may
