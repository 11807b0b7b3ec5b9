"""The states of a shard at a worker, from its assignment to its loss, in one table of states and events.

The worker (`agents/ingest.py`) carries out what a state asks for, and tells what came of it as the next event, unless
another event has come meanwhile; nothing else changes a tenure. After an error there is one way back: a new take-over,
after a wait. Only a shard that rests goes on without one. It may rest for any time: the next assignment ends the rest.

Lost is the end of a tenure. If Kafka assigns the shard again, a new tenure begins at Assigned. If a shard comes back
from its rest and another worker has had it meanwhile (Fenced in Taking over, `kept`), the new one begins at once. The
worker ends if all its shards are refused, or if a lost shard stays assigned to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from streamer.errors import Conflict, Fenced, ServerUnreachable, StreamerError

BACKOFF_FIRST_SECONDS, BACKOFF_LAST_SECONDS = 0.1, 3.0
"""Between an outage and the next take-over; twice as long each time."""

ASKED_AGAIN_SECONDS = 1.0
"""Before a shard is taken over once more that would be refused."""

BELIEVED_SECONDS = 60.0
"""A shard is served for that time until an error that would refuse it counts as the first one again."""

REFUSED_RETRY_SECONDS, REFUSED_RETRY_SHARE = 60.0, 10
"""A refused shard is tried again after a while if nothing changes: after this share of the time that the last try took,
at least, as the other shards have to share the processor with it."""

NO_OFFSET = -1


class TenureState(Enum):
    """The states of a shard at a worker."""

    ASSIGNED = "Assigned"  # it is taken over after `wait` seconds
    TAKING_OVER = "Taking over"  # loaded; if its table is `kept`: asked whether another worker has had it
    SERVING = "Serving"  # its input is read
    RESTING = "Resting"  # a rebalance has taken it away: its table is kept, or loaded on, until the next assignment
    DOUBTED = "Doubted"  # an error that no retry repairs: it is taken over once more after `wait` seconds
    REFUSED = "Refused"  # the error came again: tried again after a change, or after `wait` seconds
    LOST = "Lost"  # it is not ours: its table is dropped, and a new assignment begins a new tenure


class Failure(Enum):
    """The meaning of an error for a shard."""

    FENCED = "fenced"  # another worker has it
    OUTAGE = "outage"  # a server does not answer, or something has changed meanwhile: a new take-over repairs it
    LASTING = "lasting"  # no retry repairs it: table, topics and state do not fit together, or a law is violated


def meaning_of(error: StreamerError) -> Failure:
    """The meaning of an error of a shard's step."""
    if isinstance(error, Fenced):
        return Failure.FENCED
    return Failure.OUTAGE if isinstance(error, ServerUnreachable | Conflict) else Failure.LASTING


# -- events ------------------------------------------------------------------------------------------------------------


class ShardAssigned(NamedTuple):
    """Kafka assigns the shard to this worker, after a rebalance."""


class Withdrawn(NamedTuple):
    """A rebalance begins, which takes all shards from all workers."""

    at: float


class GivenAway(NamedTuple):
    """Kafka assigns it to another worker, or this one ends. at: by the monotonic clock, as in all events."""

    why: str
    at: float


class Due(NamedTuple):
    """The wait is over: by time, or because something has changed that a refusal depends on."""


class TakenOver(NamedTuple):
    """It is ours alone, and loaded. since: when a worker first took it over without a loss, in seconds since 1970."""

    at: float
    since: float


class Served(NamedTuple):
    """Its input was read, and what came is published. is_idle: nothing came."""

    at: float
    is_idle: bool


class ShardFailed(NamedTuple):
    """An error. next: the first offset that is not applied; seconds: what failed took; is_said: Redis was told why."""

    failure: Failure
    why: str
    next: int
    at: float
    seconds: float = 0.0
    is_said: bool = False


Event = ShardAssigned | Withdrawn | GivenAway | Due | TakenOver | Served | ShardFailed


@dataclass(frozen=True, slots=True)
class Tenure:
    """A shard at a worker."""

    state: TenureState = TenureState.ASSIGNED
    wait: float = 0.0  # Assigned, Doubted, Refused: seconds until it is taken over
    backoff: float = BACKOFF_FIRST_SECONDS  # what the next outage waits
    doubted: int = NO_OFFSET  # the offset at which one more lasting error refuses it
    failed: str = ""  # why it is about to be taken over again; "" once it is served or refused
    failed_at: float = 0.0  # when the first of these errors came
    refused: str = ""  # why it was refused; "" once it is served
    lost: str = ""  # Lost: why
    at: float = 0.0  # when it was taken over last; Lost: when that was found
    kept: bool = False  # Resting, Taking over: its table is as we last had it, or is being loaded since
    is_owner: bool = False  # Redis knows us as its owner; not after every error anew
    since: float = 0.0  # when it was taken over first, in seconds since 1970
    is_said: bool = False  # Redis has been told of an outage


# -- what every event means --------------------------------------------------------------------------------------------


def _same(tenure: Tenure, _event: Event) -> Tenure:
    return tenure


