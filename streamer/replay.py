"""The engine over files: the same loop as on Kafka, with a file of events in front and a directory behind.

The rules of this file
----------------------
* One shard, number 0; offsets are the numbers of the non-empty lines, from 0.
* An initial table is release 0. Its QI groups are those of a column `qi_group` where there is one (numbered by first
  appearance), else those of `streamer.algorithms.initial`.
* What a broker would hold stands in the directory: `live.jsonl` (one object per record, in order),
  `dead-letters.jsonl`, `table.csv` (the fold at the end), and `index.csv`, which is private (source key -> QI group,
  empty while pending).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import IO

import numpy as np
import numpy.typing as npt
import pandas as pd

from streamer.config import require_live
from streamer.files import atomic_writer, write_index, write_rows
from streamer.privacy.models import model_of
from streamer.release.changelog import LIVE, qi_group_name
from streamer.release.fold import Fold
from streamer.shard.outlet import InputState, Message, Outgoing, Position
from streamer.shard.publisher import Publisher
from streamer.shard.steps import StepReport
from streamer.store.base import PENDING
from streamer.store.memory import MemoryServer, MemoryStore
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table

Ints = npt.NDArray[np.int64]

WHOLE_FILE = InputState(topic_id="file", shards=1, earliest=0, end=sys.maxsize)
QI_GROUP_COLUMN = "qi_group"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay did: counts, and the seconds it took."""

    events: int
    applied: int
    ignored: int
    dead_letters: int
    rows: int
    pending: int
    qi_groups: int
    merges: int
    splits: int
    releases: int
    published: int
    seconds: float

    def as_dict(self) -> dict[str, int | float]:
        return asdict(self)


class FilesOutlet:
    """An outlet that writes lines; a directory has no other writer and no transaction to resolve."""

    def __init__(self, shard: int, live: IO[bytes], letters: IO[bytes], fold: Fold) -> None:
        self._shard = shard
        self._live = live
        self._letters = letters
        self._fold = fold

    def fence(self) -> None:
        pass

    def position(self) -> Position | None:
        return None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        start = b'{"shard":%d,"release":%d,"through":%d,"key":' % (self._shard, position.release, position.next)
        for record in records:
            value = record.value or b"null"
            if record.topic == LIVE:
                self._live.write(b'%b%b,"value":%b}\n' % (start, record.key, value))
                self._fold.apply(self._shard, position.release, position.next, record.key, record.value)
            else:
                self._letters.write(value + b"\n")


class NoOutlet:
    """An outlet that publishes to nobody: a replay that only counts."""

    def fence(self) -> None:
        pass

    def position(self) -> Position | None:
        return None

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        pass


def initial_groups(table: Table, rows: EncodedRows, names: Sequence[str] | None) -> list[Ints]:
    """QI groups of an initial table as arrays of row numbers: the named ones, or those of the default algorithm."""
    if names is not None:
        _, first, number = np.unique(np.array(names, dtype=str), return_index=True, return_inverse=True)
        return [np.flatnonzero(number == g) for g in np.argsort(first, kind="stable")]
    from streamer.algorithms.initial import initial_groups as groups_at_once  # numba: only who needs it waits for it

    return groups_at_once(microdata_of(table, rows), model_of(table))


def encode_initial(table: Table, frame: pd.DataFrame) -> tuple[EncodedRows, list[Ints]]:
    """An initial table as codes, and its QI groups. Raises ConfigError for rows that cannot be encoded."""
    names = frame[QI_GROUP_COLUMN].tolist() if QI_GROUP_COLUMN in frame.columns else None
    encoded = Encoder(table).frame(frame)
    return encoded, initial_groups(table, encoded, names)


class Replay:
    """One shard over a memory store and an outlet of choice."""

    def __init__(self, table: Table, outlet: FilesOutlet | NoOutlet, batch_events: int | None = None) -> None:
        require_live(table)
        self.table = table
        self._batch_events = batch_events or table.limits.batch_events_max
        self.publisher = Publisher(table, 0, MemoryStore(MemoryServer(), table.name, 0), outlet)
        self.publisher.take_over(WHOLE_FILE)
        self._total = StepReport()

    def load_initial(self, frame: pd.DataFrame) -> None:
        """Publishes an initial table as release 0."""
        encoded, groups = encode_initial(self.table, frame)
        report = self.publisher.load_initial(encoded.source_keys, encoded.rows(), encoded.codes, groups)
        self._total.published += report.published

    def run(self, messages: Iterable[Message]) -> Iterator[int]:
        """Steps through the messages batch by batch; yields how many each step took."""
        messages = iter(messages)
        while batch := list(islice(messages, self._batch_events)):
            self._total.add(self.publisher.step(batch))
            yield len(batch)

    def report(self, seconds: float) -> ReplayReport:
        engine, total = self.publisher.engine, self._total
        return ReplayReport(
            events=total.events,
            applied=total.applied,
            ignored=total.ignored,
            dead_letters=total.dead_letters,
            rows=engine.n_rows,
            pending=engine.n_pending,
            qi_groups=engine.n_qi_groups,
            merges=total.merges,
            splits=total.splits,
            releases=self.publisher.meta.release,
            published=total.published,
            seconds=round(seconds, 3),
        )

    def index_table(self) -> Iterator[tuple[str, str]]:
        """Source key and name of the QI group of every row, "" while it is pending."""
        for source_key, number in self.publisher.engine.index_table():
            yield source_key, "" if number == PENDING else qi_group_name(0, number)


def replay_files(
    table: Table,
    messages: Iterable[Message],
    initial: pd.DataFrame | None,
    batch_events: int | None,
    directory: Path | None,
) -> Iterator[int | ReplayReport]:
    """Replays messages into `directory`; yields the size of every step and, last, the report.

    Files appear whole or not at all.
    """
    started = perf_counter()
    with ExitStack() as files:
        if directory is None:
            replay = Replay(table, NoOutlet(), batch_events)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            fold = Fold(table)
            live, letters = (
                files.enter_context(atomic_writer(directory / name)) for name in ("live.jsonl", "dead-letters.jsonl")
            )
            replay = Replay(table, FilesOutlet(0, live, letters, fold), batch_events)
        if initial is not None:
            replay.load_initial(initial)
        yield from replay.run(messages)
        report = replay.report(perf_counter() - started)
        if directory is not None:
            fold.finish()
            with atomic_writer(directory / "table.csv", text=True) as file:
                write_rows(fold.to_frame(), file)
            with atomic_writer(directory / "index.csv", text=True) as file:
                write_index(replay.index_table(), file)
    yield report
