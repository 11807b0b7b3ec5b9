"""A region's QI groups replaced by others: exact, as few records as can be, and nothing where something changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.replacing import SLACK, STRIDE, Region, RegionGroups, cut_regions, successors
from streamer.incremental.engine.stored_state import QIGroupState
from streamer.incremental.events.changes import Change, Delete, Insert, Modify, Upsert
from streamer.incremental.release.changelog import Changelog
from streamer.table.arrays import Ints
from streamer.table.codes import Diversity
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.space import Space
from worlds.engine_tables import FoldedTable, apply_valid, drawn_groups, fewest_upserts, same_groups, seen, swapped
from worlds.small_tables import TABLES, YEARS, changes, table

# Which QI groups take the numbers of others: the very same, then the alike, then those of most rows in common.


def groups(of_row: Sequence[int], boxes: Sequence[tuple[int, int]], values: Sequence[int]) -> RegionGroups:
    """Groups in one attribute; values: of each row."""
    by, value = np.array(of_row), np.array(values)
    sizes = np.bincount(by)
    lo, hi = (np.array([box[side] for box in boxes]).reshape(-1, 1) for side in (0, 1))
    members = np.argsort(by, kind="stable")
    space, ordered = Space([YEARS.axis]), value[np.lexsort((value, by))]
    return RegionGroups(by, sizes, lo, hi, space, members, ordered, np.cumsum(sizes))


def test_the_same_rows_in_the_same_box_stay_untouched() -> None:
    old = groups([0, 0, 1, 1, 2, 2], [(0, 1), (5, 6), (8, 9)], [1, 2, 1, 2, 1, 2])
    new = groups([2, 2, 1, 1, 0, 0], [(8, 9), (5, 7), (0, 1)], [1, 2, 1, 2, 1, 2])
    assert successors(old, new) == ({0: 2, 1: 1, 2: 0}, {0, 2})


def test_a_box_with_equal_values_comes_before_the_rows_that_are_shared() -> None:
    old = groups([0, 0, 0, 1, 1, 1], [(0, 1), (5, 6)], [1, 1, 1, 2, 2, 2])
    new = groups([0, 0, 1, 1, 1, 0], [(5, 6), (0, 1)], [2, 2, 1, 1, 1, 2])
    assert successors(old, new) == ({1: 0, 0: 1}, set())


def test_where_nothing_is_alike_most_shared_rows_decide_and_then_the_order() -> None:
    old = groups([0, 0, 0, 1, 1, 1], [(0, 1), (5, 6)], [1] * 6)
    new = groups([1, 1, 0, 0, 0, 1], [(0, 9), (1, 8)], [1] * 6)
    assert successors(old, new)[0] == {0: 1, 1: 0}
    apart = groups([0, 0, 1, 1], [(0, 1), (5, 6)], [1] * 4)
    across = groups([0, 1, 0, 1], [(0, 9), (1, 8)], [1] * 4)
    assert successors(apart, across)[0] == {0: 0, 1: 1}


def test_what_is_over_has_no_successor() -> None:
    two = groups([0, 0, 1, 1], [(0, 1), (5, 6)], [1] * 4)
    one = groups([0, 0, 0, 0], [(0, 6)], [1] * 4)
    assert successors(two, one)[0] == {0: 0}
    assert successors(one, two)[0] == {0: 0}


# Regions: every QI group in one, none above its size, the same for the same table, other borders at every turn.

Boxes = tuple[Ints, Ints, Ints]


@st.composite
def tables(draw: st.DrawFn) -> Boxes:
    """Boxes among few cells, so that many centers are equal, and sizes."""
    n, d = draw(st.integers(0, 40)), draw(st.integers(1, 3))
    cells = st.integers(0, draw(st.sampled_from([1, 4, 100])))
    ends = draw(st.lists(st.tuples(*[st.tuples(cells, cells)] * d), min_size=n, max_size=n))
    sizes = draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))
    boxes = np.sort(np.array(ends, dtype=np.int64).reshape(n, d, 2), axis=2)
    return boxes[:, :, 0], boxes[:, :, 1], np.array(sizes, dtype=np.int64)


@given(tables(), st.integers(1, 60), st.integers(0, 1000))
def test_every_group_is_in_one_region_and_no_region_is_too_large(table: Boxes, rows_max: int, turn: int) -> None:
    *_, sizes = table
    regions = cut_regions(*table, rows_max, turn)
    assert sorted(np.concatenate([np.zeros(0, int), *regions]).tolist()) == list(range(len(sizes)))
    for region in regions:
        assert region.tolist() == sorted(region.tolist())
        assert sizes[region].sum() <= rows_max or len(region) == 1
    if sizes.sum() <= rows_max:
        assert len(regions) == (len(sizes) > 0)


@given(tables(), st.integers(0, 1000))
def test_the_cut_is_the_one_over_which_the_boxes_of_fewest_rows_reach(table: Boxes, turn: int) -> None:
    """Every attribute and every position is tried here, one by one."""
    lo, hi, sizes = table
    if len(sizes) < 2:
        return
    n, wanted = int(sizes.sum()), (1 + turn * STRIDE % 1) / 3 * int(sizes.sum())
    best: tuple[int, set[int]] | None = None
    for j in range(lo.shape[1]):
        order = sorted(range(len(sizes)), key=lambda i: int(lo[i, j] + hi[i, j]))
        off = [abs(int(sizes[order[:below]].sum()) - wanted) for below in range(1, len(order))]
        for below in range(1, len(order)):
            if off[below - 1] > max(min(off), SLACK * n):
                continue
            border = sum(float(lo[i, j] + hi[i, j]) / 4 for i in order[below - 1 : below + 1])
            over = sum(int(sizes[i]) for i in order if lo[i, j] <= border <= hi[i, j])
            if best is None or over < best[0]:
                best = over, set(order[:below])
    assert best is not None
    regions = cut_regions(lo, hi, sizes, n - 1, turn)
    if sizes.max() < n:
        assert [set(region.tolist()) for region in regions] == [best[1], set(range(len(sizes))) - best[1]]


@given(tables(), st.integers(1, 60), st.integers(0, 1000))
def test_along_one_attribute_regions_are_runs(table: Boxes, rows_max: int, turn: int) -> None:
    lo, hi, sizes = (part[table[2] <= rows_max] for part in table)
    centres = lo[:, 0] + hi[:, 0]
    regions = cut_regions(lo[:, :1], hi[:, :1], sizes, rows_max, turn)
    ends = sorted((centres[region].min(), centres[region].max()) for region in regions)
    assert all(one[1] <= other[0] for one, other in pairwise(ends))


def test_a_group_that_is_too_large_alone_does_not_break_up_the_others() -> None:
    cells = np.arange(5)[:, None]
    regions = cut_regions(cells, cells, np.array([2, 2, 100, 2, 2]), 10, turn=3)
    assert [region.tolist() for region in regions] == [[0, 1, 3, 4], [2]]


@pytest.mark.parametrize("d", [1, 3])
def test_borders_do_not_stay_from_one_turn_to_the_next(d: int) -> None:
    """Most neighbours that a border parts are together in the next rebuild."""
    cells = np.random.default_rng(5).integers(0, 100_000, (3000, d))
    sizes = np.full(3000, 5)

    def parted(turn: int) -> set[int]:
        region_of = np.empty(3000, int)
        for number, region in enumerate(cut_regions(cells, cells, sizes, 2000, turn)):
            region_of[region] = number
        return set(np.flatnonzero(np.diff(region_of[np.argsort(cells[:, 0])])).tolist())

    for turn in range(20):
        assert len(parted(turn) & parted(turn + 1)) <= 0.6 * len(parted(turn))


@given(st.integers(2, 60), st.integers(0, 30), st.integers(61, 300))
def test_there_are_not_many_more_regions_than_needed(rows_max: int, turn: int, n: int) -> None:
    """Either side of a cut has a sixth of the rows, but for half a group."""
    cells = np.random.default_rng(n).integers(0, 9, (n, 2))
    regions = cut_regions(cells, cells, np.ones(n, dtype=np.int64), rows_max, turn)
    assert min(map(len, regions)) >= rows_max // 6 - 1


SECRET = b"sixteen bytes of"


def lived(small: Table, changed: Sequence[Change]) -> tuple[Engine, FoldedTable]:
    """An engine after some changes, and what it drained."""
    engine, folded = Engine(small, secret=SECRET), FoldedTable()
    apply_valid(engine, changed)
    folded.fold(engine.drain())
    return engine, folded


def members_of(folded: FoldedTable) -> dict[int, frozenset[str]]:
    return {number: frozenset(state.members) for number, state in folded.qi_groups.items()}


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_the_loss_of_a_table_is_that_of_its_groups_together(small: Table, data: st.DataObject) -> None:
    engine, folded = lived(small, data.draw(st.lists(changes(small), max_size=40)))
    rows, published = sum(len(state.members) for state in folded.qi_groups.values()), engine.published
    shown = {number: state for number, state in folded.qi_groups.items() if not small.space.forbids(state.lo, state.hi)}
    assert published.rows == sum(len(state.members) for state in shown.values())
    assert published.withheld == rows - published.rows
    expected = small.space.mean_loss(loss(small, shown), published.rows)
    assert published.loss == (expected if expected is None else pytest.approx(expected, abs=1e-12))


def shown(small: Table, state: QIGroupState | None) -> QIGroupState | None:
    """The QI group, if readers see it."""
    return None if state is None or small.space.forbids(state.lo, state.hi) else state


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_a_replacement_does_what_was_asked_and_readers_see_as_little_of_it_as_can_be(
    small: Table, data: st.DataObject
) -> None:
    engine, folded = lived(small, data.draw(st.lists(changes(small), min_size=10, max_size=40)))
    chance = Random(data.draw(st.integers(0, 1000)))
    changelog, rows_max = Changelog(small, 0), data.draw(st.sampled_from([5, 10, 1000]))
    for numbers in engine.regions(data.draw(st.integers(0, 9)), rows_max):
        region = engine.region(numbers)
        groups = drawn_groups(small, region, chance)
        if chance.random() < 0.5:
            groups = swapped(region, groups, chance)
        before, next_before = dict(folded.qi_groups), folded.qi_group_next
        replaced = engine.replace(region, groups)
        drained = engine.drain()
        folded.fold(drained)
        now = {number: state for number, state in folded.qi_groups.items() if before.get(number) != state}
        gone = set(before) - set(folded.qi_groups)

        wanted = {frozenset(region.rows.source_keys[i] for i in members) for members in groups}
        others = {number for number in before if number not in numbers}
        assert {frozenset(s.members) for n, s in folded.qi_groups.items() if n not in others} == wanted
        assert all(folded.qi_groups[number] == before[number] for number in others)
        assert set(now) | gone <= set(numbers) | set(range(next_before, folded.qi_group_next))
        assert len(gone) == max(0, len(numbers) - len(groups))
        assert folded.qi_group_next - next_before == max(0, len(groups) - len(numbers))

        assert replaced is not None
        there = Counter(seen(before[number]) for number in numbers)
        asked = Counter(seen(s) for n, s in folded.qi_groups.items() if n not in others)
        assert replaced.kept == (there & asked).total()
        assert (replaced.groups_before, replaced.groups_now) == (len(numbers), len(groups))
        assert len(drained.published) == len(gone) + len(groups) - replaced.kept
        upserts = 0
        for number, was, became in drained.published:
            some = [entry for entry in changelog.diff(number, was, became)[0] if entry.value is not None]
            seen_before, seen_now = (shown(small, states.get(number)) for states in (before, folded.qi_groups))
            assert len(some) == (fewest_upserts(seen_before, seen_now) if seen_now else 0)
            upserts += len(some)
        assert replaced.rows_published_again == upserts or small.space.is_bounded
        inside = {n: s for n, s in folded.qi_groups.items() if n not in others}
        losses = [published_loss(small, {n: before[n] for n in numbers}), published_loss(small, inside)]
        assert np.allclose([replaced.ncp_before, replaced.ncp_now], losses)
        assert region.published_ncp == replaced.ncp_before
        assert region.ncp == pytest.approx(loss(small, {n: before[n] for n in numbers}))


def published_loss(small: Table, qi_groups: Mapping[int, QIGroupState]) -> float:
    """NCP times rows, summed; withheld rows as the others on average, all of it if there are no others."""
    rows = sum(len(state.members) for state in qi_groups.values())
    seen = {number: state for number, state in qi_groups.items() if shown(small, state)}
    n = sum(len(state.members) for state in seen.values())
    return loss(small, seen) * rows / n if n else small.space.d * rows


def loss(small: Table, qi_groups: Mapping[int, QIGroupState]) -> float:
    """NCP times rows, summed."""
    return sum(len(s.members) * float(small.space.ncp(np.array(s.lo), np.array(s.hi))) for s in qi_groups.values())


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_the_same_groups_again_publish_nothing_and_stay_as_they_are(small: Table, data: st.DataObject) -> None:
    engine, folded = lived(small, data.draw(st.lists(changes(small), min_size=10, max_size=40)))
    before = dict(folded.qi_groups)
    for numbers in engine.regions(0):
        region = engine.region(numbers)
        engine.replace(region, same_groups(engine, region))
    drained = engine.drain()
    if small.shrink:
        assert not (drained.published or drained.qi_groups or drained.records or drained.similarity)
        assert {n: s for n, s in before.items() if n in folded.qi_groups} == folded.qi_groups
    folded.fold(drained)
    assert members_of(folded) == {number: frozenset(state.members) for number, state in before.items()}


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_a_region_that_changed_meanwhile_is_left_alone(small: Table, data: st.DataObject) -> None:
    """Exactly where a row of it came, went, changed in cells or values, or moved to another group."""
    engine, folded = lived(small, data.draw(st.lists(changes(small), min_size=10, max_size=40)))
    chance = Random(data.draw(st.integers(0, 1000)))
    regions = [engine.region(numbers) for numbers in engine.regions(0, 10)]
    looks = [look(small, folded, region.numbers) for region in regions]
    apply_valid(engine, data.draw(st.lists(changes(small), min_size=0, max_size=3)))
    folded.fold(engine.drain())
    for region, was in zip(regions, looks, strict=True):
        changed = look(small, folded, region.numbers) != was
        kept = dict(folded.qi_groups)
        replaced = engine.replace(region, drawn_groups(small, region, chance))
        assert (replaced is None) == changed
        folded.fold(engine.drain())
        if changed:
            assert folded.qi_groups == kept


def look(small: Table, folded: FoldedTable, numbers: tuple[int, ...]) -> object:
    """Who is in which of these QI groups, with which cells and values, as which individual."""
    return {
        (number, key, tuple(small.space.cells(np.array(row.codes)).tolist()), row.values, row.individual)
        for number in numbers
        if number in folded.qi_groups
        for key in folded.qi_groups[number].members
        for row in [folded.records[key].row]
    }


@pytest.fixture
def engine() -> Engine:
    """Three QI groups: years 0, 0 and 5, 5 and 9, 9."""
    engine = Engine(table(YEARS, k=2), secret=SECRET)
    for i, year in enumerate([0, 0, 5, 5, 9, 9]):
        engine.apply(Insert(f"p{i}", Row((year,), (b'"flu"' if i % 2 else b'"cough"',))))
    engine.drain()
    return engine


def by_key(region: Region, *groups: str) -> list[Ints]:
    """Groups by the digits of their rows' source keys."""
    at = {key: i for i, key in enumerate(region.rows.source_keys)}
    return [np.array([at[f"p{digit}"] for digit in digits]) for digits in groups]


