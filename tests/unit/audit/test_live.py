"""The attacks on a live changelog, each on a stream made by hand, through the real engine; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from streamer.audit.found import Found
from streamer.audit.live import LiveAudit, require_sensitive
from streamer.audit.worlds import SetFact, posteriors
from streamer.errors import LawViolated, UsageError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.message_files import read_live
from streamer.incremental.replay import encode_initial, replay_files
from streamer.incremental.shard.input import Message
from streamer.table.schema import Table
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=3)
Event = tuple[Any, ...]
"""insert key years problem | delete key | modify key column value"""

FIRST = [("u", 1, "a"), ("v", 1, "b"), ("x", 2, "c"), ("w", 8, "d"), ("y", 8, "e"), ("z", 9, "f")]
"""Two QI groups: u, v, x and w, y, z."""


def messages_of(events: Sequence[Event]) -> list[Message]:
    return [Message(i, None, json.dumps(_as_message(*event)).encode()) for i, event in enumerate(events)]


def _as_message(op: str, key: str = "", *rest: Any) -> dict[str, Any]:
    if op == "where":
        return {"op": "delete", "where": "years = 2"}
    if op == "delete":
        return {"op": op, "key": key}
    if op == "insert":
        return {"op": op, "row": {"id": key, "years": rest[0], "problem": rest[1]}}
    return {"op": op, "key": key, "row": {rest[0]: rest[1]}}


def first_rows(first: Sequence[tuple[str, int, str]] = FIRST) -> pd.DataFrame:
    """Those below 5 are one QI group, the others another."""
    rows = [{"id": key, "years": str(years), "problem": problem} for key, years, problem in first]
    return pd.DataFrame(rows).assign(qi_group=["young" if years < 5 else "old" for _, years, _ in first])


class Published:
    """A changelog that a replay made of events, and the audit of it."""

    def __init__(
        self, folder: Path, events: Sequence[Event], batch: int = 1,
        first: Sequence[tuple[str, int, str]] = FIRST, schema: Table = PEOPLE,
    ) -> None:  # fmt: skip
        self.folder, self.events, self.first, self.schema = folder, events, first, schema
        for _ in replay_files(schema, messages_of(events), self._frame, lambda *_: [], batch, folder):
            pass

    def _frame(self) -> pd.DataFrame:
        return first_rows(self.first)

    def audit(self, events: Sequence[Event] | None = None, persistent: bool = False) -> LiveAudit:
        secret = bytes.fromhex((self.folder / "secret.txt").read_text())
        engine = Engine(self.schema, secret=secret)
        encoded, groups = encode_initial(self.schema, self._frame(), lambda *_: [], secret)
        engine.load_initial(encoded.source_keys, encoded.rows(), encoded.codes, groups)
        audit = LiveAudit(self.schema, engine, messages_of(self.events if events is None else events), persistent)
        for _ in audit.follow(read_live(self.folder / "live.jsonl", self.schema)):
            pass
        return audit

    def found(self, persistent: bool = False) -> Found:
        return self.audit(persistent=persistent).found(lambda source_key: source_key, raw=True)


FOUR = [("u", 1, "a"), ("v", 1, "b"), ("x", 2, "c"), ("t", 2, "g"), ("w", 8, "d"), ("y", 8, "e"), ("z", 9, "f")]
ONE = [("u", 1, "a"), ("v", 1, "b"), ("x", 2, "c")]

ATTACKS: dict[str, tuple[list[tuple[str, int, str]], list[Event], int, set[tuple[str, str, str]]]] = {
    "an insert": (FIRST, [("insert", "n", 1, "g")], 1, {("n", "insert delta", "g")}),
    "a delete": (
        FOUR, [("delete", "x"), ("insert", "n", 1, "h")], 1, {("x", "delete delta", "c"), ("n", "insert delta", "h")},
    ),
    "a modify of a value": (
        FIRST, [("modify", "x", "problem", "g")], 1, {("x", "modify delta", "c"), ("x", "modify delta", "g")},
    ),
    "groups that are merged": (FIRST, [("delete", "x")], 1, {("x", "delete delta", "c")}),
    "a move": (FOUR, [("modify", "x", "years", 9)], 1, {("x", "move after a change of quasi-identifiers", "c")}),
    "one arrival in a batch": (
        FIRST,
        [("insert", "n", 1, "g"), ("insert", "m", 9, "h")],
        2,
        {("n", "batch of one", "g"), ("m", "batch of one", "h")},
    ),
    "an arrival and a departure of one group in a batch": (
        FIRST, [("insert", "n", 1, "g"), ("delete", "x")], 2, {("n", "net delta", "g"), ("x", "net delta", "c")},
    ),
    "departures of several groups in a batch": (
        FIRST,
        [("delete", "x"), ("delete", "z")],
        2,
        {("x", "pooled departures", "c"), ("z", "pooled departures", "f")},
    ),
    "survivors who are published again": (
        ONE, [("delete", "x"), ("insert", "n", 1, "g")], 1, {("x", "readmitted survivors", "c")},
    ),
}  # fmt: skip
"""The table before, the events, how many of them are a release, and examples that must be found."""


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_the_values_and_is_named(tmp_path: Path, name: str) -> None:
    first, events, batch, examples = ATTACKS[name]
    found = Published(tmp_path, events, batch, first).found()
    assert {(one.row, one.attack, str(one.value).strip('"')) for one in found.examples} >= examples


def test_a_cut_leaves_fewer_values_for_those_on_either_side(tmp_path: Path) -> None:
    first = [("u", 0, "a"), ("v", 0, "b"), ("x", 0, "c"), ("w", 4, "d"), ("y", 4, "e"), ("z", 4, "f")]
    candidates = Published(tmp_path, [("insert", "n", 4, "g")], 1, first).audit().history.candidates
    assert [len(candidates.of(episode) or ()) for episode in range(6)] == [3] * 6
    assert set(candidates.of(0) or ()).isdisjoint(candidates.of(5) or ())


def test_a_row_that_comes_back_has_a_value_of_its_own_unless_it_is_known_to_persist(tmp_path: Path) -> None:
    both = Published(tmp_path, [("delete", "x"), ("insert", "x", 2, "c")], 2, FOUR)
    assert both.found().episodes == 8  # the old one and the new one, although the release shows no difference
    knows = both.audit(persistent=True)
    assert knows.history.candidates.of(7) == knows.history.candidates.of(2)


def test_a_statement_takes_out_rows_that_may_come_back_in_the_same_release(tmp_path: Path) -> None:
    events = [("where",), ("insert", "x", 2, "c")]
    found = Published(tmp_path, events, 2, FOUR).found()
    assert found.kinds["inserted"].episodes == 1
    assert found.kinds["deleted"].episodes == 2


def test_a_value_waits_for_the_end_of_its_batch(tmp_path: Path) -> None:
    audit = Published(tmp_path, [("insert", f"n{i}", 1, "g") for i in range(4)], 4).audit()
    assert audit.delay == (3 + 2 + 1 + 0) / 4
    assert audit.loss is not None


def test_rows_that_only_one_person_can_have_are_linked(tmp_path: Path) -> None:
    found = Published(tmp_path, [("insert", "n", 1, "g")], 1).found()
    assert (found.linked_rows, found.published_rows) == (1, 7)


def random_events(seed: int) -> list[Event]:
    """A few changes of FIRST; at most 13 values are ever published."""
    chance, there, events = Random(seed), {key: problem for key, _, problem in FIRST}, list[Event]()
    for i in range(chance.randrange(3, 8)):
        dice, key = chance.random(), chance.choice(sorted(there))
        if dice < 0.45:
            there[f"n{i}"] = chance.choice("abcde")
            events.append(("insert", f"n{i}", chance.randrange(10), there[f"n{i}"]))
        elif dice < 0.65:
            del there[key]
            events.append(("delete", key))
        elif dice < 0.85:
            there[key] = chance.choice([problem for problem in "abcde" if problem != there[key]])
            events.append(("modify", key, "problem", there[key]))
        else:
            events.append(("modify", key, "years", chance.randrange(10)))
    return events


@pytest.mark.parametrize("seed", range(12))
def test_of_a_tiny_log_nothing_is_concluded_that_a_possible_world_refutes(tmp_path: Path, seed: int) -> None:
    for batch in (1, 3):
        audit = Published(tmp_path / f"{batch}", random_events(seed), batch).audit()
        history = audit.history
        sets = [SetFact(group.members, group.counts) for group in history.facts]
        exact = posteriors(sets, history.pairs)
        left = dict(history.candidates)
        assert left.keys() == exact.keys() and len(left) >= 6
        for episode, posterior in exact.items():
            assert posterior.keys() <= set(left[episode])
            assert audit.episodes.values[episode] in posterior


def test_events_of_another_changelog_are_noticed(tmp_path: Path) -> None:
    published = Published(tmp_path, [("insert", "n", 1, "g"), ("delete", "u")])
    with pytest.raises(
        LawViolated, match=r"law 'values' is broken at release 1 of shard 0.*not those of this changelog"
    ):
        published.audit([("insert", "n", 1, "h"), ("delete", "u")])


def test_a_release_that_did_not_come_from_events_is_refused(tmp_path: Path) -> None:
    published = Published(tmp_path, [("insert", "n", 1, "g")])
    live = tmp_path / "live.jsonl"
    live.write_text(live.read_text().replace('{"shard":0,"release":1', '{"outside":true,"shard":0,"release":1'))
    with pytest.raises(UsageError, match="release 1 of shard 0 did not come from events"):
        published.audit()


def test_a_table_without_a_sensitive_column_has_nothing_to_give_away() -> None:
    harmless = replace(PEOPLE, kept=(replace(PEOPLE.kept[0], sensitive=False),))
    with pytest.raises(UsageError, match="no sensitive column"):
        require_sensitive(harmless)
