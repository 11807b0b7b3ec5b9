"""A message of the input is known again, and what is not said of an input is not known."""

from __future__ import annotations

import pytest

from streamer.incremental.shard.input import InputState, KeptSecret, Message, is_same, last_read
from streamer.incremental.store.base import LastRead

INSERT = b'{"op": "insert", "row": {"id": 7, "years": 4, "problem": "flu"}}'
CHANGE = b'{"op": "c", "after": {"id": 7, "years": 4, "problem": "flu"}, "source": {"snapshot": null}}'


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
