"""Checks a whole changelog against its laws (`checks`), release by release.

A changelog without a record breaks no law and proves nothing: it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from streamer.errors import A_PATH, EventRefused, UsageError, require_type
from streamer.incremental.checks.as_published import QIGroupId
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases, laws_of
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.message_files import read_files
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.shard.input import Message
from streamer.table.schema import Table
from streamer.table.yaml.loading import Named, table_of


@dataclass
class Verified:
    """Counts of what was checked, and of the laws."""

    releases: int = 0
    records: int = 0
    rows: int = 0
    qi_groups: int = 0
    laws: int = 0
    shards: int = 0  # that have a record


class Oracle(Protocol):
    """Knows more about what should be published, and is asked at every release."""

    def check_release(self, release: FoldedRelease, touched: set[QIGroupId], remaining: Iterable[LiveRecord]) -> None:
        """Raises LawViolated if the release is not what it should be; remaining: the records after it."""

    def check_end(self) -> None:
        """Raises LawViolated if something should have been published after the last release."""


def verify(table: Named, *live: str | Path) -> Verified:
    """Checks the changelog in the files `live` against every law of its table, as `streamer verify` does.

    table: a Table, a table.yaml, or a directory that has one. live: files as `replay` and `subscribe --live` write
    them; several are one changelog. Raises LawViolated with the first violation in words, ConfigError for a table or a
    file that cannot be read, UsageError if there is no record.
    """
    schema = table_of(table)
    for path in live:
        require_type("live", path, A_PATH)
    laws, paths = ChangelogLaws(schema), [Path(path) for path in live]
    verified = follow(laws, read_files(paths, schema))
    require_records(verified, paths)
    verified.laws = len(laws_of(schema))
    return verified


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
