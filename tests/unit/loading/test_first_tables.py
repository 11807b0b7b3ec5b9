"""An input that has lost its beginning says all rows if a truncation or a snapshot's beginning is left in it."""

from __future__ import annotations

import json

import pytest

from streamer.incremental.shard.input import Message
from streamer.loading.first_tables import Remainder
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS)


def captured(op: str, snapshot: str | None = None) -> bytes:
    row = {"id": 7, "years": 4, "problem": "flu"}
    return json.dumps({"op": op, "after": row, "source": {"snapshot": snapshot}}).encode()


INSERT = b'{"op": "insert", "row": {"id": 7, "years": 4, "problem": "flu"}}'
CHANGE = captured("c")
FIRST, READ, LAST, BETWEEN = (captured("r", said) for said in ("first", "true", "last", "incremental"))
TRUNCATE = b'{"op": "truncate"}'
CAPTURED_TRUNCATE = b'{"op": "t", "source": {}}'


def says_all(*values: bytes | None, shards: int = 1) -> bool:
    remainder = Remainder(PEOPLE, shards)
    batches = [[Message(100 + i, b"7", value)] for i, value in enumerate(values)]
    assert list(remainder.read(batches)) == batches
    return remainder.says_all


@pytest.mark.parametrize(
    "values",
    [
        [TRUNCATE],
        [INSERT, TRUNCATE, INSERT],
        [CAPTURED_TRUNCATE],
        [FIRST, READ, LAST],
        [CHANGE, READ, READ],
        [INSERT, LAST],
        [READ, READ, LAST, CHANGE, READ],
        [captured("r", "first_in_data_collection")],
    ],
)
def test_all_rows_are_told_behind_a_truncation_or_the_beginning_of_a_snapshot(values: list[bytes]) -> None:
    assert says_all(*values)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [INSERT, None, b"nonsense"],
        [CHANGE, CHANGE],
        [READ, READ, LAST],
        [READ, LAST, CHANGE, CHANGE],
        [CHANGE, BETWEEN, BETWEEN, CHANGE],
        [b'{"op": "truncate", "statement_id": ""}'],
    ],
)
def test_changes_and_the_end_of_a_snapshot_do_not_tell_what_was_there_before(values: list[bytes | None]) -> None:
    assert not says_all(*values)


def test_a_truncation_that_one_shard_of_several_captured_does_not_empty_it() -> None:
    assert says_all(TRUNCATE, shards=2) and not says_all(CAPTURED_TRUNCATE, shards=2)
