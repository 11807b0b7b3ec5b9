"""Replay: the same machine as on Kafka, over a file of events and into a directory.

There is one shard, number 0. Offsets are the numbers of the non-empty lines, from 0. An initial table is release 0;
its QI groups come from a column `qi_group` (numbered by first appearance), or the caller makes them. The directory
holds what a broker would hold:

* `live.jsonl` and `sealed.jsonl` (one object per record, in order), whichever the table publishes, and
  `dead-letters.jsonl`;
* beside `live.jsonl`, `table.csv`: the fold at the end; of a lossy join `table-qit.csv` and `table-stt.csv`; beside
  `sealed.jsonl`, `sealed.csv`;
* two private files: `index.csv` (source key -> QI group, empty while pending) and `secret.txt`, the secret of the
  shard's tie-breaks, from which the ids of cohorts are drawn, too.

An epoch of the sealed changelog ends by the number of row changes or by the messages' times, never by a clock. What the
file does not complete is not published. An initial table is epoch 1.

All files appear together or not at all. A directory that has a secret keeps it: the same events give the same files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from secrets import token_bytes
from time import perf_counter
from typing import IO, Any

import msgspec
import numpy as np
import pandas as pd

from streamer.errors import ConfigError
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.events.changes import RowChange
from streamer.incremental.release.fold import Fold
from streamer.incremental.release.frames import frame_names
from streamer.incremental.release.records import Outgoing
from streamer.incremental.sealed.alpha import check_alpha, frequencies
from streamer.incremental.sealed.fold import SealedFold
from streamer.incremental.sealed.formation import Formation, median_cuts
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.records import Add, SealedRecord, encode, log_line
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.outlet import DeafOutlet, Position
from streamer.incremental.shard.ready import Assigned, FirstRows, Messages
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Commit
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.incremental.topics import OUTPUTS
from streamer.table.arrays import Ints
from streamer.table.csv_files import write_index, write_rows
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import atomic_writers, for_owner_alone, table_files
from streamer.table.published.rows import QI_GROUP, qi_group_name
from streamer.table.schema import Table

# -- the secret as a file: one line of hexadecimal digits, as private as the index beside it (`engine.tie_break`)

NAME = "secret.txt"

BYTES_MIN = 16


def secret_text(secret: bytes) -> bytes:
    return secret.hex().encode() + b"\n"


def read_secret(path: Path) -> bytes | None:
    """The secret in a file, None if there is no such file.

    Raises ConfigError, without the text, if it cannot be read or holds something else.
    """
    try:
        secret = bytes.fromhex(path.read_text("ascii"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        secret = b""
    if not BYTES_MIN <= len(secret) <= 2 * SECRET_BYTES:
        raise ConfigError(
            f"{path}: is not a secret as `replay` writes it (a line of {2 * SECRET_BYTES} hexadecimal digits); restore "
            "it, or let `replay` draw a new one in an empty directory"
        )
    return secret


def secret_of_seed(number: int) -> bytes:
    """The secret that a number stands for: no secret, but the same wherever a replay is repeated."""
    return blake2b(b"%d" % number, digest_size=SECRET_BYTES, person=b"replay").digest()


TABLE_FILE = "table.csv"

LIVE_FILE, SEALED_FILE, LETTERS_FILE, INDEX_FILE = "live.jsonl", "sealed.jsonl", "dead-letters.jsonl", "index.csv"
SEALED_TABLE_FILE = "sealed.csv"

FILES = (NAME, LIVE_FILE, LETTERS_FILE, TABLE_FILE, INDEX_FILE)
"""Of a table with `live` alone, in the order in which they appear: there is never a changelog without its secret."""

WHOLE_FILE = InputState(topic_ids={}, shards=1, earliest=0, end=sys.maxsize)

NextPart = Callable[[str], object]
"""Called with the name of the part of a replay that begins."""

FirstGroups = Callable[[Table, EncodedRows, int], list[Ints]]
"""Makes the QI groups of a whole table, by a seed: arrays of row numbers. Rows in no group are pending."""


NOT_SAID = ("respelt_keys", "old_reads", "explaining")
"""Counts that a replay does not report."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Counts of a replay, and the seconds it took."""

    events: int
    applied: int
    ignored: int
    dead_letters: int
    unknown_keys: int
    unlisted: Mapping[str, int]
    rows: int
    pending: int
    qi_groups: int
    merges: int
    splits: int
    releases: int
    published: int
    seconds: float
    sealed_epochs: int | None = None  # None, and so are the next ones: there is no sealed changelog
    sealed_cohorts: int | None = None  # at the end
    sealed_withheld: int | None = None  # cohorts that were published without their values
    sealed_waiting: int | None = None  # rows in no cohort, at the end
    warnings: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        facts = {name: value for name, value in asdict(self).items() if value is not None}
        return facts if self.warnings else {name: value for name, value in facts.items() if name != "warnings"}


