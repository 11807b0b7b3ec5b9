"""A truncation that the connector captured takes effect in every shard, at its place in the source's order.

The rules of this file
----------------------
* Debezium writes a truncation to one partition. If the table has several, the shard that reads it empties itself and
  says it to the others: one record of the control topic for each, in the transaction of its own commit, with the
  truncation's position in the source's log (`streamer.incremental.events.source_position`).
* Messages with an earlier position change nothing any more, in whatever shard and whenever they are read: late ones,
  and those that a connector sends twice. So a shard may hear of a truncation before it has read what came before it.
* A shard that hears of it late has applied later messages already. Its table becomes what these alone amount to. They
  are read again from the input, after the last one with an earlier position, by a machine of the same kind that begins
  with an empty table. Rows that stay the same stay as they are published.
* A message without a position has that of the message before it in its partition. Connectors send tombstones so.
* A row without a position, or with one in another log, may be older than the truncation if its partition has held no
  message of the truncation's log before it (`Meta.log_seen`): then the shard is refused.
* A recreated control topic lacks what some shard may not have heard: every shard says there again what it knows.
* The latest truncation says all. A shard that knows it ignores earlier ones, and its repetitions.
* Between which two messages a shard hears of a truncation is chance. So the shard says where that was in its own
  partition of the control topic, in the same transaction, and counts in `Meta` and `Position` how often it did. There a
  replay applies the truncation again. Messages, these records and the shard's secret decide the state, and nothing
  else does: such a release is not `outside`.
* Truncations of two logs have no order: a shard that knows one and meets the other is refused.
* The shard is refused, because no one could say who is in the table, if a truncation has no position, or rows have
  none, or the input has expired, or positions and dates contradict each other.
* Only its date tells a late message from one of a log that has started again. So a truncation without a date is refused
  like one without a position. A change without a date and with an earlier position is a dead letter: nothing is lost if
  the log is the same, and otherwise an operator has to hear of it.
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
from streamer.incremental.shard.requests import EpochOver, Placed, Truncation
from streamer.incremental.shard.steps import StepTally
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CONTROL
from streamer.table.schema import Table

PlaceOf = Callable[[bytes | None], SourcePosition | None]
"""Where a message stands, by its value: `position_of`, with what is known of a registry's schemas."""

WINDOW_OFFSETS: Final = 4_000
WIDER: Final = 8
"""The input is read backwards in windows, each so many times wider: mostly a few seconds came after a truncation."""

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
    "not restarted since (another server, a restored copy). Where it has not, nothing is lost; else, {}. Let the "
    "connector send the date (flattened rows: add.fields=...,source.ts_ms)"
)


@dataclass(frozen=True, slots=True)
class Run:
    """The end of what was read of an input, after the last message that came before a truncation."""

    begins: int | None = None  # None if no message came before it
    told: bool = False  # whether any message named a position in the same log


