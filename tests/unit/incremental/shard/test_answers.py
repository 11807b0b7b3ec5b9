"""What a shard answers to the records of its control partition, and that it answers each once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from streamer.errors import EventRefused
from streamer.incremental.shard.answers import WAITING_SECONDS_MAX, Refused, answer, objection_to_retry
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.requests import (
    RETRIES_MAX,
    CancelRebuild,
    CarriedTruncation,
    EndSnapshot,
    FullRebuild,
    PlacedTruncation,
    Request,
    Retry,
    Skip,
)
from streamer.incremental.shard.retrial import Judged, Retrial, failed_by
from streamer.incremental.shard.steps import Unforeseen
from streamer.incremental.store.base import ANSWERED, CANCELLED, REFUSED, Meta, Progress, Snapshot
from streamer.incremental.store.base import Rebuild as Begun
from worlds.small_tables import CITY, YEARS, table

# Which refused messages may be applied late: by what the input says behind them.

PEOPLE = table(YEARS, CITY, k=2)
META = Meta(commit=5, next=100)


def row(id_: int, years: int = 3) -> dict[str, object]:
    return {"id": id_, "years": years, "city": "a1", "problem": "flu"}


def upsert(id_: int) -> dict[str, object]:
    return {"op": "c", "before": None, "after": row(id_)}


def moved(before: int, after: int) -> dict[str, object]:
    """A captured change of the primary key."""
    return {"op": "u", "before": row(before), "after": row(after)}


INSERT, MODIFY = {"op": "insert", "row": row(7)}, {"op": "modify", "key": 7, "row": {"years": 4}}


def refusals(said: Mapping[int, object], *offsets: int, meta: Meta = META) -> list[str]:
    """What is said of the messages at some offsets of an input."""
    retrial = Retrial(PEOPLE, offsets, meta)
    retrial.see([Message(offset, None, msgspec.json.encode(value)) for offset, value in said.items()], meta.next)
    return [one.refusal.detail if one.refusal else "" for one in retrial.judged()]


def tried(said: Mapping[int, object], *offsets: int, meta: Meta = META, pieces: int = 1) -> dict[int, str]:
    """What becomes of the messages at some offsets of an input, read in pieces: the reason, "" where it is applied."""
    messages = [Message(offset, None, msgspec.json.encode(value)) for offset, value in said.items()]
    retrial = Retrial(PEOPLE, offsets, meta)
    for end in sorted({meta.next, *range(pieces, meta.next, meta.next // pieces)}):
        retrial.see([one for one in messages if one.offset < end], end)
    assert retrial.next == meta.next
    return {one.offset: one.refusal.reason if one.refusal else "" for one in retrial.judged()}


@pytest.mark.parametrize("pieces", [1, 2, 10, 50])
def test_a_row_that_nobody_speaks_of_later_may_be_applied(pieces: int) -> None:
    said = {3: upsert(1), 5: upsert(7), 9: upsert(2), 30: {"op": "d", "before": row(3), "after": None}}
    assert tried(said, 5, pieces=pieces) == {5: ""}


@pytest.mark.parametrize("later", [upsert(7), INSERT, {"op": "delete", "key": 7}, moved(1, 7), moved(7, 1)])
def test_what_comes_later_for_the_same_row_stands(later: dict[str, object]) -> None:
    assert tried({5: upsert(7), 60: later}, 5) == {5: "superseded"}
    assert tried({5: later, 60: upsert(8)}, 60) == {60: ""}  # what came before does not matter


def test_a_later_change_of_some_columns_does_not_say_the_whole_row() -> None:
    assert tried({5: upsert(7), 60: MODIFY}, 5) == {5: "before-a-statement"}


def test_a_changed_primary_key_is_superseded_by_what_speaks_of_both_rows_alone() -> None:
    assert tried({5: moved(7, 8), 60: upsert(8)}, 5) == {5: "before-a-statement"}
    assert tried({5: moved(7, 8), 60: upsert(8), 61: upsert(7)}, 5) == {5: "superseded"}


def test_what_is_tried_again_together_does_not_supersede_one_another() -> None:
    assert tried({5: INSERT, 60: MODIFY}, 5, 60) == {5: "", 60: ""}
    assert tried({5: INSERT, 20: upsert(7), 60: MODIFY}, 5, 60) == {5: "superseded", 60: ""}


def test_what_was_passed_over_does_not_supersede_unless_it_was_applied_after_all() -> None:
    said = {5: upsert(7), 60: upsert(7)}
    assert tried(said, 5, meta=Meta(commit=5, next=100, skipped=(60,))) == {5: ""}
    assert tried(said, 5, meta=Meta(commit=5, next=100, skipped=(60,), retried=((70, 60),))) == {5: "superseded"}


def test_a_truncation_supersedes_and_a_statement_leaves_refused() -> None:
    truncate, statement = {"op": "truncate"}, {"op": "delete", "where": "years = 3"}
    assert tried({5: upsert(7), 60: truncate, 70: upsert(7)}, 5) == {5: "superseded"}
    assert tried({5: upsert(7), 60: statement}, 5) == {5: "before-a-statement"}
    assert tried({5: upsert(7), 20: upsert(7), 60: statement}, 5) == {5: "superseded"}
    assert tried({5: statement, 6: truncate}, 5, 6) == {5: "statement", 6: "statement"}


def test_what_cannot_be_decoded_is_refused_again_and_supersedes_nothing() -> None:
    wrong = {"op": "c", "before": None, "after": row(7, years=10)}
    assert tried({5: wrong, 60: upsert(8)}, 5) == {5: "out-of-domain"}
    assert tried({5: upsert(7), 60: wrong}, 5) == {5: ""}


def test_what_expired_or_was_not_read_yet_or_lies_before_a_table_begun_anew_is_named() -> None:
    assert tried({60: upsert(7)}, 5) == {5: "message-gone"}
    assert tried({60: upsert(7)}, 60, meta=Meta(commit=5, next=50)) == {60: "not-read-yet"}
    assert tried({5: upsert(7)}, 5, meta=Meta(commit=5, next=50, letters_from=6)) == {5: "superseded"}
    assert tried({5: upsert(7)}, 5, meta=Meta(commit=5, next=50, letters_from=5)) == {5: ""}, (
        "it is the first of the new table"
    )


def test_a_refusal_names_the_first_message_that_is_about_the_row_and_where_a_reload_ended() -> None:
    (said,) = refusals({5: moved(7, 8), 60: upsert(8), 61: upsert(7), 62: upsert(7)}, 5)
    assert said.startswith("offset 60 is about the same row, and later: it stands")
    (said,) = refusals({5: moved(7, 8), 60: MODIFY, 61: upsert(8)}, 5)
    assert said.startswith("offset 60 may have changed the row")
    (said,) = refusals({5: upsert(7)}, 5, meta=Meta(commit=5, next=50, letters_from=6))
    assert said == "the table was reloaded from its source, after offset 5: the source has the row"


def test_the_shard_has_not_come_to_the_offset_that_it_reads_next() -> None:
    assert tried({50: upsert(7)}, 49, 50, meta=Meta(commit=5, next=50)) == {49: "message-gone", 50: "not-read-yet"}


def test_what_was_applied_late_is_not_tried_once_more() -> None:
    assert tried({5: upsert(7), 6: upsert(8)}, 5, 6, meta=Meta(commit=5, next=100, retried=((70, 5),))) == {6: ""}


def test_a_request_is_refused_while_a_snapshot_is_held_back_for_another_input_and_beyond_the_bound() -> None:
    meta = Meta(commit=5, topic_ids={"changes": "x"}, retried=((1, 1),) * (RETRIES_MAX - 1))
    assert objection_to_retry([5], "x", meta) == ""
    assert "recreated" in objection_to_retry([5], "y", meta)
    assert "reload --from-source topic" in objection_to_retry([5, 6], "x", meta)
    assert "held back" in objection_to_retry([5], "", Meta(commit=5, snapshot=Snapshot(since=0)))


def test_an_error_that_nobody_foresaw_is_told_of_its_message_alone_or_of_all() -> None:
    refused, one = Judged(4, None, EventRefused("message-gone", "")), Judged(5, Message(5, None, b"{}"), None)
    assert failed_by(one, Unforeseen("KeyError", 6)) == one
    for fault in (Unforeseen("KeyError", 5), Unforeseen("KeyError", None)):
        refusal = failed_by(one, fault).refusal
        assert refusal is not None
        assert (refusal.reason, refusal.detail) == ("internal-error", "applying it failed: KeyError")
        assert failed_by(refused, fault) == refused


NOW = 1_764_000_000
SHARD = 2
ASKED = FullRebuild(SHARD, "a", NOW - 5)
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
        (FullRebuild(1, "a", NOW), QUIET, "it names shard 1, and lies in the partition of shard 2"),
        (CancelRebuild(1, "a", NOW), RUNNING, "it names shard 1, and lies in the partition of shard 2"),
        (FullRebuild(SHARD, "a", NOW, "median"), QUIET, "there is no algorithm 'median'; there are mondrian, emp, ola, "
                                                    "degree-first, gdppr, bottom-up, top-down, ordered"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_done_is_refused_with_the_reason(request_: Request, meta: Meta, why: str) -> None:
    assert isinstance(request_, FullRebuild | CancelRebuild)
    assert answered(request_, meta) == Refused(request_.id, why)


def test_messages_are_tried_again_where_the_shard_can_do_it() -> None:
    request = Retry(SHARD, "r", NOW - 5, (3, 9))
    assert answered(request) == answered(request, RUNNING) == request
    assert answered(request, written_at=NOW - WAITING_SECONDS_MAX - 1) is None
    said = answered(Retry(SHARD, "r", NOW - 5, (3, 9), "another input"))
    assert isinstance(said, Refused)
    assert "recreated" in said.why


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
    assert answered(FullRebuild(SHARD, "a", at), written_at=written_at) is None
    assert answered(CancelRebuild(SHARD, "a", at), RUNNING, written_at=written_at) is None


def test_a_request_waits_for_a_worker_for_an_hour() -> None:
    assert answered(ASKED, written_at=NOW - 3_600) == ASKED
    assert answered(ASKED, written_at=NOW - 3_601) is None


def test_of_the_truncations_that_a_former_version_carried_only_those_are_told_that_have_no_answer() -> None:
    said = CarriedTruncation(SHARD)
    assert answered(said, written_at=0.0) == said
    assert answered(said, replace(QUIET, control_next=17)) == said
    assert answered(said, replace(QUIET, control_next=18)) is None
    assert answered(CarriedTruncation(1)) is None
    assert answered(PlacedTruncation(SHARD)) is None
