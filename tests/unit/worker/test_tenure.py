"""What a shard is at a worker: what the table of states and events promises, over any events that it knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.worker.tenure import (
    ASKED_AGAIN_SECONDS,
    BACKOFF_FIRST_SECONDS,
    BACKOFF_LAST_SECONDS,
    BELIEVED_SECONDS,
    REFUSED_RETRY_SECONDS,
    TABLE,
    Due,
    Event,
    Failure,
    GivenAway,
    Served,
    ShardAssigned,
    ShardFailed,
    TakenOver,
    Tenure,
    TenureState,
    Withdrawn,
    after,
)

FENCED = ShardFailed(Failure.FENCED, "another worker has it", next=5, at=1.0)
OUTAGE = ShardFailed(Failure.OUTAGE, "Redis does not answer", next=5, at=1.0)
LASTING = ShardFailed(Failure.LASTING, "its secret is lost", next=5, at=1.0)
TAKEN, ASSIGNED, DUE = TakenOver(at=1.0, since=1.0), ShardAssigned(), Due()
WITHDRAWN = Withdrawn(at=1.0)
SERVED, IDLE = Served(at=1.0, is_idle=False), Served(at=1.0, is_idle=True)
GIVEN_AWAY = GivenAway("given back", at=1.0)
EVENTS: Sequence[Event] = (
    *(FENCED, OUTAGE, LASTING, LASTING._replace(next=6), LASTING._replace(is_said=True)),
    *(TAKEN, WITHDRAWN, ASSIGNED, DUE, SERVED, IDLE, GIVEN_AWAY),
)


def told(*events: Event, tenure: Tenure | None = None) -> Tenure:
    """The tenure after events, from its beginning on."""
    tenure = tenure or Tenure()
    for event in events:
        tenure = after(tenure, event)
    return tenure


class Move(NamedTuple):
    """One event, and the tenure before and after it."""

    before: Tenure
    event: Event
    now: Tenure


@st.composite
def histories(draw: st.DrawFn) -> list[Move]:
    """A tenure of any events that its states know, at times that go on; some may come after its loss."""
    tenure, moves, at = Tenure(), list[Move](), 0.0
    for _ in range(draw(st.integers(1, 30))):
        at += draw(st.sampled_from([0.1, 2.0, BELIEVED_SECONDS + 1]))
        known: list[Any] = [one for one in EVENTS if (tenure.state, type(one)) in TABLE]
        event = draw(st.sampled_from(known))
        event = event._replace(at=at) if hasattr(event, "at") else event
        moves.append(Move(tenure, event, after(tenure, event)))
        tenure = moves[-1].now
    return moves


def all_moves() -> Iterator[Move]:
    """From every tenure that these events reach, each of them."""
    seen, left = {Tenure()}, [Tenure()]
    while left:
        before = left.pop()
        for event in EVENTS:
            if (before.state, type(event)) in TABLE:
                yield Move(before, event, now := after(before, event))
                left += [now] if now not in seen else []
                seen.add(now)


def test_every_state_that_the_table_names_is_reached_by_that_event_and_no_other_one_is() -> None:
    named = {(state, kind, to) for (state, kind), step in TABLE.items() for to in step.leads}
    assert {(move.before.state, type(move.event), move.now.state) for move in all_moves()} == named


@pytest.mark.parametrize("state", TenureState, ids=lambda state: state.value)
def test_an_event_that_a_state_does_not_know_is_an_error(state: TenureState) -> None:
    for event in EVENTS:
        if (state, type(event)) not in TABLE:
            with pytest.raises(KeyError):
                after(Tenure(state), event)


@pytest.mark.parametrize("state", TenureState, ids=lambda state: state.value)
def test_what_kafka_says_is_known_in_every_state(state: TenureState) -> None:
    """No order of its callbacks can be an error: aiokafka would log it, and go on as if the shards had been told."""
    known = {kind for of, kind in TABLE if of is state}
    assert {Withdrawn, GivenAway} <= known
    assert (ShardAssigned in known) == (state is not TenureState.LOST)  # then a new tenure begins


def test_nothing_leads_out_of_a_loss() -> None:
    lost = told(DUE, FENCED)
    assert all(after(lost, event) == lost for event in EVENTS if (TenureState.LOST, type(event)) in TABLE)


@given(histories())
def test_a_loss_has_its_reason_and_its_time_and_nothing_else_has_one(moves: list[Move]) -> None:
    for before, event, now in moves:
        assert bool(now.lost) == (now.state is TenureState.LOST)
        if now.lost and not before.lost:
            assert now.at == getattr(event, "at", None)


@given(histories())
def test_a_table_is_kept_from_a_withdrawal_until_the_next_take_over_or_error(moves: list[Move]) -> None:
    for before, event, now in moves:
        if now.kept and not before.kept:
            assert before.state in (TenureState.SERVING, TenureState.TAKING_OVER)
            assert isinstance(event, Withdrawn | ShardAssigned)
        if now.kept:
            assert now.state in (TenureState.RESTING, TenureState.TAKING_OVER)
            assert not isinstance(event, Due | ShardFailed)
        assert now.kept or now.state is not TenureState.RESTING


def test_a_rebalance_takes_a_shard_away_only_from_who_has_not_begun_to_take_it_over() -> None:
    serving = told(DUE, TAKEN)
    assert after(serving, WITHDRAWN).state is TenureState.RESTING
    assert told(DUE, WITHDRAWN).state is TenureState.RESTING
    assert told(WITHDRAWN).state is told(DUE, OUTAGE, WITHDRAWN).state is TenureState.LOST
    again = told(WITHDRAWN, ASSIGNED, tenure=serving)
    assert again.kept
    assert told(WITHDRAWN, ASSIGNED, WITHDRAWN, tenure=again).state is TenureState.RESTING
    assert told(WITHDRAWN, WITHDRAWN, ASSIGNED, TAKEN, tenure=serving) == serving


def test_a_take_over_goes_on_through_rebalances_and_the_shard_is_served_if_it_comes_back() -> None:
    loading = told(DUE, WITHDRAWN._replace(at=7.0), WITHDRAWN._replace(at=8.0))
    assert (loading.state, loading.is_owner) == (TenureState.RESTING, False)
    served = told(ASSIGNED, TAKEN._replace(at=9.0), tenure=loading)
    assert (served.state, served.at, served.is_owner) == (TenureState.SERVING, 7.0, True)
    assert told(FENCED, tenure=loading).lost


@pytest.mark.parametrize("failure", [FENCED, OUTAGE, LASTING], ids=lambda failure: failure.failure.value)
def test_a_shard_that_fails_while_it_rests_has_nothing_left_to_keep(failure: ShardFailed) -> None:
    assert told(DUE, TAKEN, WITHDRAWN, failure).lost == failure.why


def test_an_assignment_without_a_withdrawal_reads_on_from_where_the_table_stands() -> None:
    serving = told(DUE, TAKEN)
    again = after(serving, ASSIGNED)
    assert (again.state, again.kept) == (TenureState.TAKING_OVER, True)
    assert after(again, TAKEN) == serving


def test_the_pause_after_an_outage_doubles_until_its_longest_and_falls_when_a_batch_is_served() -> None:
    tenure, waits = told(DUE), list[float]()
    for _ in range(8):
        tenure = after(tenure, OUTAGE)
        waits.append(tenure.wait)
        tenure = told(DUE, TAKEN, tenure=tenure)
    assert waits[0] == BACKOFF_FIRST_SECONDS
    assert all(later == min(2 * wait, BACKOFF_LAST_SECONDS) for wait, later in pairwise(waits))
    assert waits[-1] == BACKOFF_LAST_SECONDS
    assert told(IDLE, OUTAGE, tenure=tenure).wait == BACKOFF_FIRST_SECONDS


def test_the_first_of_several_errors_says_since_when_until_a_batch_is_served() -> None:
    tenure = Tenure(TenureState.SERVING)
    seen = []
    events = OUTAGE._replace(at=5.0), DUE, OUTAGE._replace(at=6.0), DUE, TAKEN, IDLE
    for event in events:
        tenure = after(tenure, event)
        seen.append((bool(tenure.failed), tenure.failed_at))
    assert seen == [(True, 5.0)] * 5 + [(False, 5.0)]


def test_an_error_that_no_retry_repairs_refuses_a_shard_the_second_time() -> None:
    doubted = told(DUE, LASTING)
    assert (doubted.state, doubted.wait) == (TenureState.DOUBTED, ASKED_AGAIN_SECONDS)
    refused = told(DUE, LASTING, tenure=doubted)
    assert (refused.state, refused.refused) == (TenureState.REFUSED, LASTING.why)
    assert told(DUE, TAKEN, IDLE, LASTING, tenure=doubted).state is TenureState.REFUSED
    assert told(DUE, OUTAGE, DUE, LASTING, tenure=doubted).state is TenureState.REFUSED


def test_an_error_at_another_offset_or_long_after_is_the_first_one_again() -> None:
    doubted = told(DUE, LASTING)
    assert told(DUE, LASTING._replace(next=6), tenure=doubted).state is TenureState.DOUBTED
    long_after = Served(at=1.1 + BELIEVED_SECONDS, is_idle=True)
    assert told(DUE, TAKEN, long_after, LASTING, tenure=doubted).state is TenureState.DOUBTED
    rested = (WITHDRAWN, ASSIGNED, TAKEN._replace(at=BELIEVED_SECONDS), long_after)
    assert told(DUE, TAKEN, *rested, LASTING, tenure=doubted).state is TenureState.DOUBTED  # it was served all the time


@given(histories())
def test_no_shard_is_refused_without_such_an_error_before_it_since_it_was_believed(moves: list[Move]) -> None:
    since, doubts = 0.0, set[int]()
    for before, event, now in moves:
        if isinstance(event, TakenOver) and not before.kept:
            since = event.at
        elif isinstance(event, Served) and before.state is TenureState.SERVING and event.at - since > BELIEVED_SECONDS:
            doubts.clear()
        elif isinstance(event, ShardFailed) and now.state is TenureState.REFUSED:
            assert event.next in doubts or before.refused
        elif isinstance(event, ShardFailed) and now.state is TenureState.DOUBTED:
            doubts.add(event.next)


@given(histories())
def test_a_refusal_stays_said_until_a_batch_is_served(moves: list[Move]) -> None:
    for before, event, now in moves:
        if before.refused and not isinstance(event, Served):
            assert now.refused
        if isinstance(event, Served) and not before.lost:
            assert not now.refused


def test_what_is_refused_again_waits_for_a_change_or_as_long_as_the_worker_can_afford() -> None:
    refused = told(DUE, LASTING, DUE, LASTING)
    assert refused.wait == REFUSED_RETRY_SECONDS
    again = told(DUE, LASTING._replace(next=7, seconds=100.0), tenure=refused)
    assert (again.state, again.wait) == (TenureState.REFUSED, 1000.0)


@given(histories())
def test_an_owner_is_reported_once_per_assignment_and_once_more_after_a_refusal(moves: list[Move]) -> None:
    reports = sum(now.is_owner and not before.is_owner for before, _, now in moves)
    refusals = sum(isinstance(event, ShardFailed) and now.state is TenureState.REFUSED for _, event, now in moves)
    assert reports <= 1 + refusals
    for _, event, now in moves:
        assert now.is_owner or now.state is not TenureState.SERVING
        if isinstance(event, ShardFailed) and event.failure is not Failure.LASTING and not now.lost:
            assert now.state is TenureState.ASSIGNED


def test_what_redis_was_told_of_an_outage_is_over_with_the_first_message_that_is_served() -> None:
    said = told(DUE, TAKEN, OUTAGE._replace(is_said=True), DUE, OUTAGE, DUE, TAKEN)
    assert told(IDLE, IDLE, tenure=said).is_said
    assert not told(IDLE, SERVED, tenure=said).is_said