def in_order(change: Change, stands: SourcePosition | None, truncated: SourcePosition, table_name: str) -> Change:
    """The change after applying the source's order, in one of several shards: nothing, if it came before `truncated`.

    stands: the position of its message. truncated: the last truncation that the shard knows. A captured truncation that
    has to be said to the others stays as it is. Raises OrderLost, EventRefused: undated-before-truncation.
    """
    if stands is None:
        return change
    if stands.precedes(truncated):
        if not ((stands.at and truncated.at) or isinstance(change, Nothing)):
            raise EventRefused("undated-before-truncation", _NO_DATE.format(remedies.reload_from_file(table_name)))
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
    """The change of a message after applying the source's order; adds to the tally what a truncation says to others.

    meta: of the last commit. Raises ShardRefused if the order cannot be known.
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
    """The change, if a truncation is known. Raises ShardRefused if it cannot be known which came first."""
    if stands is not None and stands.log == truncated.log:
        tally.log_seen = True
    elif isinstance(change, Upsert | Insert) and not tally.log_seen:
        raise ShardRefused(
            f"{name}: the table was truncated, and the message of a row does not say whether it came before: it names "
            "no place in the source's log, or one in another log than the truncation, and no message before it says "
            f"more; {remedies.reload_from_file(table_name)}"
        )
    try:
        return in_order(change, stands, truncated, table_name)
    except OrderLost:
        raise order_lost(name, table_name) from None


def place_of_truncation(
    name: str, table_name: str, message: Message, place_of: PlaceOf = position_of
) -> SourcePosition:
    """Position and date of a captured truncation. Raises ShardRefused if it has none."""
    source = place_of(message.value)
    if source is None or not source.at:
        missing = "where in the source's order" if source is None else "when (source.ts_ms)"
        raise ShardRefused(_NO_PLACE.format(name, message.offset, missing, remedies.reload_from_file(table_name)))
    return source


def said_to_others(meta: Meta, name: str, shard: int, offset: int, source: SourcePosition) -> list[OutboxEntry]:
    """What a shard that read a truncation says to all others, each in its partition (the record's key).

    offset: where it read it; the next one that it reads, if it says so again in a recreated control topic. Raises
    ShardRefused if the control topic is missing.
    """
    if meta.topic_ids and CONTROL not in meta.topic_ids:
        raise ShardRefused(
            f"{name}: the table was truncated, and there is no control topic to say so to its other shards: "
            "`streamer topics create` makes it"
        )
    others = (other for other in range(meta.shards) if other != shard)
    return [OutboxEntry(CONTROL, b"%d" % other, Truncation(other, source, shard, offset).to_json()) for other in others]


def said_of_placing(meta: Meta, shard: int, request: int, source: SourcePosition) -> OutboxEntry:
    """What a shard says in its own partition of a truncation from another shard; meta: after it took effect."""
    return OutboxEntry(CONTROL, b"%d" % shard, Placed(shard, source, request, meta.next, meta.truncations).to_json())


def skipped_in(meta: Meta) -> set[int]:
    """The offsets below a shard's `next` that were skipped and not retried since."""
    return set(meta.skipped).difference(offset for _, offset in meta.retried)


def is_news(name: str, table_name: str, meta: Meta, source: SourcePosition) -> bool:
    """Whether a truncation is later than the one the shard knows. Raises ShardRefused if they have no order."""
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
            f"{remedies.reload_from_file(table_name)}"
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
    name: str, table_name: str, meta: Meta, position: Position, said: Iterable[Placed | EpochOver]
) -> tuple[Placed, ...]:
    """The truncations from other shards that a store has lost, up to the published position, in order.

    said: by the shard, where they took effect. Raises ShardRefused if that is not there any more.
    """
    missing = range(meta.truncations + 1, position.truncations + 1)
    known = {one.number: one for one in said if isinstance(one, Placed)}
    if not known.keys() >= set(missing):
        raise ShardRefused(
            f"{name}: the store has lost commits, and the control topic does not say any more where truncations took "
            f"effect, so reading the input again cannot repeat it; {remedies.reload(table_name)}"
        )
    return tuple(known[number] for number in missing)


def run_behind(source: SourcePosition, batches: Iterable[Sequence[Message]], place_of: PlaceOf = position_of) -> Run:
    """The messages after a truncation, at the end of what is read. Raises OrderLost."""
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
    """The offset from which on the messages below `next_` came after a truncation.

    read: the messages from an offset to `next_`. Raises ShardRefused if the input does not tell; OrderLost.
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
            f"{remedies.reload_from_file(table_name)}"
        )
    return earliest


def order_lost(name: str, table_name: str) -> ShardRefused:
    """The refusal of a source whose log has started again."""
    return ShardRefused(
        f"{name}: by its place in the source's log a message came before the last truncation, by its date long after "
        f"it: the log has restarted (another server, a restored copy); {remedies.reload_from_file(table_name)}"
    )