class FilesOutlet(DeafOutlet):
    """An outlet that writes lines."""

    def __init__(self, files: Mapping[str, IO[bytes]], fold: Fold, sealed_fold: SealedFold) -> None:
        self._live, self._letters, self._sealed = files.get(LIVE_FILE), files[LETTERS_FILE], files.get(SEALED_FILE)
        self._fold, self._sealed_fold = fold, sealed_fold

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        start = b'{"shard":0,"release":%d,"through":%d,"key":' % (position.release, position.next)
        for record in records:
            value = record.value or b"null"
            if record.topic in OUTPUTS:
                if self._live is None:
                    continue
                self._live.write(b'%b%b,"value":%b}\n' % (start, record.key, value))
                self._fold.apply(0, position.release, position.next, record.key, record.value)
            else:
                self._letters.write(value + b"\n")
        self._fold.finish(0)

    def publish_sealed(self, records: Sequence[SealedRecord], seconds: int) -> None:
        """Writes the records of an epoch."""
        if self._sealed is not None:
            for record in records:
                self._sealed.write(log_line(0, encode(record), 1_000 * seconds))
                self._sealed_fold.apply(0, record)


class NoOutlet(DeafOutlet):
    """An outlet that publishes nothing: for a replay that only counts."""

    def publish_sealed(self, records: Sequence[SealedRecord], seconds: int) -> None:
        pass


class TellingStore(MemoryStore):
    """A store that hands on the row changes of commits."""

    def __init__(self, table: Table) -> None:
        super().__init__(MemoryServer(), table.name, 0)
        self.row_changes: list[RowChange] = []

    def commit(self, fence: str, before: int, commit: Commit) -> None:
        super().commit(fence, before, commit)
        self.row_changes += commit.row_changes


