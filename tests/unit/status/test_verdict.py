"""What is wrong with a shard, a table or a worker, and how that is said: one fault at a time, over made-up facts.

From outside, as `streamer status` sees it; from inside, as a worker's /health does; and from both, as its page does.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from streamer.incremental import remedies
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import (
    ANSWERED,
    DONE,
    FAILED,
    REFUSED,
    RUNNING,
    STOPPED,
    Meta,
    Progress,
    Rebuild,
    Snapshot,
)
from streamer.incremental.store.redis_lookups import Measured, Ownership, RedisNow, Refusal, Sizes
from streamer.incremental.store.redis_server import Durability, Kind
from streamer.incremental.topics import CHANGES, published_kinds, topic_name, topics_of
from streamer.status.facts import HeldFacts, ServerFacts, ShardFacts, TableFacts, Waiting, Workers
from streamer.status.verdict import (
    STANDSTILL_SECONDS_MAX,
    STILL_OUTSIDE_SECONDS_MAX,
    Verdict,
    if_redis_is_lost,
    judge,
    judge_shard,
    judge_table,
    not_ready,
    worker_problems,
)
from worlds.small_tables import as_of_version
from worlds.status_facts import ALICE, BOB, BY_ALICE, META, NOW, TABLE, WELL, shard, worker
from worlds.status_facts import NOW as WORKER_NOW


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
    later = {"custody": Ownership(ALICE, 1, 1), **waiting(STANDSTILL_SECONDS_MAX - 1)}
    assert not judged(held_back(Snapshot(since=5), **later)).problems
    for_ever = {"custody": Ownership(ALICE, 1, 1), **waiting(STANDSTILL_SECONDS_MAX + 1)}
    assert "none was applied for 10 min" in judged(held_back(Snapshot(since=5), **for_ever)).problems[0]


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_refused_shard_is_a_problem_with_who_when_and_what_to_do() -> None:
    refusal = Refusal("table.yaml has changed; restore it", ALICE, int(NOW) - 180)
    problem = the_problem(shard(worker="", custody=Ownership(BOB, 1, 1, refusal)), Workers({}))
    assert problem == "shard 0: refused by alice:1 3 min ago: table.yaml has changed; restore it"


def test_a_table_that_began_in_some_of_its_shards_alone_is_a_problem_of_each() -> None:
    problem = the_problem(shard(worker="", custody=Ownership(BOB, 1, 1, beginning=True)), Workers({}))
    assert problem.startswith("shard 0: the table is not loaded in all its shards yet: wait for the `streamer load`")


def test_a_refusal_by_another_worker_than_the_one_that_goes_on_is_a_warning() -> None:
    custody = Ownership(ALICE, 1, 1, Refusal("table.yaml has changed", BOB, int(NOW) - 5))
    verdict = judged(shard(custody=custody))
    assert verdict.problems == []
    assert verdict.warnings == [
        "shard 0: refused by bob:2 5 s ago: table.yaml has changed (alice:1 holds it and goes on)"
    ]


@pytest.mark.parametrize(("taken_at", "committed_at"), [(int(NOW) - 100, 1), (1, int(NOW) - 100)])
def test_a_refusal_that_is_past_is_not_told_as_if_it_stood(taken_at: int, committed_at: int) -> None:
    """Before: an outage that was over stayed a problem, though the shard had gone on."""
    refusal = Refusal("a topic is missing", ALICE, int(NOW) - 180)
    assert judged(shard(custody=Ownership(ALICE, taken_at, committed_at, refusal))) == Verdict()


def test_a_shard_that_its_own_worker_refused_is_told_once_and_is_not_healthy() -> None:
    """Its worker serves its other shards."""
    refused = replace(WELL, taken_over=False, refused="its secret is lost")
    by_redis = {0: Ownership(refusal=Refusal("its secret is lost", "alice:1", int(WORKER_NOW)))}
    (said,) = worker_problems(replace(worker(refused, replace(WELL, shard=1)), refused=by_redis))
    assert re.fullmatch(r"shard 0: refused by .*, which tries it again .*: its secret is lost", said)
    assert not_ready(worker(refused)) == ["shard 0: is refused"]
    outside = shard(custody=Ownership(ALICE, 1, 1, Refusal("its secret is lost", ALICE, int(NOW))))
    assert the_problem(replace(outside, held=refused)).endswith("its secret is lost")


def test_what_the_command_finds_by_itself_and_a_worker_said_too_is_told_once() -> None:
    other = replace(META, fingerprint=replace(TABLE, k=TABLE.k + 1).fingerprint)
    reason = the_problem(shard(other, before=other))
    assert "table.yaml has changed" in reason
    custody = Ownership(ALICE, 1, 1, Refusal(reason, ALICE, int(NOW)))
    assert the_problem(shard(other, before=other, custody=custody)) == (
        f"shard 0: refused by alice:1 0 s ago: {reason}"
    )


# -- silence under lag ------------------------------------------------------------------------------------------------


def test_messages_that_nobody_will_read_are_a_problem_at_once() -> None:
    problem = the_problem(shard(worker="", **waiting(2)), Workers({}))
    assert problem == "shard 0: messages have waited for 2 s, and no worker holds it: start `streamer worker`"


def test_a_worker_that_commits_nothing_while_messages_wait_is_silent() -> None:
    assert judged(shard(**waiting(STILL_OUTSIDE_SECONDS_MAX - 1))) == Verdict()
    silent = the_problem(shard(**waiting(STILL_OUTSIDE_SECONDS_MAX + 1)))
    assert silent == (
        "shard 0: 10 messages wait, and none was applied for 1 min: look at the log of alice:1, or start it again"
    )


@pytest.mark.parametrize("custody", [Ownership(ALICE, 1, int(NOW) - 5), Ownership(ALICE, int(NOW) - 5, 1)])
def test_a_worker_that_just_committed_or_took_over_is_at_work(custody: Ownership) -> None:
    assert judged(shard(custody=custody, **waiting(3600))) == Verdict()


def test_a_shard_that_is_being_given_to_a_worker_is_not_called_abandoned() -> None:
    giving = Workers({}, settled=False)
    assert judged(shard(worker="", **waiting(2)), giving) == Verdict()


def test_where_kafka_does_not_tell_the_workers_only_silence_counts() -> None:
    untold = Workers({}, told=False)
    assert judged(shard(worker="", **waiting(2)), untold) == Verdict()
    assert "look at the log of its worker" in the_problem(shard(worker="", **waiting(3600)), untold)


def test_offsets_without_a_message_are_no_lag() -> None:
    read: dict[str, Any] = {"waiting": Waiting(META.next - 1, NOW - 3600)}  # applied while it was looked at
    assert judged(shard(worker="", **read), Workers({})) == Verdict()


def test_while_redis_refuses_writes_nobody_is_told_to_start_a_worker_again() -> None:
    """It would only wait again."""
    still = shard(**waiting(3600))
    for now in (RedisNow(NOW, full=True), RedisNow(NOW, refuses="a replica"), RedisNow(NOW)):
        _, whole = judge(TABLE, replace(seen(shards=[still]), redis_now=now), 0.05)
        (said,) = [one for one in whole.problems if "messages wait" in one]
        is_blocked = bool(now.full or now.refuses)
        assert said.endswith("it goes on by itself once the server does") == is_blocked != ("start it again" in said)
    silent = worker(replace(WELL, lag=7, still_seconds=300.0), servers=(ServerFacts("Redis", 40.0),))
    assert not any("start it again" in one for one in worker_problems(silent))
    assert any("start it again" in one for one in worker_problems(replace(silent, servers=())))


# -- counts -----------------------------------------------------------------------------------------------------------


def test_a_shard_all_of_whose_messages_are_dead_letters_is_a_problem() -> None:
    dead = replace(META, next=2_000, counts=Counts(dead_letters=2_000))
    problem = the_problem(shard(dead, before=dead))
    assert problem == (
        "shard 0: 2,000 of the latest 2,000 messages were refused, more than 5%: `streamer dead-letters` says why; if "
        "that is put right, `streamer dead-letters acknowledge`"
    )


def test_of_many_messages_the_latest_ones_decide_about_the_share_of_dead_letters() -> None:
    old = replace(META, counts=Counts(applied=90_000, dead_letters=30_000), next=120_000)
    assert not judged(shard(old, before=old, refused_lately=500, lately=10_000)).problems
    problem = the_problem(shard(old, before=old, refused_lately=501, lately=10_000, refused_at=NOW - 7_300))
    assert "501 of the latest 10,000 messages were refused, the last one 2 h ago, more than 5%" in problem
    assert problem.endswith("if that is put right, `streamer dead-letters acknowledge`")


@pytest.mark.parametrize(
    ("refused", "of", "is_red"),
    [(597, 597, True), (10, 190, True), (10, 210, False), (9, 9, False)],
    ids=["all", "a twentieth", "fewer", "too few to tell"],
)
def test_what_is_refused_in_these_minutes_is_a_problem_though_the_latest_messages_were_right(
    refused: int, of: int, is_red: bool
) -> None:
    old = replace(META, counts=Counts(applied=90_000, dead_letters=refused), next=99_000)
    now = shard(old, before=old, refused_lately=refused, lately=100_000, refused_now=refused, now=of)
    said = [f"shard 0: {refused} of the {of} messages of the last minutes were refused, more than 5%: `streamer "]
    assert [one[: len(said[0])] for one in judged(now).problems] == said * is_red


def test_a_captured_truncation_that_is_a_dead_letter_is_a_problem_whatever_the_share() -> None:
    problem = the_problem(shard(META, truncations=(17,)))
    assert problem == (
        "shard 0: the source has truncated the table (offset 17), and the rows of before are still published: "
        "`streamer dead-letters` says what to do"
    )


def test_the_share_of_dead_letters_that_is_too_large_can_be_set() -> None:
    some = replace(META, counts=Counts(applied=94, dead_letters=6))
    assert judged(shard(some, before=some)).problems
    assert not judged(shard(some, before=some), dead_letters_max=0.06).problems


def test_changes_and_deletions_of_rows_that_are_not_there_are_a_warning() -> None:
    missed = replace(META, counts=Counts(applied=90, ignored=1, unknown_keys=17))
    verdict = judged(shard(missed, before=missed))
    assert verdict.problems == []
    assert "17 captured changes and deletions were about rows that it did not have" in verdict.warnings[0]
    assert verdict.warnings[0].endswith(remedies.READ_AGAIN)


@pytest.mark.parametrize(
    "why",
    [{"explaining": 17}, {"dead_letters": 17}, {"explaining": 9, "dead_letters": 8}],
    ids=["sent again after deletions, or read again", "their rows were refused", "both"],
)
def test_of_rows_that_are_not_there_for_a_harmless_reason_nothing_is_said(why: dict[str, Any]) -> None:
    well = replace(META, counts=structs.replace(Counts(applied=4_000, unknown_keys=17), **why), next=5_000)
    assert judged(shard(well, before=well)) == Verdict()
    one_more = replace(well, counts=structs.replace(well.counts, unknown_keys=18))
    assert len(judged(shard(one_more, before=one_more)).warnings) == 1


def test_if_their_keys_are_those_of_rows_in_another_spelling_that_is_the_cause_and_the_remedy() -> None:
    missed = replace(META, counts=Counts(applied=90, ignored=1, unknown_keys=17, respelt_keys=12))
    (warning,) = judged(shard(missed, before=missed)).warnings
    assert "12 of them name keys of its rows in another spelling, such as 1.0 for 1" in warning
    assert "streamer reload --from-source" in warning
    assert "skip its snapshot" not in warning


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


def test_a_live_topic_that_was_recreated_is_found_by_its_emptiness() -> None:
    for before in (META, EARLIER):
        assert "patients.live was recreated" in the_problem(shard(before=before, begun=False))
    assert judged(shard(replace(META, release=0), before=replace(META, release=0), begun=False)) == Verdict()


def test_a_live_topic_that_was_recreated_together_with_the_positions_is_found_too() -> None:
    assert "patients.live was recreated" in the_problem(shard(begun=False, position=None))
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
    lost = shard(None, before=None, position=ahead, sizes=Sizes(0, 0, 0, 0))
    said = "shard 0: published up to 200, but Redis holds nothing; "
    read_again = "the next worker reads the input again from its start, and publishes nothing on the way"
    assert the_problem(lost) == said + read_again
    assert the_problem(reading(lost, control_end=0)).startswith(f"{said}restore it from any former copy: else")
    assert "a copy that had reached offset 40, where the input begins now" in the_problem(reading(lost, earliest=40))


def reading(facts: ShardFacts, **more: Any) -> ShardFacts:
    """The same shard, where Kafka shows something else of its topics."""
    return replace(facts, kafka=replace(facts.kafka, input_state=replace(facts.kafka.input_state, **more)))


def test_what_a_loss_of_redis_would_cost_today_is_said_beforehand() -> None:
    def told(*shards: ShardFacts) -> str:
        return if_redis_is_lost(TABLE, seen(shards=shards)).told()

    well, other = shard(), shard(replace(META, next=44_900))
    assert told(well, other) == "if Redis is lost: 45,000 messages are read again from offset 0, about 9 s at 5,000/s"
    reload = "back up Redis: if it is lost without a copy, the table has to be reloaded, since "
    assert told(well, shard(replace(META, outside=3))).startswith(
        f"{reload}commit 3 of shard 0 did not come from the input"
    )
    assert told(well, reading(well, earliest=40)) == f"{reload}the input of shard 0 begins at offset 40"
    assert told(reading(well, control_end=0)) == f"{reload}patients.control does not have the secret of shard 0"
    never = shard(None, before=None)
    assert told(reading(never, earliest=40, control_end=0)).startswith("if Redis is lost: 0 messages")


def test_a_secret_that_is_in_redis_alone_is_a_warning_that_names_its_cheap_remedy() -> None:
    lacking = reading(shard(), control_end=0)
    (warning,) = judge_table(TABLE, seen(shards=[lacking])).warnings
    assert warning.startswith("the secret of shard 0 is in Redis alone, and would be lost with it: start the workers")
    assert judge_table(TABLE, seen(shards=[reading(lacking, earliest=40)])).warnings == []


def test_a_redis_that_lost_what_did_not_come_from_the_input_needs_a_copy_that_has_it_or_the_source() -> None:
    begun = Position.of(replace(META, commit=9, outside=8))
    nothing = the_problem(shard(None, before=None, position=begun, sizes=Sizes(0, 0, 0, 0)))
    assert "a copy not older than commit 8" in nothing
    assert remedies.reload(TABLE.name) in nothing


def test_rows_that_are_too_few_to_be_published_are_told() -> None:
    assert judged(shard(sizes=Sizes(2, 0, 0, 0))).warnings == [
        "shard 0: all its 2 rows are pending: a QI group needs at least 3 rows, and together they do not have it"
    ]


def test_a_shard_all_of_whose_rows_are_withheld_is_told() -> None:
    here = shard(sizes=Sizes(9, 3, 0, 0))
    of_nine = [replace(here.redis.custody, measured=Measured(withheld=n)) for n in (8, 9)]
    told = [judged(replace(here, redis=replace(here.redis, custody=one))).warnings for one in of_nine]
    assert told[0] == []
    assert told[1] == [
        "shard 0: all its 9 rows are withheld: no QI group is as narrow as `coarsest` in table.yaml asks"
    ]


def test_a_live_topic_with_another_id_is_told_though_something_was_written_into_it() -> None:
    ids = {CHANGES: "id", "live": "first"}
    meta = replace(META, topic_ids=ids)
    anew = InputState({**ids, "live": "second"}, 2, 0, META.next, True)
    assert "patients.live was recreated" in the_problem(shard(meta, before=meta, input_state=anew))
    other_input = replace(anew, topic_ids={**ids, CHANGES: "another"})
    assert "the input topic was recreated" in the_problem(shard(meta, before=EARLIER, input_state=other_input))


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
    assert problem.startswith("shard 0: its rebuild has stood at 3 of 8 regions for 10 min: look at the log of alice:1")


def test_a_rebuild_that_failed_is_a_problem_until_one_is_done() -> None:
    (problem,) = with_rebuilds(None, rebuilt(FAILED), rebuilt(ANSWERED)).problems
    assert problem == (
        "shard 0: its last rebuild, 1 min ago, failed with 3 of 8 regions done, loss +0.0%, 0 rows published again, "
        "9 s: out of memory; `streamer rebuild` tries again"
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


# -- the whole table --------------------------------------------------------------------------------------------------

KEEPS = Durability(Kind.SERVER, masters=1)


def seen(**more: Any) -> TableFacts:
    topics = {topic.name: 2 for topic in topics_of(TABLE.name, published_kinds(TABLE))}
    shards = [shard(), replace(shard(), number=1)]
    return replace(TableFacts(shards, BY_ALICE, topics, [0, 1], RedisNow(NOW), KEEPS), **more)


def test_a_table_whose_topics_and_workers_are_there_is_well() -> None:
    assert judge_table(TABLE, seen()) == Verdict()


def test_shards_without_a_worker_and_without_lag_are_one_warning() -> None:
    shards = [replace(one, worker="") for one in seen().shards]
    verdict = judge_table(TABLE, seen(shards=shards, workers=Workers({})))
    assert verdict == Verdict(warnings=["no worker holds shards 0, 1: start `streamer worker`"])


def test_a_topic_that_is_missing_or_has_another_number_of_partitions_is_a_problem() -> None:
    live, letters = topic_name(TABLE.name, "live"), topic_name(TABLE.name, "dead-letters")
    problems = judge_table(TABLE, seen(topics={**seen().topics, live: 0, letters: 3})).problems
    assert problems[0] == f"topic {live} does not exist: `streamer topics create --shards 2` makes it"
    assert f"topic {letters} has 3 partitions and the input 2" in problems[1]


def test_a_full_redis_and_shards_that_nobody_reads_are_problems() -> None:
    problems = judge_table(TABLE, seen(redis_now=RedisNow(NOW, full=True), shards_in_redis=[0, 1, 5])).problems
    assert any("raise its maxmemory" in problem for problem in problems)
    assert any("Redis holds a shard 5" in problem for problem in problems)


def test_a_redis_that_could_lose_what_it_confirms_is_warned_of_unless_somebody_vouches_for_it() -> None:
    facts = seen(durability=replace(KEEPS, lax=("Redis a:1: appendonly is no",)))
    (warning,) = judge_table(TABLE, facts).warnings
    assert warning.startswith("Redis a:1: appendonly is no: Redis could lose")
    assert judge_table(replace(TABLE, durability_stated=True), facts) == Verdict()


def test_with_individuals_readers_by_sql_are_warned_of() -> None:
    (warning,) = judge_table(replace(TABLE, individual="ssn"), seen()).warnings
    assert "`HAVING count(*) >= k` in SQL counts rows" in warning


def test_shards_that_know_different_key_forms_are_a_problem() -> None:
    forms = ["bare", 'json:{"id":number}']
    shards = [replace(shard(replace(META, key_form=form)), number=number) for number, form in enumerate(forms)]
    (problem,) = judge_table(TABLE, seen(shards=shards)).problems
    assert "one row may be in two of them" in problem
    shards[0] = shard(replace(META, key_form=""))  # a shard that has not read anything yet
    assert judge_table(TABLE, seen(shards=shards)) == Verdict()


# -- a worker, from inside --------------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_a_worker_that_is_well_or_has_no_shard() -> None:
    assert worker_problems(worker()) == []
    assert worker_problems(replace(worker(), shards=())) == []


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (replace(WELL, lost=True), "shard 0: another worker has taken it over"),
        (
            replace(WELL, error="Redis a:1: no answer", error_seconds=12.0),
            "shard 0: has not gone on for 12 s: Redis a:1: no answer",
        ),
        (
            replace(WELL, lag=1200, still_seconds=11.0),
            "1,200 messages wait, and none was applied for 11 s: look at the log of here:1, or start it again",
        ),
        (
            replace(WELL, lag=1, still_seconds=11.0, busy_seconds=11.5),
            "none was applied for 11 s, its thread has been in one call for 11 s",
        ),
        (
            replace(WELL, lag=1, still_seconds=51.0, busy_seconds=51.0, computing_seconds=40.0),
            "none was applied for 51 s",
        ),
        (replace(WELL, lag=1, still_seconds=121.0, computing_seconds=121.0), "none was applied for 2 min"),
        (replace(WELL, taken_over=False, busy_seconds=121.0), "shard 0: its thread has been in one call for 2 min"),
        (replace(WELL, fault_seconds=3.0), "shard 0: a message could not be applied 3 s ago"),
        (replace(WELL, releases=True, lag=1, still_seconds=601.0), "1 messages wait"),
    ],
)
def test_a_shard_that_does_not_go_on_is_a_reason(shard: HeldFacts, sentence: str) -> None:
    (said,) = worker_problems(worker(shard))
    assert sentence in said


@pytest.mark.parametrize(
    "shard",
    [
        replace(WELL, error="Redis a:1: no answer", error_seconds=3.0),
        replace(WELL, lag=1200, still_seconds=9.0, busy_seconds=9.0),
        replace(WELL, taken_over=False, lag=1200, still_seconds=100.0, busy_seconds=100.0),
        replace(WELL, releases=True, lag=1200, still_seconds=500.0, busy_seconds=500.0),
        replace(WELL, lag=1, still_seconds=49.0, busy_seconds=49.0, computing_seconds=40.0),
        replace(WELL, lag=1, still_seconds=60.0, computing_seconds=59.0),
        replace(WELL, fault_seconds=31.0),
        replace(WELL, pending=5),
    ],
    ids=[
        "just failed",
        "just begun",
        "loads",
        "first table",
        "a large statement",
        "another shard computes",
        "long ago",
        "pending",
    ],
)
def test_what_takes_its_time_or_is_over_is_none(shard: HeldFacts) -> None:
    assert worker_problems(worker(shard)) == []


@pytest.mark.parametrize("silent", ["Kafka", "Redis"])
def test_a_server_that_does_not_answer_is_a_reason(silent: str) -> None:
    servers = tuple(ServerFacts(name, 10.5 if name == silent else 9.5) for name in ("Kafka", "Redis"))
    (said,) = worker_problems(worker(servers=servers))
    assert said.startswith(f"{silent} has not answered for 10 s: is it running?")


def test_a_shard_that_was_refused_before_is_a_reason_until_it_is_taken_over() -> None:
    refusal = Refusal("its topic was recreated", BOB, int(WORKER_NOW) - 5)
    facts = replace(worker(), refused={3: Ownership(refusal=refusal), 4: Ownership(beginning=True)})
    refused, begun_in_part = worker_problems(facts)
    assert refused == "shard 3: refused by bob:2 5 s ago: its topic was recreated"
    assert begun_in_part.startswith("shard 4: the table is not loaded in all its shards yet")


def test_shards_that_are_never_given_out_are_a_reason() -> None:
    (said,) = worker_problems(replace(worker(joined=False), shards=(), unjoined_seconds=61.0))
    assert said.startswith("Kafka has been giving out shards for 1 min")
    assert worker_problems(replace(worker(joined=False), shards=(), unjoined_seconds=59.0)) == []


def test_a_full_redis_is_a_reason() -> None:
    (said,) = worker_problems(worker(servers=(ServerFacts("Redis", 0.0, full=True),)))
    assert said.startswith("Redis is full")


def test_a_worker_is_ready_once_it_has_taken_over_what_kafka_gave_it() -> None:
    assert not not_ready(worker())
    assert not not_ready(replace(worker(), shards=()))
    assert not_ready(worker(joined=False))
    assert not_ready(worker(WELL, replace(WELL, shard=1, taken_over=False)))
    assert not_ready(worker(replace(WELL, lost=True)))


def test_what_a_worker_waits_for_is_said_as_long_as_it_is_not_ready() -> None:
    assert not_ready(worker()) == []
    assert not_ready(worker(WELL, replace(WELL, shard=1, taken_over=False))) == ["shard 1: is being taken over"]
    assert not_ready(replace(worker(joined=False), shards=())) == ["Kafka has not given shards to this worker yet"]
    assert not_ready(worker(replace(WELL, lost=True))) != []


# -- from both sides --------------------------------------------------------------------------------------------------


def test_what_the_worker_knows_of_its_shard_counts_more_than_what_is_seen_from_outside() -> None:
    outside = shard(**waiting(3600))
    assert "none was applied" in the_problem(outside)
    computing = replace(WELL, lag=10, still_seconds=100.0, busy_seconds=100.0, computing_seconds=95.0)
    assert judged(replace(outside, held=computing)) == Verdict()
    assert "none was applied for 11 s" in the_problem(replace(outside, held=replace(WELL, lag=10, still_seconds=11.0)))


def test_a_shard_that_its_worker_holds_is_not_called_abandoned_nor_refused_any_more() -> None:
    refusal = Refusal("table.yaml has changed", BOB, int(NOW) - 5)
    outside = shard(worker="", custody=Ownership(BOB, 1, 1, refusal), **waiting(2))
    assert len(judged(outside, Workers({})).problems) == 2
    assert judged(replace(outside, held=WELL), Workers({})) == Verdict()


def test_one_sentence_says_from_either_side_that_redis_is_full() -> None:
    inside = worker_problems(worker(servers=(ServerFacts("Redis", 0.0, full=True),)))
    outside = judge_table(TABLE, seen(redis_now=RedisNow(NOW, full=True))).problems
    assert inside == outside != []


# -- another version of the engine ------------------------------------------------------------------------------------


def test_groups_that_an_older_engine_kept_are_a_warning_that_says_who_adopts_them() -> None:
    former = replace(META, fingerprint=as_of_version("1", TABLE).fingerprint)
    verdict = judged(shard(former, before=former))
    assert verdict.problems == []
    (said,) = verdict.warnings
    assert said.startswith("shard 0: its QI groups were kept by engine version 1; the next worker of this version, ")
    assert said.endswith(", adopts them")


def test_what_another_engine_published_and_redis_lost_is_that_versions_to_read_again() -> None:
    position = structs.replace(Position.of(META), engine="1")
    problem = the_problem(shard(None, before=None, position=position))
    assert "restore it from any former copy, and start workers of engine version 1, which decided what" in problem
    assert remedies.reload(TABLE.name) in problem
