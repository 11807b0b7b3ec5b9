"""What `streamer status` says of what it sees: one fault at a time, over facts that are made up here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamer.cli.shard_facts import ShardFacts, Waiting, Workers
from streamer.cli.shard_verdict import SILENCE_SECONDS_MAX, STANDSTILL_SECONDS_MAX, Verdict, judge_shard
from streamer.incremental import mends
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import ANSWERED, DONE, FAILED, REFUSED, RUNNING, STOPPED, Progress, Rebuild
from streamer.incremental.store.redis_lookups import Custody, Refusal, Sizes
from streamer.incremental.store.snapshot import Snapshot
from streamer.incremental.topics import CHANGES
from worlds.patient_facts import ALICE, BOB, BY_ALICE, META, NOW, TABLE, shard


def judged(facts: ShardFacts, workers: Workers = BY_ALICE, dead_letters_max: float = 0.05) -> Verdict:
    return judge_shard(TABLE, facts, workers, NOW, dead_letters_max)


def the_problem(facts: ShardFacts, workers: Workers = BY_ALICE) -> str:
    (problem,) = judged(facts, workers).problems
    return problem


def held_back(snapshot: Snapshot, **more: Any) -> ShardFacts:
    meta = replace(META, snapshot=snapshot)
    return shard(meta, before=meta, sizes=Sizes(1200, 0, 0, 0), **more)


def waiting(seconds: float) -> dict[str, Any]:
    return {"waiting": Waiting(META.next, NOW - seconds), "input_state": InputState({}, 2, 0, META.next + 10, True)}


def test_a_shard_that_is_held_and_has_read_everything_is_well() -> None:
    assert judged(shard()) == Verdict()


# -- a first snapshot -------------------------------------------------------------------------------------------------


def test_a_shard_that_holds_rows_back_says_how_many_and_what_it_waits_for_and_who_can_end_it() -> None:
    verdict = judged(held_back(Snapshot(since=5)))
    assert verdict.problems == []
    (said,) = verdict.warnings
    assert said.startswith("shard 0: holds back 1,200 rows of a snapshot")
    assert "waits for the snapshot's last row, in any shard" in said
    assert "`streamer end-snapshot`" in said
    assert "pending" in judged(held_back(Snapshot(since=5, ended="last", released=1, of=1))).warnings[0]


def test_the_algorithm_of_a_first_release_may_take_its_time() -> None:
    later = {"custody": Custody(ALICE, 1, 1), **waiting(STANDSTILL_SECONDS_MAX - 1)}
    assert not judged(held_back(Snapshot(since=5), **later)).problems
    for_ever = {"custody": Custody(ALICE, 1, 1), **waiting(STANDSTILL_SECONDS_MAX + 1)}
    assert "committed nothing" in judged(held_back(Snapshot(since=5), **for_ever)).problems[0]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_refused_shard_is_a_problem_with_who_when_and_what_to_do() -> None:
    refusal = Refusal("table.yaml has changed; restore it", ALICE, int(NOW) - 180)
    problem = the_problem(shard(worker="", custody=Custody(BOB, 1, 1, refusal)), Workers({}))
    assert problem == "shard 0: refused by alice:1 3 min ago: table.yaml has changed; restore it"


def test_a_table_that_began_in_some_of_its_shards_alone_is_a_problem_of_each() -> None:
    problem = the_problem(shard(worker="", custody=Custody(BOB, 1, 1, beginning=True)), Workers({}))
    assert problem.startswith("shard 0: the table has not begun in all its shards yet: wait for the `streamer load`")


def test_a_refusal_by_another_worker_than_the_one_that_goes_on_is_a_warning() -> None:
    custody = Custody(ALICE, 1, 1, Refusal("table.yaml has changed", BOB, int(NOW) - 5))
    verdict = judged(shard(custody=custody))
    assert verdict.problems == []
    assert verdict.warnings == [
        "shard 0: refused by bob:2 5 s ago: table.yaml has changed (alice:1 holds it and goes on)"
    ]


def test_what_the_command_finds_by_itself_and_a_worker_said_too_is_told_once() -> None:
    other = replace(META, fingerprint=replace(TABLE, k=TABLE.k + 1).fingerprint)
    reason = the_problem(shard(other, before=other))
    assert "table.yaml has changed" in reason
    custody = Custody(ALICE, 1, 1, Refusal(reason, ALICE, int(NOW)))
    assert the_problem(shard(other, before=other, custody=custody)) == (
        f"shard 0: refused by alice:1 0 s ago: {reason}"
    )


# -- silence under lag ------------------------------------------------------------------------------------------------


def test_messages_that_nobody_will_read_are_a_problem_at_once() -> None:
    problem = the_problem(shard(worker="", **waiting(2)), Workers({}))
    assert problem == "shard 0: messages wait since 2 s, and no worker holds it: start `streamer worker`"


def test_a_worker_that_commits_nothing_while_messages_wait_is_silent() -> None:
    assert judged(shard(**waiting(SILENCE_SECONDS_MAX - 1))) == Verdict()
    silent = the_problem(shard(**waiting(SILENCE_SECONDS_MAX + 1)))
    assert "alice:1 has committed nothing for 1 min" in silent


@pytest.mark.parametrize("custody", [Custody(ALICE, 1, int(NOW) - 5), Custody(ALICE, int(NOW) - 5, 1)])
def test_a_worker_that_just_committed_or_took_over_is_at_work(custody: Custody) -> None:
    assert judged(shard(custody=custody, **waiting(3600))) == Verdict()


def test_a_shard_that_is_being_given_to_a_worker_is_not_called_abandoned() -> None:
    giving = Workers({}, settled=False)
    assert judged(shard(worker="", **waiting(2)), giving) == Verdict()


def test_where_kafka_does_not_tell_the_workers_only_silence_counts() -> None:
    untold = Workers({}, told=False)
    assert judged(shard(worker="", **waiting(2)), untold) == Verdict()
    assert "its worker has committed nothing" in the_problem(shard(worker="", **waiting(3600)), untold)


def test_offsets_without_a_message_are_no_lag() -> None:
    read: dict[str, Any] = {"waiting": Waiting(META.next - 1, NOW - 3600)}  # applied while it was looked at
    assert judged(shard(worker="", **read), Workers({})) == Verdict()


# -- counts -----------------------------------------------------------------------------------------------------------


def test_a_shard_all_of_whose_messages_are_dead_letters_is_a_problem() -> None:
    dead = replace(META, next=2_000, counts=Counts(dead_letters=2_000))
    problem = the_problem(shard(dead, before=dead))
    assert problem == (
        "shard 0: 2,000 of 2,000 messages are dead letters, more than 5%: `streamer dead-letters` says why"
    )


def test_of_many_messages_the_latest_ones_decide_about_the_share_of_dead_letters() -> None:
    old = replace(META, counts=Counts(applied=90_000, dead_letters=30_000), next=120_000)
    assert not judged(shard(old, before=old, refused_lately=500)).problems
    (problem,) = judged(shard(old, before=old, refused_lately=501)).problems
    assert "501 of the latest 10,000 messages are dead letters, more than 5%" in problem


def test_the_share_of_dead_letters_that_is_too_large_can_be_set() -> None:
    some = replace(META, counts=Counts(applied=94, dead_letters=6))
    assert judged(shard(some, before=some)).problems
    assert not judged(shard(some, before=some), dead_letters_max=0.06).problems


def test_changes_and_deletions_of_rows_that_are_not_there_are_a_warning() -> None:
    missed = replace(META, counts=Counts(applied=90, ignored=1, unknown_keys=17))
    verdict = judged(shard(missed, before=missed))
    assert verdict.problems == []
    assert "17 captured changes and deletions were about rows that it did not have" in verdict.warnings[0]


# -- at rest and under load -------------------------------------------------------------------------------------------

EARLIER = replace(META, commit=3, next=90)


def test_what_compares_redis_with_kafka_needs_a_shard_at_rest() -> None:
    behind: dict[str, Any] = {
        "position": Position.of(replace(META, commit=1, next=10)),
        "input_state": InputState({}, 2, 0, 95, True),
    }
    assert judged(shard(before=EARLIER, **behind)) == Verdict()
    assert judged(shard(**behind)).problems


@pytest.mark.parametrize(
    ("meta", "sentence"),
    [
        (replace(META, fingerprint=replace(TABLE, k=TABLE.k + 1).fingerprint), "table.yaml has changed"),
        (replace(META, shards=1), "had 1 partitions and has 2 now"),
        (replace(META, counts=Counts(applied=101)), "counts 101 messages, but only 100 offsets"),
    ],
)
def test_what_one_reading_shows_is_judged_while_the_shard_moves(meta: Meta, sentence: str) -> None:
    assert sentence in the_problem(shard(meta, before=EARLIER))


def test_an_input_that_has_expired_is_found_while_the_shard_moves() -> None:
    assert "expired" in the_problem(shard(before=EARLIER, input_state=InputState({}, 2, 101, 200, True)))


def test_a_live_topic_that_was_made_anew_is_found_by_its_emptiness() -> None:
    for before in (META, EARLIER):
        assert "patients.live was made anew" in the_problem(shard(before=before, begun=False))
    assert judged(shard(replace(META, release=0), before=replace(META, release=0), begun=False)) == Verdict()


def test_a_live_topic_that_was_made_anew_together_with_the_positions_is_found_too() -> None:
    assert "patients.live was made anew" in the_problem(shard(begun=False, position=None))
    first = replace(META, commit=1, release=1)
    unpublished = judged(shard(first, before=first, begun=False, position=None))
    assert (unpublished.problems, len(unpublished.warnings)) == ([], 1)
    assert judged(shard(before=None, begun=False, position=None)) == Verdict()  # it published while it was looked at


def test_what_the_next_worker_mends_is_a_warning() -> None:
    unpublished = judged(shard(position=Position.of(replace(META, commit=3))))
    assert (unpublished.problems, len(unpublished.warnings)) == ([], 1)
    left = judged(shard(sizes=Sizes(30, 5, 2, 3)))
    assert (left.problems, len(left.warnings)) == ([], 1)


def test_a_redis_that_lost_commits_or_everything_is_a_problem() -> None:
    ahead = Position.of(replace(META, commit=9, next=200))
    assert "has lost commits" in the_problem(shard(position=ahead, input_state=InputState({}, 2, 0, 300, True)))
    nothing = the_problem(shard(None, before=None, position=ahead, sizes=Sizes(0, 0, 0, 0)))
    assert nothing.startswith("shard 0: published up to 200, but Redis holds nothing; restore it from any former copy")


def test_a_redis_that_lost_what_did_not_come_from_the_input_needs_a_copy_that_has_it_or_the_source() -> None:
    begun = Position.of(replace(META, commit=9, outside=8))
    nothing = the_problem(shard(None, before=None, position=begun, sizes=Sizes(0, 0, 0, 0)))
    assert "a copy not older than commit 8" in nothing
    assert mends.begin_anew(TABLE.name) in nothing


def test_rows_that_are_too_few_to_be_published_are_told() -> None:
    assert judged(shard(sizes=Sizes(2, 0, 0, 0))).warnings == [
        "shard 0: all its 2 rows are pending: a QI group needs at least 3 rows, and together they do not have it"
    ]


def test_a_live_topic_with_another_id_is_told_though_something_was_written_into_it() -> None:
    ids = {CHANGES: "id", "live": "first"}
    meta = replace(META, topic_ids=ids)
    anew = InputState({**ids, "live": "second"}, 2, 0, META.next, True)
    assert "patients.live was made anew" in the_problem(shard(meta, before=meta, input_state=anew))
    other_input = replace(anew, topic_ids={**ids, CHANGES: "another"})
    assert "the input topic was made anew" in the_problem(shard(meta, before=EARLIER, input_state=other_input))


def rebuilt(state: str, seconds_ago: float = 100, said: str = "out of memory") -> Progress:
    at = int(NOW - seconds_ago)
    return Progress(Rebuild("r1", "ordered", 7, 0), 8, done=3, state=state, why="drift", began=at - 9, at=at, said=said)


def with_rebuilds(running: Progress | None, *ended: Progress) -> Verdict:
    meta = replace(META, rebuild=running, rebuilds=ended)
    return judged(shard(meta, before=meta))


def test_a_rebuild_that_goes_on_or_is_done_is_nothing_to_mend() -> None:
    for verdict in (with_rebuilds(rebuilt(RUNNING)), with_rebuilds(None, rebuilt(FAILED), rebuilt(DONE))):
        assert (verdict.problems, verdict.warnings) == ([], [])


def test_a_rebuild_that_stands_still_is_a_problem_and_names_what_to_do() -> None:
    (problem,) = with_rebuilds(rebuilt(RUNNING, STANDSTILL_SECONDS_MAX + 1)).problems
    assert problem.startswith("shard 0: its rebuild stands at 3 of 8 regions since 10 min: look at the log of alice:1")


def test_a_rebuild_that_failed_is_a_problem_until_one_is_done() -> None:
    (problem,) = with_rebuilds(None, rebuilt(FAILED), rebuilt(ANSWERED)).problems
    assert problem == (
        "shard 0: its last rebuild, 1 min ago, failed with 3 of 8 regions done, loss +0.0%, 0 rows published again, "
        "9 s: out of memory"
    )
    assert with_rebuilds(rebuilt(RUNNING), rebuilt(FAILED)).problems == []


def test_a_rebuild_that_was_stopped_and_a_request_that_was_refused_are_warnings() -> None:
    verdict = with_rebuilds(None, rebuilt(STOPPED), rebuilt(REFUSED, said="a rebuild is running"))
    assert verdict.problems == []
    assert [warning.partition(",")[0] for warning in verdict.warnings] == [
        "shard 0: its last rebuild",
        "shard 0: request r1",
    ]
    assert with_rebuilds(None, rebuilt(REFUSED, 4_000)).warnings == []
