"""The rows behind a changelog: what events did to each of them, never summed up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.audit.source import RowsChanged, SourceReplay
from streamer.incremental.engine.engine import Engine
from streamer.incremental.shard.input import Message
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=2)


def insert(key: str, problem: str) -> dict[str, Any]:
    return {"op": "insert", "row": {"id": key, "years": 1, "problem": problem}}


def told(*events: dict[str, Any], through: int | None = None) -> list[tuple[str, str | None]]:
    """Source keys with the problem that they have then, in the order in which they are handed over."""
    found: list[tuple[str, str | None]] = []

    def take(rows: RowsChanged) -> None:
        found.extend((key, None if record is None else record.row.values[0].decode()) for key, record in rows)

    messages = [Message(i, None, json.dumps(event).encode()) for i, event in enumerate(events)]
    SourceReplay(PEOPLE, Engine(PEOPLE), messages).replay(through, take)
    return found


DELETE = {"op": "delete", "key": "x"}
ALL = {"op": "delete", "where": "years = 1"}


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param([DELETE, insert("x", "c")], id="deleted and inserted"),
        pytest.param([ALL, insert("x", "c")], id="deleted by a statement and inserted"),
    ],
)
def test_a_row_that_goes_and_comes_again_is_handed_over_each_time(ending: list[dict[str, Any]]) -> None:
    assert told(insert("x", "c"), *ending) == [("x", '"c"'), ("x", None), ("x", '"c"')]


def test_a_value_that_a_row_had_in_between_is_handed_over() -> None:
    modify = {"op": "modify", "key": "x", "row": {"problem": "d"}}
    back = {"op": "modify", "key": "x", "row": {"problem": "c"}}
    assert [value for _, value in told(insert("x", "c"), modify, back)] == ['"c"', '"d"', '"c"']


def test_rows_of_different_keys_are_handed_over_together_and_no_later_message_is_applied() -> None:
    assert sorted(told(insert("x", "c"), insert("y", "d"), DELETE, through=2)) == [("x", '"c"'), ("y", '"d"')]


def test_what_is_refused_changes_nothing() -> None:
    assert told(insert("x", "c"), insert("x", "d"), {"op": "no such"}) == [("x", '"c"')]
