"""The attacks on a live changelog, each on a stream made by hand, through the real engine; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from streamer.audit.found import Found
from streamer.audit.live import LiveAudit, require_sensitive
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


def _as_message(op: str, key: str, *rest: Any) -> dict[str, Any]:
    if op == "delete":
        return {"op": op, "key": key}
    if op == "insert":
        return {"op": op, "row": {"id": key, "years": rest[0], "problem": rest[1]}}
    return {"op": op, "key": key, "row": {rest[0]: rest[1]}}


def first_rows(first: Sequence[tuple[str, int, str]] = FIRST) -> pd.DataFrame:
    """In QI groups of three, in their order."""
    rows = [{"id": key, "years": str(years), "problem": f"{problem}"} for key, years, problem in first]
    return pd.DataFrame(rows).assign(qi_group=[f"g{i // 3}" for i in range(len(rows))])


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


ATTACKS: dict[str, tuple[list[Event], int, set[tuple[str, str, str]]]] = {
    "an insert": ([("insert", "n", 1, "g")], 1, {("n", "insert delta", '"g"')}),
    "a delete from a group": (
        [("insert", "n", 1, "g"), ("delete", "x")],
        1,
        {("n", "insert delta", '"g"'), ("x", "delete delta", '"c"')},
    ),
    "a modify of a value": (
        [("modify", "x", "problem", "g")],
        1,
        {("x", "modify delta", '"c"'), ("x", "modify delta", '"g"')},
    ),
    "one arrival in a batch": (
        [("insert", "n", 1, "g"), ("insert", "m", 9, "h")],
        2,
        {("n", "batch of one", '"g"'), ("m", "batch of one", '"h"')},
    ),
    "an arrival and a departure of one group in a batch": (
        [("insert", "n", 1, "g"), ("delete", "x")],
        2,
        {("n", "net delta", '"g"'), ("x", "net delta", '"c"')},
    ),
    "a move after a change of quasi-identifiers": (
        [("modify", "x", "years", 9), ("insert", "n", 1, "g")],
        1,
        set(),
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_the_values_and_is_named(tmp_path: Path, name: str) -> None:
    events, batch, examples = ATTACKS[name]
    found = Published(tmp_path, events, batch).found()
    assert {(one.row, one.attack, one.value) for one in found.examples} >= examples
