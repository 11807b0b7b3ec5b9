"""What a shard answers to the requests of operators, as values: act, refuse with a reason, or nothing.

The rules of this file
----------------------
* The control topic is kept for ever, and read again by every worker that takes the shard over: so a request is acted on
  once. How far the answers go stands in `Meta.control_next`; the last ones are remembered in `Meta.rebuilds` by the
  request's id, a refusal and a cancellation too, for who asked, and for a request that was written twice.
* A request waits for a worker for WAITING_SECONDS_MAX. Older ones that nobody remembers answering are history: they are
  passed over, so that a lost store does not make a worker repeat what was done long ago.
* One rebuild of a shard at a time. Who asks for another one meanwhile is refused, not kept waiting.
* What is tried again is remembered by its offset in `Meta.retried`: so it is applied once, whoever asks how often.
* A snapshot is named by the offset at which it began, and ends once: so nothing has to be remembered of who asked for
  its end, and such a request is history as soon as another one, or none, is held back.
* A truncation never becomes history: it is placed however late a worker hears of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamer.incremental.shard.holding_back import holds_back
from streamer.incremental.shard.requests import (
    CancelRebuild,
    EndSnapshot,
    Placed,
    Rebuild,
    Retry,
    Skip,
    Truncation,
    read_request,
)
from streamer.incremental.shard.retrying import objection_to_retry
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES
from streamer.table.yaml_values import REBUILD_ALGORITHMS

WAITING_SECONDS_MAX = 3_600


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is not done, and why; id: of the request, or the place of a record that cannot be read."""

    id: str
    why: str


Answer = Rebuild | CancelRebuild | EndSnapshot | Retry | Truncation | Refused | None


def answer(value: bytes, offset: int, written_at: float, shard: int, meta: Meta, now: float) -> Answer:
    """What is to be done about a record of the shard's control partition; None: nothing, or nothing any more.

    written_at, now: seconds since 1970.
    """
    request = read_request(value)
    if isinstance(request, Skip | Placed):
        return None  # read at the next take-over
    if isinstance(request, Truncation):
        return request if request.shard == shard and offset >= meta.control_next else None
    if isinstance(request, EndSnapshot):
        return request if request.shard == shard and _is_held(request, meta) else None
    if request is None:
        told = Refused(f"offset {offset}", f"the record at offset {offset} of the control topic cannot be read")
        return None if _is_over(told.id, written_at, meta, now) else told
    if _is_over(request.id, min(written_at, request.at), meta, now):
        return None
    why = _objection(request, shard, meta)
    return Refused(request.id, why) if why else request


def _is_held(request: EndSnapshot, meta: Meta) -> bool:
    """Whether it is the snapshot that the request names which is held back."""
    if meta.snapshot is None or not holds_back(meta):
        return False
    return (meta.snapshot.since, meta.topic_ids.get(CHANGES, "")) == (request.since, request.topic_id)


def _is_over(id_: str, at: float, meta: Meta, now: float) -> bool:
    known = (*meta.rebuilds, *([meta.rebuild] if meta.rebuild else ()))
    return now - at > WAITING_SECONDS_MAX or any(one.rebuild.id == id_ for one in known)


def _objection(request: Rebuild | CancelRebuild | Retry, shard: int, meta: Meta) -> str:
    if request.shard != shard:
        return f"it names shard {request.shard}, and lies in the partition of shard {shard}"
    if isinstance(request, Retry):
        return objection_to_retry(request.offsets, request.topic_id, meta)
    running = meta.rebuild
    if isinstance(request, CancelRebuild):
        return "" if running else "no rebuild is running that could be stopped"
    if holds_back(meta):
        return "its first snapshot is held back, and nothing is published yet that could be rebuilt"
    if running:
        return f"a rebuild is running, with {running.done} of {running.total} regions done: wait for it, or --cancel it"
    if request.algorithm and request.algorithm not in REBUILD_ALGORITHMS:
        return f"there is no algorithm {request.algorithm!r}; there are {', '.join(REBUILD_ALGORITHMS)}"
    return ""
