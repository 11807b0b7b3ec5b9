"""An input that has lost its beginning says all rows where a truncation or a snapshot's beginning is left in it."""

from __future__ import annotations

import json

import pytest

from streamer.incremental.shard.input import InputState, KeptSecret, Message, Remainder, is_same, last_read
from streamer.incremental.store.base import LastRead
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


# How a message is known again.


def test_a_message_is_known_again_by_a_checksum_that_no_later_version_may_compute_otherwise() -> None:
    """Else every shard would take its input for another one."""
    noted = last_read(Message(4, b"7", INSERT, timestamp=1_000), b"secret")
    assert noted == LastRead(4, 1_000, bytes.fromhex("16574f083d5536a3"))
    assert last_read(Message(4, b"7", INSERT), b"secret").timestamp == 0


def test_without_the_secret_by_which_it_was_noted_place_and_time_tell_a_message() -> None:
    read = Message(4, b"7", INSERT, timestamp=1_000)
    noted = last_read(read, b"secret")
    assert is_same(read, noted, b"secret") and is_same(Message(4, b"8", CHANGE, 1_000), noted, b"")
    assert not is_same(Message(4, b"8", CHANGE, 1_000), noted, b"secret")
    assert not is_same(Message(4, b"7", INSERT, 1_001), noted, b"") and not is_same(
        Message(5, b"7", INSERT, 1_000), noted, b""
    )


def test_a_message_that_was_read_is_changed_by_nobody() -> None:
    with pytest.raises(AttributeError):
        Message(4, b"7", INSERT).offset = 5  # type: ignore[misc]


# What is said of an input, as far as nobody says otherwise.


def test_of_an_input_nothing_is_known_that_is_not_said() -> None:
    state = InputState({}, shards=1, earliest=0, end=9)
    assert state == InputState({}, 1, 0, 9, live_begun=False, control_end=0, reach={}, again=())
    assert KeptSecret() == KeptSecret(b"", is_current=False)
    assert "canary" not in repr(KeptSecret(b"canary"))
    assert state.holds_sealed(0) is False
    assert (state.piece(3, 9), state.epochs_over(), state.secret(), state.state()) == (((), 9), (), None, state)
