"""The service that answers: where it listens, what it says at its start, and that it cannot harm the worker."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import socket
import tomllib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import ClientSession, web

from agents.shard_metrics import ShardMetrics
from agents.web import service
from agents.web.service import (
    CONNECTIONS_FOR_PROBES,
    CONNECTIONS_MAX,
    CONNECTIONS_OF_ONE_ADDRESS_MAX,
    SILENT_SECONDS_MAX,
    Answers,
    Web,
    listen,
    page,
    runner_of,
    web_app,
)
from agents.web.watch import NOT_OF_NOW_SECONDS, History, Seen, page_facts, point
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import DONE, REFUSED, Meta, Progress, Rebuild
from streamer.incremental.store.redis_lookups import Ownership, RedisNow, Refusal, Sizes
from streamer.incremental.store.redis_server import Durability, Kind
from streamer.incremental.topics import published_kinds, topics_of
from streamer.status.facts import HeldFacts, InKafka, InRedis, ShardFacts, TableFacts, WorkerFacts, Workers
from streamer.table.yaml.loading import load_table
from streamer.worker.options import Address
from streamer.worker.settings import WorkerSettings
from worlds.checkout import PATIENTS, ROOT
from worlds.patients import CANARY
from worlds.status_facts import META, NOW, SERVERS, WELL, facts, history, red, worker
from worlds.status_facts import before as so_long_ago
from worlds.status_facts import shard_as_json as shard

# The object at /facts and the page that is made of it: their fields, figures, verdict and words.

TABLE = load_table(PATIENTS)

TOP = {
    "table", "version", "worker", "now", "k", "model", "form", "drift", "servers", "verdict", "shards", "dead_letters",
    "unlisted", "history",
}  # fmt: skip
SHARD = {
    "shard", "worker", "here", "state", "since", "lag", "rows", "pending", "pending_oldest", "qi_groups", "messages",
    "applied", "ignored", "dead_letters", "messages_per_s", "records_per_s", "release",
    "last_commit", "ncp", "ncp_fresh", "reason", "rebuild", "rebuilds",
}  # fmt: skip
RUNNING = {"algorithm", "why", "began", "done", "of"}
ENDED = {"algorithm", "why", "at", "ended", "ncp_before", "ncp_after", "rows_published"}
POINT = {"at", "lag", "messages_per_s", "records_per_s", "ncp", "ncp_fresh", "pending", "rows", "dead_letters"}

REBUILD = Progress(
    Rebuild("5f0c", "ordered", 1, 1), total=4, done=3, why="operator", began=int(NOW) - 60, at=int(NOW) - 1
)
ENDED_REBUILD = Progress(
    Rebuild("77aa", "mondrian", 1, 2), 4, 4, rows_published_again=80, ncp_before=180.0, ncp_now=72.0, state=DONE,
    why="drift", began=int(NOW) - 60, at=int(NOW) - 1, rows=90,
)  # fmt: skip


def other(custody: Ownership, held_by: str, meta: Meta | None = None) -> ShardFacts:
    """Shard 5 as Redis and Kafka show it."""
    meta = meta or replace(META, commit=9, next=50, release=4, shards=6, counts=Counts(applied=48, dead_letters=2))
    redis = InRedis(meta, meta, Sizes(30, 6, 0, 0), custody)
    return ShardFacts(5, redis, InKafka(InputState({}, 6, 0, 50, True, control_end=1), Position.of(meta)), held_by)


def seen(*others: ShardFacts, told: bool = True) -> Seen:
    """A table of these shards, and what a look finds of it."""
    topics = {topic.name: 6 for topic in topics_of(TABLE.name, published_kinds(TABLE))}
    workers = Workers({}, told=told)
    return Seen(TableFacts(others, workers, topics, [], RedisNow(NOW), Durability(Kind.SERVER, masters=1)))


def said_of(
    facts: WorkerFacts, looked: Seen | None = None, metrics: dict[int, ShardMetrics] | None = None, **more: Any
) -> dict[str, Any]:
    """What a worker says at /facts; without a look at the whole table, unless there was one."""
    known = {shard.shard: ShardMetrics() for shard in facts.shards} | (metrics or {})
    return page_facts(TABLE, facts, known, looked or Seen(), more.get("history", ()))


def shards(*others: ShardFacts, facts: WorkerFacts | None = None, told: bool = True) -> dict[int, dict[str, Any]]:
    said = said_of(facts or worker(), seen(*others, told=told))
    return {shard["shard"]: shard for shard in said["shards"]}


def test_the_object_has_the_fields_that_the_page_reads_and_is_json() -> None:
    held = replace(WELL, rebuild=REBUILD, rebuilds=(ENDED_REBUILD,))
    facts = worker(held)
    said = said_of(facts, seen(other(Ownership(), "")), history=[point(facts)])
    assert set(said) == TOP
    assert all(set(shard) == SHARD for shard in said["shards"])
    assert set(said["shards"][0]["rebuild"]) == RUNNING
    assert set(said["shards"][0]["rebuilds"][0]) == ENDED
    assert set(said["history"][0]) == POINT
    assert msgspec.json.decode(msgspec.json.encode(said)) == said


def test_a_shard_that_is_here_is_told_by_the_worker_itself() -> None:
    said = said_of(worker(WELL))["shards"][0]
    assert (said["here"], said["state"], said["worker"]) == (True, "held", "here:1")
    assert (said["messages"], said["applied"], said["ignored"], said["dead_letters"]) == (105, 100, 2, 3)
    assert (said["release"], said["ncp"]) == (7, 0.25)
    assert (said["since"], said["reason"]) == ("2025-11-24T15:59:00.000Z", None)


def test_categories_that_table_yaml_does_not_list_are_told_of_all_shards_as_status_does() -> None:
    here = replace(WELL, counts=Counts(applied=100, unlisted={"problem": 2}))
    there = other(Ownership(), "", Meta(counts=Counts(applied=1_900, unlisted={"problem": 3, "sex": 1})))
    told = said_of(worker(here), seen(there))["unlisted"]
    assert [line.split(" that its")[0] for line in told] == [
        "5 of 2,000 applied messages have a problem", "1 of 2,000 applied messages have a sex"
    ]  # fmt: skip
    unseen = replace(other(Ownership(), ""), redis=InRedis(None, None, Sizes(0, 0, 0, 0), Ownership()))
    assert said_of(worker(WELL), seen(unseen))["unlisted"] == []


def test_how_a_shard_stands_is_one_word_and_a_reason() -> None:
    still = replace(WELL, lag=3, still_seconds=20.0)
    loading = replace(WELL, shard=1, taken_over=False)
    said = shards(facts=worker(still, loading))
    assert (said[0]["state"], said[1]["state"]) == ("standing still", "taking over")
    assert "3 messages wait" in said[0]["reason"]


def test_other_shards_are_told_as_they_were_last_seen() -> None:
    refusal = Refusal("its topic was recreated", "there:2", int(NOW))
    for custody, held_by, state in [
        (Ownership("there:2", int(NOW)), "there:2", "elsewhere"),
        (Ownership("there:2", int(NOW)), "", "nobody"),
        (Ownership("there:2", int(NOW), refusal=refusal), "", "refused"),
    ]:
        said = shards(other(custody, held_by))[5]
        assert (said["here"], said["state"], said["worker"]) == (False, state, held_by or None)
        assert (said["rows"], said["qi_groups"], said["messages"], said["lag"]) == (30, 6, 50, 0)
        assert said["reason"] == (refusal.reason if state == "refused" else None)


def test_where_kafka_does_not_tell_who_holds_a_shard_redis_does() -> None:
    assert shards(other(Ownership("there:2", int(NOW)), ""), told=False)[5]["state"] == "elsewhere"


def test_a_rebuild_that_runs_says_how_far_it_is() -> None:
    running = said_of(worker(replace(WELL, rebuild=REBUILD)))["shards"][0]["rebuild"]
    assert (running["done"], running["of"]) == (3, 4)


def test_rebuilds_that_ended_come_newest_first_and_without_answers_to_requests() -> None:
    newer = msgspec.structs.replace(ENDED_REBUILD, rebuild=Rebuild("88bb", "ordered", 1, 3))
    answer = msgspec.structs.replace(ENDED_REBUILD, state=REFUSED)
    facts = worker(replace(WELL, rebuilds=(ENDED_REBUILD, newer, answer)))
    assert [one["algorithm"] for one in shards(facts=facts)[0]["rebuilds"]] == ["ordered", "mondrian"]


def test_what_a_rebuild_gained_is_told_in_mean_losses_where_the_rows_were_counted() -> None:
    """Of patients, who have four quasi-identifiers."""
    of_a_former_version = msgspec.structs.replace(ENDED_REBUILD, rows=0)
    for one, before, after in [(ENDED_REBUILD, 0.5, 0.2), (of_a_former_version, None, None)]:
        (said,) = said_of(worker(replace(WELL, rebuilds=(one,))))["shards"][0]["rebuilds"]
        assert (said["ncp_before"], said["ncp_after"], said["rows_published"]) == (before, after, 80)


def test_the_verdict_is_the_workers_own_and_that_of_the_whole_table() -> None:
    refused = other(Ownership("there:2", refusal=Refusal("its topic was recreated", "there:2", int(NOW) - 5)), "")
    said = said_of(worker(replace(WELL, lost=True)), seen(refused, replace(other(Ownership(), ""), number=4)))[
        "verdict"
    ]
    assert (said["ok"], said["warnings"]) == (False, ["no worker holds shards 4, 5: start `streamer worker`"])
    assert [problem.partition(":")[0] for problem in said["problems"]] == ["shard 0", "shard 5"]


WELL_SEEN = seen().facts


@pytest.mark.parametrize(
    ("looked", "ok", "word"),
    [
        (Seen(), None, "◌ Looking at the whole table –"),
        (Seen(WELL_SEEN, warning="not just now"), None, "◌ Looking at the whole table, 1 warning –"),
        (Seen(warning="not just now"), None, "◌ Looking at the whole table, 1 warning –"),
        (Seen(WELL_SEEN, age=NOT_OF_NOW_SECONDS + 1), None, "◌ Looking at the whole table –"),
        (Seen(problem="Redis b:2: no answer"), False, "✖ 1 problem –"),
        (Seen(WELL_SEEN), True, "✔ Everything works –"),
    ],
)
def test_nothing_is_green_before_the_whole_table_was_looked_at_just_now(
    looked: Seen, ok: bool | None, word: str
) -> None:
    """Before: whoever opened the page read "Everything works" until the first look, whatever it then found."""
    said = said_of(worker(WELL), looked)
    assert said["verdict"]["ok"] is ok
    assert Read(page(said)).text.startswith(word)
    assert ("bar green" in Read(page(said)).classes) == (ok is True)
    standing = said_of(worker(replace(WELL, lost=True)), looked)
    assert standing["verdict"]["ok"] is False, "the worker's own problems are red at once"


def test_figures_of_one_place_count_from_one_time() -> None:
    """Before: "dead letters 11 of 612" stood beside "None since this worker began", merges of a minute beside rows."""
    counts = Counts(applied=600, ignored=1, dead_letters=11)
    reasons = {0: ShardMetrics(done=StepReport(reasons=Counter({"key-exists": 4})))}
    for metrics, own in [({}, 0), (reasons, 4)]:
        seen = shown(worker(replace(WELL, counts=counts)), metrics=metrics)
        assert "dead letters 11 of 612 messages" in seen.text
        assert f"by reason {own} since this worker began, of 11 in the table's life: streamer dead-letters" in seen.text
        assert "None since" not in seen.text and "merges" not in seen.text
    reloaded = shown(worker(replace(WELL, counts=Counts())), metrics=reasons)
    assert "by reason 4 since this worker began: streamer dead-letters" in reloaded.text


def test_a_table_that_cannot_be_looked_at_is_part_of_the_verdict_and_its_shards_stay() -> None:
    found = seen(other(Ownership(), "")).facts
    for looked, problems, warnings in [
        (Seen(found, problem="Redis b:2: no answer"), ["Redis b:2: no answer"], []),
        (Seen(found, warning="not just now"), [], ["not just now"]),
    ]:
        said = said_of(worker(WELL), looked)
        assert (said["verdict"]["problems"], said["verdict"]["warnings"]) == (problems, warnings)
        assert [shard["shard"] for shard in said["shards"]] == [0, 5]


def test_what_both_sides_see_of_a_shard_is_one_problem() -> None:
    refusal = Ownership("there:2", refusal=Refusal("its topic was recreated", "there:2", int(NOW) - 5))
    facts = replace(worker(replace(WELL, shard=5, taken_over=False)), refused={5: refusal})
    said = said_of(facts, seen(other(refusal, "")))
    assert said["verdict"]["problems"] == ["shard 5: refused by there:2 5 s ago: its topic was recreated"]
    assert [(one["state"], one["reason"]) for one in said["shards"]] == [("refused", "its topic was recreated")]


def test_dead_letters_are_counted_by_reason_over_all_shards() -> None:
    metrics = {
        0: ShardMetrics(done=StepReport(reasons=Counter({"key-exists": 2, "no-json": 1}))),
        7: ShardMetrics(done=StepReport(reasons=Counter({"key-exists": 3}))),
    }
    assert said_of(worker(WELL), metrics=metrics)["dead_letters"] == {"key-exists": 5, "no-json": 1}


def test_a_point_of_the_history_sums_the_shards_up_and_weighs_their_loss_by_rows() -> None:
    big, small = replace(WELL, rows=300, ncp=0.1, lag=5), replace(WELL, shard=1, rows=100, ncp=0.5, lag=6)
    said = point(worker(big, small))
    assert (said["lag"], said["rows"], said["ncp"]) == (11, 400, 0.2)
    assert point(worker(big, replace(small, ncp=None)))["ncp"] is None
    assert point(worker(big, replace(small, ncp=None, rows=0)))["ncp"] == 0.1


@pytest.mark.parametrize("n", [0, 1, 359, 360, 361, 10_000])
def test_all_the_time_is_covered_by_points_at_equal_distances(n: int) -> None:
    history = History()
    for number in range(n):
        history.add({"at": number})
    points = [one["at"] for one in history.points]
    assert len(points) <= 360
    distances = {after - before for before, after in pairwise(points)}
    assert len(distances) <= 1
    assert points[:1] == list(range(n))[:1]
    assert not n or n - points[-1] <= max(distances, default=1)
    assert n < 360 or len(points) >= 180


# -- the page -----------------------------------------------------------------------------------------------------

REASON = "input topic patients.changes has 4 partitions, and Redis was filled from 3: `streamer topics check` says how"


class Read(HTMLParser):
    """A page as somebody reads it: its texts, and those of each row, cell by cell; `within` is an element's id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.classes: set[str] = set()
        self.rows: list[str] = []
        self.codes: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(html)
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.classes |= {value for name, value in attrs if name == "class" and value}
        self._open.append(tag)
        if tag == "tbody":
            self.rows.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open[-1:] in (["style"], ["script"]):
            return
        self._texts.append(data)
        if "tbody" in self._open:
            self.rows[-1] = " ".join(f"{self.rows[-1]} {data}".split())
        if self._open[-1:] == ["code"]:
            self.codes.append(data)


