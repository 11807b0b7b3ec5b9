"""What a shard answers to the records of its control partition, and that it answers each once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.shard.answers import WAITING_SECONDS_MAX, Refused, answer
from streamer.incremental.shard.requests import (
    CancelRebuild,
    EndSnapshot,
    Placed,
    Rebuild,
    Request,
    Retry,
    Skip,
    Truncation,
)
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import ANSWERED, CANCELLED, REFUSED, Progress
from streamer.incremental.store.rebuild import Rebuild as Begun
from streamer.incremental.store.snapshot import Snapshot

NOW = 1_764_000_000
SHARD = 2
ASKED = Rebuild(SHARD, "a", NOW - 5)
STOP = CancelRebuild(SHARD, "b", NOW - 5)


def progress_of(id_: str, state: str = "running") -> Progress:
    return Progress(Begun(id_, "ordered", 7, 0), total=8, done=3, state=state)


RUNNING = Meta(commit=9, rebuild=progress_of("another"))
QUIET = Meta(commit=9)


def answered(request: Request | bytes, meta: Meta = QUIET, written_at: float = NOW - 4) -> object:
    value = request if isinstance(request, bytes) else request.to_json()
    return answer(value, 17, written_at, SHARD, meta, NOW)


def test_a_request_that_can_be_done_is_done() -> None:
    assert answered(ASKED) == ASKED
    assert answered(STOP, RUNNING) == STOP


@pytest.mark.parametrize(
    ("request_", "meta", "why"),
    [
        (ASKED, RUNNING, "a rebuild is running, with 3 of 8 regions done: wait for it, or --cancel it"),
        (STOP, QUIET, "no rebuild is running that could be stopped"),
        (Rebuild(1, "a", NOW), QUIET, "it names shard 1, and lies in the partition of shard 2"),
        (CancelRebuild(1, "a", NOW), RUNNING, "it names shard 1, and lies in the partition of shard 2"),
        (Rebuild(SHARD, "a", NOW, "median"), QUIET, "there is no algorithm 'median'; there are mondrian, emp, ola, "
                                                    "degree-first, gdppr, bottom-up, top-down, ordered"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_done_is_refused_with_the_reason(request_: Request, meta: Meta, why: str) -> None:
    assert isinstance(request_, Rebuild | CancelRebuild)
    assert answered(request_, meta) == Refused(request_.id, why)


def test_messages_are_tried_again_where_the_shard_can_do_it() -> None:
    request = Retry(SHARD, "r", NOW - 5, (3, 9))
    assert answered(request) == answered(request, RUNNING) == request
    assert answered(request, written_at=NOW - WAITING_SECONDS_MAX - 1) is None
    said = answered(Retry(SHARD, "r", NOW - 5, (3, 9), "another input"))
    assert isinstance(said, Refused)
    assert "made anew" in said.why


def test_the_end_of_a_snapshot_is_asked_for_by_its_first_offset_and_only_while_it_is_held_back() -> None:
    held = replace(QUIET, snapshot=Snapshot(since=7))
    assert answered(EndSnapshot(SHARD, 7), held) == EndSnapshot(SHARD, 7)
    assert answered(EndSnapshot(SHARD, 6), held) is None
    assert answered(EndSnapshot(SHARD + 1, 7), held) is None
    assert answered(EndSnapshot(SHARD, 7, "of another input"), held) is None
    assert answered(EndSnapshot(SHARD, 7, "id"), replace(held, topic_ids={"changes": "id"})) is not None
    released = replace(QUIET, snapshot=Snapshot(since=7, ended="operator", released=1, of=1))
    assert answered(EndSnapshot(SHARD, 7), released) is None


def test_nothing_is_rebuilt_while_a_snapshot_is_held_back() -> None:
    refused = answered(ASKED, replace(QUIET, snapshot=Snapshot(since=7)))
    assert isinstance(refused, Refused)
    assert "held back" in refused.why


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"\xff",
        b'{"command":"rebuild","shard":2,"id":"a"}',
        b'{"command":"rebuild","shard":2,"id":"","at":1764000000}',
        b'{"command":"rebuild","shard":2,"id":"a","at":-1}',
        b'{"command":"rebuild","shard":2,"id":"a","at":1764000000,"algorithm":7}',
        b'{"command":"rebuild","shard":2,"id":"a","at":1764000000,"now":true}',
        b'{"command":"cancel-rebuild","shard":2,"at":1764000000}',
        b'{"command":"drop","shard":2}',
    ],
)
def test_a_record_that_cannot_be_read_is_refused_by_its_place(value: bytes) -> None:
    refused = Refused("offset 17", "the record at offset 17 of the control topic cannot be read")
    assert answered(value) == refused
    assert answered(value, Meta(rebuilds=(progress_of("offset 17", REFUSED),))) is None
    assert answered(value, written_at=NOW - WAITING_SECONDS_MAX - 1) is None


def test_skips_are_no_matter_of_rebuilds() -> None:
    assert answered(Skip(SHARD, 7)) is None


@pytest.mark.parametrize("state", ["running", CANCELLED, REFUSED, ANSWERED])
def test_a_request_is_answered_once_whatever_the_answer_was(state: str) -> None:
    """The control topic is read again from its start by every worker that takes the shard over."""
    meta = (
        Meta(rebuild=progress_of("a"))
        if state == "running"
        else Meta(rebuilds=(progress_of("a", state), progress_of("later", "done")))
    )
    assert answered(ASKED, meta) is None
    assert answered(CancelRebuild(SHARD, "a", NOW), meta) is None


@pytest.mark.parametrize(("at", "written_at"), [(NOW - 4_000, NOW - 5), (NOW - 5, NOW - 4_000)])
def test_what_nobody_did_for_an_hour_is_history_even_if_nobody_remembers_it(at: int, written_at: int) -> None:
    assert answered(Rebuild(SHARD, "a", at), written_at=written_at) is None
    assert answered(CancelRebuild(SHARD, "a", at), RUNNING, written_at=written_at) is None


def test_a_truncation_is_placed_however_old_it_is_and_once() -> None:
    said = Truncation(SHARD, SourcePosition("postgresql", (90,)), by=0, offset=4)
    assert answered(said, written_at=0.0) == said
    assert answered(said, replace(QUIET, control_next=17)) == said
    assert answered(said, replace(QUIET, control_next=18)) is None
    assert answered(Truncation(1, said.source, by=0, offset=4)) is None
    assert answered(Placed(SHARD, said.source, request=3, next=9, number=1)) is None
