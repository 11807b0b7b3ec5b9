"""The rows that every shard begins with, as its source says them: those of a file, or of the input read again.

The rules of this file
----------------------
* Where the input goes on is decided first, before the source is read: what comes later is applied on top of it.
* Nothing is written here. Whatever is wrong with the source is said before a shard is touched.
* The last truncation that any shard's input holds counts for all of them: a table that begins anew takes what the
  control topic asked for as history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_bytes

from agents.anew.shards import Shards
from agents.anew.sources import EMPTY_IT, TOPIC, Routed, routed_file
from agents.control import KafkaControl
from streamer.errors import UsageError
from streamer.incremental.events.counts import NO_MESSAGES
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.groups.lots import SECRET_BYTES
from streamer.incremental.shard.driver import read_again, read_behind
from streamer.incremental.shard.first_commits import FirstTable
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.ready import RowsRead
from streamer.incremental.shard.trimmed import Remainder
from streamer.incremental.shard.truncations import last_truncation, passed_over_in
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from streamer.table.unlisted import unlisted_sentences

END, EARLIEST = "end", "earliest"

Tell = Callable[[str], None]


def first_tables(
    shards: Shards, source: str, from_offset: str, tell: Tell, although_trimmed: bool, warn: Tell
) -> list[FirstTable]:
    """What every shard begins with, in no QI groups yet."""
    table = shards.settings.table
    if source == TOPIC:
        if from_offset != END:
            raise UsageError("--from-offset: where the input is read again, it goes on where that reading ended")
        remainders = [Remainder(table, len(shards), shards.settings.schemas) for _ in shards.states]
        read = [_of_topic(shards, shard, one, tell) for shard, one in enumerate(remainders)]
        if not although_trimmed:
            _check_whole(shards, remainders)
        first = _truncated(shards, read)
        if not any(one.counts.messages for one in first):
            raise UsageError(f"the input holds no message, so nobody would be published any more; {EMPTY_IT}")
        counts = sum((one.counts for one in first), NO_MESSAGES)
        _warn_of_unlisted(table, counts.unlisted, counts.applied, "applied messages", warn)
        return first
    next_ = _next(shards, from_offset)
    known = [meta.key_form for store in shards.stores if (meta := store.meta()) is not None]
    routed = routed_file(table, source, shards.settings.kafka, len(shards), known, shards.settings.schemas)
    _tell_routed(routed, tell)
    _warn_of_unlisted(table, routed.unlisted, sum(len(rows.source_keys) for rows in routed.rows), "rows", warn)
    return [_first_table(rows, next_[shard], key_form=routed.key_form) for shard, rows in enumerate(routed.rows)]


def _check_whole(shards: Shards, remainders: Sequence[Remainder]) -> None:
    """Raises UsageError where what is left of an input cannot say all rows."""
    lost = {n: state.earliest for n, state in enumerate(shards.states) if state.earliest and not remainders[n].says_all}
    if lost:
        told = ", ".join(f"shard {n}: {earliest:,} offsets, 0 to {earliest - 1}" for n, earliest in lost.items())
        raise UsageError(
            f"the input has lost its beginning ({told}), and no truncation and no beginning of a snapshot follows: "
            "rows of which it says no more would be missing, and nobody can tell which; give a file of all rows, or "
            "say --although-trimmed where none is missed"
        )


def _tell_routed(routed: Routed, tell: Tell) -> None:
    tell(f"{sum(len(rows.source_keys) for rows in routed.rows):,} rows read")
    if not routed.seen:
        tell(
            f"no message of the input tells how its keys are written: taken for {routed.key_form}, and messages with "
            "keys of another form will be refused"
        )


def _warn_of_unlisted(table: Table, unlisted: Mapping[str, int], of: int, what: str, warn: Tell) -> None:
    for sentence in unlisted_sentences(table, unlisted, of, what):
        warn(sentence)


def _next(shards: Shards, from_offset: str) -> list[int]:
    """Where the input goes on, shard by shard. Raises UsageError for an offset that the input does not have."""
    if from_offset in (END, EARLIEST):
        return [state.end if from_offset == END else state.earliest for state in shards.states]
    if len(shards) > 1:
        raise UsageError(
            f"--from-offset {from_offset}: the input has {len(shards)} shards, and an offset means something else in "
            "each: say end or earliest"
        )
    offset, state = int(from_offset), shards.states[0]
    if not state.earliest <= offset <= state.end:
        raise UsageError(f"--from-offset {offset}: the input begins at {state.earliest} and ends at {state.end}")
    return [offset]


def _of_topic(shards: Shards, shard: int, remainder: Remainder, tell: Tell) -> FirstTable:
    """The rows that a shard's input says from its beginning to its end; remainder: looks at one that has lost some."""
    settings, state = shards.settings, shards.states[shard]
    skips = KafkaControl(settings.kafka, settings.table.name, shard).skips(state.topic_ids.get(CHANGES, ""))
    passed_over = _passed_over(shards.stores[shard].meta(), state, skips)
    said = shards.reading(shard).messages(state)
    messages = remainder.read(said) if state.earliest else said
    read = read_again(settings.table, shard, len(shards), messages, state.end, passed_over, schemas=settings.schemas)
    _tell_read(shard, state, read, remainder.says_all, tell)
    return _first_table(
        read.rows,
        read.next,
        key_form=read.key_form,
        counts=read.counts,
        letters=read.letters,
        statement_ids=read.statement_ids,
        skipped=read.skipped,
        truncated=read.truncated,
        log_seen=read.log_seen,
    )


