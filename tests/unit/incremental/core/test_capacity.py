"""Arrays that begin as small as can be grow in the middle of any operation, without a trace."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused, LawViolated
from streamer.incremental.core import capacity, layout
from streamer.incremental.core.layout import NO_GROUP_YET, Shard, empty_shard
from streamer.incremental.core.model import count_in, tally_count
from streamer.incremental.engine import constraints
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Delete, Insert, Modify
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.core_arrays import check_arrays
from worlds.covering import covering, parts_of, tables_of_the_gate
from worlds.recorded_streams import STREAMS
from worlds.recording import Replay
from worlds.small_tables import AGE, CITY, FEW_LONG, REPAIRED_MODELS, YEARS, changes, table

SHORT = {
    name: getattr(layout, name)
    for name in (
        "GROUPS", "POOL", "NODES", "ENTRIES", "SLOTS_BEFORE", "TOUCHED", "GONE", "MEMBERS", "TALLIES", "EXPORT",
    )
}  # fmt: skip


@pytest.mark.parametrize("what", ["GROUPS", "POOL", "NODES", "MEMBERS", "TALLIES"])
def test_capacity_for_so_many_is_made_where_there_is_less_and_only_there(what: str) -> None:
    small = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=True)
    before = lengths_of(small)[what][0]
    assert capacity.with_capacity(small, SHORT[what], before) is small
    larger = capacity.with_capacity(small, SHORT[what], 3 * before)
    assert lengths_of(larger)[what][0] == 3 * before
    assert larger.state.short == 0


def test_an_array_in_pages_of_its_own_is_an_array_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    small = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False)
    small.groups.group.number[:] = range(len(small.groups.group))
    small.groups.box[:, 1, 0] = range(len(small.groups.box))
    common = capacity.with_capacity(small, layout.GROUPS, 5_000).groups
    monkeypatch.setattr(capacity, "OWN_PAGES_FROM", 1)
    own = capacity.with_capacity(small, layout.GROUPS, 5_000).groups
    for one, other in zip(own, common, strict=True):
        assert (type(one), one.dtype, one.shape, one.strides) == (type(other), other.dtype, other.shape, other.strides)
        assert one.flags.writeable
        assert one.flags.aligned == other.flags.aligned
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        pytest.param(name, batch, marks=[pytest.mark.night] * ((batch == 1) == number % 2))
        for number, name in enumerate(STREAMS)
        for batch in (1, 500)
    ],
)
def test_a_shard_without_capacity_publishes_what_one_with_plenty_does(
    name: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "OWN_PAGES_FROM", 5_000)  # some of the arrays that grow then have pages of their own
    grow, shortages = capacity.grow, set()

    def noted(s: Shard) -> Shard:
        shortages.add(int(s.state.short[0]))
        return grow(s)

    stream = STREAMS[name]()
    plenty = Replay(stream, batch)
    monkeypatch.setattr(capacity, "grow", noted)
    monkeypatch.setattr(layout, "FIRST_CAPACITY", 1)
    tight = Replay(stream, batch)
    assert tight.of_any_batch() == plenty.of_any_batch()
    assert tight.of_this_batch() == plenty.of_this_batch()
    assert shortages >= {layout.GROUPS, layout.POOL, layout.NODES, layout.MEMBERS, layout.EXPORT}
    assert (layout.TALLIES in shortages) == (stream.table.individual is not None)


@tables_of_the_gate("small", REPAIRED_MODELS, covering(REPAIRED_MODELS, parts_of))
@FEW_LONG
@given(data=st.data())
def test_what_a_model_counts_grows_with_the_shard_and_is_right_everywhere(small: Table, data: st.DataObject) -> None:
    plenty = Engine(small)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "FIRST_CAPACITY", 1)
        tight = Engine(small)
    for change in data.draw(st.lists(changes(small), min_size=20, max_size=40)):
        for engine in (plenty, tight):
            with suppress(EventRefused):
                engine.apply(change)
        tight.run()
        check_arrays(tight.arrays)
    assert dict(tight.index_table()) == dict(plenty.index_table())
    assert tight.drain().published == plenty.drain().published


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> Shard:
    monkeypatch.setattr(layout, "FIRST_CAPACITY", 3)
    return empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=True)


def fill(array: Any, random: np.random.Generator) -> None:
    for column in columns_of(array):
        column[...] = random.integers(1, 100, column.shape)


def arrays_in(part: Any) -> list[Any]:
    """The arrays of a named tuple, also of nested ones."""
    return [one for each in part for one in arrays_in(each)] if isinstance(part, tuple) else [part]


def columns_of(array: Any) -> list[Any]:
    plain = array.view(np.ndarray)
    return [plain] if array.dtype.names is None else [plain[name] for name in array.dtype.names]


@pytest.mark.parametrize("what", sorted(set(SHORT) - {"TALLIES", "EXPORT"}))
def test_contents_keep_their_indexes_and_the_rest_is_zero(tight: Shard, what: str) -> None:
    random = np.random.default_rng(1)
    for part in (tight.groups, tight.tree, tight.journal):
        for array in part:
            fill(array, random)
    fill(tight.work.ints, random)
    before = [[array.copy() for array in arrays_in(part)] for part in (*tight[3:6], tight.work)]
    tight.state.short, tight.state.short_by = SHORT[what], 50
    after = capacity.grow(tight)
    assert int(after.state.short[0]) == 0
    longer = 0
    for olds, news in zip(before, (*after[3:6], after.work), strict=True):
        for old, new in zip(olds, arrays_in(news), strict=True):
            assert (type(new), new.dtype) == (type(old), old.dtype)
            longer += new.shape != old.shape
            for was, now in zip(columns_of(old), columns_of(new), strict=True):
                kept = tuple(map(slice, old.shape))
                assert (now[kept] == was).all()
                now[kept] = 0
                assert not now.any()
    assert longer


@pytest.mark.parametrize("what", sorted(SHORT))
def test_there_is_as_much_as_was_asked_for(tight: Shard, what: str) -> None:
    tight.state.short, tight.state.short_by = SHORT[what], 1000
    assert min(lengths_of(capacity.grow(tight))[what]) >= 1000


def lengths_of(s: Shard) -> dict[str, list[int]]:
    return {
        "GROUPS": [*map(len, s.groups[:3]), len(s.groups.near), s.work.heap.shape[1] // 2],
        "POOL": [s.groups.pool.shape[1]],
        "NODES": [*map(len, s.tree)],
        "ENTRIES": [len(s.journal.entry), len(s.journal.box)],
        "SLOTS_BEFORE": [len(s.journal.slots_before)],
        "TOUCHED": [len(s.journal.touched)],
        "GONE": [len(s.journal.gone)],
        "MEMBERS": [s.work.ints.shape[1], s.work.tie_hashes.shape[1], len(s.work.losses)],
        "TALLIES": [len(s.work.tally.n)],
        "EXPORT": [len(s.export.numbers), len(s.export.scores)],
    }


def test_a_tally_that_grows_still_knows_how_many_rows_everyone_has(tight: Shard) -> None:
    for _ in range(3):
        count_in(tight, 5, 8)
    count_in(tight, NO_GROUP_YET, 8)
    tight.state.short, tight.state.short_by = layout.TALLIES, 40
    s = capacity.grow(tight)
    found = [tally_count(s, group, 8) for group in (5, NO_GROUP_YET, 6)]
    assert (found, int(s.state.tally_used[0])) == ([3, 1, 0], 2)


def test_a_stop_that_does_not_say_what_is_short_breaks_a_law(tight: Shard) -> None:
    tight.state.short = 99
    with pytest.raises(LawViolated, match="did not say of what"):
        capacity.grow(tight)


def test_enough_capacity_is_left_as_it_is(tight: Shard) -> None:
    assert capacity.with_rows(tight, 3) is tight
    assert capacity.with_individuals(tight, 3) is tight
    assert capacity.with_values(tight, 3, 48).values is tight.values


def test_rows_individuals_and_values_get_capacity(tight: Shard) -> None:
    s = capacity.with_values(capacity.with_individuals(capacity.with_rows(tight, 10), 11), 12, 130)
    assert (len(s.rows.row), len(s.rows.cells)) == (10, 10)
    assert (len(s.work.last_seen), len(s.values.value), len(s.values.text)) == (11, 12, 130)


@pytest.mark.parametrize("n_changes", [10_000, pytest.param(20_000, marks=pytest.mark.night)])
@pytest.mark.parametrize("individual", [None, "ssn"])
def test_under_a_steady_load_nothing_keeps_growing(
    individual: str | None, n_changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value is new, every other row a new individual; what is used stays within what 100 rows need."""
    monkeypatch.setattr(constraints, "SPARE_VALUES", 50)
    monkeypatch.setattr(layout, "FIRST_CAPACITY", 8)
    small, random, there = table(AGE, CITY, k=3, individual=individual), Random(5), list[str]()
    engine = Engine(small)
    sizes = list[list[int]]()
    for i in range(n_changes):
        row = Row((random.randrange(23), random.randrange(6)), (b'"%d"' % i,), (), individual and f"p{i // 2}")
        if len(there) < 100 or (len(there) < 110 and random.random() < 0.4):
            there.append(f"k{i}")
            engine.apply(Insert(there[-1], row))
        elif random.random() < 0.5:
            engine.apply(Delete(there.pop(random.randrange(len(there)))))
        else:
            engine.apply(Modify(random.choice(there), {0: row.codes[0]}, {}, {0: row.values[0]}, None))
        if i % 20 == 19:
            engine.drain()
            sizes.append([array.nbytes for array in arrays_in(engine.arrays)])
    engine.drain()
    used = ("pool_used", "groups_used", "nodes_used", "rows_used", "tally_used")
    assert {name: n for name in used if (n := int(engine.arrays.state[name][0])) > 8 * 110} == {}
    assert len(engine.rows.values.things) < 500
    assert all(last <= 2 * half_way for last, half_way in zip(sizes[-1], sizes[len(sizes) // 2], strict=True))
