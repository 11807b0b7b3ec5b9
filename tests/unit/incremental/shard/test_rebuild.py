"""The sampled loss against a fresh table's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as dataclasses_replace
from decimal import Decimal
from itertools import pairwise
from math import fsum, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from streamer.errors import UsageError
from streamer.incremental.engine.replacing import NOWHERE, Region, Replaced
from streamer.incremental.shard import rebuild
from streamer.incremental.shard.rebuild import (
    CHANGED_LEAST,
    CLOCK,
    DRIFT,
    FULL_DOMAIN,
    LOOK_SECONDS,
    LOST_MORE_MAX,
    RESTARTS_MAX,
    SAMPLE_REGIONS,
    Looked,
    Rebuilding,
    Situation,
    adapted,
    described,
    drawn,
    due,
    gain,
    gains,
    how_it_ended,
    last_rebuild,
    look_is_due,
    losses,
    next_rebuild,
    ratio,
    reached,
    region_rows,
    region_seed,
    spared,
    told,
    waits,
)
from streamer.incremental.store.base import (
    ANSWERED,
    CANCELLED,
    DONE,
    FAILED,
    REFUSED,
    RUNNING,
    STOPPED,
    Meta,
    Progress,
    Rebuild,
)
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.table.arrays import Ints
from streamer.table.codes import Diversity
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Limits, RebuildRules, Table
from worlds.small_tables import TABLES, YEARS, codes_of

PEOPLE = TABLES["decimal, number, category"]


@given(data=st.data(), n=st.integers(1, 40), seed=st.integers(0, 1000))
def test_the_loss_is_that_of_the_smallest_boxes_row_by_row(data: st.DataObject, n: int, seed: int) -> None:
    space = PEOPLE.space
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, space.n_cells * space.codes_per_cell, size=(n, space.d))
    group_of = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    groups = [np.flatnonzero(group_of == g) for g in np.unique(group_of)]
    boxes = [space.box_of_cells(space.cells(codes[group])) for group in groups]
    expected = fsum(float(space.ncp(lo, hi)) * len(g) for (lo, hi), g in zip(boxes, groups, strict=True))
    assert space.loss_of(space.cells(codes), groups) == pytest.approx(expected, rel=1e-12)


def test_nobody_loses_nothing() -> None:
    assert PEOPLE.space.loss_of(np.empty((0, PEOPLE.space.d), dtype=np.int64), []) == 0.0


def test_a_table_that_need_not_lose_anything_has_drifted_without_bound_once_it_does() -> None:
    assert (ratio(3.0, 2.0), ratio(0.0, 0.0), ratio(1.0, 0.0)) == (1.5, 1.0, inf)
    assert (ratio(1.0, 0.5), ratio(0.5, 0.0)) == (2.0, inf)


@given(n=st.integers(0, 50), seed=st.integers(0, 2**63))
def test_regions_are_drawn_once_each_and_all_where_they_are_few(n: int, seed: int) -> None:
    chosen = drawn(range(n), seed)
    assert len(set(chosen)) == len(chosen) == min(n, SAMPLE_REGIONS)
    assert chosen == drawn(range(n), seed) == sorted(chosen)


def test_a_look_for_drift_is_at_two_regions() -> None:
    assert [len(drawn(range(n), 1)) for n in (0, 1, 2, 3, 9)] == [0, 1, 2, 2, 2]


# How large a region is, and when it is worth replacing.

TABLE = TABLES["one number"]


def test_algorithms_that_recode_all_rows_alike_are_known() -> None:
    assert {name for name, algorithm in ALGORITHMS.items() if algorithm.full_domain} == FULL_DOMAIN


def test_a_region_is_as_large_as_a_transaction_may_be() -> None:
    assert region_rows(TABLE, "ordered", 10**6) == Limits().transaction_rows_max
    small = dataclasses_replace(TABLE, limits=Limits(transaction_rows_max=300))
    assert region_rows(small, "mondrian", 10**6) == 300


def test_what_recodes_all_rows_alike_gets_the_whole_shard_or_is_refused_with_the_size() -> None:
    assert region_rows(TABLE, "ola", 20_000) == 20_000
    with pytest.raises(UsageError, match=r"20,001 rows are more than limits\.transaction_rows_max = 20,000"):
        region_rows(TABLE, "ola", 20_001)


def test_only_a_region_that_loses_less_is_worth_replacing() -> None:
    codes = np.array([[0], [0], [5], [5]])
    apart, together = [np.array([0, 1]), np.array([2, 3])], [np.arange(4)]
    rows = EncodedRows(["a", "b", "c", "d"], codes, [()] * 4, [()] * 4, [None] * 4)
    lost = TABLE.space.loss_of(TABLE.space.cells(codes), together)
    wide = Region((1,), rows, lost, lost, b"", np.zeros(4, int))
    narrow = Region((1, 2), rows, 0.0, 0.0, b"", np.array([0, 0, 1, 1]))
    assert gains(TABLE.space, wide, apart, "ordered")
    assert not gains(TABLE.space, narrow, apart, "ordered")
    assert not gains(TABLE.space, wide, together, "ordered")
    assert gains(TABLE.space, narrow, together, "ola")
    bounded = dataclasses_replace(TABLE, attributes=(dataclasses_replace(YEARS, coarsest=Decimal(1)),))
    assert not gains(bounded.space, narrow, together, "ola"), "it would be withheld"


# What is said of rebuilds that are remembered.

ONE = Progress(
    Rebuild("a", "ordered", 7, 3), 8, done=8, rows_published_again=9_812, ncp_before=200.0, ncp_now=150.0, state=DONE,
    why="drift", began=1_000, at=1_012, drift=1.4,
)  # fmt: skip
REFUSAL = Progress(Rebuild("b", "", 0, 4), 0, state=REFUSED, said="a rebuild is running")


def state(name: str, **more: object) -> Progress:
    return changed(ONE, state=name, **more)


def test_an_answer_to_a_request_is_no_rebuild() -> None:
    answer = changed(REFUSAL, state=ANSWERED)
    assert last_rebuild([ONE, REFUSAL, answer]) == ONE
    assert last_rebuild([REFUSAL]) is None
    assert last_rebuild([ONE, state(FAILED)]) == state(FAILED)


def test_the_gain_is_a_share_of_the_loss() -> None:
    assert gain(ONE) == 0.25
    assert gain(changed(ONE, ncp_before=0.5, ncp_now=0.25)) == 0.5
    assert gain(REFUSAL) == 0.0


@pytest.mark.parametrize(
    ("progress", "after"),
    [
        (ONE, 1.4 * 0.75),
        (changed(ONE, done=4), 1.4 * 0.875),
        (changed(ONE, ncp_now=200.0), 1.4),
        (changed(ONE, drift=0.0), 1.0),
        (changed(ONE, total=1, done=1), 1.4 * 0.75),
        (changed(ONE, total=0, done=0, ncp_before=0.0, ncp_now=0.0, state=FAILED), 1.4),
    ],
)
def test_what_was_reached_is_the_drift_before_less_what_was_gained(progress: Progress, after: float) -> None:
    assert reached(progress) == pytest.approx(after)


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (ONE, "done, loss -25.0%, 9,812 rows published again, 12 s"),
        (state(DONE, left=2),
         "done, loss -25.0%, 9,812 rows published again, 12 s, 2 regions were too busy and stay as they were"),
        (state(DONE, at=1_000), "done, loss -25.0%, 9,812 rows published again, 0 s"),
        (state(DONE, at=999), "done, loss -25.0%, 9,812 rows published again, 0 s"),
        (state(RUNNING, done=3), "3 of 8 regions, loss -25.0%, 9,812 rows published again, 12 s"),
        (state(FAILED, done=3, said="out of memory"),
         "failed with 3 of 8 regions done, loss -25.0%, 9,812 rows published again, 12 s: out of memory"),
        (REFUSAL, "refused: a rebuild is running"),
        (changed(REFUSAL, state=ANSWERED, said="the rebuild was stopped"), "the rebuild was stopped"),
    ],
)  # fmt: skip
def test_a_rebuild_is_told_in_one_line(progress: Progress, words: str) -> None:
    assert told(progress) == words


def test_programs_are_told_the_same_in_numbers() -> None:
    one = changed(ONE, rows=300, ncp_before=200.0, ncp_now=400 / 3, drift=1.23456789)
    assert described(one, TABLE.space) == {
        "id": "a", "state": DONE, "algorithm": "ordered", "why": "drift", "began": 1_000, "at": 1_012, "regions": 8,
        "done": 8, "left": 0, "rows_published_again": 9_812, "ncp_before": 0.666667, "ncp_now": 0.444444,
        "gain": 0.333333, "drift": 1.2346, "said": "",
    }  # fmt: skip
    said = described(changed(ONE, drift=0.0), TABLE.space)
    assert (said["drift"], said["ncp_before"], said["ncp_now"]) == (None, None, None)


def test_the_loss_of_a_rebuild_is_a_mean_and_none_where_a_former_version_did_not_count_the_rows() -> None:
    assert losses(changed(ONE, rows=400), TABLE.space) == (0.5 / TABLE.space.d, 0.375 / TABLE.space.d)
    assert losses(ONE, TABLE.space) == (None, None)


def test_who_waits_for_a_request_waits_until_it_has_ended_for_good() -> None:
    meta = Meta()
    assert how_it_ended(meta, "a") is None
    assert how_it_ended(dataclasses_replace(meta, rebuild=state(RUNNING)), "a") is None
    assert how_it_ended(dataclasses_replace(meta, rebuilds=(ONE, REFUSAL)), "a") == ONE
    assert how_it_ended(dataclasses_replace(meta, rebuild=state(RUNNING), rebuilds=(REFUSAL,)), "b") == REFUSAL
    assert how_it_ended(dataclasses_replace(meta, rebuilds=(state(CANCELLED),)), "a") == state(CANCELLED)


def test_a_rebuild_whose_worker_went_is_waited_for_as_long_as_it_will_be_begun_anew() -> None:
    went = state(STOPPED)
    assert RESTARTS_MAX == 2
    assert how_it_ended(Meta(rebuilds=(went,) * RESTARTS_MAX), "a") is None
    assert how_it_ended(Meta(rebuild=state(RUNNING), rebuilds=(went,)), "a") is None
    assert how_it_ended(Meta(rebuilds=(went,) * (RESTARTS_MAX + 1)), "a") == went
    assert how_it_ended(Meta(rebuilds=(went, ONE)), "a") == ONE


# One rebuild of a shard: which region comes next, what happens to those that change, how it ends.

REBUILD = Rebuild("r1", "ordered", 7, 0)
REGIONS = [(1, 2), (3,), (4, 5)]
REPLACED = Replaced(2, 3, 1, 10, 5.0, 4.0, 12)


REBUILDING = Rebuilding(Progress(REBUILD, 3), tuple(REGIONS), b"secret")


def replaced(rebuilding: Rebuilding) -> Rebuilding:
    return rebuilding.replaced(rebuilding.progress.after(REPLACED))


def test_regions_are_done_in_their_order_and_then_the_rebuild_is_over() -> None:
    rebuilding, done = REBUILDING, []
    while (task := rebuilding.task) is not None:
        assert task.seed == region_seed(b"secret", 7, task.numbers)
        done.append(task.numbers)
        rebuilding = replaced(rebuilding)
    assert done == REGIONS
    assert (rebuilding.closed().state, rebuilding.closed().done) == (DONE, 3)


def test_a_region_that_changes_is_done_again_three_times_and_then_left_and_counted() -> None:
    rebuilding = REBUILDING
    for tries in (0, 1, 2, 3):
        assert rebuilding.task is not None
        assert (rebuilding.tries, rebuilding.task.numbers, rebuilding.progress.left) == (tries, (1, 2), 0)
        rebuilding = rebuilding.changed()
    assert rebuilding.task is not None
    assert (rebuilding.tries, rebuilding.task.numbers, rebuilding.progress.left) == (0, (3,), 1)


def test_a_rebuild_that_is_ended_has_no_next_region_and_stays_what_it_became() -> None:
    ended = REBUILDING.ended(CANCELLED)
    assert (ended.task, ended.closed().state) == (None, CANCELLED)
    assert "secret" not in repr(REBUILDING).replace("secret=", "")


def test_a_region_that_was_done_late_leaves_the_next_all_its_tries() -> None:
    assert replaced(REBUILDING.changed()).tries == 0


def test_a_cancel_that_comes_when_all_is_done_changes_nothing() -> None:
    rebuilding = REBUILDING
    for _ in REGIONS:
        rebuilding = replaced(rebuilding)
    assert rebuilding.ended(CANCELLED).closed().state == DONE


def test_a_table_without_qi_groups_is_rebuilt_at_once() -> None:
    rebuilding = Rebuilding(Progress(REBUILD, 0), (), b"secret")
    assert rebuilding.task is None
    assert rebuilding.closed() == Progress(REBUILD, 0, state=DONE)


def test_seeds_of_regions_differ_by_region_seed_and_secret_and_by_nothing_else() -> None:
    seeds = [
        region_seed(secret, seed, numbers) for secret in (b"a", b"b") for seed in (1, 2**64) for numbers in REGIONS
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert region_seed(b"a", 1, (1, 2)) == 3002920023820983068, "else a version would make another table"
    assert region_seed(b"a", 1, [1, 2]) == region_seed(b"a", 1, (1, 2)) == seeds[0]


def test_the_same_region_has_another_seed_at_every_turn_of_another_seed() -> None:
    other = Rebuilding(Progress(Rebuild("r2", "ordered", 8, 1), 3), tuple(REGIONS), b"secret")
    assert REBUILDING.task is not None
    assert other.task is not None
    assert REBUILDING.task.seed != other.task.seed


def test_every_rebuild_of_a_shard_has_a_turn_of_its_own_whatever_became_of_the_last() -> None:
    meta = Meta()
    assert next_rebuild(meta, "a", "ordered", 1) == Rebuild("a", "ordered", 1, 0)
    meta = Meta(rebuild=Progress(Rebuild("b", "ordered", 1, 7), 3))
    assert next_rebuild(meta, "c", "ordered", 1).turn == 8
    meta = Meta(rebuilds=(Progress(Rebuild("b", "ordered", 1, 7), 3), Progress(Rebuild("d", "emp", 1, 8), 3)))
    assert next_rebuild(meta, "c", "ordered", 1).turn == 9


# What changed while an algorithm was at a region is fitted into its answer.

K2 = TABLES["one number"]
DIVERSE = dataclasses_replace(K2, diversity=Diversity(l=2))
TABLES_TRIED = {**TABLES, "diverse": DIVERSE}


def region(people: Mapping[str, tuple[int, ...]], problems: dict[str, bytes] | None = None, d: int = 1) -> Region:
    """People by source key with their codes; k counts them by the name before the dash."""
    codes = np.array(list(people.values()), dtype=np.int64).reshape(len(people), d)
    values: list[tuple[bytes, ...]] = [((problems or {}).get(name, b'"flu"'),) for name in people]
    who: list[str | None] = [name.partition("-")[0] for name in people]
    return Region(
        (1,),
        EncodedRows(list(people), codes, values, [()] * len(people), who),
        0.0,
        0.0,
        b"",
        np.zeros(len(people), int),
    )


def named(now: Region, groups: list[Ints]) -> list[list[str]]:
    return sorted(sorted(now.rows.source_keys[i] for i in members.tolist()) for members in groups)


WAS = region({"a": (0,), "b": (0,), "c": (5,), "d": (5,), "e": (5,)})
GROUPS = [np.array([0, 1]), np.array([2, 3, 4])]


def adapted_to(people: Mapping[str, tuple[int, ...]]) -> list[list[str]]:
    now = region(people)
    return named(now, adapted(K2, WAS, GROUPS, now) or [])


def test_where_nothing_changed_the_answer_is_the_algorithms() -> None:
    assert named(WAS, adapted(K2, WAS, GROUPS, WAS) or []) == [["a", "b"], ["c", "d", "e"]]


def test_who_came_or_moved_joins_the_group_that_loses_least() -> None:
    people = {"a": (0,), "b": (0,), "c": (1,), "d": (5,), "e": (5,), "f": (6,)}
    assert adapted_to(people) == [["a", "b", "c"], ["d", "e", "f"]]


def test_who_has_gone_is_left_out() -> None:
    assert adapted_to({"a": (0,), "b": (0,), "d": (5,), "e": (5,)}) == [["a", "b"], ["d", "e"]]


def test_a_group_that_lost_too_many_is_joined_with_another() -> None:
    assert adapted_to({"a": (0,), "c": (5,), "d": (5,), "e": (5,)}) == [["a", "c", "d", "e"]]


@pytest.mark.parametrize("people", [{}, {"x": (3,)}, {"x": (3,), "y": (4,)}])
def test_where_hardly_anybody_is_left_there_is_one_group_at_most(people: dict[str, tuple[int, ...]]) -> None:
    assert adapted_to(people) == ([sorted(people)] if people else [])


def test_where_the_algorithm_made_no_group_those_who_came_are_one() -> None:
    now = region({"x": (3,), "y": (4,)})
    assert named(now, adapted(K2, region({}), [], now) or []) == [["x", "y"]]


def fitted_one_by_one(table: Table, was: Region, groups: list[Ints], now: Region) -> list[list[int]]:
    """What `adapted` promises, group by group: everything is summed up anew for every choice."""
    space, cells, before = table.space, table.space.cells(now.rows.codes), table.space.cells(was.rows.codes)
    lay_in = {was.rows.source_keys[i]: (number, before[i]) for number, some in enumerate(groups) for i in some.tolist()}
    rows: dict[int, list[int]] = {number: [] for number in range(max(1, len(groups)))}
    came: list[int] = []
    for i, source_key in enumerate(now.rows.source_keys):
        number, former = lay_in.get(source_key, (0, None))
        stays = former is not None and (former == cells[i]).all()
        (rows[number] if stays else came).append(i)

    def ncp(some: list[int]) -> float:
        return float(space.ncp(*space.box_of_cells(cells[some])))

    def best(more: list[int]) -> int | None:
        def growth(number: int) -> float:
            size = len(rows[number])
            return ncp([*rows[number], *more]) * (size + len(more)) - ncp(rows[number]) * size

        return min((number for number, some in rows.items() if some), key=growth, default=None)

    for i in came:
        rows[best([i]) or 0].append(i)
    model, microdata = model_of(table), microdata_of(table, now.rows)
    subjects = microdata.subjects(model.subjects)
    while lacking := [number for number, some in rows.items() if some and not model.holds(subjects[some])]:
        joins, rows[lacking[0]] = rows[lacking[0]], []
        other = best(joins)
        if other is None:
            rows[lacking[0]] = joins
            break
        rows[other] += joins
    return sorted(sorted(some) for some in rows.values() if some)


@given(data=st.data(), name=st.sampled_from(sorted(TABLES_TRIED)))
def test_everybody_is_where_least_is_lost_and_what_lacks_somebody_is_joined_lowest_first(
    data: st.DataObject, name: str
) -> None:
    table: Table = TABLES_TRIED[name]
    keys = [f"p{i}" for i in range(14)]
    before = data.draw(st.fixed_dictionaries({key: codes_of(table) for key in keys[:10]}))
    moved = data.draw(st.fixed_dictionaries({}, optional={key: codes_of(table) for key in keys}))
    gone = data.draw(st.sets(st.sampled_from(keys), max_size=4))
    was = region(before, None, table.space.d)
    after = {key: codes for key, codes in {**before, **moved}.items() if key not in gone}
    now = region(after, dict.fromkeys(keys[::3], b'"cough"'), table.space.d)
    label = np.array(data.draw(st.lists(st.integers(0, 4), min_size=10, max_size=10)))
    groups = [np.flatnonzero(label == number) for number in np.unique(label)]
    found = adapted(table, was, groups, now)
    assert found is not None
    assert sorted(some.tolist() for some in found) == fitted_one_by_one(table, was, groups, now)


def test_where_too_much_has_changed_nothing_is_fitted_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "FITTED_MOST", 1)
    assert adapted(K2, WAS, GROUPS, region({"a": (0,), "b": (0,), "x": (3,)})) is not None
    assert adapted(K2, WAS, GROUPS, region({"a": (0,), "b": (0,), "x": (3,), "y": (3,)})) is None


@given(data=st.data(), name=st.sampled_from(sorted(TABLES_TRIED)))
def test_everybody_is_in_one_group_that_holds_the_model_whatever_changed(data: st.DataObject, name: str) -> None:
    table: Table = TABLES_TRIED[name]
    d = table.space.d
    keys = [f"{who}-{i}" for i, who in enumerate("aabbccddeeffgghh")]
    places = st.fixed_dictionaries({key: codes_of(table) for key in keys})
    problems = data.draw(st.fixed_dictionaries({key: st.sampled_from([b'"flu"', b'"cough"']) for key in keys}))
    before, after = data.draw(places), data.draw(places)
    stays = data.draw(st.sets(st.sampled_from(keys)))
    was = region({key: before[key] for key in data.draw(st.lists(st.sampled_from(keys), unique=True))}, problems, d)
    there = data.draw(st.lists(st.sampled_from(keys), unique=True))
    now = region({key: before[key] if key in stays else after[key] for key in there}, problems, d)
    label = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(keys), max_size=len(keys))))
    label = label[: len(was.rows.source_keys)]
    groups = [np.flatnonzero(label == number) for number in np.unique(label)]
    found = adapted(table, was, groups, now)
    assert found is not None
    assert sorted(np.concatenate([np.zeros(0, int), *found]).tolist()) == list(range(len(there)))
    assert all(len(members) for members in found)
    microdata, model = microdata_of(table, now.rows), model_of(table)
    subjects = microdata.subjects(model.subjects)
    if len(there) and model.holds(subjects):
        assert all(model.holds(subjects[members]) for members in found)
    else:
        assert len(found) <= 1


# When a shard rebuilds itself: by the clock, by drift, and not again and again.

DAY = 86_400
DAILY = RebuildRules(every=DAY, drift=None)
DRIFTING = RebuildRules(drift=Decimal("1.2"))
NEVER = RebuildRules(every=None, drift=None)


@pytest.mark.parametrize(("seconds", "reason"), [(DAY - 1, None), (DAY, CLOCK), (9 * DAY, CLOCK)])
def test_the_clock_runs_from_the_last_rebuild(seconds: int, reason: str | None) -> None:
    assert due(DAILY, 0, Situation(now=1e9 + seconds, since=1e9)) == reason


@given(shard=st.integers(0, 10_000), every=st.integers(60, 10 * DAY))
def test_no_shard_waits_longer_than_was_said_or_much_shorter(shard: int, every: int) -> None:
    assert 0.9 * every <= waits(every, shard) <= every


@given(shards=st.integers(2, 64))
def test_shards_that_began_together_do_not_rebuild_together(shards: int) -> None:
    at = sorted(waits(DAY, shard) for shard in range(shards))
    apart = min(after - before for before, after in pairwise(at))
    assert apart > 0.3 * (0.1 * DAY) / shards


@pytest.mark.parametrize(("drift", "reason"), [(None, None), (1.19, None), (1.2, DRIFT), (float("inf"), DRIFT)])
def test_a_table_that_has_drifted_as_far_as_was_said_is_due(drift: float | None, reason: str | None) -> None:
    assert due(DRIFTING, 3, Situation(now=10, since=0, drift=drift)) == reason


@pytest.mark.parametrize(("drift", "reason"), [(1.25, None), (1.49, None), (1.5, DRIFT)])
def test_a_rebuild_that_gained_nothing_is_not_begun_again_until_as_much_is_lost_once_more(
    drift: float, reason: str | None
) -> None:
    assert due(DRIFTING, 0, Situation(now=10, since=0, drift=drift, reached=1.25)) == reason


def test_a_rebuild_that_did_better_than_a_fresh_table_lowers_no_threshold() -> None:
    assert due(DRIFTING, 0, Situation(now=10, since=0, drift=1.15, reached=0.9)) is None


def test_where_both_are_never_nothing_is_due() -> None:
    assert due(NEVER, 0, Situation(now=1e12, since=0, drift=float("inf"))) is None


@pytest.mark.parametrize(
    ("settings", "seconds", "took", "changes", "rows", "looks"),
    [
        (DRIFTING, 300, 1, 500, 1_000, True),
        (DRIFTING, 299, 1, 500, 1_000, False),
        (DRIFTING, 300, 1, 499, 1_000, False),
        (DRIFTING, LOOK_SECONDS, 1, CHANGED_LEAST, 100_000, False),
        (DRIFTING, LOOK_SECONDS, 1, 5_000, 100_000, True),
        (DRIFTING, LOOK_SECONDS, 60, CHANGED_LEAST, 1_000, False),
        (DRIFTING, 3_000, 60, CHANGED_LEAST, 1_000, True),
        (NEVER, 1e9, 1, 1_000_000, 1_000, False),
    ],
)
def test_drift_is_looked_for_rarely_and_only_where_it_may_be_another(
    settings: RebuildRules, seconds: float, took: float, changes: int, rows: int, looks: bool
) -> None:
    assert look_is_due(settings, 1e9 + seconds, Looked(1e9, took, 70), 70 + changes, rows) is looks


# QI groups that stay as they are although an algorithm has others: cheap, within the model, and no row is lost.

SPARING_TABLES_TRIED = {**TABLES, "diverse": dataclasses_replace(K2, diversity=Diversity(l=2))}


def rows_at(*codes: int) -> EncodedRows:
    n = len(codes)
    keys = [f"p{i}" for i in range(n)]
    return EncodedRows(keys, np.array(codes).reshape(n, 1), [(b'"flu"',)] * n, [()] * n, list(keys))


def found(codes: list[int], standing: list[int], *groups: list[int]) -> list[list[int]]:
    answer = spared(K2, rows_at(*codes), np.array(standing), [np.array(group) for group in groups])
    return sorted(group.tolist() for group in answer)


def test_groups_that_were_only_shuffled_about_stay_as_they_are() -> None:
    assert found([0, 0, 0, 0], [0, 0, 1, 1], [0, 2], [1, 3]) == [[0, 1], [2, 3]]
    assert found([0, 1, 0, 1], [0, 0, 1, 1], [0, 3], [1, 2]) == [[0, 1], [2, 3]]


def test_groups_that_lose_far_more_go() -> None:
    assert found([0, 9, 0, 9], [0, 0, 1, 1], [0, 2], [1, 3]) == [[0, 2], [1, 3]]


def test_one_stays_where_the_other_is_worth_its_change() -> None:
    codes, standing = [5, 5, 0, 9, 0, 9, 5, 5], [0, 0, 1, 1, 2, 2, 3, 3]
    assert found(codes, standing, [0, 6], [1, 7], [2, 4], [3, 5]) == [[0, 1], [2, 4], [3, 5], [6, 7]]


def test_what_is_published_again_anyway_is_the_algorithms() -> None:
    assert found([0, 0, 0, 0], [NOWHERE] * 4, [0, 2], [1, 3]) == [[0, 2], [1, 3]]
    assert found([0, 0, 0, 0], [0, 0, NOWHERE, NOWHERE], [0, 2], [1, 3]) == [[0, 2], [1, 3]]


def test_no_rows_have_no_groups() -> None:
    assert found([], []) == []


@pytest.mark.parametrize("name", sorted(SPARING_TABLES_TRIED))
@given(data=st.data())
def test_everybody_is_in_one_group_that_holds_and_little_more_is_lost(name: str, data: st.DataObject) -> None:
    table: Table = SPARING_TABLES_TRIED[name]
    people = [f"{who}-{i}" for i, who in enumerate("aabbccddeeffgghh")]
    codes = np.array([data.draw(codes_of(table)) for _ in people]).reshape(len(people), table.space.d)
    values: list[tuple[bytes, ...]] = [(data.draw(st.sampled_from([b'"flu"', b'"cough"'])),) for _ in people]
    rows = EncodedRows(people, codes, values, [()] * len(people), [name.partition("-")[0] for name in people])
    answer = held(table, rows, data.draw(labels(len(people))))
    now = held(table, rows, data.draw(labels(len(people))))
    standing = np.full(len(people), NOWHERE)
    for number, group in enumerate(now):
        standing[group] = number
    groups = spared(table, rows, standing, answer)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(people)))
    again = spared(table, rows, standing, answer)
    assert [group.tolist() for group in groups] == [group.tolist() for group in again]
    model, subjects = model_of(table), microdata_of(table, rows).subjects(model_of(table).subjects)
    if model.holds(subjects):
        assert all(model.holds(subjects[group]) for group in groups)
    most = table.space.loss_of(table.space.cells(codes), answer) * (1 + LOST_MORE_MAX)
    assert table.space.loss_of(table.space.cells(codes), groups) <= most + 1e-9


def labels(n: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 5), min_size=n, max_size=n)


def held(table: Table, rows: EncodedRows, label: list[int]) -> list[Ints]:
    """Groups by label; those that do not hold the model are one with the next, the last with the one before."""
    model = model_of(table)
    subjects = microdata_of(table, rows).subjects(model.subjects)
    done: list[list[int]] = []
    waiting: list[int] = []
    for number in sorted(set(label)):
        waiting += [i for i, one in enumerate(label) if one == number]
        if model.holds(subjects[waiting]):
            done.append(waiting)
            waiting = []
    if waiting:
        done = [*done[:-1], [*(done[-1] if done else []), *waiting]]
    return [np.array(group) for group in done]
