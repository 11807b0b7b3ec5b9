"""Which messages are passed over, and when a shard stops instead."""

from __future__ import annotations

import traceback

import pytest

from streamer.errors import Conflict, EventRefused, Fenced, GroupTooLarge, LawViolated, ServerUnreachable, ShardRefused
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.passed_over import IN_A_ROW_MAX, SKIPPED_MAX, PassedOver, Unforeseen, told, unforeseen
from streamer.incremental.shard.steps import Tally
from streamer.incremental.store.base import Meta

NAME = "shard 0 of people"
META = Meta(commit=3, next=100)
CANARY = "canary"


def reason(passed_over: PassedOver, offset: int) -> str | None:
    refusal = passed_over.refusal(offset)
    return None if refusal is None else refusal.reason


def test_skips_of_what_is_not_decided_yet_are_heeded() -> None:
    passed_over = PassedOver(NAME, META, [7, 100, 250])
    assert [reason(passed_over, offset) for offset in (7, 99, 100, 101, 250)] == [
        None,
        None,
        "skipped",
        None,
        "skipped",
    ]


def test_who_is_passed_over_is_refused_and_counted() -> None:
    passed_over, tally = PassedOver(NAME, META, [101]), Tally(100, "")
    passed_over.check(100, tally)
    with pytest.raises(EventRefused) as refused:
        passed_over.check(101, tally)
    assert (refused.value.reason, tally.skipped) == ("skipped", [101])


def test_in_a_replay_only_what_was_passed_over_before_is_passed_over() -> None:
    position = Position(9, 200, 9, 1, 0, 0, (120, 130))
    passed_over = PassedOver(NAME, META, [110, 120, 199, 200], position)
    assert [offset for offset in range(100, 210) if reason(passed_over, offset)] == [120, 130, 200]


def test_a_message_that_failed_is_passed_over_and_the_letter_says_where_the_code_failed() -> None:
    passed_over = PassedOver(NAME, META)
    told_to_log = passed_over.failed(Unforeseen("KeyError in engine.py, line 7", 120), 119, 20, META)
    refusal = passed_over.refusal(120)
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (
        "internal-error",
        "applying it failed: KeyError in engine.py, line 7",
    )
    assert told_to_log == "offset 120 is passed over: KeyError in engine.py, line 7"


def test_where_nobody_knows_which_message_it_was_they_are_committed_one_by_one() -> None:
    passed_over = PassedOver(NAME, META)
    assert not passed_over.commit_is_due(105)
    passed_over.failed(Unforeseen("LawViolated", None), last=119, n_messages=20, meta=META)
    assert [passed_over.commit_is_due(offset) for offset in (100, 119, 120)] == [True, True, False]
    passed_over.failed(Unforeseen("LawViolated", None), last=105, n_messages=1, meta=META)
    assert reason(passed_over, 105) == "internal-error"


def test_what_was_found_out_is_committed_as_soon_as_another_message_could_be_applied() -> None:
    passed_over = PassedOver(NAME, META)
    passed_over.failed(Unforeseen("KeyError", 120), 119, 20, META)
    passed_over.applied(119)
    assert not passed_over.commit_is_due(119)
    passed_over.applied(121)
    assert passed_over.commit_is_due(121)
    assert not passed_over.commit_is_due(122)


def test_a_broken_engine_does_not_turn_its_input_into_dead_letters() -> None:
    passed_over = PassedOver(NAME, META)
    for offset in range(100, 100 + IN_A_ROW_MAX - 1):
        passed_over.failed(Unforeseen("KeyError", offset), offset - 1, 1, META)
    with pytest.raises(
        ShardRefused, match=r"10 messages in a row.*offset 109: KeyError; the fault is not theirs; run a"
    ):
        passed_over.failed(Unforeseen("KeyError", 109), 108, 1, META)


def test_a_message_that_could_be_applied_ends_a_row() -> None:
    passed_over = PassedOver(NAME, META)
    for offset in range(100, 200, 2):
        passed_over.failed(Unforeseen("KeyError", offset), offset - 1, 1, META)
        passed_over.applied(offset + 1)


def test_a_shard_does_not_pass_over_without_end() -> None:
    meta = Meta(next=5_000, skipped=tuple(range(SKIPPED_MAX)))
    with pytest.raises(ShardRefused, match=f"{SKIPPED_MAX} before were passed over"):
        PassedOver(NAME, meta).failed(Unforeseen("KeyError", 5_000), -1, 0, meta)


def test_where_a_message_that_is_passed_over_fails_again_the_fault_is_elsewhere() -> None:
    passed_over = PassedOver(NAME, META, [100])
    with pytest.raises(ShardRefused, match="the fault is not theirs"):
        passed_over.failed(Unforeseen("LawViolated", None), last=100, n_messages=1, meta=META)


@pytest.mark.parametrize(
    "error",
    [ServerUnreachable("x"), Fenced("x"), Conflict("x"), MemoryError(), OSError("a socket could not be opened")],
)
def test_what_is_no_fault_of_a_message_goes_its_way(error: Exception) -> None:
    with pytest.raises(type(error)), unforeseen(7):
        raise error


@pytest.mark.parametrize("error", [KeyError(CANARY), LawViolated("QI group 7 holds 1 of the k = 3 it needs")])
def test_what_a_message_may_have_caused_is_told_without_its_text(error: Exception) -> None:
    with pytest.raises(Unforeseen, match=r"in test_passed_over\.py, line \d+") as caught, unforeseen(7):
        raise error
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in told(error)


def test_a_group_that_is_too_large_for_its_message_is_told_as_that() -> None:
    said = "a QI group of 62 rows does not fit into one message"
    with pytest.raises(Unforeseen, match=said), unforeseen(7):
        raise GroupTooLarge(said)