def _truncated(shards: Shards, first: Sequence[FirstTable]) -> list[FirstTable]:
    """What is left by the last truncation that any shard's input holds; most shards' inputs do not hold it."""
    source = last_truncation([one.truncated for one in first], shards.settings.table.name)
    if source is None:
        return list(first)
    return [one if one.truncated == source else _behind(shards, n, one, source) for n, one in enumerate(first)]


def _behind(shards: Shards, shard: int, first: FirstTable, source: SourcePosition) -> FirstTable:
    """The rows of a shard that came later than a truncation."""
    reading, bounds = shards.reading(shard), (shards.states[shard].earliest, first.next)
    table, skips, schemas = shards.settings.table, first.skipped, shards.settings.schemas
    later = read_behind(source, table, shard, len(shards), *bounds, reading.between, skips, schemas)
    return replace(
        first,
        rows=later.rows,
        key_form=later.key_form,
        truncated=source,
        log_seen=later.log_seen,
        letters_from=first.next,
    )


def _passed_over(meta: Meta | None, state: InputState, skips: Iterable[int]) -> set[int]:
    """What was passed over in this very input, and is to be, by an operator's word; not what was applied after all."""
    if meta is None or meta.topic_ids.get(CHANGES) != state.topic_ids.get(CHANGES):
        return set(skips)
    return set(skips).difference(offset for _, offset in meta.retried) | passed_over_in(meta)


def _tell_read(shard: int, state: InputState, read: RowsRead, says_all: bool, tell: Tell) -> None:
    counts = read.counts
    tell(
        f"shard {shard}: {counts.messages:,} messages read again, {len(read.rows.source_keys):,} rows, "
        f"{counts.dead_letters:,} dead letters"
    )
    if state.earliest:
        still = "all rows are told behind it" if says_all else "rows of which it says no more are gone"
        tell(f"shard {shard}: the input begins at offset {state.earliest}: {still}")
    for fault in read.faults:
        tell(f"shard {shard}: {fault}")


def _first_table(rows: EncodedRows, next_: int, **more: object) -> FirstTable:
    """Rows in no QI groups yet, with a secret of their own."""
    return FirstTable(rows, (), token_bytes(SECRET_BYTES), next_, **more)  # type: ignore[arg-type]
