"""Ctrl-C between two pieces of work instead of within one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from streamer.cli.interrupted import StopSign


def test_without_ctrl_c_every_piece_is_done() -> None:
    assert list(StopSign().until_up(range(5))) == [0, 1, 2, 3, 4]


def test_the_piece_in_hand_is_done_and_no_other_is_begun() -> None:
    stop, done = StopSign(), []
    with stop.watched():
        for piece in stop.until_up(range(5)):
            if piece == 2:
                os.kill(os.getpid(), signal.SIGINT)
            done.append(piece)
    assert done == [0, 1, 2]
    assert stop.is_up


def test_a_wait_for_the_next_piece_ends_at_once() -> None:
    stop = StopSign()

    def pieces() -> Iterator[int]:
        yield 1
        stop.press()
        yield 2  # never reached

    assert list(stop.until_up(pieces())) == [1]
    assert stop.is_up


def test_the_second_ctrl_c_ends_everything() -> None:
    stop = StopSign()
    stop.press()
    with pytest.raises(KeyboardInterrupt):
        stop.press()


def test_a_sleep_ends_with_ctrl_c() -> None:
    stop = StopSign()
    stop.press()
    stop.sleep(3_600)


def test_behind_the_work_ctrl_c_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopSign().watched():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