REFUSALS: dict[str, tuple[list[str], str]] = {
    "a row is in none": (["01", "23", "4"], "once each"),
    "a row is in two": (["01", "23", "345"], "once each"),
    "a group is too small": (["0", "123", "45"], "1 of 3 QI groups do not hold"),
    "a group is empty": (["01", "23", "45", ""], "1 of 4 QI groups do not hold"),
    "no group at all": ([], "once each"),
}


@pytest.mark.parametrize(("groups", "says"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_is_no_answer_is_refused_and_nothing_has_changed(engine: Engine, groups: list[str], says: str) -> None:
    region = engine.region(engine.regions(0)[0])
    with pytest.raises(LawViolated, match=says):
        engine.replace(region, by_key(region, *groups))
    drained = engine.drain()
    assert not (drained.published or drained.qi_groups)
    assert engine.replace(region, by_key(region, "01", "2345")) is not None


def test_every_group_has_to_hold_all_that_the_table_demands_not_only_k() -> None:
    diverse = replace(table(YEARS, k=2), diversity=Diversity(l=2))
    engine = Engine(diverse, secret=SECRET)
    rows = [Row((0,), (b'"%c"' % letter,)) for letter in b"abab"]
    engine.load_initial([f"p{i}" for i in range(4)], rows, np.zeros((4, 1), int), [np.arange(2), np.arange(2, 4)])
    engine.drain()
    region = engine.region((1, 2))
    with pytest.raises(LawViolated, match="2 of 2 QI groups do not hold the privacy model"):
        engine.replace(region, by_key(region, "02", "13"))
    assert engine.replace(region, by_key(region, "03", "12")) is not None


def test_row_numbers_that_there_are_not_are_refused(engine: Engine) -> None:
    region = engine.region(engine.regions(0)[0])
    for wrong in (6, -1):
        with pytest.raises(LawViolated, match="once each"):
            engine.replace(region, [np.array([0, 1, 2, 3, 4, wrong])])


def test_groups_take_the_numbers_of_those_with_which_they_share_most_and_the_rest_is_retired(engine: Engine) -> None:
    numbers = dict(engine.index_table())
    region = engine.region(engine.regions(0)[0])
    replaced = engine.replace(region, by_key(region, "0123", "45"))
    assert replaced is not None
    assert (replaced.groups_before, replaced.groups_now, replaced.kept) == (3, 2, 1)
    now = dict(engine.index_table())
    assert now["p4"] == now["p5"] == numbers["p4"]
    assert {now[f"p{i}"] for i in range(4)} == {min(numbers["p0"], numbers["p2"])}
    effect = engine.drain()
    assert effect.qi_groups[max(numbers["p0"], numbers["p2"])] is None


CHANGES: dict[str, tuple[Callable[[Engine], object], bool]] = {
    "a row comes": (lambda e: e.apply(Insert("p8", Row((5,), (b'"flu"',)))), True),
    "a row goes and comes back as it was": (
        lambda e: (e.apply(Delete("p0")), e.apply(Insert("p0", Row((0,), (b'"cough"',))))),
        True,
    ),
    "a value changes": (lambda e: e.apply(Modify("p3", values={0: b'"cough"'})), True),
    "a value changes and changes back": (
        lambda e: (e.apply(Modify("p3", values={0: b"1"})), e.apply(Modify("p3", values={0: b'"flu"'}))),
        False,
    ),
    "a message that changes nothing": (lambda e: e.apply(Upsert("p3", Row((5,), (b'"flu"',)))), False),
}


@pytest.mark.parametrize(("change", "changed"), CHANGES.values(), ids=CHANGES.keys())
def test_whether_a_region_has_changed_is_exact(
    engine: Engine, change: Callable[[Engine], object], changed: bool
) -> None:
    region = engine.region(engine.regions(0)[0])
    change(engine)
    assert (engine.replace(region, by_key(region, "01", "2345")) is None) is changed


def test_a_region_whose_groups_are_gone_is_empty_and_one_of_which_some_are_has_the_rest(engine: Engine) -> None:
    numbers = engine.regions(0)[0]
    assert engine.region((77, 78)).numbers == ()
    assert engine.replace(engine.region((77,)), []) is not None
    assert engine.region((*numbers, 77)).numbers == numbers


def test_rows_come_in_an_order_that_restarts_give_again_and_arrivals_do_not_decide() -> None:
    small = table(YEARS, k=2)
    people = [Insert(str(i), Row((i % 10,), (b"1",))) for i in range(40)]
    engine, folded = lived(small, people)
    keys = engine.region(engine.regions(0)[0]).rows.source_keys
    reloaded = Engine.load(small, 0, 1, folded.kept_table(), SECRET)
    assert reloaded.region(reloaded.regions(0)[0]).rows.source_keys == keys
    other, _ = lived(small, people[::-1])
    assert other.region(other.regions(0)[0]).rows.source_keys == keys
    assert keys not in (sorted(keys), [change.source_key for change in people])