class SealedCourse:
    """The sealed changelog of a replay: its publisher, and what it has published."""

    def __init__(self, table: Table, form: Formation, secret: bytes, outlet: FilesOutlet | NoOutlet) -> None:
        self._table, self._outlet = table, outlet
        self._sealed = Sealed(table, 0, form, drawn_by(secret))
        self._withheld = 0
        self.warnings: Sequence[str] = ()

    def begin(self, rows: EncodedRows, seconds: int) -> None:
        """Publishes an initial table. Raises ConfigError if alpha cannot hold on it."""
        self.warnings = check_alpha(self._table, frequencies(self._table, rows.values))
        keyed = zip(rows.source_keys, rows.rows(), strict=True)
        self._publish(self._sealed.begin((RowChange(key, None, row) for key, row in keyed), seconds))

    def take(self, changes: Iterable[RowChange]) -> None:
        for change in changes:
            for records in chain(self._sealed.over_before(change.at // 1_000), self._sealed.take([change])):
                self._publish(records)

    def _publish(self, records: Sequence[SealedRecord]) -> None:
        self._withheld += sum(isinstance(one, Add) and one.sensitive is None for one in records)
        self._outlet.publish_sealed(records, self._sealed.seconds)
        self._sealed.drain()  # nothing is stored

    def counts(self) -> dict[str, Any]:
        """The report's figures of the sealed changelog."""
        sealed = self._sealed
        told = sealed.epoch, sealed.n_cohorts, self._withheld, sealed.n_waiting
        return dict(zip(("sealed_epochs", "sealed_cohorts", "sealed_withheld", "sealed_waiting"), told, strict=True))


def encode_initial(
    table: Table, frame: pd.DataFrame, first_groups: FirstGroups, secret: bytes
) -> tuple[EncodedRows, list[Ints]]:
    """An initial table as codes, and its QI groups: those of a column `qi_group`, else made by `first_groups`.

    Given groups are numbered by their first rows, made groups by chance, seeded with the shard's secret. Raises
    ConfigError for rows that cannot be encoded.
    """
    encoded = Encoder(table).frame(frame)
    given = frame[QI_GROUP].tolist() if QI_GROUP in frame.columns else None
    del frame  # a large table is in memory in one form at a time
    if given is None:
        return encoded, first_groups(table, encoded, seed(secret))
    names = np.array(given, dtype=str)
    _, first, number = np.unique(names, return_index=True, return_inverse=True)
    return encoded, [np.flatnonzero(number == g) for g in np.argsort(first, kind="stable")]


class Replay:
    """One shard over a memory store and an outlet. secret: of its tie-breaks; None: drawn here."""

    def __init__(
        self,
        table: Table,
        outlet: FilesOutlet | NoOutlet,
        batch_events: int | None = None,
        secret: bytes | None = None,
        form: Formation | None = None,
    ) -> None:
        self.table = table
        self._outlet = outlet
        self._batch_events = batch_events or table.limits.batch_events_max
        self.machine = Machine(table, 0, secret or token_bytes(SECRET_BYTES))
        self._store = TellingStore(table)
        self._servers = Servers(self._store, outlet, WHOLE_FILE)
        drive(self.machine, Assigned(), self._servers)
        self._total = StepReport()
        self._first_releases = 0
        self._sealed: SealedCourse | None = None
        if table.sealed is not None:
            form = form or median_cuts(table.space, table.k)
            self._sealed = SealedCourse(table, form, self.machine.meta.secret, outlet)

    def load_initial(
        self,
        initial: Callable[[], pd.DataFrame],
        first_groups: FirstGroups,
        next_part: NextPart = lambda _: None,
        seconds: int = 0,
    ) -> None:
        """Publishes an initial table as release 0, and as epoch 1 at a time in seconds since 1970."""
        first = FirstRows(*encode_initial(self.table, initial(), first_groups, self.machine.meta.secret))
        if self._sealed is not None:
            next_part("seal")
            self._sealed.begin(first.rows, seconds)
        next_part("load")
        self._drive(first)
        self._first_releases = int(self._total.published > 0)  # release 0; without it, the first one has number 1

    def _drive(self, event: FirstRows | Messages) -> None:
        report = drive(self.machine, event, self._servers).report
        self._total += report or StepReport()
        changes, self._store.row_changes = self._store.row_changes, []
        if self._sealed is not None:
            self._sealed.take(changes)

    def run(self, messages: Iterable[Message]) -> Iterator[int]:
        """Applies the messages batch by batch; yields the size of each batch."""
        messages = iter(messages)
        while batch := list(islice(messages, self._batch_events)):
            self._drive(Messages(batch))
            yield len(batch)

    def report(self, seconds: float) -> ReplayReport:
        engine, total = self.machine.engine, self._total
        return ReplayReport(
            events=total.counts.messages,
            **{name: n for name, n in msgspec.structs.asdict(total.counts).items() if name not in NOT_SAID},
            rows=engine.n_rows,
            pending=engine.n_rows - engine.published.rows,
            qi_groups=engine.n_qi_groups,
            merges=total.merges,
            splits=total.splits,
            releases=self._first_releases + self.machine.meta.release,
            published=total.published,
            seconds=round(seconds, 3),
            **(self._sealed.counts() if self._sealed else {}),
            warnings=[*(self._sealed.warnings if self._sealed else ()), *self._of_keys()],
        )

    def _of_keys(self) -> Iterator[str]:
        if n := self._total.counts.respelt_keys:
            yield f"{n:,} captured changes and deletions {remedies.RESPELT_KEYS}"
        if n := self._total.counts.old_reads:
            yield f"{n:,} rows that a snapshot read were changed or deleted before they came: they are ignored"

    def index_table(self) -> Iterator[tuple[str, str]]:
        """Source key and name of the QI group of every row, "" while it is pending."""
        for source_key, number in self.machine.engine.index_table():
            yield source_key, "" if number == PENDING else qi_group_name(0, number)


def replay_files(
    table: Table,
    messages: Iterable[Message],
    initial: Callable[[], pd.DataFrame] | None,
    first_groups: FirstGroups,
    batch_events: int | None,
    directory: Path | None,
    next_part: NextPart = lambda _: None,
    *,
    form: Formation | None = None,
    secret: bytes | None = None,
) -> Iterator[int | ReplayReport]:
    """Replays messages into `directory`, or only counts; yields the size of every batch and, last, the report.

    initial: reads the initial table, and keeps no reference to it. next_part: called when the table is loaded, and when
    the files are written. form: how cohorts are formed; None: by median cuts. secret: instead of the directory's.
    Raises ConfigError if the directory or a file in it cannot be made, or its secret is not one.
    """
    if directory is None:
        replay = Replay(table, NoOutlet(), batch_events, secret, form)
        yield (yield from _steps(replay, messages, initial, first_groups, next_part))
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be created: {error.strerror}") from None
    fold, sealed, paths = Fold(table), SealedFold(table), list(replayed_files(table, directory))
    with atomic_writers(paths) as opened:
        files = {path.name: file for path, file in zip(paths, opened, strict=True)}
        for_owner_alone(files[NAME])
        known = secret or read_secret(directory / NAME)
        replay = Replay(table, FilesOutlet(files, fold, sealed), batch_events, known, form)
        files[NAME].write(secret_text(replay.machine.meta.secret))
        report = yield from _steps(replay, messages, initial, first_groups, next_part)
        next_part("write")
        frames = [*(fold.to_frames().values() if table.live else ()), *([sealed.frame()] if table.sealed else ())]
        for path, frame in zip(_table_files(table, directory), frames, strict=True):
            with _as_text(files[path.name]) as text:
                write_rows(frame, text)
        with _as_text(files[INDEX_FILE]) as text:
            write_index(replay.index_table(), text)
    yield report


def replayed_files(table: Table, directory: Path) -> Iterator[Path]:
    """The files that a replay writes into a folder."""
    for name in FILES:
        if name == TABLE_FILE:
            yield from _table_files(table, directory)
        elif table.live or name != LIVE_FILE:
            yield directory / name
        if name == LIVE_FILE and table.sealed is not None:
            yield directory / SEALED_FILE


def _table_files(table: Table, directory: Path) -> list[Path]:
    of_live = table_files(directory / TABLE_FILE, frame_names(table)) if table.live else []
    return [*of_live, *([directory / SEALED_TABLE_FILE] if table.sealed else ())]


def _steps(
    replay: Replay,
    messages: Iterable[Message],
    initial: Callable[[], pd.DataFrame] | None,
    first_groups: FirstGroups,
    next_part: NextPart,
) -> Generator[int, None, ReplayReport]:
    """The whole replay; yields the size of every batch."""
    started, messages = perf_counter(), iter(messages)
    if initial is not None:
        first = list(islice(messages, 1)) if replay.table.sealed else []  # its time is that of the initial table
        replay.load_initial(initial, first_groups, next_part, first[0].timestamp // 1_000 if first else 0)
        messages = chain(first, messages)
    yield from replay.run(messages)
    return replay.report(perf_counter() - started)


@contextmanager
def _as_text(file: IO[bytes]) -> Iterator[IO[str]]:
    """UTF-8 text into a file of bytes that stays open."""
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    yield text
    text.detach()