def read(*told: dict[str, Any], **changes: Any) -> Read:
    return Read(page(facts(*told, **changes)))


def test_a_calm_table_says_so_first_and_then_shows_figures_with_words() -> None:
    seen = read(shard(0), shard(1), shard(2))
    assert seen.text.index("Everything works") < seen.text.index("Shards")
    for words in ("patients", "every QI group has at least 5 rows", "streamer-a1", "2026-03-01 12:00:00 UTC"):
        assert words in seen.text
    assert "rows 123,750 in 16,440 QI groups; 0 pending" in seen.text
    assert seen.rows[0] == "0 ● held 0 streamer-a1 (this one) 2 h ago 412 633 3 s ago 3,211 0 18% 16%"
    assert "messages 296,295 = applied 296,100 + ignored 180 + dead letters 15: it adds up" in seen.text
    assert seen.text.startswith("✔ Everything works – patients – streamer streamer patients ")
    assert "information loss 18% of the detail is given up (a fresh table: 16%)" in seen.text


def test_what_is_wrong_stands_first_with_its_reason_and_since_when() -> None:
    refused = shard(2, state="refused", worker=None, here=False, since=so_long_ago(600), reason=REASON, lag=1_204_311)
    seen = read(shard(0), shard(1), refused, verdict=red(f"shard 2: {REASON}", warnings=("Redis could lose",)))
    assert seen.text.startswith("✖ 1 problem, 1 warning – patients")
    assert "warning: Redis could lose" in seen.text
    assert seen.rows[0].startswith("2 ✖ refused 1,204,311 nobody 10 min ago")
    assert "Redis was filled from 3: streamer topics check says how" in seen.rows[0]
    assert seen.codes.count("streamer topics check") == 2
    assert "Of 3: 1 refused, 2 held." in seen.text


