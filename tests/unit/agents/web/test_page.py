"""The object at /facts and the page that is made of it: their fields, figures, verdict and words."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.diary import Diary
from agents.web.page import History, page, page_facts, point
from agents.web.watch import Seen
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.status.facts import InKafka, InRedis, ShardFacts, TableFacts, WorkerFacts, Workers
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import DONE, REFUSED, Progress, Rebuild
from streamer.incremental.store.redis_lookups import Custody, RedisNow, Refusal, Sizes
from streamer.incremental.store.redis_server import Durability
from streamer.incremental.store.redis_url import Kind
from streamer.incremental.topics import topics_of
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS, ROOT
from worlds.patient_facts import META
from worlds.told_facts import before as so_long_ago
from worlds.told_facts import facts, red, shard
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
RUNNING = {"algorithm", "why", "began", "done", "of"}
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
    meta = meta or replace(META, commit=9, next=50, release=4, shards=6, counts=Counts(applied=48, dead_letters=2))
    redis = InRedis(meta, meta, Sizes(30, 6, 0, 0), custody)
    return ShardFacts(5, redis, InKafka(InputState({}, 6, 0, 50, True), Position.of(meta)), held_by)


def seen(*others: ShardFacts, told: bool = True) -> Seen:
    """A table of these shards, and what a look finds of it."""
    topics = {topic.name: 6 for topic in topics_of(TABLE.name, TABLE.form)}
    workers = Workers({}, told=told)
    return Seen(TableFacts(others, workers, topics, [], RedisNow(NOW), Durability(Kind.SERVER, masters=1)))


def said_of(
    facts: WorkerFacts, looked: Seen | None = None, diaries: dict[int, Diary] | None = None, **more: Any
) -> dict[str, Any]:
    """What a worker says at /facts; without a look at the whole table, unless there was one."""
    known = {shard.shard: Diary() for shard in facts.shards} | (diaries or {})
    return page_facts(TABLE, facts, known, looked or Seen(), more.get("history", ()))


def shards(*others: ShardFacts, facts: WorkerFacts | None = None, told: bool = True) -> dict[int, dict[str, Any]]:
    said = said_of(facts or worker(), seen(*others, told=told))
    return {shard["shard"]: shard for shard in said["shards"]}


def test_the_object_has_the_fields_that_the_page_reads_and_is_json() -> None:
    held = replace(WELL, rebuild=REBUILD, rebuilds=(ENDED_REBUILD,))
    facts = worker(held)
    said = said_of(facts, seen(other(Custody(), "")), history=[point(facts)])
    assert set(said) == TOP
    assert all(set(shard) == SHARD for shard in said["shards"])
    assert set(said["shards"][0]["rebuild"]) == RUNNING
    assert set(said["shards"][0]["rebuilds"][0]) == ENDED
    assert set(said["history"][0]) == POINT
    assert msgspec.json.decode(msgspec.json.encode(said)) == said


def test_a_shard_that_is_here_is_told_by_the_worker_itself() -> None:
    diary = Diary(done=StepReport(merges=4, splits=5))
    said = said_of(worker(WELL), diaries={0: diary})["shards"][0]
    assert (said["here"], said["state"], said["worker"]) == (True, "held", "here:1")
    assert (said["messages"], said["applied"], said["ignored"], said["dead_letters"]) == (105, 100, 2, 3)
    assert (said["merges"], said["splits"], said["release"], said["ncp"]) == (4, 5, 7, 0.25)
    assert (said["since"], said["reason"]) == ("2025-11-24T15:59:00.000Z", None)


def test_categories_that_table_yaml_does_not_list_are_told_of_all_shards_as_status_does() -> None:
    here = replace(WELL, counts=Counts(applied=100, unlisted={"problem": 2}))
    there = other(Custody(), "", Meta(counts=Counts(applied=1_900, unlisted={"problem": 3, "sex": 1})))
    told = said_of(worker(here), seen(there))["unlisted"]
    assert [line.split(" that its")[0] for line in told] == [
        "5 of 2,000 applied messages have a problem", "1 of 2,000 applied messages have a sex"
    ]  # fmt: skip
    unseen = replace(other(Custody(), ""), redis=InRedis(None, None, Sizes(0, 0, 0, 0), Custody()))
    assert said_of(worker(WELL), seen(unseen))["unlisted"] == []


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


def test_a_rebuild_that_runs_says_how_far_it_is() -> None:
    running = said_of(worker(replace(WELL, rebuild=REBUILD)))["shards"][0]["rebuild"]
    assert (running["done"], running["of"]) == (3, 4)


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
        (said,) = said_of(worker(held), diaries=diaries)["shards"][0]["rebuilds"]
        assert (said["ncp_before"], said["ncp_after"], said["rows_published"]) == (before, after, 80)


def test_the_verdict_is_the_workers_own_and_that_of_the_whole_table() -> None:
    assert said_of(worker())["verdict"] == {"ok": True, "problems": [], "warnings": []}
    refused = other(Custody("there:2", refusal=Refusal("its topic was made anew", "there:2", int(NOW) - 5)), "")
    said = said_of(worker(replace(WELL, lost=True)), seen(refused, replace(other(Custody(), ""), number=4)))["verdict"]
    assert (said["ok"], said["warnings"]) == (False, ["no worker holds shards 4, 5: start `streamer worker`"])
    assert [problem.partition(":")[0] for problem in said["problems"]] == ["shard 0", "shard 5"]


def test_a_table_that_cannot_be_looked_at_is_part_of_the_verdict_and_its_shards_stay() -> None:
    found = seen(other(Custody(), "")).facts
    for looked, problems, warnings in [
        (Seen(found, problem="Redis b:2: no answer"), ["Redis b:2: no answer"], []),
        (Seen(found, warning="not just now"), [], ["not just now"]),
    ]:
        said = said_of(worker(WELL), looked)
        assert (said["verdict"]["problems"], said["verdict"]["warnings"]) == (problems, warnings)
        assert [shard["shard"] for shard in said["shards"]] == [0, 5]


def test_what_both_sides_see_of_a_shard_is_one_problem() -> None:
    refusal = Custody("there:2", refusal=Refusal("its topic was made anew", "there:2", int(NOW) - 5))
    facts = replace(worker(replace(WELL, shard=5, taken_over=False)), refused={5: refusal})
    said = said_of(facts, seen(other(refusal, "")))
    assert said["verdict"]["problems"] == ["shard 5: refused by there:2 5 s ago: its topic was made anew"]
    assert [(one["state"], one["reason"]) for one in said["shards"]] == [("refused", "its topic was made anew")]


def test_dead_letters_are_counted_by_reason_over_all_shards() -> None:
    diaries = {
        0: Diary(done=StepReport(reasons=Counter({"key-exists": 2, "no-json": 1}))),
        7: Diary(done=StepReport(reasons=Counter({"key-exists": 3}))),
    }
    assert said_of(worker(WELL), diaries=diaries)["dead_letters"] == {"key-exists": 5, "no-json": 1}


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
        self.rows: list[str] = []
        self.codes: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(html)
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
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
    assert "rows 123,750 in 16,440 QI groups" in seen.text
    assert seen.rows[0].startswith("0 ● held streamer-a1 (this one) 2 h ago 0 412 633 3 s ago 3,211 0 0.8124 0.7431")
    assert seen.rows[3:5] == ["unknown-column 4", "not-json 1"]
    assert "messages 296,295 = applied 296,100 + ignored 180 + dead letters 15: it adds up" in seen.text
    assert seen.tags["polyline"] == 6
    assert "loss 0.8098 a fresh table has 0.7420 (+9.1% here)" in seen.text


def test_what_is_wrong_stands_first_with_its_reason_and_since_when() -> None:
    refused = shard(2, state="refused", worker=None, here=False, since=so_long_ago(600), reason=REASON, lag=1_204_311)
    seen = read(shard(0), shard(1), refused, verdict=red(f"shard 2: {REASON}", warnings=("Redis could lose",)))
    assert seen.text.startswith("✖ 1 problem, 1 warning – patients")
    assert "warning: Redis could lose" in seen.text
    assert seen.rows[0].startswith("2 ✖ refused nobody 10 min ago 1,204,311")
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
    assert seen.rows[0].startswith("10 ✖ nobody nobody")


def test_a_worker_that_has_just_begun_says_what_it_does_not_know() -> None:
    nothing = read(history=[], dead_letters={}, verdict={"ok": True, "problems": [], "warnings": ["no shard yet"]})
    for words in ("It works, with 1 warning", "None: Kafka has not given any shard yet.", "None since this worker"):
        assert words in nothing.text
    new = {"release": None, "last_commit": None, "ncp": None, "ncp_fresh": None, "since": None}
    seen = read(shard(0, state="taking over", **new), history=[])
    assert seen.rows[0].startswith("0 ◌ taking over streamer-a1 (this one) –")
    assert seen.tags["polyline"] == 0
    assert "None is remembered." in seen.text
    assert "nan" not in seen.text.split()


def test_rows_that_wait_and_categories_that_are_not_listed_are_told() -> None:
    unlisted = "3 of 98,700 applied messages have a city: `other` takes it as '(other)'"
    seen = read(shard(0, pending=3, pending_oldest=so_long_ago(125)), unlisted=[unlisted])
    assert " 3, oldest 2 min " in seen.rows[0]
    assert "rows, the oldest since 2 min ago" in seen.text
    assert unlisted.replace("`", "") in seen.text


def test_rebuilds_stand_the_latest_first_and_one_that_runs_says_how_far_it_is() -> None:
    ended = {"algorithm": "ordered", "why": "drift", "ncp_before": 0.91, "ncp_after": 0.74, "rows_published": 30_112}
    running = {"algorithm": "mondrian", "why": "operator", "began": so_long_ago(150), "done": 3, "of": 12}
    early, late = (
        ended | {"at": so_long_ago(7300), "ended": "cancelled"},
        ended | {"at": so_long_ago(60), "ended": "done"},
    )
    seen = read(shard(0, rebuilds=[early]), shard(1, rebuild=running, rebuilds=[late]), dead_letters={})
    assert seen.rows[2:5] == [
        "1 done 1 min ago ordered drift 0.9100 0.7400 30,112",
        "1 running, 3 of 12 regions, begun 2 min ago mondrian operator – – –",
        "0 cancelled 2 h ago ordered drift 0.9100 0.7400 30,112",
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
    said = said_of(worker(replace(WELL, rebuild=REBUILD, rebuilds=(ENDED_REBUILD,))), seen(other(Custody(), "")))
    assert "Of 2: 1 held by nobody, 1 held." in Read(page(said)).text


def test_the_template_is_part_of_what_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["*"]
    assert any(Path("page.html").match(pattern) for pattern in patterns)
