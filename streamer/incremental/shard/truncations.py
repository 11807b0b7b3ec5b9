"""A truncation that the connector captured takes effect in every shard, at its place in the source's order.

The rules of this file
----------------------
* Debezium writes a truncation to one partition. Where there are several, the shard that reads it empties itself and
  says it to the others: one record of the control topic for each, in the transaction of its own commit. It says where
  in the source's order the truncation stands (`streamer.incremental.events.source_position`).
* Messages that stand before it change nothing any more, in whatever shard and whenever they are read: late ones, and
  those that a connector sends twice. So a shard may hear of a truncation before it has read what came before it.
* A shard that hears of it late has applied later messages already. Its table is then what these alone come to: they
  are read again from the input, from behind the last one that stands before the truncation, by the very loop of a
  shard, from an empty table. Rows that are the same stay as they are published.
* A message that names no place stands with the one before it in its partition. Connectors send tombstones so.
* A row without a place, or with one in another log, may be older than the truncation where its partition has held no
  message of the truncation's log before it (`Meta.log_seen`): then the shard is refused.
* A control topic that was recreated lacks what somebody may not have heard: who knows a truncation says it there again.
* Of truncations the latest one says all; who knows it ignores the earlier ones, and its repetitions.
* A shard hears of a truncation between two messages, and nobody can foretell between which. So it says in its own
  partition of the control topic where that was, in the same transaction, and counts in `Meta` and `Position` how often
  it did. Whoever repeats the input after a loss does it there again. Messages, what is said so, and the shard's secret
  decide the state, and nothing else does: such a release is not `outside`.
* Truncations of two logs have no order: whoever knows one and meets the other is refused, and guesses nothing.
* Where a truncation names no place, or rows name none, or the input has expired, or places and dates contradict one
  another, the shard is refused: nobody could say who is in the table.
* Only a date tells a message that comes late from one of a log that has begun anew. So a truncation without a date is
  refused as one without a place, and a change without one, whose place is before a truncation, is a dead letter:
  where the log is the same nothing was lost, and else somebody has to hear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamer.errors import EventRefused, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.events.changes import Change, Insert, Nothing, Truncate, Upsert
from streamer.incremental.events.source_position import OrderLost, SourcePosition, position_of
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import Placed, Truncation
from streamer.incremental.shard.steps import StepTally
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CONTROL
from streamer.table.schema import Table

PlaceOf = Callable[[bytes | None], SourcePosition | None]
"""Where a message stands, by its value: `position_of`, with what is known of a registry's schemas."""

WINDOW_OFFSETS: Final = 4_000
WIDER: Final = 8
"""The input is read backwards in windows: mostly, what came after a truncation is a few seconds long."""

_NO_PLACE = (
    "{}: the table was truncated (offset {}), and the message does not say {}: let the "
    "connector send its source block (flattened rows: add.fields=op,source.connector,source.lsn,source.ts_ms, of MySQL "
    "source.file,source.pos,source.row in place of source.lsn), which only PostgreSQL, MySQL and MariaDB have. Other "
    "shards may have later rows already, so `streamer produce --truncate` alone would remove these, too: pass the "
    "message over (`streamer skip`), pause the connector, run `streamer produce --truncate`, resume it, and signal an "
    "incremental snapshot of the table, so that all rows come again; or, {}"
)


_NO_DATE = (
    "by its place in the source's log the message came before the last truncation, and no date says that this log has "
    "not begun anew since (another server, a restored copy). Where it has not, nothing is lost; else, {}. Let the "
    "connector send the date (flattened rows: add.fields=...,source.ts_ms)"
)


@dataclass(frozen=True, slots=True)
class Run:
    """The end of what was read of an input: it begins behind the last message that stands before a truncation.

    begins: None if no message does. told: whether any message named a place in the same log.
    """

    begins: int | None = None
    told: bool = False


