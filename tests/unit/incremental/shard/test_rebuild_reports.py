"""What is said of rebuilds that are remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from streamer.incremental.shard.rebuild_reports import (
    RESTARTS_MAX,
    described,
    gain,
    how_it_ended,
    last_rebuild,
    reached,
    told,
)
from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import (
    ANSWERED,
    CANCELLED,
    DONE,
    FAILED,
    REFUSED,
    RUNNING,
    STOPPED,
    Progress,
    Rebuild,
)

ONE = Progress(
    Rebuild("a", "ordered", 7, 3), 8, done=8, rows_published_again=9_812, ncp_before=200.0, ncp_now=150.0, state=DONE,
    why="drift", began=1_000, at=1_012, drift=1.4,
)  # fmt: skip
REFUSAL = Progress(Rebuild("b", "", 0, 4), 0, state=REFUSED, said="a rebuild is running")


def state(name: str, **more: object) -> Progress:
    return changed(ONE, state=name, **more)


def test_an_answer_to_a_request_is_no_rebuild() -> None:
    answer = changed(REFUSAL, state=ANSWERED)
    assert last_rebuild([ONE, REFUSAL, answer]) == ONE
    assert last_rebuild([REFUSAL]) is None
    assert last_rebuild([ONE, state(FAILED)]) == state(FAILED)


def test_the_gain_is_a_share_of_the_loss() -> None:
    assert gain(ONE) == 0.25
    assert gain(REFUSAL) == 0.0


@pytest.mark.parametrize(
    ("progress", "after"),
    [
        (ONE, 1.4 * 0.75),
        (changed(ONE, done=4), 1.4 * 0.875),
        (changed(ONE, ncp_now=200.0), 1.4),
        (changed(ONE, drift=0.0), 1.0),
        (changed(ONE, total=0, done=0, ncp_before=0.0, ncp_now=0.0, state=FAILED), 1.4),
    ],
)
def test_what_was_reached_is_the_drift_before_less_what_was_gained(progress: Progress, after: float) -> None:
    assert reached(progress) == pytest.approx(after)


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (ONE, "done, loss -25.0%, 9,812 rows published again, 12 s"),
        (state(DONE, left=2),
         "done, loss -25.0%, 9,812 rows published again, 12 s, 2 regions were too busy and stay as they were"),
        (state(RUNNING, done=3), "3 of 8 regions, loss -25.0%, 9,812 rows published again, 12 s"),
        (state(FAILED, done=3, said="out of memory"),
         "failed with 3 of 8 regions done, loss -25.0%, 9,812 rows published again, 12 s: out of memory"),
        (REFUSAL, "refused: a rebuild is running"),
        (changed(REFUSAL, state=ANSWERED, said="the rebuild was stopped"), "the rebuild was stopped"),
    ],
)  # fmt: skip
def test_a_rebuild_is_told_in_one_line(progress: Progress, words: str) -> None:
    assert told(progress) == words


def test_programs_are_told_the_same_in_numbers() -> None:
    said = described(ONE)
    assert (said["id"], said["state"], said["gain"], said["regions"], said["done"]) == ("a", DONE, 0.25, 8, 8)
    assert described(changed(ONE, drift=0.0))["drift"] is None


def test_who_waits_for_a_request_waits_until_it_has_ended_for_good() -> None:
    meta = Meta()
    assert how_it_ended(meta, "a") is None
    assert how_it_ended(replace(meta, rebuild=state(RUNNING)), "a") is None
    assert how_it_ended(replace(meta, rebuilds=(ONE, REFUSAL)), "a") == ONE
    assert how_it_ended(replace(meta, rebuild=state(RUNNING), rebuilds=(REFUSAL,)), "b") == REFUSAL
    assert how_it_ended(replace(meta, rebuilds=(state(CANCELLED),)), "a") == state(CANCELLED)


def test_a_rebuild_whose_worker_went_is_waited_for_as_long_as_it_will_be_begun_anew() -> None:
    went = state(STOPPED)
    assert how_it_ended(Meta(rebuilds=(went,) * RESTARTS_MAX), "a") is None
    assert how_it_ended(Meta(rebuild=state(RUNNING), rebuilds=(went,)), "a") is None
    assert how_it_ended(Meta(rebuilds=(went,) * (RESTARTS_MAX + 1)), "a") == went
    assert how_it_ended(Meta(rebuilds=(went, ONE)), "a") == ONE