def test_a_hundred_refused_shards_do_not_hide_the_page() -> None:
    refused = [shard(n, state="refused", worker=None, here=False, reason=REASON) for n in range(100)]
    seen = read(*refused, verdict=red(*(f"shard {n}: refused" for n in range(100))))
    assert "✖ 100 problems" in seen.text and "and 95 more" in seen.text and "Of 100: 100 refused." in seen.text
    assert seen.text.index("shard 4: refused") < seen.text.index("and 95 more") < seen.text.index("shard 5: refused")


def test_shards_without_a_worker_and_shards_of_another_are_told_apart() -> None:
    elsewhere = [shard(n, state="elsewhere", worker="streamer-b2", here=False) for n in range(10)]
    seen = read(shard(11), *elsewhere, shard(10, state="nobody", worker=None, here=False, lag=7))
    assert "Of 12: 1 held by nobody, 1 held, 10 held elsewhere." in seen.text
    assert seen.rows[0].startswith("10 ✖ nobody 7 nobody")


def test_a_worker_that_has_just_begun_says_what_it_does_not_know() -> None:
    nothing = read(history=[], dead_letters={}, verdict={"ok": True, "problems": [], "warnings": ["no shard yet"]})
    for words in ("It works, with 1 warning", "None: Kafka has not given any shard yet.", "by reason 0 since this"):
        assert words in nothing.text


