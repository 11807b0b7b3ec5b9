"""A shard's rebuilds between its batches: what begins them, what changes under way, and how they end.

They are driven through the machine, as streamer.incremental.shard.activities is asked by it alone.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from agents.anonymizer import RebuildThrottle, answered, regrouped
from streamer.errors import Conflict
from streamer.incremental.shard import rebuild
from streamer.incremental.shard.activities import Activities
from streamer.incremental.shard.ready import JobDone, Request, Tick
from streamer.incremental.shard.rebuild import REDONE_MAX, RESTARTS_MAX, gain
from streamer.incremental.shard.requests import CancelRebuild, FullRebuild
from streamer.incremental.store.base import ANSWERS_REMEMBERED, REFUSED, REMEMBERED, Meta, Progress, Rebuild
from streamer.table.schema import Limits, RebuildRules
from worlds.rebuilt_shards import CLOCK, NOW, Clock, RebuiltShard


@pytest.fixture(autouse=True)
def clock() -> Clock:
    CLOCK.seconds = NOW
    return CLOCK


def ask(shard: RebuiltShard, id_: str = "a", algorithm: str = "", at: int = NOW) -> None:
    shard.asks(FullRebuild(0, id_, at, algorithm), written_at=at)


def peopled(shard: RebuiltShard, count: int = 150) -> RebuiltShard:
    shard.take_over()
    shard.come(count)
    return shard


def test_a_request_rebuilds_the_shard_region_by_region_and_once() -> None:
    shard = peopled(RebuiltShard())
    people, before = shard.rows(), shard.shard.meta
    ask(shard)
    shard.go_on()
    (done,) = shard.shard.meta.rebuilds
    assert (done.rebuild.id, done.state, done.why, done.done) == ("a", "done", "operator", done.total)
    assert done.total > 3
    assert gain(done) > 0
    assert shard.rows() == people
    assert shard.shard.meta.release > before.release
    assert shard.shard.meta.next == before.next
    commit = shard.shard.meta.commit
    shard.take_over()  # the control topic is read again from its start
    shard.go_on()
    assert shard.shard.meta.commit == commit


def test_a_request_is_done_once_however_many_came_after_it() -> None:
    """Before: who took the shard over did again what the memory of the last few did not hold any more."""

    shard = peopled(RebuiltShard())
    for number in range(REMEMBERED + 3):
        ask(shard, f"a{number}")
        shard.go_on(60)
    for _ in range(ANSWERS_REMEMBERED + 3):
        shard.asks(b"nonsense", written_at=NOW)
    shard.go_on()
    commit, states = shard.shard.meta.commit, shard.states()
    shard.take_over()
    shard.go_on()
    assert (shard.shard.meta.commit, shard.states()) == (commit, states)


def test_what_changes_while_a_region_is_in_work_is_fitted_in() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    ask(shard)
    shard.go_on(3)
    shard.come(150)  # into all regions
    shard.algorithms.jobs[0].done()
    shard.go_on(1)
    assert shard.shard.meta.rebuild is not None
    assert shard.shard.meta.rebuild.done == 1
    shard.algorithms.at_once = True
    shard.go_on(20)
    assert shard.states() == [("a", "done")]
    assert len(shard.rows()) == 300


def test_a_region_waits_for_the_process_that_anonymizes_and_for_other_shards_regions() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    shard.algorithms.ready = False
    ask(shard)
    shard.go_on(4)
    assert not shard.algorithms.jobs
    shard.algorithms.ready = True
    assert shard.algorithms.pace.begins("another shard")
    shard.go_on(4)
    assert not shard.algorithms.jobs
    shard.algorithms.pace.ends("another shard")
    shard.go_on(2)
    assert len(shard.algorithms.jobs) == 1
    assert not shard.algorithms.pace.begins("another shard")
    shard.drop_job()  # with the shard, its turn goes
    assert shard.algorithms.pace.begins("another shard")


def test_between_its_regions_a_shard_has_as_long_to_itself_as_they_took(clock: Clock) -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.pace = RebuildThrottle(lambda: clock.seconds)
    shard.algorithms.seconds = 30.0
    ask(shard)
    shard.go_on(20)
    assert len(shard.algorithms.jobs) == 1
    clock.seconds += 29.0
    shard.go_on(20)
    assert len(shard.algorithms.jobs) == 1
    clock.seconds += 2.0
    shard.go_on(20)
    assert len(shard.algorithms.jobs) == 2


def test_a_region_in_which_too_much_changes_is_done_again_a_few_times_and_then_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebuild, "FITTED_MOST", 0)

    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    ask(shard)
    shard.go_on(3)
    for tried in range(REDONE_MAX + 1):
        shard.come(60)
        shard.algorithms.jobs[tried].done()
        shard.go_on(2)
    assert shard.shard.meta.rebuild is not None
    assert shard.shard.meta.rebuild.done == 0
    shard.algorithms.jobs[-1].done()
    shard.algorithms.at_once = True
    shard.go_on()
    (done,) = shard.shard.meta.rebuilds
    assert (done.state, done.left, done.done) == ("done", 1, done.total - 1)


def test_a_region_that_would_not_get_better_is_left_as_it_is() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    release = shard.shard.meta.release
    ask(shard)
    for _ in range(50):
        shard.go_on(1)
        for job in shard.algorithms.jobs:
            if not job.result.done():
                job.gives([np.arange(len(job.rows.codes))])
    (done,) = shard.shard.meta.rebuilds
    assert (done.state, done.done, done.rows_published_again, gain(done)) == ("done", done.total, 0, 0.0)
    assert shard.shard.meta.release == release


def test_an_algorithm_that_fails_leaves_the_shard_as_it_was_and_says_why() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    ask(shard)
    shard.go_on(3)
    shard.algorithms.jobs[0].fails("out of memory")
    shard.go_on(3)
    (failed,) = shard.shard.meta.rebuilds
    assert (failed.state, failed.said, failed.done) == ("failed", "out of memory", 0)
    shard.come(5)


def test_groups_that_do_not_hold_the_model_fail_the_rebuild_and_not_the_shard() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    ask(shard)
    shard.go_on(3)
    (job,) = shard.algorithms.jobs
    job.gives([np.array([i]) for i in range(len(job.rows.codes))])
    with pytest.raises(Conflict, match="a rebuild has failed"):
        shard.go_on(1)
    shard.take_over()
    shard.go_on(1)
    (failed,) = shard.shard.meta.rebuilds
    assert (failed.rebuild.id, failed.state) == ("a", "failed")
    assert "do not hold the privacy model" in failed.said
    shard.come(5)
    shard.go_on(5)
    assert shard.states() == [("a", "failed")]


def test_a_rebuild_is_stopped_by_a_request_and_says_how_far_it_came() -> None:
    shard = peopled(RebuiltShard())
    ask(shard)
    shard.go_on(3)
    shard.algorithms.at_once = False
    shard.go_on(3)
    shard.asks(CancelRebuild(0, "stop", NOW), written_at=NOW)
    shard.go_on(3)
    cancelled, answer = shard.shard.meta.rebuilds
    assert (cancelled.state, cancelled.said, 0 < cancelled.done < cancelled.total) == (
        "cancelled",
        "cancelled by request stop",
        True,
    )
    assert (answer.state, answer.said) == (
        "answered",
        f"the rebuild was stopped with {cancelled.done} of {cancelled.total} regions done",
    )
    assert shard.algorithms.jobs[-1].abandoned
    shard.take_over()
    shard.go_on(5)
    assert len(shard.shard.meta.rebuilds) == 2


def test_what_cannot_be_done_is_refused_once_and_changes_nothing() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    ask(shard)
    shard.go_on(2)
    release = shard.shard.meta.release
    for value in (FullRebuild(0, "b", NOW), FullRebuild(7, "c", NOW), FullRebuild(0, "a", NOW), b"nonsense"):
        shard.asks(value, written_at=NOW)
    shard.go_on(3)
    refused = {one.rebuild.id: one.said.partition(",")[0] for one in shard.shard.meta.rebuilds}
    assert refused == {
        "b": "a rebuild is running",
        "c": "it names shard 7",
        "offset 4": "the record at offset 4 of the control topic cannot be read",
    }
    assert shard.shard.meta.rebuild is not None
    assert shard.shard.meta.release == release


def test_a_refusal_is_remembered_as_an_answer_that_began_nothing() -> None:
    shard = peopled(RebuiltShard())
    shard.go_on(1)
    shard.asks(CancelRebuild(0, "stop", NOW), written_at=NOW)
    shard.go_on(1)
    why = "no rebuild is running that could be stopped"
    assert shard.shard.meta.rebuilds == (Progress(Rebuild("stop", "", 0, 0), 0, state=REFUSED, at=NOW, said=why),)


def test_an_algorithm_that_needs_the_whole_shard_is_refused_with_its_size() -> None:
    shard = peopled(RebuiltShard())
    ask(shard, algorithm="ola")
    shard.go_on(3)
    (refused,) = shard.shard.meta.rebuilds
    assert refused.state == "failed"
    assert "150 rows are more than limits.transaction_rows_max = 40" in refused.said


def test_a_shard_that_fits_is_recoded_alike_in_one_release() -> None:
    shard = peopled(RebuiltShard(limits=Limits()))
    ask(shard, algorithm="mondrian")
    shard.go_on(4)
    ask(shard, "b", algorithm="ola")
    shard.go_on(10)
    assert shard.states() == [("a", "done"), ("b", "done")]
    recoded = shard.shard.meta.rebuilds[-1]
    assert (recoded.total, recoded.done) == (1, 1)


def test_the_next_worker_begins_an_operators_rebuild_anew_a_few_times() -> None:
    shard = peopled(RebuiltShard())
    shard.algorithms.at_once = False
    ask(shard)
    shard.go_on(3)
    for _ in range(RESTARTS_MAX):
        shard.take_over()
        shard.go_on(2)
        assert shard.shard.meta.rebuild is not None
    shard.take_over()
    shard.go_on(2)
    assert shard.shard.meta.rebuild is None
    assert shard.states() == [("a", "stopped")] * (RESTARTS_MAX + 1)
    shard.go_on(5)
    assert shard.shard.meta.rebuild is None


def test_a_shard_that_has_nothing_yet_waits_with_its_requests() -> None:
    shard = RebuiltShard()
    shard.take_over()
    ask(shard)
    shard.go_on(3)
    assert (shard.shard.meta.commit, shard.states()) == (0, [])
    shard.come(5)
    shard.go_on(5)
    assert shard.states() == [("a", "done")]


def test_the_clock_rebuilds_a_shard_and_begins_anew_with_its_end(clock: Clock) -> None:
    shard = peopled(RebuiltShard(RebuildRules(every=3_600, drift=None)))
    shard.since = NOW
    for at, rebuilds in ((3_500, 0), (3_700, 1), (7_200, 1), (7_400, 2)):
        clock.seconds = NOW + at
        shard.go_on()
        assert [state for _, state in shard.states()] == ["done"] * rebuilds, at
    assert {one.why for one in shard.shard.meta.rebuilds} == {"clock"}


def test_a_rebuild_by_the_clock_is_named_and_seeded_by_chance_and_says_when_it_began() -> None:
    shard = peopled(RebuiltShard(RebuildRules(every=3_600, drift=None)))
    shard.drive(Tick(NOW + 0.75, 0.0, since=NOW - 3_600.0, chance=0x12345678_9ABCDEF1))
    begun = shard.shard.meta.rebuild
    assert begun is not None
    assert begun.rebuild == Rebuild("12345678", shard.table.rebuilding.algorithm, 0x9ABCDEF1, 0)
    assert (begun.began, begun.at, begun.drift, begun.done) == (NOW, NOW, 0.0, 0)


def test_progress_that_changes_nothing_is_told_once_a_minute(clock: Clock) -> None:
    shard = peopled(RebuiltShard(), 300)
    shard.algorithms.at_once = False
    shard.go_on(1)
    ask(shard)
    shard.go_on(2)
    told = []
    for seconds in (59, 60, 119, 120):
        clock.seconds = NOW + seconds
        shard.algorithms.jobs[-1].gives([np.arange(len(shard.algorithms.jobs[-1].rows.codes))])
        shard.go_on(2)
        assert shard.shard.meta.rebuild is not None
        told.append((shard.shard.meta.rebuild.done, shard.shard.meta.rebuild.at - NOW))
    assert told == [(0, 0), (2, 60), (2, 60), (4, 120)]


def test_a_tick_is_wanted_at_once_where_nothing_has_to_be_waited_for() -> None:
    shard = RebuiltShard()
    activities = Activities(shard.table, 0)
    assert not activities.hurries(Meta(commit=1))
    activities.hear(Request(0, NOW, b"nonsense"))
    assert activities.hurries(Meta(commit=1)) and not activities.hurries(Meta())
    machine, hurries = peopled(shard).shard.machine, list[bool]()

    def goes_on(times: int) -> None:
        shard.go_on(times)
        hurries.append(machine.hurries)

    shard.algorithms.at_once = False
    ask(shard)
    goes_on(3)
    shard.algorithms.jobs[0].done()
    goes_on(1)  # its groups are committed, and the next region can be begun
    goes_on(1)
    shard.take_over()
    goes_on(1)  # the rebuild is closed as stopped, and can be begun anew
    goes_on(1)
    assert hurries == [False, True, False, True, False]


def test_drift_is_that_of_all_regions_of_a_look_and_looks_take_a_small_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(rebuild, "SAMPLE_ROWS", 100)
    shard = RebuiltShard(RebuildRules(drift=Decimal(9)))
    shard.take_over()
    jobs, activities, space = shard.algorithms.jobs, shard.shard.machine.activities, shard.table.space
    shard.algorithms.at_once = False

    def jobs_after(seconds: float, people: int) -> int:
        clock.seconds += seconds
        shard.come(people)
        shard.go_on(2)
        return len(jobs)

    assert [jobs_after(299, 499), jobs_after(1, 0), jobs_after(-1, 1), jobs_after(1, 0)] == [0, 0, 0, 1]
    now = fresh = 0.0
    for number in range(2):
        assert (len(jobs), activities.drift) == (number + 1, None)
        assert activities.at is not None
        groups = regrouped(answered(shard.table, jobs[number].rows, jobs[number].algorithm, jobs[number].seed)).groups
        now += activities.at.region.published_ncp
        fresh += space.published_loss_of(space.cells(jobs[number].rows.codes), groups)
        jobs[number].result.set_result(JobDone(groups, 10.0))
        shard.go_on(2)
    assert len(jobs) == 2
    assert jobs[0].rows.source_keys != jobs[1].rows.source_keys
    assert activities.drift == pytest.approx(now / fresh)
    assert ("info", f"loses {now / fresh:.2f} times what a fresh table would, by a sample") in activities.said
    assert [jobs_after(999, 500), jobs_after(1, 0)] == [2, 3]
    assert jobs[2].seed != jobs[0].seed


def test_a_look_for_drift_that_fails_is_told_and_the_next_one_comes_in_its_time(clock: Clock) -> None:
    shard = peopled(RebuiltShard(RebuildRules(drift=Decimal(9))), 500)
    shard.algorithms.at_once = False
    clock.seconds += 400
    shard.go_on(1)
    shard.algorithms.jobs[0].fails("out of memory")
    shard.come(500)
    shard.go_on(3)
    assert ("warning", "drift could not be looked for: out of memory") in shard.shard.machine.activities.said
    assert (len(shard.algorithms.jobs), shard.states(), shard.shard.machine.activities.drift) == (1, [], None)
    clock.seconds += 300
    shard.come(500)
    shard.go_on(1)
    assert len(shard.algorithms.jobs) == 2


def test_a_drifted_shard_is_found_out_by_a_sample_and_rebuilt_once(clock: Clock) -> None:
    shard = peopled(RebuiltShard(RebuildRules(drift=Decimal("1.02"))), 500)
    looks = shard.algorithms.jobs
    clock.seconds += 400
    while (drift := shard.shard.machine.activities.drift) is None:
        shard.go_on(1)
    assert shard.states() == []
    assert drift > 1.02, "else this test shows nothing"
    assert shard.facts.ncp_fresh == pytest.approx((shard.facts.ncp or 0) / drift)
    n_looks = len(looks)
    shard.go_on()
    (done,) = shard.shard.meta.rebuilds
    assert (done.state, done.why, done.drift) == ("done", "drift", drift)
    assert len(looks) > n_looks
    clock.seconds += 10 * 400
    shard.go_on()
    assert len(shard.states()) == 1, "nothing has changed since"