def in_order(change: Change, stands: SourcePosition | None, truncated: SourcePosition, table_name: str) -> Change:
    """What a change comes to in the source's order, in one of several shards: nothing, if it is overtaken.

    stands: where its message does. truncated: the last truncation, as far as the shard knows. A truncation that was
    captured and is to be said to the others stays as it is. Raises OrderLost, EventRefused: undated-before-truncation.
    """
    if stands is None:
        return change
    if stands.precedes(truncated):
        if not ((stands.at and truncated.at) or isinstance(change, Nothing)):
            raise EventRefused("undated-before-truncation", _NO_DATE.format(remedies.begin_from_file(table_name)))
        return Nothing()
    known = isinstance(change, Truncate) and (stands.log, stands.place) == (truncated.log, truncated.place)
    return Nothing() if known else change


def in_source_order(
    table: Table,
    shard: int,
    meta: Meta,
    change: Change,
    message: Message,
    tally: StepTally,
    place_of: PlaceOf = position_of,
) -> Change:
    """What a message of a shard changes, seen from the source's order; tells other shards where it truncates.

    meta: of the last commit. Raises ShardRefused if nobody can tell.
    """
    if meta.shards == 1:
        return change
    name = f"shard {shard} of {table.name}"
    if tally.truncated is not None:
        stands = place_of(message.value)
        change = _behind(f"{name}, offset {message.offset}", table.name, change, stands, tally.truncated, tally)
    if not (isinstance(change, Truncate) and change.whole_table_only):
        return change
    source = place_of_truncation(name, table.name, message, place_of)
    check_same_log(f"{name}, offset {message.offset}", table.name, source, tally.truncated)
    tally.truncated, tally.log_seen = source, True
    tally.letters += said_to_others(meta, name, shard, message.offset, tally.truncated)
    return Truncate()


def _behind(
    name: str,
    table_name: str,
    change: Change,
    stands: SourcePosition | None,
    truncated: SourcePosition,
    tally: StepTally,
) -> Change:
    """What a change comes to behind a truncation. Raises ShardRefused if nobody can tell."""
    if stands is not None and stands.log == truncated.log:
        tally.log_seen = True
    elif isinstance(change, Upsert | Insert) and not tally.log_seen:
        raise ShardRefused(
            f"{name}: the table was truncated, and the message of a row does not say whether it came before: it names "
            "no place in the source's log, or one in another log than the truncation, and no message before it says "
            f"more; {remedies.begin_from_file(table_name)}"
        )
    try:
        return in_order(change, stands, truncated, table_name)
    except OrderLost:
        raise order_lost(name, table_name) from None


def place_of_truncation(
    name: str, table_name: str, message: Message, place_of: PlaceOf = position_of
) -> SourcePosition:
    """Where a truncation that was captured stands, and when. Raises ShardRefused if nobody can tell."""
    source = place_of(message.value)
    if source is None or not source.at:
        missing = "where in the source's order" if source is None else "when (source.ts_ms)"
        raise ShardRefused(_NO_PLACE.format(name, message.offset, missing, remedies.begin_from_file(table_name)))
    return source


def said_to_others(meta: Meta, name: str, shard: int, offset: int, source: SourcePosition) -> list[OutboxEntry]:
    """What a shard that read a truncation at an offset says to all others, each in its partition (the record's key).

    Once more where the control topic was recreated; offset: then the next one that it reads.

    Raises ShardRefused if the control topic is missing.
    """
    if meta.topic_ids and CONTROL not in meta.topic_ids:
        raise ShardRefused(
            f"{name}: the table was truncated, and there is no control topic to say so to its other shards: "
            "`streamer topics create` makes it"
        )
    others = (other for other in range(meta.shards) if other != shard)
    return [OutboxEntry(CONTROL, b"%d" % other, Truncation(other, source, shard, offset).to_json()) for other in others]


def said_of_placing(meta: Meta, shard: int, request: int, source: SourcePosition) -> OutboxEntry:
    """What a shard says in its own partition of a truncation that it has placed; meta: with it."""
    return OutboxEntry(CONTROL, b"%d" % shard, Placed(shard, source, request, meta.next, meta.truncations).to_json())


