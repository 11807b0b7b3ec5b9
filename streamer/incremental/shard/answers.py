"""A shard's answers to the requests of operators, as values: do it, refuse it with a reason, or nothing.

The rules of this file
----------------------
* The control topic is kept for ever, and every worker that takes the shard over reads it again. So each request is
  acted on once: `Meta.control_next` says how far the answers go, and `Meta.rebuilds` remembers the last ones by the
  request's id, even a refusal or a cancellation, for the operator who asked and for a request that was written twice.
* A request waits for a worker for WAITING_SECONDS_MAX. If it is older and its answer is not remembered, it is skipped
  as history, so that a lost store does not make a worker repeat what was done long ago.
* A shard has one rebuild at a time. A request for another one is refused, not kept waiting.
* A retried message is remembered by its offset in `Meta.retried`, so it is applied once, however often it is asked for.
* A snapshot is named by the offset at which it began, and ends once. So a request for its end is history as soon as
  another snapshot, or none, is held back, and nothing has to be remembered of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamer.incremental.shard import requests
from streamer.incremental.shard.requests import CancelRebuild, CarriedTruncation, EndSnapshot, FullRebuild, Retry
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES
from streamer.table.yaml.shape import REBUILD_ALGORITHMS


def objection_to_retry(offsets: Sequence[int], topic_id: str, meta: Meta) -> str:
    """Why a whole request to retry messages is refused; "" if it is not."""
    if holds_back(meta):
        return "its first snapshot is held back: wait until it is published"
    if topic_id != meta.topic_ids.get(CHANGES, ""):
        return "the input was recreated since, and its offsets mean other messages now"
    if len(meta.retried) + len(offsets) > requests.RETRIES_MAX:
        return (
            f"{len(meta.retried):,} messages were tried again and applied so far, {len(offsets):,} more are asked for, "
            f"and {requests.RETRIES_MAX:,} is the limit: `streamer reload --from-source topic` reads all of them again"
        )
    return ""


WAITING_SECONDS_MAX = 3_600


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is refused."""

    id: str  # of the request, or the offset of a record that cannot be read
    why: str


Answer = FullRebuild | CancelRebuild | EndSnapshot | Retry | CarriedTruncation | Refused | None


def answer(value: bytes, offset: int, written_at: float, shard: int, meta: Meta, now: float) -> Answer:
    """Answers a record of the shard's control partition; None: nothing is to be done.

    written_at, now: seconds since 1970.
    """
    request = requests.read_request(value)
    if isinstance(request, requests.Skip | requests.PlacedTruncation | requests.EpochOver | requests.Secret):
        return None  # read at the next take-over
    if isinstance(request, CarriedTruncation):
        return request if request.shard == shard and offset >= meta.control_next else None
    if isinstance(request, EndSnapshot):
        held = meta.snapshot.since if meta.snapshot is not None and holds_back(meta) else None
        is_held = (request.since, request.topic_id) == (held, meta.topic_ids.get(CHANGES, ""))
        return request if request.shard == shard and is_held else None
    if request is None:
        told = Refused(f"offset {offset}", f"the record at offset {offset} of the control topic cannot be read")
        return None if _is_over(told.id, written_at, meta, now) else told
    if _is_over(request.id, min(written_at, request.at), meta, now):
        return None
    why = _objection(request, shard, meta)
    return Refused(request.id, why) if why else request


def _is_over(id_: str, at: float, meta: Meta, now: float) -> bool:
    known = (*meta.rebuilds, *([meta.rebuild] if meta.rebuild else ()))
    return now - at > WAITING_SECONDS_MAX or any(one.rebuild.id == id_ for one in known)


def _objection(request: FullRebuild | CancelRebuild | Retry, shard: int, meta: Meta) -> str:
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
