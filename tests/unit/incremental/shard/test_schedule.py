"""When a shard rebuilds itself: by the clock, by drift, and not again and again."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.shard.schedule import (
    CHANGED_LEAST,
    CLOCK,
    DRIFT,
    LOOK_SECONDS,
    Looked,
    Situation,
    due,
    look_is_due,
    waits,
)
from streamer.table.schema import Rebuilding

DAY = 86_400
DAILY = Rebuilding(every=DAY, drift=None)
DRIFTING = Rebuilding(drift=Decimal("1.2"))
NEVER = Rebuilding(every=None, drift=None)


@pytest.mark.parametrize(("seconds", "reason"), [(DAY - 1, None), (DAY, CLOCK), (9 * DAY, CLOCK)])
def test_the_clock_runs_from_the_last_rebuild(seconds: int, reason: str | None) -> None:
    assert due(DAILY, 0, Situation(now=1e9 + seconds, since=1e9)) == reason


@given(shard=st.integers(0, 10_000), every=st.integers(60, 10 * DAY))
def test_no_shard_waits_longer_than_was_said_or_much_shorter(shard: int, every: int) -> None:
    assert 0.9 * every <= waits(every, shard) <= every


@given(shards=st.integers(2, 64))
def test_shards_that_began_together_do_not_rebuild_together(shards: int) -> None:
    at = sorted(waits(DAY, shard) for shard in range(shards))
    apart = min(after - before for before, after in pairwise(at))
    assert apart > 0.3 * (0.1 * DAY) / shards


@pytest.mark.parametrize(("drift", "reason"), [(None, None), (1.19, None), (1.2, DRIFT), (float("inf"), DRIFT)])
def test_a_table_that_has_drifted_as_far_as_was_said_is_due(drift: float | None, reason: str | None) -> None:
    assert due(DRIFTING, 3, Situation(now=10, since=0, drift=drift)) == reason


@pytest.mark.parametrize(("drift", "reason"), [(1.25, None), (1.49, None), (1.5, DRIFT)])
def test_a_rebuild_that_gained_nothing_is_not_begun_again_until_as_much_is_lost_once_more(
    drift: float, reason: str | None
) -> None:
    assert due(DRIFTING, 0, Situation(now=10, since=0, drift=drift, reached=1.25)) == reason


def test_a_rebuild_that_did_better_than_a_fresh_table_lowers_no_threshold() -> None:
    assert due(DRIFTING, 0, Situation(now=10, since=0, drift=1.15, reached=0.9)) is None


def test_where_both_are_never_nothing_is_due() -> None:
    assert due(NEVER, 0, Situation(now=1e12, since=0, drift=float("inf"))) is None


@pytest.mark.parametrize(
    ("settings", "seconds", "took", "changes", "rows", "looks"),
    [
        (DRIFTING, LOOK_SECONDS, 1, CHANGED_LEAST, 1_000, True),
        (DRIFTING, LOOK_SECONDS - 1, 1, CHANGED_LEAST, 1_000, False),
        (DRIFTING, LOOK_SECONDS, 1, CHANGED_LEAST - 1, 1_000, False),
        (DRIFTING, LOOK_SECONDS, 1, CHANGED_LEAST, 100_000, False),
        (DRIFTING, LOOK_SECONDS, 1, 5_000, 100_000, True),
        (DRIFTING, LOOK_SECONDS, 60, CHANGED_LEAST, 1_000, False),
        (DRIFTING, 3_000, 60, CHANGED_LEAST, 1_000, True),
        (NEVER, 1e9, 1, 1_000_000, 1_000, False),
    ],
)
def test_drift_is_looked_for_rarely_and_only_where_it_may_be_another(
    settings: Rebuilding, seconds: float, took: float, changes: int, rows: int, looks: bool
) -> None:
    assert look_is_due(settings, 1e9 + seconds, Looked(1e9, took, 70), 70 + changes, rows) is looks
