"""Checks a whole changelog against its laws (`checks`), release by release.

A changelog without a record breaks no law and proves nothing: it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, overload

import pandas as pd

from streamer.errors import A_PATH, EventRefused, LawViolated, UsageError, require_type
from streamer.incremental.checks.as_published import QIGroupId
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases, laws_of, violation
from streamer.incremental.checks.source import SOURCE_LAWS, SourceLaws, index_table
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.message_files import read_files
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.shard.input import Message
from streamer.shown import Shape, Shown, named
from streamer.table.encode import Encoder, require_frame, with_index, without_absent_key
from streamer.table.published.from_frame import compared_with_frame, rows_of_frame
from streamer.table.published.rows import parse_qi_group
from streamer.table.row import Row
from streamer.table.schema import ROWS, Table
from streamer.table.yaml.loading import Named, table_of


@dataclass(repr=False)
class Verified(Shown):
    """Counts of what was checked, and of the laws."""

    releases: int = 0
    records: int = 0
    rows: int = 0
    qi_groups: int = 0
    laws: int = 0
    shards: int = 0  # that have a record

    def lines(self) -> Iterator[Shape]:
        yield named(asdict(self)) | {"result": "every law holds at every release"}


class Oracle(Protocol):
    """Knows more about what should be published, and is asked at every release."""

    def check_release(self, release: FoldedRelease, touched: set[QIGroupId], remaining: Iterable[LiveRecord]) -> None:
        """Raises LawViolated if the release is not what it should be; remaining: the records after it."""

    def check_end(self) -> None:
        """Raises LawViolated if something should have been published after the last release."""


@overload
def verify(table: Named, /, *live: str | Path) -> Verified: ...
@overload
def verify(
    published: pd.DataFrame, table: Named, /, *, source: pd.DataFrame | None = ..., index: pd.Series[Any] | None = ...
) -> Verified: ...
def verify(
    first: Named | pd.DataFrame,
    /,
    *others: Any,
    source: pd.DataFrame | None = None,
    index: pd.Series[Any] | None = None,
) -> Verified:
    """Checks what was published against every law of its table: `verify(table, *files)`, `verify(published, table)`.

    table: a Table, a table.yaml, a directory that has one, or a dict of its settings. files: of a changelog, as
    `replay` and `subscribe --live` write them; several are one, as for `streamer verify`. published: a DataFrame that
    `anonymize` returned, or one that was read from what it wrote. source: the DataFrame that it was made of; index:
    the Series that `anonymize(..., return_index=True)` returned with it. With these two every row is also looked for
    in its QI group.

    Returns counts of what was checked. Raises LawViolated with the first violation in words, ConfigError for a table
    or a file that cannot be read, UsageError if there is nothing to verify, or for an argument of the wrong type.
    """
    if isinstance(first, pd.DataFrame):
        if len(others) != 1:
            raise UsageError("verify takes a published DataFrame and its table: verify(published, table)")
        return _verify_frame(first, table_of(others[0], needs_key=False), source, index)
    if any(isinstance(one, pd.DataFrame) for one in others):
        raise UsageError("verify takes the published DataFrame before its table: verify(published, table)")
    schema = table_of(first)
    if source is not None or index is not None:
        raise UsageError("source and index go with a published DataFrame: verify(published, table, source=, index=)")
    for path in others:
        require_type("live", path, A_PATH)
    laws, paths = ChangelogLaws(schema), [Path(path) for path in others]
    verified = follow(laws, read_files(paths, schema))
    require_records(verified, paths)
    verified.laws = len(laws_of(schema))
    return verified


def _verify_frame(
    published: pd.DataFrame, table: Table, source: pd.DataFrame | None, index: pd.Series[Any] | None
) -> Verified:
    """Holds a published DataFrame to the laws of a first release, and with its source also to those of sources."""
    schema = replace(table, form=ROWS)  # whatever a stream of this table publishes
    if source is not None:
        require_frame("source", source)
    schema = compared_with_frame(schema, published, None if source is None else with_index(source, table))
    laws = ChangelogLaws(schema)
    try:
        records = [LiveRecord(0, 1, 0, *row) for row in rows_of_frame(schema, published)]
    except LawViolated as error:
        raise violation("form", PUBLISHED_FRAME, str(error)) from None
    if not records:
        raise UsageError("the DataFrame has no rows, so there is nothing to verify")
    verified = follow(laws, records)
    verified.laws = len(laws_of(schema))
    if (source is None) != (index is None):
        raise UsageError("source and index belong together: anonymize(..., return_index=True) returns the index")
    if source is not None and index is not None:
        rows, places = rows_behind(schema, source, index)
        SourceLaws(schema, laws, index_table(rows, places.items(), PUBLISHED_FRAME)).check_all(PUBLISHED_FRAME)
        verified.laws += len(SOURCE_LAWS)
    return verified


PUBLISHED_FRAME = "the published DataFrame"


def rows_behind(
    table: Table, source: pd.DataFrame, index: pd.Series[Any]
) -> tuple[dict[str, Row], dict[str, QIGroupId | None]]:
    """By source key, the rows of a source, and the QI group of each; None: it was left out.

    index: the names of the QI groups by row. Raises UsageError for an index of another source, LawViolated for a name
    that no QI group has, and what `Encoder.columns` raises.
    """
    if not isinstance(index, pd.Series) or not index.index.equals(source.index):
        raise UsageError("index must be the Series that anonymize(..., return_index=True) returned for this source")
    people = with_index(source, table)
    encoded = Encoder(without_absent_key(table, people.columns)).frame(people)
    places = (None if name is None or name != name else parse_qi_group(str(name)) for name in index)
    keys = encoded.source_keys
    return dict(zip(keys, encoded.rows(), strict=True)), dict(zip(keys, places, strict=True))


def follow(laws: ChangelogLaws, records: Iterable[LiveRecord], oracle: Oracle | None = None) -> Verified:
    """Checks a changelog against its laws; raises LawViolated at the first violation."""
    verified, records = Verified(), iter(records)
    for release in in_releases(records):
        touched = laws.check(release)
        if oracle is not None:
            oracle.check_release(release, touched, records)
        verified.releases += 1
        verified.records += len(release.records)
    if oracle is not None:
        oracle.check_end()
    verified.rows, verified.qi_groups = laws.n_rows, len(laws.qi_groups)
    verified.shards = laws.n_shards
    return verified


def require_records(verified: Verified, live: Sequence[Path]) -> None:
    """Raises UsageError if no record was found."""
    if not verified.records:
        named = ", ".join(map(str, live)) or "no file was named"
        raise UsageError(f"{named}: there is no record, so there is nothing to verify")


class EngineBehind:
    """An engine that replays the input of one shard as far as its releases go."""

    def __init__(self, table: Table, engine: Engine, messages: Iterable[Message]) -> None:
        self.engine = engine
        self._decoder = Decoder(table)
        self._messages = iter(messages)
        self._next: Message | None = next(self._messages, None)

    def up_to(self, through: int | None) -> Iterator[tuple[int, Change]]:
        """Applies the messages before an offset, None: all; yields offset and change of each before it is applied.

        What cannot be decoded is left out. What is refused is yielded and then changes nothing.
        """
        while self._next is not None and (through is None or self._next.offset < through):
            message, self._next = self._next, next(self._messages, None)
            with suppress(EventRefused):  # a dead letter: nothing changes
                change = self._decoder.decode(message.key, message.value)
                yield message.offset, change
                self.engine.at = message.timestamp
                self.engine.apply(change)

    def require_shard(self, shard: int, option: str) -> None:
        """Raises UsageError for a record of another shard than that of the events."""
        if shard != self.engine.shard:
            raise UsageError(
                f"{option} checks a changelog of one shard, as `replay` writes it: these are the events of shard "
                f"{self.engine.shard}, and the changelog holds shard {shard}"
            )
