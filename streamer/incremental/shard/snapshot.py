"""A first load that comes as a snapshot is held back until it is whole: when it begins and when it is over, as values.

The rules of this file
----------------------
* It begins with a row that a snapshot has read, in a shard that has never formed a QI group: nothing is published then,
  and whatever rows the shard has are pending. In all other shards such rows are upserts, like any other.
* Other messages are applied to the rows that are held back, in order: rows that are read again replace themselves by
  key; changes, deletions and statements are in the first release. Refused rows become dead letters at once, and every
  message is counted.
* A snapshot of whole tables is read before any change. So a captured change in the same partition ends it, and is the
  first message after the release. Without one, the last row of the table ends it, in whatever partition that lies.
  Other partitions, and connectors that read in chunks, may be late, so it must be quiet for SETTLED_SECONDS at the end
  of the input.
* A snapshot between changes has no last row, and no change ends it: it ends after QUIET_SECONDS without a row of it.
* An operator can end it at any time (`streamer end-snapshot`). What comes later is upserts: to end too early widens
  intervals, and does nothing else. Nothing but these ends it, so `status` says what is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from streamer.incremental.events.snapshot_marks import READS, Mark
from streamer.incremental.store import base
from streamer.incremental.store.base import Meta, Snapshot

SETTLED_SECONDS = 5.0
"""The time in which other rows may come after the last row: a connector's producer sends to partitions in turn."""

QUIET_SECONDS = 30.0
"""The longest time of a chunk of a snapshot between changes: a connector reads and writes some per second."""


def holds_back(meta: Meta) -> bool:
    """True if a shard holds back the rows of a snapshot."""
    return meta.snapshot is not None and meta.snapshot.holds


def looks_for_marks(meta: Meta) -> bool:
    """True if it matters what messages say of a snapshot."""
    return holds_back(meta) or meta.qi_group_next == 1


def turned(meta: Meta, mark: Mark, offset: int) -> Snapshot | None:
    """The snapshot that begins or ends right before the message at `offset`; None if none does."""
    snapshot = meta.snapshot
    if snapshot is None or not snapshot.holds:
        if mark not in READS or meta.qi_group_next > 1:
            return None
        return Snapshot(offset, base.INCREMENTAL if mark is Mark.INCREMENTAL else base.TABLES)
    if snapshot.ended or snapshot.kind != base.TABLES or mark not in (Mark.CHANGE, Mark.INCREMENTAL):
        return None
    return replace(snapshot, seen=base.CHANGE, ended=base.CHANGE)


def held_after(snapshot: Snapshot | None, marks: Mapping[Mark, int]) -> Snapshot | None:
    """The snapshot after messages with these marks."""
    if snapshot is None or not snapshot.holds:
        return snapshot
    reads = snapshot.reads + sum(marks.get(mark, 0) for mark in READS)
    return replace(snapshot, reads=reads, seen=base.LAST if marks.get(Mark.LAST) else snapshot.seen)


def has_seen_the_end(meta: Meta | None) -> bool:
    """True if a shard has seen the end of the snapshot itself, so that all others may rely on it."""
    return meta is not None and meta.snapshot is not None and bool(meta.snapshot.seen)


def ended_by(snapshot: Snapshot, quiet_seconds: float, idle: bool, seen_elsewhere: bool) -> str:
    """Why a snapshot that is held back is over now; "" if it is not.

    quiet_seconds: since its last read, or since the shard was taken over. idle: the input had no message just now.
    """
    if snapshot.ended:
        return snapshot.ended
    if idle and quiet_seconds >= SETTLED_SECONDS and (snapshot.seen or seen_elsewhere):
        return snapshot.seen or base.ELSEWHERE
    return base.QUIET if snapshot.kind == base.INCREMENTAL and quiet_seconds >= QUIET_SECONDS else ""


def waits_for(snapshot: Snapshot) -> str:
    """Says in words what is waited for."""
    if snapshot.ended:
        done = f", {snapshot.released} of {snapshot.of} releases done" if snapshot.released else ""
        return f"its first release is under way{done}"
    if snapshot.kind == base.INCREMENTAL:
        return f"waits for {QUIET_SECONDS:.0f} s without a row of the snapshot"
    if snapshot.seen:
        return f"the snapshot's last row has come; waits for {SETTLED_SECONDS:.0f} s without another, or for a change"
    return "waits for the snapshot's last row, in any shard, or for the first change after it in this one"
