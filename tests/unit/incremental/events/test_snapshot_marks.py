"""What messages of Debezium's say of a snapshot, in all the forms in which they come."""

from __future__ import annotations

import json

import pytest

from streamer.incremental.events.snapshot_marks import Mark, mark_of

SAID = {
    "first": Mark.READ,
    "true": Mark.READ,
    "first_in_data_collection": Mark.READ,
    "last_in_data_collection": Mark.LAST,
    "last": Mark.LAST,
    "incremental": Mark.INCREMENTAL,
    "false": Mark.NOTHING,
}


def envelope(op: str, **source: object) -> dict[str, object]:
    said = {"version": "3.3.1.Final", "connector": "mysql", "ts_ms": 1, "db": "clinic", **source}
    return {"before": None, "after": {"id": 7, "note": "x"}, "source": said, "op": op, "ts_ms": 2, "transaction": None}


def marked(message: object) -> Mark:
    return mark_of(json.dumps(message).encode())


@pytest.mark.parametrize(("snapshot", "mark"), SAID.items())
def test_a_row_that_was_read_says_where_in_its_snapshot_it_stands(snapshot: str, mark: Mark) -> None:
    assert marked(envelope("r", snapshot=snapshot)) is mark
    assert marked({"schema": {"type": "struct"}, "payload": envelope("r", snapshot=snapshot)}) is mark
    assert marked({"id": 7, "__op": "r", "__source_snapshot": snapshot, "__deleted": "false"}) is mark


@pytest.mark.parametrize("op", "cudt")
@pytest.mark.parametrize("source", [{"snapshot": "false"}, {"snapshot": None}, {}, {"snapshot": False}])
def test_a_captured_change_says_that_no_snapshot_of_whole_tables_is_under_way(
    op: str, source: dict[str, object]
) -> None:
    assert marked(envelope(op, **source)) is Mark.CHANGE


@pytest.mark.parametrize(("op", "snapshot"), [("c", "true"), ("r", True)])
def test_a_snapshot_may_write_insertions_and_former_versions_a_boolean(op: str, snapshot: object) -> None:
    assert marked(envelope(op, snapshot=snapshot)) is Mark.READ


def test_a_row_that_is_refused_says_it_as_well() -> None:
    message = envelope("r", snapshot="last")
    message["after"] = ["no row"]
    assert marked(message) is Mark.LAST


@pytest.mark.parametrize("column", ["source", "payload", "schema", "op", "snapshot"])
@pytest.mark.parametrize("value", ["web", 7, None, {"snapshot": "last"}, {"op": "r"}, [1]])
def test_a_flattened_row_says_what_its_marks_say_whatever_its_own_columns_hold(column: str, value: object) -> None:
    row = {"id": 7, column: value}
    assert marked({**row, "__op": "r", "__source_snapshot": "incremental"}) is Mark.INCREMENTAL
    assert marked({**row, "__op": "u", "__source_snapshot": "false", "__deleted": "false"}) is Mark.CHANGE
    assert marked({**row, "__deleted": "false"}) is Mark.NOTHING
    assert marked({"schema": None, "payload": {**row, "__op": "r", "__source_snapshot": "true"}}) is Mark.READ


def test_columns_that_look_like_a_wrapping_or_a_source_block_are_none() -> None:
    read = envelope("r", snapshot="last")
    assert marked({"id": 7, "schema": "s", "payload": read}) is Mark.NOTHING
    assert marked({"payload": read}) is Mark.NOTHING
    assert marked({"id": 7, "source": read["source"]}) is Mark.NOTHING
    assert marked({"id": 7, "op": "r", "source": read["source"], "__deleted": "false"}) is Mark.NOTHING


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"nonsense",
        b"\xff",
        b'{"op": "r"}',
        b'{"op": "r", "source": "elsewhere"}',
        b'{"op": 7, "source": {"snapshot": "last"}}',
        b'{"op": "r", "source": {"snapshot": 7}}',
        b'{"op": "r", "source": {"snapshot": "sometimes"}}',
        b'{"op": "insert", "row": {"id": 7}, "snapshot": "last"}',
        b'{"op": "m", "source": {"snapshot": "false"}}',
        b'{"id": 7, "__deleted": "false"}',
        b'{"payload":' * 2_000,
    ],
)
def test_everything_else_says_nothing(value: bytes | None) -> None:
    assert mark_of(value) is Mark.NOTHING