def test_rows_that_wait_and_categories_that_are_not_listed_are_told() -> None:
    unlisted = "3 of 98,700 applied messages have a city: `other` takes it as '(other)'"
    seen = read(shard(0, pending=3, pending_oldest=so_long_ago(125)), unlisted=[unlisted])
    assert " 3, oldest 2 min " in seen.rows[0]
    assert "3 pending, the oldest for 2 min" in seen.text
    assert unlisted.replace("`", "") in seen.text


def shown(facts: WorkerFacts, looked: Seen | None = None, **more: Any) -> Read:
    """The page of a worker that knows this."""
    return Read(page(said_of(facts, looked, history=[point(facts)] * 2, **more)))


def test_a_fresh_worker_says_when_it_will_know_what_it_does_not_know_yet() -> None:
    """Before: lag, rows and counts of a shard that was not read yet stood there as 0."""
    seen = shown(worker(HeldFacts(0)))
    later = "– known once a shard is taken over"
    assert seen.rows[0] == "0 ◌ taking over – here:1 (this one) – 0 0 none yet none yet – – –"
    assert all(f"{name} {later}" in seen.text for name in ("lag", "rows", "dead letters"))
    assert "loss – the loss is known once a worker holds published rows" in seen.text
    assert "Lag and counts that are – are known once the shard is taken over." in seen.text
    assert seen.text.count("the loss is known once a worker holds") == 1
    assert "Known once a shard is taken over." in seen.text and "it adds up" not in seen.text
    assert "nan" not in seen.text.split()


