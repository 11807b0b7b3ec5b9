"""The object that the page is built on: its fields, and where its figures come from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec

from agents.diary import Diary
from agents.web.page_facts import page_facts, point
from agents.web.table_look import Seen
from streamer.cli.shard_facts import InKafka, InRedis, ShardFacts
from streamer.cli.shard_verdict import Verdict
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import DONE, REFUSED, Progress, Rebuild
from streamer.incremental.store.redis_lookups import Custody, Refusal, Sizes
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.worker_facts import NOW, WELL, worker

TABLE = load_table(PATIENTS)

TOP = {
    "table", "version", "worker", "now", "k", "model", "form", "verdict", "shards", "dead_letters", "unlisted",
    "history",
}  # fmt: skip
SHARD = {
    "shard", "worker", "here", "state", "since", "lag", "rows", "pending", "pending_oldest", "qi_groups", "messages",
    "applied", "ignored", "dead_letters", "messages_per_s", "records_per_s", "merges", "splits", "release",
    "last_commit", "ncp", "ncp_fresh", "reason", "rebuild", "rebuilds",
}  # fmt: skip
RUNNING = {"algorithm", "why", "began", "done", "of", "cancelling"}
ENDED = {"algorithm", "why", "at", "ended", "ncp_before", "ncp_after", "rows_published"}
POINT = {"at", "lag", "messages_per_s", "records_per_s", "ncp", "ncp_fresh", "pending", "rows"}

REBUILD = Progress(
    Rebuild("5f0c", "ordered", 1, 1), total=4, done=3, why="operator", began=int(NOW) - 60, at=int(NOW) - 1
)
ENDED_REBUILD = Progress(
    Rebuild("77aa", "mondrian", 1, 2), 4, 4, rows_published_again=80, ncp_before=45.0, ncp_now=18.0, state=DONE,
    why="drift", began=int(NOW) - 60, at=int(NOW) - 1,
)  # fmt: skip


def other(custody: Custody, held_by: str, meta: Meta | None = None) -> ShardFacts:
    """Shard 5 as Redis and Kafka show it."""
    meta = meta or Meta(commit=9, next=50, release=4, counts=Counts(applied=40, dead_letters=10))
    redis = InRedis(meta, meta, Sizes(30, 6, 0, 0), custody)
    return ShardFacts(5, redis, InKafka(InputState({}, 6, 0, 50), None, None), held_by)


def shards(*others: ShardFacts, **more: Any) -> dict[int, dict[str, Any]]:
    said = page_facts(TABLE, more.pop("facts", worker()), Seen(others, **more), [])
    return {shard["shard"]: shard for shard in said["shards"]}


def test_the_object_has_the_fields_that_the_page_reads_and_is_json() -> None:
    held = replace(WELL, rebuild=REBUILD, rebuilds=(ENDED_REBUILD,))
    facts = worker(held)
    said = page_facts(TABLE, facts, Seen((other(Custody(), ""),)), [point(facts)])
    assert set(said) == TOP
    assert all(set(shard) == SHARD for shard in said["shards"])
    assert set(said["shards"][0]["rebuild"]) == RUNNING
    assert set(said["shards"][0]["rebuilds"][0]) == ENDED
    assert set(said["history"][0]) == POINT
    assert msgspec.json.decode(msgspec.json.encode(said)) == said


def test_a_shard_that_is_here_is_told_by_the_worker_itself() -> None:
    diary = Diary(done=StepReport(merges=4, splits=5))
    said = shards(facts=worker(WELL, diaries={0: diary}))[0]
    assert (said["here"], said["state"], said["worker"]) == (True, "held", "here:1")
    assert (said["messages"], said["applied"], said["ignored"], said["dead_letters"]) == (105, 100, 2, 3)
    assert (said["merges"], said["splits"], said["release"], said["ncp"]) == (4, 5, 7, 0.25)
    assert (said["since"], said["reason"]) == ("2025-11-24T15:59:00.000Z", None)


def test_categories_that_table_yaml_does_not_list_are_told_of_all_shards_as_status_does() -> None:
    here = replace(WELL, counts=Counts(applied=100, unlisted={"problem": 2}))
    there = other(Custody(), "", Meta(counts=Counts(applied=1_900, unlisted={"problem": 3, "sex": 1})))
    told = page_facts(TABLE, worker(here), Seen((there,)), [])["unlisted"]
    assert [line.split(" that its")[0] for line in told] == [
        "5 of 2,000 applied messages have a problem", "1 of 2,000 applied messages have a sex"
    ]  # fmt: skip
    unseen = replace(other(Custody(), ""), redis=InRedis(None, None, Sizes(0, 0, 0, 0), Custody()))
    assert page_facts(TABLE, worker(WELL), Seen((unseen,)), [])["unlisted"] == []


def test_how_a_shard_stands_is_one_word_and_a_reason() -> None:
    still = replace(WELL, lag=3, still_seconds=20.0)
    loading = replace(WELL, shard=1, taken_over=False)
    said = shards(facts=worker(still, loading))
    assert (said[0]["state"], said[1]["state"]) == ("standing still", "taking over")
    assert "3 messages wait" in said[0]["reason"]


def test_other_shards_are_told_as_they_were_last_seen() -> None:
    refusal = Refusal("its topic was made anew", "there:2", int(NOW))
    for custody, held_by, state in [
        (Custody("there:2", int(NOW)), "there:2", "elsewhere"),
        (Custody("there:2", int(NOW)), "", "nobody"),
        (Custody("there:2", int(NOW), refusal=refusal), "", "refused"),
    ]:
        said = shards(other(custody, held_by))[5]
        assert (said["here"], said["state"], said["worker"]) == (False, state, held_by or None)
        assert (said["rows"], said["qi_groups"], said["messages"], said["lag"]) == (30, 6, 50, 0)
        assert said["reason"] == (refusal.reason if state == "refused" else None)


def test_where_kafka_does_not_tell_who_holds_a_shard_redis_does() -> None:
    assert shards(other(Custody("there:2", int(NOW)), ""), told=False)[5]["state"] == "elsewhere"


def test_a_rebuild_that_runs_says_how_far_it_is_and_whether_somebody_wants_it_to_end() -> None:
    facts = worker(replace(WELL, rebuild=REBUILD))
    for cancelled in (set(), {"5f0c"}):
        running = page_facts(TABLE, facts, Seen(), [], cancelled)["shards"][0]["rebuild"]
        assert (running["done"], running["of"], running["cancelling"]) == (3, 4, bool(cancelled))


def test_rebuilds_that_ended_come_newest_first_and_without_answers_to_requests() -> None:
    newer = msgspec.structs.replace(ENDED_REBUILD, rebuild=Rebuild("88bb", "ordered", 1, 3))
    answer = msgspec.structs.replace(ENDED_REBUILD, state=REFUSED)
    facts = worker(replace(WELL, rebuilds=(ENDED_REBUILD, newer, answer)))
    assert [one["algorithm"] for one in shards(facts=facts)[0]["rebuilds"]] == ["ordered", "mondrian"]


def test_what_a_rebuild_gained_is_told_per_row_where_this_process_saw_it_end() -> None:
    held = replace(WELL, rebuilds=(ENDED_REBUILD,))
    diary = Diary()
    diary.rebuilt(ENDED_REBUILD, rows=90)
    for diaries, before, after in [({0: diary}, 0.5, 0.2), ({0: Diary()}, None, None)]:
        (said,) = shards(facts=worker(held, diaries=diaries))[0]["rebuilds"]
        assert (said["ncp_before"], said["ncp_after"], said["rows_published"]) == (before, after, 80)


def test_the_verdict_is_the_workers_own_and_that_of_the_whole_table() -> None:
    seen = Seen(verdict=Verdict(["shard 5: refused"], ["no worker holds shard 4"]))
    said = page_facts(TABLE, worker(replace(WELL, lost=True)), seen, [])["verdict"]
    assert (said["ok"], len(said["problems"]), said["warnings"]) == (False, 2, ["no worker holds shard 4"])
    assert page_facts(TABLE, worker(), Seen(), [])["verdict"] == {"ok": True, "problems": [], "warnings": []}


def test_dead_letters_are_counted_by_reason_over_all_shards() -> None:
    diaries = {
        0: Diary(done=StepReport(reasons=Counter({"key-exists": 2, "no-json": 1}))),
        7: Diary(done=StepReport(reasons=Counter({"key-exists": 3}))),
    }
    assert page_facts(TABLE, worker(WELL, diaries=diaries), Seen(), [])["dead_letters"] == {
        "key-exists": 5,
        "no-json": 1,
    }


def test_a_point_of_the_history_sums_the_shards_up_and_weighs_their_loss_by_rows() -> None:
    big, small = replace(WELL, rows=300, ncp=0.1, lag=5), replace(WELL, shard=1, rows=100, ncp=0.5, lag=6)
    said = point(worker(big, small))
    assert (said["lag"], said["rows"], said["ncp"]) == (11, 400, 0.2)
    assert point(worker(big, replace(small, ncp=None)))["ncp"] is None
    assert point(worker(big, replace(small, ncp=None, rows=0)))["ncp"] == 0.1