def _lose(tenure: Tenure, event: GivenAway | ShardFailed) -> Tenure:
    """Of a shard that fails while it rests, the step that was running has dropped the table."""
    return _lost(tenure, event.why, event.at)


def _lost(tenure: Tenure, why: str, at: float) -> Tenure:
    return replace(tenure, state=TenureState.LOST, lost=why, at=at, kept=False)


def _withdraw(tenure: Tenure, event: Withdrawn) -> Tenure:
    """There is nothing to keep."""
    return _lost(tenure, "given back", event.at)


def _rest(tenure: Tenure, event: Withdrawn) -> Tenure:
    """A take-over goes on, unless it would shut somebody out: else a group that is never still would starve it."""
    was_served = tenure.kept or tenure.state is TenureState.SERVING
    return replace(tenure, state=TenureState.RESTING, kept=True, at=tenure.at if was_served else event.at)


def _return(tenure: Tenure, _event: ShardAssigned) -> Tenure:
    """The input is read anew from where the table stands, also if no withdrawal came before."""
    return replace(tenure, state=TenureState.TAKING_OVER, kept=True)


def _take_over(tenure: Tenure, _event: Due) -> Tenure:
    return replace(tenure, state=TenureState.TAKING_OVER, kept=False)


def _serve(tenure: Tenure, event: TakenOver) -> Tenure:
    at = tenure.at if tenure.kept else event.at
    return replace(tenure, state=TenureState.SERVING, at=at, since=event.since, kept=False, is_owner=True)


def _go_on(tenure: Tenure, event: Served) -> Tenure:
    doubted = NO_OFFSET if event.at - tenure.at > BELIEVED_SECONDS else tenure.doubted
    is_said = tenure.is_said and event.is_idle
    return replace(tenure, backoff=BACKOFF_FIRST_SECONDS, doubted=doubted, failed="", refused="", is_said=is_said)


def _fail(tenure: Tenure, event: ShardFailed) -> Tenure:
    if event.failure is Failure.FENCED:
        return _lost(tenure, event.why, event.at)
    failed_at = tenure.failed_at if tenure.failed else event.at
    is_said = tenure.is_said or event.is_said
    tenure = replace(tenure, kept=False, failed=event.why, failed_at=failed_at, is_said=is_said)
    if event.failure is Failure.OUTAGE:
        backoff = min(2 * tenure.backoff, BACKOFF_LAST_SECONDS)
        return replace(tenure, state=TenureState.ASSIGNED, wait=tenure.backoff, backoff=backoff)
    if not tenure.refused and tenure.doubted != event.next:
        return replace(tenure, state=TenureState.DOUBTED, wait=ASKED_AGAIN_SECONDS, doubted=event.next)
    wait = max(REFUSED_RETRY_SECONDS, REFUSED_RETRY_SHARE * event.seconds)
    return replace(tenure, state=TenureState.REFUSED, wait=wait, failed="", refused=event.why, is_owner=False)


class TenureStep(NamedTuple):
    """The change that an event makes in a state, and the states to which that may lead."""

    how: Callable[[Tenure, Any], Tenure]
    leads: tuple[TenureState, ...]


S = TenureState
WAITING = (S.ASSIGNED, S.DOUBTED, S.REFUSED)
AT_WORK = (S.TAKING_OVER, S.SERVING)

TABLE: Mapping[tuple[TenureState, type[Event]], TenureStep] = {
    **{(state, GivenAway): TenureStep(_lose, (S.LOST,)) for state in TenureState if state is not S.LOST},
    **{(state, Withdrawn): TenureStep(_withdraw, (S.LOST,)) for state in WAITING},
    **{(state, Withdrawn): TenureStep(_rest, (S.RESTING,)) for state in AT_WORK},
    (S.RESTING, Withdrawn): TenureStep(_same, (S.RESTING,)),  # the rebalance begins anew
    **{(state, ShardAssigned): TenureStep(_same, (state,)) for state in (*WAITING, S.TAKING_OVER)},
    **{(state, ShardAssigned): TenureStep(_return, (S.TAKING_OVER,)) for state in (S.SERVING, S.RESTING)},
    **{(state, Due): TenureStep(_take_over, (S.TAKING_OVER,)) for state in WAITING},
    (S.TAKING_OVER, TakenOver): TenureStep(_serve, (S.SERVING,)),
    (S.SERVING, Served): TenureStep(_go_on, (S.SERVING,)),
    **{(state, ShardFailed): TenureStep(_fail, (*WAITING, S.LOST)) for state in AT_WORK},
    (S.RESTING, ShardFailed): TenureStep(_lose, (S.LOST,)),
    **{(S.LOST, kind): TenureStep(_same, (S.LOST,)) for kind in (Withdrawn, GivenAway, ShardFailed)},
}
"""The meaning of every event in every state; an event that is not here is an error."""


def after(tenure: Tenure, event: Event) -> Tenure:
    """The tenure after an event. Raises KeyError for an event that its state does not know.

    >>> after(Tenure(), Due()).state, after(Tenure(TenureState.SERVING), Withdrawn(at=9.0)).state
    (<TenureState.TAKING_OVER: 'Taking over'>, <TenureState.RESTING: 'Resting'>)
    """
    return TABLE[tenure.state, type(event)].how(tenure, event)