def test_a_shard_that_is_being_taken_over_is_shown_as_the_servers_show_it_if_they_were_looked_at() -> None:
    seen_outside = replace(other(Ownership("here:1", int(NOW)), ""), number=0)
    row = shown(worker(HeldFacts(0)), seen(seen_outside)).rows[0]
    assert row.startswith("0 ◌ taking over 0 here:1 (this one) – 0 0 ") and row.endswith(" 4 0 – –")


def test_after_commits_the_detail_given_up_stands_beside_that_of_a_fresh_table() -> None:
    assert "loss 25% of the detail is given up (a fresh table: 20%)" in shown(worker(WELL)).text
    unlooked = worker(replace(WELL, ncp=0.042, ncp_fresh=None))
    assert "loss 4.2% of the detail is given up; a fresh table: not measured yet (every 5 min" in shown(unlooked).text
    never = page(said_of(unlooked, history=[point(unlooked)]) | {"drift": None})
    assert "a fresh table: not measured, as `drift` is `never`" in Read(never).text


def test_a_shard_that_stands_still_says_so_and_why() -> None:
    seen = shown(worker(replace(WELL, lag=1_204, still_seconds=20.0)))
    assert seen.text.startswith("✖ 1 problem – patients")
    assert seen.rows[0].startswith("0 ✖ standing still 1,204 here:1")
    assert seen.rows[0].endswith(
        "1,204 messages wait, and none was applied for 20 s: look at the log of here:1, or start it again"
    )


@pytest.mark.parametrize(("silent", "word"), [(6.0, "◌ Not known while {} does not answer"), (12.0, "✖ 1 problem")])
@pytest.mark.parametrize("name", ["Kafka", "Redis"])
def test_while_a_server_is_frozen_lag_and_state_are_old_and_say_since_when(name: str, silent: float, word: str) -> None:
    """Before: they stood there as if they were of now; for ten seconds even under "Everything works"."""
    servers = tuple(replace(one, silent_seconds=silent) if one.name == name else one for one in SERVERS)
    frozen = worker(WELL, servers=servers)
    seen = shown(frozen)
    assert seen.text.startswith(f"{word.format(name)} – patients")
    answered = datetime.fromtimestamp(NOW - silent, UTC).strftime("%H:%M:%S")
    since = (
        f"{name} has not answered since {answered} UTC, {silent:.0f} s ago: lag and states are shown as they were then."
    )
    assert since in seen.text
    assert seen.rows[0].startswith(f"0 ● held 0, as of {silent:.0f} s ago here:1")
    assert {"state grey", "number grey", "grey"} <= seen.classes
    assert not {"state green", "bar green"} & seen.classes
    assert (point(frozen)["lag"], point(worker(WELL))["lag"]) == (None, 0), "the chart has a gap"
    assert not {"state grey", "number grey", "grey"} & shown(worker(WELL)).classes


def test_a_small_change_looks_small_and_what_was_not_known_is_a_gap() -> None:
    """Before: each chart went from its least to its largest value, and two percent were a cliff."""
    losses = [0.18, 0.1836, None, 0.18]
    html = page(facts(shard(0), history=[at | {"ncp": loss} for at, loss in zip(history(4), losses, strict=True)]))
    assert Read(html).tags["svg"] == 5
    (chart,) = re.findall(r'aria-label="information loss, from 0 to 20%"><path d="([^"]*)"', html)
    assert chart == "M0.0,3.8h0L33.3,3.3M100.0,3.8h0"


def test_what_only_another_worker_knows_is_no_zero() -> None:
    """Before: the records and merges of a second stood there as 0 for shards of other workers."""
    page_of_others = shown(worker(WELL), seen(other(Ownership("there:2", int(NOW)), "there:2")))
    row = next(row for row in page_of_others.rows if row.startswith("5 ○ elsewhere 0 there:2"))
    assert " – – " in row
    assert "If a figure of another worker's shard is –, that worker's page has it." in page_of_others.text
    assert "of this worker's shards alone" in page_of_others.text


def test_a_retry_is_offered_only_to_messages_that_it_can_apply() -> None:
    retried = {"internal-error": 1, "skipped": 1, "not-read-yet": 1}
    lost = {"unknown-category": 4, "malformed-json": 3, "bad-statement": 2, "message-gone": 1, "superseded": 1}
    rows = {row.split()[0]: row for row in read(dead_letters=retried | lost | {"of-a-later-version": 1}).rows}
    assert {reason for reason, row in rows.items() if "dead-letters retry" in row} == retried.keys()
    assert rows["unknown-category"].startswith("unknown-category 4 correct the rows at the source, which sends them")
    assert rows["of-a-later-version"].endswith(" streamer dead-letters says why")


