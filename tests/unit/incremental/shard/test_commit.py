"""`perform`: a commit is stored, then published, then trimmed; what fails keeps what comes after from being done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from streamer.errors import Conflict, Fenced, ServerUnreachable
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.shard.commit import perform
from streamer.incremental.shard.input import ShardInput
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.shard.ready import Performed, Publication, Ready, Unwritable
from streamer.incremental.store.base import Commit, Meta, Store

STEPS = ("check", "store", "publish", "trim")
META = Meta(commit=4, next=40)
ENTRY = OutboxEntry("live", b"{}", b"{}")
WHOLE = Ready(fence="7:a", before=3, commit=Commit(META, outbox=[ENTRY]), publish=Publication.of([ENTRY], META), trim=4)


class Servers:
    """Store, output and input in one, which note what is asked of them and fail where they are told to."""

    def __init__(self, fails_at: str = "", error: Exception | None = None) -> None:
        self.done: list[tuple[object, ...]] = []
        self._fails_at, self._error = fails_at, error

    def _do(self, step: str, *what: object) -> None:
        if step == self._fails_at and self._error is not None:
            raise self._error
        self.done.append((step, *what))

    def check(self, meta: Meta) -> None:
        self._do("check")

    def commit(self, fence: str, before: int, commit: Commit) -> None:
        self._do("store", fence, before, commit.meta.commit)

    def published(self) -> tuple[()]:
        return ()

    def publish(self, records: Sequence[object], position: Position) -> None:
        self._do("publish", len(records), position.commit)

    def trim(self, fence: str, commit: int) -> None:
        self._do("trim", fence, commit)

    def perform(self, ready: Ready) -> Performed | Unwritable:
        return perform(ready, cast(Store, self), cast(Outlet, self), cast(ShardInput, self))

    def steps(self) -> Iterator[str]:
        return (str(step) for step, *_ in self.done)


def test_a_commit_is_stored_then_published_then_trimmed() -> None:
    servers = Servers()
    assert isinstance(servers.perform(WHOLE), Performed)
    assert servers.done == [("check",), ("store", "7:a", 3, 4), ("publish", 1, 4), ("trim", "7:a", 4)]


def test_storing_and_publishing_are_timed_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, seconds = Servers(), {"check": 1.0, "store": 2.0, "publish": 4.0, "trim": 8.0}
    clock = "streamer.incremental.shard.commit.perf_counter"
    monkeypatch.setattr(clock, lambda: 100.0 + sum(seconds[step] for step in servers.steps()))
    assert servers.perform(WHOLE) == Performed(commit_seconds=3.0, publish_seconds=12.0)


@pytest.mark.parametrize(
    "error", [Fenced("x"), Conflict("x"), ServerUnreachable("x")], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_done_after_a_step_that_fails(step: str, error: Exception) -> None:
    servers = Servers(step, error)
    with pytest.raises(type(error)):
        servers.perform(WHOLE)
    assert tuple(servers.steps()) == STEPS[: STEPS.index(step)]


def test_a_value_that_no_store_can_write_is_told_and_publishes_nothing() -> None:
    servers = Servers("store", UnicodeEncodeError("utf-8", "\ud800", 0, 1, "lone surrogate"))
    assert isinstance(servers.perform(WHOLE), Unwritable)
    assert tuple(servers.steps()) == ("check",)


@pytest.mark.parametrize(
    ("ready", "steps"),
    [
        (WHOLE._replace(publish=None, trim=None), ("check", "store")),  # a replay publishes nothing
        (WHOLE._replace(commit=None), ("publish", "trim")),  # an outbox that a former owner left
        (Ready(), ()),
    ],
)
def test_what_is_not_asked_for_is_not_done(ready: Ready, steps: tuple[str, ...]) -> None:
    servers = Servers()
    servers.perform(ready)
    assert tuple(servers.steps()) == steps
