"""One rebuild of a shard: which region comes next, what happens to those that change, how it ends."""

from __future__ import annotations

import pytest

from streamer.incremental.groups.replacing import Replaced
from streamer.incremental.shard.rebuilding import (
    REDONE_MAX,
    Rebuilding,
    next_rebuild,
    region_seed,
    stopped,
)
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import CANCELLED, DONE, FAILED, RUNNING, STOPPED, Progress, Rebuild

REBUILD = Rebuild("r1", "ordered", 7, 0)
REGIONS = [(1, 2), (3,), (4, 5)]
REPLACED = Replaced(2, 3, 1, 10, 5.0, 4.0)


@pytest.fixture
def rebuilding() -> Rebuilding:
    return Rebuilding(REBUILD, REGIONS, b"secret")


def replace(rebuilding: Rebuilding) -> None:
    rebuilding.replaced(rebuilding.progress.after(REPLACED))


def test_regions_come_one_after_the_other_until_none_is_left(rebuilding: Rebuilding) -> None:
    seen = []
    while rebuilding.task is not None:
        assert rebuilding.progress.state == RUNNING
        seen.append(rebuilding.task.numbers)
        replace(rebuilding)
    assert seen == REGIONS
    assert rebuilding.closed() == Progress(REBUILD, 3, 3, 0, 30, 15.0, 12.0, DONE)


def test_a_region_that_changes_comes_again_and_is_left_as_it_was_when_it_changed_too_often(
    rebuilding: Rebuilding,
) -> None:
    for tries in range(REDONE_MAX + 1):
        task = rebuilding.task
        assert task is not None
        assert (task.numbers, task.tries) == (REGIONS[0], tries)
        rebuilding.changed()
    task = rebuilding.task
    assert task is not None
    assert (task.numbers, task.tries) == (REGIONS[1], 0)
    assert (rebuilding.progress.done, rebuilding.progress.left) == (0, 1)
    replace(rebuilding)
    replace(rebuilding)
    closed = rebuilding.closed()
    assert (closed.total, closed.done, closed.left, closed.state) == (3, 2, 1, DONE)


def test_a_region_that_was_done_late_leaves_the_next_all_its_tries(rebuilding: Rebuilding) -> None:
    rebuilding.changed()
    replace(rebuilding)
    assert rebuilding.task is not None
    assert rebuilding.task.tries == 0


@pytest.mark.parametrize(("end", "state"), [(Rebuilding.cancel, CANCELLED), (Rebuilding.fail, FAILED)])
def test_a_rebuild_that_is_ended_begins_no_further_region_and_keeps_what_it_did(
    rebuilding: Rebuilding, end: object, state: str
) -> None:
    assert callable(end)
    replace(rebuilding)
    end(rebuilding)
    assert rebuilding.task is None
    assert (rebuilding.closed().done, rebuilding.closed().total, rebuilding.closed().state) == (1, 3, state)


def test_a_cancel_that_comes_when_all_is_done_changes_nothing(rebuilding: Rebuilding) -> None:
    for _ in REGIONS:
        replace(rebuilding)
    rebuilding.cancel()
    assert rebuilding.closed().state == DONE


def test_a_table_without_qi_groups_is_rebuilt_at_once() -> None:
    rebuilding = Rebuilding(REBUILD, [], b"secret")
    assert rebuilding.task is None
    assert rebuilding.closed() == Progress(REBUILD, 0, state=DONE)


def test_seeds_of_regions_differ_by_region_seed_and_secret_and_by_nothing_else() -> None:
    seeds = [
        region_seed(secret, seed, numbers) for secret in (b"a", b"b") for seed in (1, 2**64) for numbers in REGIONS
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert region_seed(b"a", 1, [1, 2]) == region_seed(b"a", 1, (1, 2)) == seeds[0]


def test_the_same_region_has_another_seed_at_every_turn_of_another_seed(rebuilding: Rebuilding) -> None:
    other = Rebuilding(Rebuild("r2", "ordered", 8, 1), REGIONS, b"secret")
    assert rebuilding.task is not None
    assert other.task is not None
    assert rebuilding.task.seed != other.task.seed


def test_every_rebuild_of_a_shard_has_a_turn_of_its_own_whatever_became_of_the_last() -> None:
    meta = Meta()
    assert next_rebuild(meta, "a", "ordered", 1) == Rebuild("a", "ordered", 1, 0)
    meta = Meta(rebuild=Progress(Rebuild("b", "ordered", 1, 7), 3))
    assert next_rebuild(meta, "c", "ordered", 1).turn == 8
    meta = Meta(rebuilds=(Progress(Rebuild("b", "ordered", 1, 7), 3), Progress(Rebuild("d", "emp", 1, 8), 3)))
    assert next_rebuild(meta, "c", "ordered", 1).turn == 9


def test_a_rebuild_whose_worker_went_is_told_as_stopped_where_it_was() -> None:
    progress = Progress(REBUILD, 3).after(REPLACED)
    assert stopped(progress) == Progress(REBUILD, 3, 1, 0, 10, 5.0, 4.0, STOPPED)