def test_a_wider_table_yaml_is_offered_only_to_messages_that_it_can_heal() -> None:
    """Before: a deletion without `key` was told to widen table.yaml, and so were keys that exist already."""
    healed = {"out-of-domain": 1, "null-not-allowed": 1, "oversized": 1}
    others = {"missing-key": 1, "missing-row": 1, "missing-individual": 1, "key-exists": 1, "key-changed": 1}
    rows = {row.split()[0]: row for row in read(dead_letters=healed | others).rows}
    assert {reason for reason, row in rows.items() if "widen table.yaml" in row} == healed.keys()
    assert rows["missing-key"].endswith("as the letters say, and send the rows again")
    assert rows["key-exists"].endswith("if the source has the row, send it as an upsert ; if not, nothing")


def test_rebuilds_stand_the_latest_first_and_one_that_runs_says_how_far_it_is() -> None:
    ended = {"algorithm": "ordered", "why": "drift", "ncp_before": 0.91, "ncp_after": 0.74, "rows_published": 30_112}
    running = {"algorithm": "mondrian", "why": "operator", "began": so_long_ago(150), "done": 3, "of": 12}
    early, late = (
        ended | {"at": so_long_ago(7300), "ended": "cancelled"},
        ended | {"at": so_long_ago(60), "ended": "done"},
    )
    seen = read(shard(0, rebuilds=[early]), shard(1, rebuild=running, rebuilds=[late]), dead_letters={})
    assert seen.rows[2:5] == [
        "1 done 1 min ago ordered drift 91% 74% 30,112",
        "1 running, 3 of 12 regions, begun 2 min ago mondrian operator – – –",
        "0 cancelled 2 h ago ordered drift 91% 74% 30,112",
    ]


def test_a_name_is_shown_as_it_is_written_and_never_as_html() -> None:
    html = page(facts(shard(0, worker="<img src=x onerror=alert(1)>", reason="a `<b>` c"), table="<b>bold</b>"))
    seen = Read(html)
    assert "<b>bold</b>" in seen.text and "<img src=x onerror=alert(1)>" in seen.rows[0] and "<b>" in seen.codes
    assert seen.tags["img"] == seen.tags["b"] == 0


def test_the_page_needs_nothing_of_others_and_asks_for_nothing() -> None:
    html = page(facts(shard(0), shard(1)))
    assert not re.findall(r"""(?:src|href|action)=["'](?!data:)""", html)
    assert not {"form", "button", "input"} & Read(html).tags.keys()


def test_what_a_real_worker_says_can_be_shown() -> None:
    said = said_of(worker(replace(WELL, rebuild=REBUILD, rebuilds=(ENDED_REBUILD,))), seen(other(Ownership(), "")))
    assert "Of 2: 1 held by nobody, 1 held." in Read(page(said)).text


def test_the_template_is_part_of_what_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["*"]
    assert any(Path("page.html").match(pattern) for pattern in patterns)


# Who is answered what over HTTP, what every answer carries, and how many connections a worker takes.

HERE, ANYWHERE = Address("127.0.0.1", 0), Address("0.0.0.0", 0)


class Visitor:
    """Asks a server that listens on this machine."""

    def __init__(self, session: ClientSession, port: int) -> None:
        self.reasons: list[str] = []
        self.facts: Callable[[], dict[str, Any]] = lambda: facts(shard(0))
        self.session, self.port = session, port

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.url(path), headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, body: str = "{}", **headers: str) -> tuple[int, str]:
        async with self.session.post(self.url(path), data=body, headers=headers) as answer:
            return answer.status, await answer.text()

    def answers(self) -> Answers:
        return Answers(
            metrics=lambda: b"streamer_rows 1\n",
            problems=lambda: self.reasons,
            not_ready=lambda: self.reasons,
            facts=lambda: self.facts(),
        )

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@asynccontextmanager
async def visited(address: Address = HERE) -> AsyncIterator[Visitor]:
    """A server that stands, and somebody who asks it."""
    async with ClientSession() as session:
        visitor = Visitor(session, 0)
        runner = runner_of(web_app(address, visitor.answers()))
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            visitor.port = runner.addresses[0][1]
            yield visitor
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("path", ["/", "/facts", "/metrics", "/health", "/nowhere"])
async def test_every_answer_forbids_scripts_of_others_guesses_and_copies(path: str) -> None:
    async with visited() as visitor, visitor.session.get(visitor.url(path)) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "Server" not in answer.headers


async def test_health_and_readiness_are_in_the_status_and_the_reasons_in_the_body() -> None:
    async with visited() as visitor:
        for path in ("/health", "/ready"):
            visitor.reasons = []
            assert await visitor.get(path) == (200, '{"ok":true,"reasons":[]}')
            visitor.reasons = ["shard 0: ..."]
            assert await visitor.get(path) == (503, '{"ok":false,"reasons":["shard 0: ..."]}')


async def test_a_name_of_another_machine_is_not_answered_where_only_this_one_is_meant() -> None:
    async with visited() as visitor:
        assert (await visitor.get("/facts", Host="127.0.0.1"))[0] == 200
        assert (await visitor.get("/facts", Host="localhost:1"))[0] == 200
        assert (await visitor.get("/facts", Host="rebound.example"))[0] == 421


