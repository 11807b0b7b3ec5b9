"""One shard's turn to compute: who waits for it counts the time, whoever asks."""

from __future__ import annotations

import threading

import pytest

from agents.shard_thread import ComputeLock


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("agents.shard_thread.monotonic", lambda: self.now)


class SlowLock:
    """A lock that somebody else holds for three seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seen: list[float] = []
        self.turn: ComputeLock | None = None

    def acquire(self) -> None:
        self._clock.now += 3
        assert self.turn is not None
        self.seen.append(self.turn.seconds_waited)

    def release(self) -> None: ...


def test_waiting_and_computing_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, computed = Clock(monkeypatch), []
    lock = SlowLock(clock)
    lock.turn = turn = ComputeLock(lock)  # type: ignore[arg-type]  # a lock as far as a turn needs one
    for _ in range(2):
        with turn:
            clock.now += 50
            computed.append(turn.seconds_computed)
    assert computed == [50, 100], "also while it does"
    assert (turn.seconds_waited, turn.seconds_computed) == (6, 100)
    assert lock.seen == [3, 6], "whoever asks meanwhile is told what has passed so far"


def test_a_turn_is_given_back_by_an_error_too() -> None:
    shared = threading.Lock()
    with pytest.raises(KeyError), ComputeLock(shared):
        assert shared.locked()
        raise KeyError
    assert not shared.locked()
