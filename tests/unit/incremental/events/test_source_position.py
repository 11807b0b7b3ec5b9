"""Where captured messages stand in their source's order, in all the forms in which they come."""

from __future__ import annotations

import json

import pytest

from streamer.incremental.events.source_position import DATES_APART_MS, OrderLost, SourcePosition, position_of

POSTGRES = {"version": "3.3.1.Final", "connector": "postgresql", "sequence": '["88","99"]', "txId": 7, "ts_ms": 5}
MYSQL = {"version": "3.3.1.Final", "connector": "mysql", "server_id": 1, "gtid": None, "pos": 154, "ts_ms": 5}


def told(**message: object) -> SourcePosition | None:
    return position_of(json.dumps(message).encode())


def lsn(place: int, at: int = 0) -> SourcePosition:
    return SourcePosition("postgresql", (place,), at)


def test_postgres_tells_by_the_place_in_its_log_however_the_message_is_wrapped() -> None:
    source = {**POSTGRES, "lsn": 99}
    assert told(op="t", before=None, after=None, source=source) == lsn(99, 5)
    assert told(schema={"type": "struct"}, payload={"op": "t", "source": source}) == lsn(99, 5)
    assert told(id=7, __op="t", __source_lsn=99, __source_connector="postgresql", __source_ts_ms=5) == lsn(99, 5)
    assert told(id=7, __op="t", __source_lsn=99) == lsn(99)


@pytest.mark.parametrize("column", ["source", "payload", "schema", "op"])
@pytest.mark.parametrize("value", ["web", 7, None, {"lsn": 3, "connector": "postgresql"}, {"op": "u"}, [1]])
def test_a_flattened_row_stands_where_it_says_whatever_its_own_columns_hold(column: str, value: object) -> None:
    row = {"id": 7, column: value}
    assert told(**row, __op="c", __source_lsn=33, __source_connector="postgresql") == lsn(33)
    assert told(**row, __source_lsn=33) == lsn(33), "without any other mark"
    assert told(**row, __deleted="false") is None
    assert told(schema=None, payload={**row, "__op": "c", "__source_lsn": 33}) == lsn(33)


def test_columns_that_look_like_a_wrapping_or_a_source_block_are_none() -> None:
    envelope = {"op": "c", "source": {**POSTGRES, "lsn": 33}}
    assert told(id=7, schema="s", payload=envelope) is None
    assert told(payload=envelope) is None
    assert told(id=7, source=envelope["source"]) is None
    assert told(schema=None, payload={"schema": None, "payload": envelope}) is None
    assert told(schema=None, payload=None) is None


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_a_binlog_tells_by_file_position_and_row(connector: str) -> None:
    source = {**MYSQL, "connector": connector, "file": "mysql-bin.000012", "row": 2}
    assert told(op="c", source=source) == SourcePosition("mysql-bin", (12, 154, 2), 5)
    flattened = told(id=7, __op="c", __source_file="mysql-bin.000012", __source_pos=154, __source_row=2)
    assert flattened == SourcePosition("mysql-bin", (12, 154, 2))


@pytest.mark.parametrize("row", [0, 4, None])
def test_a_truncation_stands_at_one_place_of_a_binlog_whatever_row_it_is_said_to_have(row: int | None) -> None:
    source = {**MYSQL, "file": "mysql-bin.000012", "row": row}
    assert told(op="t", source=source) == SourcePosition("mysql-bin", (12, 154, 0), 5)


@pytest.mark.parametrize(
    "message",
    [
        {"op": "insert", "row": {"id": 7}},
        {"op": "t"},
        {"op": "t", "source": {"connector": "postgresql", "lsn": None}},
        {"op": "t", "source": {"connector": "postgresql", "lsn": "1:4"}},
        {"op": "t", "source": {"connector": "oracle", "scn": "77", "lsn": 3}},
        {"op": "t", "source": {"connector": "sqlserver", "file": "a.1", "pos": 3}},
        {"op": "t", "source": {**MYSQL, "file": "without a number"}},
        {"op": "t", "source": {"connector": "mysql", "file": "mysql-bin.000012"}},
    ],
)
def test_what_names_no_place_or_one_of_an_unknown_kind_has_none(message: dict[str, object]) -> None:
    assert told(**message) is None


@pytest.mark.parametrize("value", [None, b"", b"null", b"[1]", b"\xff", b"{"])
def test_what_is_no_message_has_no_place(value: bytes | None) -> None:
    assert position_of(value) is None


def test_files_of_a_binlog_follow_one_another_by_their_numbers() -> None:
    ninth, tenth = SourcePosition("bin", (999_999, 7, 0)), SourcePosition("bin", (1_000_000, 4, 0))
    assert ninth.precedes(tenth)
    assert not tenth.precedes(ninth)
    assert not ninth.precedes(ninth)


def test_places_of_two_logs_have_no_order() -> None:
    one, other = SourcePosition("bin", (1, 2, 3)), SourcePosition("new-bin", (9, 9, 9))
    assert not one.precedes(other)
    assert not other.precedes(one)


def test_a_lower_place_with_a_much_later_date_is_no_earlier_one() -> None:
    truncated = lsn(90, at=1_000_000)
    assert lsn(70, at=1_000_000 + DATES_APART_MS).precedes(truncated)
    with pytest.raises(OrderLost):
        lsn(70, at=1_000_001 + DATES_APART_MS).precedes(truncated)
    assert lsn(70).precedes(truncated), "where a date is missing the place alone counts"
    assert lsn(70, at=9_000_000).precedes(lsn(90))