async def test_where_others_may_ask_they_may_do_so_by_any_name() -> None:
    async with visited(ANYWHERE) as visitor:
        assert (await visitor.get("/metrics", Host="worker:8080"))[0] == 200


async def test_the_page_is_html_and_runs_its_own_script_and_no_other() -> None:
    async with visited() as visitor:
        async with visitor.session.get(visitor.url("/")) as answer:
            html, policy = await answer.text(), answer.headers["Content-Security-Policy"]
            assert answer.content_type == "text/html"
        for kind in ("script", "style"):
            (own,) = re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.S)
            digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}';" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/", "/facts", "/rebuild", "/rebuild/cancel"])
async def test_nothing_can_be_asked_for_but_to_read(path: str) -> None:
    async with visited() as visitor:
        assert (await visitor.post(path, '{"shard": 0}'))[0] in (404, 405)


async def test_only_what_is_named_is_served() -> None:
    async with visited() as visitor:
        for path in ("/events", "/page/", "/page.html", "/%2e%2e/server.py", "/..%2fserver.py", "//etc/hostname"):
            assert (await visitor.get(path))[0] == 404


async def test_an_error_that_nobody_foresaw_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> dict[str, Any]:
        raise KeyError(CANARY)

    with caplog.at_level(logging.DEBUG):
        async with visited() as visitor:
            visitor.facts = failing
            status, body = await visitor.get("/facts")
            assert (status, CANARY in body) == (500, False)
    assert "/facts was not answered: KeyError" in caplog.text
    assert CANARY not in caplog.text