def passed_over_in(meta: Meta) -> set[int]:
    """The offsets below a shard's `next` that it has not applied by an operator's word, or for an unknown fault."""
    return set(meta.skipped).difference(offset for _, offset in meta.retried)


def is_news(name: str, table_name: str, meta: Meta, source: SourcePosition) -> bool:
    """Whether a truncation is later than what the shard knows. Raises ShardRefused if nobody can tell."""
    known = meta.truncated
    if known is None:
        return True
    check_same_log(name, table_name, source, known)
    try:
        return source.place != known.place and not source.precedes(known)
    except OrderLost:
        raise order_lost(name, table_name) from None


def check_same_log(name: str, table_name: str, source: SourcePosition, known: SourcePosition | None) -> None:
    """Raises ShardRefused if two truncations have no order."""
    if known is not None and source.log != known.log:
        raise ShardRefused(
            f"{name}: the input holds truncations of two logs of the source, which have no order between them; "
            f"{remedies.begin_from_file(table_name)}"
        )


def last_truncation(found: Iterable[SourcePosition | None], table_name: str) -> SourcePosition | None:
    """The last one of several; None if there is none. Raises ShardRefused if they have no order."""
    last: SourcePosition | None = None
    for source in found:
        if source is None or source == last:
            continue
        check_same_log(table_name, table_name, source, last)
        try:
            last = source if last is None or last.precedes(source) else last
        except OrderLost:
            raise order_lost(table_name, table_name) from None
    return last


def to_repeat(
    name: str, table_name: str, meta: Meta, position: Position, placed: Iterable[Placed]
) -> tuple[Placed, ...]:
    """The truncations that were placed behind what a store holds, up to the published position, in order.

    placed: what the shard has said of all. Raises ShardRefused if that is not there any more.
    """
    missing = range(meta.truncations + 1, position.truncations + 1)
    known = {one.number: one for one in placed}
    if not known.keys() >= set(missing):
        raise ShardRefused(
            f"{name}: the store has lost commits, and the control topic does not say any more where truncations took "
            f"effect, so reading the input again cannot repeat it; {remedies.begin_anew(table_name)}"
        )
    return tuple(known[number] for number in missing)


def run_behind(source: SourcePosition, batches: Iterable[Sequence[Message]], place_of: PlaceOf = position_of) -> Run:
    """The messages that stand behind a truncation at the end of what is read. Raises OrderLost."""
    begins, told = None, False
    for batch in batches:
        for message in batch:
            stands = place_of(message.value)
            if stands is not None and stands.log == source.log:
                told = True
                begins = message.offset + 1 if stands.precedes(source) else begins
    return Run(begins, told)


def begin_of_run(
    name: str,
    table_name: str,
    source: SourcePosition,
    earliest: int,
    next_: int,
    read: Callable[[int], Iterator[Sequence[Message]]],
    place_of: PlaceOf = position_of,
) -> int:
    """The offset from which on the messages below `next_` stand behind a truncation.

    read: the messages from an offset to `next_`. Raises ShardRefused where the input does not tell; OrderLost.
    """
    start, window = next_, WINDOW_OFFSETS
    run = Run()
    while start > earliest and run.begins is None:
        start, window = max(earliest, next_ - window), window * WIDER
        run = run_behind(source, read(start), place_of)
    if run.begins is not None:
        return run.begins
    if earliest < next_ and (earliest or not run.told):
        why = "it has expired" if run.told else "its messages do not say where in the source's order they stand"
        raise ShardRefused(
            f"{name}: the table was truncated, and the input does not tell which rows came later: {why}; "
            f"{remedies.begin_from_file(table_name)}"
        )
    return earliest


def order_lost(name: str, table_name: str) -> ShardRefused:
    """The refusal of a source whose order is not what it was."""
    return ShardRefused(
        f"{name}: by its place in the source's log a message came before the last truncation, by its date long after "
        f"it: the log has begun anew (another server, a restored copy); {remedies.begin_from_file(table_name)}"
    )