async def test_what_somebody_sent_as_a_path_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with visited() as visitor:
            for path in (f"/{CANARY}%0aERROR{'x' * 300}", f"/page/{CANARY}{'x' * 256}"):
                assert (await visitor.get(path))[0] == 404
    assert CANARY not in caplog.text
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("headers", "body"), [({"Accept": "\udcff\udcfe"}, b""), ({"Content-Encoding": "gzip"}, b"no gzip")]
)
async def test_bytes_that_are_no_text_harm_nobody(
    caplog: pytest.LogCaptureFixture, headers: dict[str, str], body: bytes
) -> None:
    async with visited() as visitor:
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.port)
        lines = [f"{name}: {value}" for name, value in {"Host": "127.0.0.1", **headers}.items()]
        head = "\r\n".join(["GET /facts HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
        writer.write(head.encode("utf-8", "surrogateescape") + body)
        assert (await reader.readline()).split()[1] in (b"200", b"400")
        writer.close()
    assert "was not answered" not in caplog.text


# -- connections --------------------------------------------------------------------------------------------------

ARRIVES_SECONDS_MAX = 60.0
QUESTION = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Opened = Callable[[], Awaitable[Wire]]


@asynccontextmanager
async def connected(
    connections_max: int = CONNECTIONS_MAX, silent_seconds_max: float = SILENT_SECONDS_MAX
) -> AsyncIterator[Opened]:
    """A server that answers everything with "here", and what opens a connection to it."""

    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/", answer)
    app.router.add_get("/health", answer)
    runner = runner_of(app, silent_seconds_max)
    await runner.setup()
    listening = await listen(runner, Address("127.0.0.1", 0), connections_max)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield lambda: asyncio.open_connection("127.0.0.1", port)
    finally:
        listening.close()
        await runner.cleanup()


async def said(wire: Wire, question: bytes) -> bytes:
    """All that comes back; nothing where the connection is ended instead."""
    reader, writer = wire
    try:
        writer.write(question)
        return await asyncio.wait_for(reader.read(), ARRIVES_SECONDS_MAX)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_so_many_connections_are_taken_and_one_that_ends_makes_room() -> None:
    async with connected(connections_max=3) as opened:
        silent = [await opened() for _ in range(3)]
        assert b" 503 " in await said(await opened(), QUESTION)
        silent[0][1].close()
        answer = b""
        for _ in range(600):
            answer = await said(await opened(), QUESTION)
            if b" 200 " in answer:
                break
            await asyncio.sleep(0.1)
        assert answer.endswith(b"here")
        for _, writer in silent:
            writer.close()


PROBE = QUESTION.replace(b"GET / ", b"GET /health ")
KEEP_ALIVE = QUESTION.replace(b"close", b"keep-alive")


@pytest.mark.parametrize("first", [b"", KEEP_ALIVE], ids=["silent", "keep-alive"])
async def test_a_probe_is_answered_while_others_hold_every_connection(first: bytes) -> None:
    async with connected() as opened:
        others = [await opened() for _ in range(CONNECTIONS_MAX + 2 * CONNECTIONS_FOR_PROBES)]
        for _, writer in others:
            writer.write(first)
        for _ in range(3):
            assert (await said(await opened(), PROBE)).endswith(b"here")
        assert b" 503 " in await said(await opened(), QUESTION)
        for _, writer in others:
            writer.close()


async def test_one_address_cannot_have_all_the_connections() -> None:
    async with connected() as opened:
        others = [await opened() for _ in range(CONNECTIONS_OF_ONE_ADDRESS_MAX)]
        assert b" 503 " in await said(await opened(), QUESTION)
        assert (await said(await opened(), PROBE)).endswith(b"here")
        for _, writer in others:
            writer.close()


async def test_a_connection_that_is_used_for_too_long_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LIVES_SECONDS_MAX", 0.1)
    async with connected() as opened:
        reader, writer = await opened()
        writer.write(KEEP_ALIVE)
        await reader.readuntil(b"here")
        await asyncio.sleep(0.2)
        assert (await said(await opened(), PROBE)).endswith(b"here")
        assert await asyncio.wait_for(reader.read(), 5.0) == b""
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["nothing", "half a request"])
async def test_a_connection_that_asks_nothing_is_ended(begun: bytes) -> None:
    async with connected(silent_seconds_max=0.1) as opened:
        assert await said(await opened(), begun) == b""


async def test_of_what_is_no_http_the_log_has_one_line_without_a_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    wrong = [
        f"GET / HTTP/1.1\r\nHost: a\r\nX-Token: {CANARY * 2000}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {CANARY}\r\nHost: {CANARY}\r\n\r\n",
        f"{CANARY}\r\n\r\n",
    ]
    with caplog.at_level(logging.DEBUG, "aiohttp"):
        async with connected() as opened:
            for question in wrong * 5:
                assert b" 400 " in await said(await opened(), question.encode())
    lines = [line for line in caplog.records if line.name == "aiohttp.server"]
    assert 0 < len(lines) < len(wrong)
    assert all(line.levelname == "WARNING" and not line.exc_info for line in lines)
    assert CANARY not in caplog.text
    assert "\n" not in lines[0].getMessage()


SETTINGS = WorkerSettings(load_table(PATIENTS), "127.0.0.1:1", "redis://127.0.0.1:1/0", name="here:1")


def no_shard() -> Any:
    """A reader that was given none."""
    return SimpleNamespace(held=[], joined=True, metrics=defaultdict(ShardMetrics), consumer=None)


@asynccontextmanager
async def told(address: Address = HERE, reader: Any = None, settings: WorkerSettings = SETTINGS) -> AsyncIterator[Web]:
    web = Web(settings, address, cast(Any, reader or no_shard()), sample_seconds=0.01)
    await web.start()
    try:
        yield web
    finally:
        await web.stop()


def url_in(log: str) -> str:
    found = re.search(r"http://\S+", log)
    assert found is not None, log
    return found[0].rstrip(",")


async def asked(url: str) -> tuple[int, Any]:
    async with ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_it_says_where_it_listens_and_answers_there(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with told():
            url = url_in(caplog.text)
            assert (await asked(f"{url}/ready"))[0] == (await asked(f"{url}/health"))[0] == 200
            status, facts = await asked(f"{url}/facts")
            assert (status, '"table":"patients"' in facts) == (200, True)
            status, page = await asked(url)
            assert status == 200
            assert "Looking at the whole table" in page and "None: Kafka has not given any shard yet." in page
    assert "other machines" not in caplog.text


async def test_an_address_that_others_can_reach_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with told(address=Address("0.0.0.0", 0)):
        pass
    assert [line.levelname for line in caplog.records if "other machines" in line.getMessage()] == ["WARNING"]


async def test_an_address_that_cannot_be_had_ends_the_worker_with_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with told(address=Address("127.0.0.1", port)) as web:
            assert str(web.failure).startswith(f"--web 127.0.0.1:{port}: ")


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "nowhere.invalid"])
async def test_a_host_that_is_none_ends_the_worker_with_the_reason(host: str) -> None:
    async with told(address=Address(host, 80)) as web:
        assert str(web.failure).startswith(f"--web {host}:80: ")


async def test_a_shard_that_cannot_be_looked_at_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with told(reader=SimpleNamespace(held=[object()], joined=True, metrics={}, consumer=None)) as web:
            for _ in range(1000):
                if caplog.text.count("could not be read") > 1:
                    break
                await asyncio.sleep(0.01)
            assert caplog.text.count("could not be read") > 1
            assert (await asked(f"{url_in(caplog.text)}/metrics"))[0] == 500
            assert not web.crashed


async def test_a_look_at_the_table_that_hangs_stops_neither_answers_nor_the_history(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def goes_on(web: Web) -> None:
        url, seen = f"{url_in(caplog.text)}/facts", 0
        for _ in range(1000):
            status, body = await asked(url)
            assert status == 200
            seen = len(json.loads(body)["history"])
            if web.busy and seen > 20:
                break
            await asyncio.sleep(0.01)
        assert (seen > 20, web.busy) == (True, True)

    with socket.socket() as silent:  # the kernel accepts connections, and no one answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        kafka = f"127.0.0.1:{silent.getsockname()[1]}"
        with caplog.at_level(logging.INFO):
            async with told(settings=replace(SETTINGS, kafka=kafka)) as web:
                await goes_on(web)
