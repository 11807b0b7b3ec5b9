"""What a stream leaves behind, as hashes: what was published, commit by commit, and what the store holds in the end.

    PYTHONPATH=.:tests python tests/worlds/recording.py --record

writes them into tests/laws/recorded_streams.json. Do that only if the same messages shall publish another table: with
a new ENGINE_VERSION or REPAIR_VERSION (`streamer.table.schema`), and never to make a test green. The positions'
digests alone follow the FORMAT_VERSION (`streamer.incremental.store.codec`): they say how a table is summed up, not
what it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import StoredTable
from streamer.incremental.events.changes import Insert
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import DIGEST_MASK, OutboxEntry
from streamer.incremental.shard.steps import similarity_of
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.table.arrays import Ints
from streamer.table.row import Row
from worlds.checkout import ROOT
from worlds.recorded_streams import ADULT_STREAMS, LONG_STREAMS, STREAMS, Message, Stream, adult_stream

RECORDED = ROOT / "tests" / "laws" / "recorded_streams.json"

BATCHES = (1, 7, 500)
RESTARTED = 7
"""Batches of this size are applied by two engines: the second begins with what the store holds half-way."""

SHARD, SHARDS, SECRET = 1, 2, b"a secret of thirty-two bytes ..."

CHECKPOINTS = 8
"""Hashes of the published records along a stream, so that a difference can be found."""

Recording = dict[str, Any]


class Replay:
    """A stream applied in batches of one size."""

    def __init__(self, stream: Stream, batch: int) -> None:
        self._stream, self._batch = stream, batch
        self._decoder = Decoder(stream.table)
        self._changelog = Changelog(stream.table, SHARD)
        self._engine = Engine(stream.table, SHARD, SHARDS, SECRET)
        self._store = MemoryStore(MemoryServer(), stream.table.name, SHARD)
        self._fence = self._store.take_over()
        self._meta = Meta()
        self._rows: dict[bytes, bytes] = {}
        self._records, self._outcomes = blake2b(digest_size=8), blake2b(digest_size=8)
        self._records_so_far: list[str] = []
        self._pending = 0
        self.met: Counter[str] = Counter()
        self._run()

    def _run(self) -> None:
        first, messages = self._stream.first, self._stream.messages
        if first:
            self._load(messages[:first])
        checkpoints = [first + (len(messages) - first) * i // CHECKPOINTS for i in range(1, CHECKPOINTS + 1)]
        restart = (first + len(messages)) // 2
        for i, message in enumerate(messages[first:], start=first + 1):
            self._apply(message)
            if (i - first) % self._batch == 0 or i == len(messages):
                self._commit()
                while checkpoints and i >= checkpoints[0]:
                    checkpoints.pop(0)
                    self._records_so_far.append(self._records.hexdigest())
                if self._batch == RESTARTED and i >= restart:
                    restart = sys.maxsize
                    self._engine = Engine.load(self._stream.table, SHARD, SHARDS, self._kept(), SECRET)

    def _load(self, messages: Iterable[Message]) -> None:
        changes = [self._decoder.decode(*message) for message in messages]
        inserts = [change for change in changes if isinstance(change, Insert)]
        rows = [change.row for change in inserts]
        codes = np.array([row.codes for row in rows], dtype=np.int64)
        groups = list(neighbours(codes, self._stream.table.k))
        self._engine.load_initial([change.source_key for change in inserts], rows, codes, groups)
        self._commit()

    def _apply(self, message: Message) -> None:
        try:
            change = self._decoder.decode(*message)
            outcome = self._engine.apply(change)
        except EventRefused as refusal:
            said = f"refused {refusal.reason}"
        else:
            said = "applied" if outcome.applied else "ignored"
            said += " in part" * bool(outcome.left_unchanged) + " to nobody" * outcome.unknown_key
            self._outcomes.update(b"%d" % outcome.left_unchanged)
        self.met[said] += 1
        self._outcomes.update(said.encode())

    def _commit(self) -> None:
        next_before = self._meta.qi_group_next
        drained = self._engine.drain()
        outbox: list[OutboxEntry] = []
        digest = self._meta.digest
        for number, before, after in drained.published:
            records, change = self._changelog.diff(number, before, after)
            outbox += records
            digest += change
        meta = Meta(
            commit=self._meta.commit + 1,
            release=self._meta.release + bool(outbox),
            qi_group_next=drained.qi_group_next,
            digest=digest & DIGEST_MASK,
        )
        ids = tuple(drained.statement_ids)
        commit = Commit(meta, drained.records, drained.qi_groups, similarity_of(drained, meta.commit), ids, outbox)
        self._store.commit(self._fence, self._meta.commit, commit)
        self._store.trim(self._fence, meta.commit)
        self._meta = meta
        self._publish(outbox)
        self._count(drained.merges, drained.splits, meta.qi_group_next - next_before)

    def _publish(self, outbox: Iterable[OutboxEntry]) -> None:
        self._records.update(b"commit")
        for entry in outbox:
            self._records.update(b"%b\0%b\0" % (entry.key, b"-" if entry.value is None else entry.value))
            if entry.value is None:
                del self._rows[entry.key]
            else:
                self._rows[entry.key] = entry.value

    def _count(self, merges: int, splits: int, fresh: int) -> None:
        was_pending, self._pending = self._pending, self._engine.n_pending
        self.met.update(merges=merges, splits=splits)
        if self._batch == 1:  # of one event each
            self.met["cascades of merges"] += merges > 1
            self.met["cuts after a merge"] += merges > 0 and splits > 0
            self.met["numbers used again"] += merges > 0 and fresh < splits
            self.met["large QI groups cut up"] += splits > 2
            self.met["rows became pending"] += self._pending > was_pending + 1
            self.met["pending rows were published"] += was_pending > 0 and not self._pending and bool(self._rows)

    def _kept(self) -> StoredTable:
        state = self._store.load()
        assert state is not None
        return state.kept

    # -- what is left -------------------------------------------------------------------------------------------------

    def of_any_batch(self) -> Recording:
        """What does not depend on how the stream was cut into batches."""
        kept = self._kept()
        records = {key: (*_row(record.row), record.qi_group) for key, record in kept.records}
        qi_groups = {n: (s.lo, s.hi, sorted(s.members), s.slots) for n, s in kept.qi_groups}
        return {
            "outcomes": self._outcomes.hexdigest(),
            "published": _hash_of(self._rows),
            "records": _hash_of(records),
            "qi_groups": _hash_of(qi_groups),
            "statement_ids": _hash_of({0: list(kept.statement_ids)}),
            "qi_group_next": self._meta.qi_group_next,
            "digest": f"{self._meta.digest:016x}",
            "sizes": [len(self._rows), len(records), len(qi_groups)],
        }

    def of_this_batch(self) -> Recording:
        """What does: the records of each commit, and how many of the nearest QI groups are kept at hand."""
        lists = {number: (similar.neighbours, similar.commit) for number, similar in self._kept().similarity}
        return {"releases": self._meta.release, "changelog": self._records_so_far, "similarity": _hash_of(lists)}


def _row(row: Row) -> tuple[Any, ...]:
    return row.codes, row.values, row.exact, row.individual


def _hash_of(things: Mapping[Any, Any]) -> str:
    """A hash of values by name, in the order of their names."""
    return blake2b(repr(sorted(things.items())).encode(), digest_size=8).hexdigest()


def neighbours(codes: Ints, k: int) -> Iterator[Ints]:
    """QI groups for an initial table: rows in the order of their codes, k to 3k - 1 at a time."""
    order = np.lexsort(codes.T[::-1])
    sizes = [k, 2 * k, k + 1, 2 * k - 1]
    begin = 0
    while begin < len(order):
        size = sizes[begin % len(sizes)]
        end = begin + size if begin + size + k <= len(order) else len(order)
        yield order[begin:end]
        begin = end


def record(stream: Stream) -> Recording:
    """The hashes of a stream. Raises RuntimeError where batches leave a trace."""
    replays = {batch: Replay(stream, batch) for batch in BATCHES}
    left = {batch: replay.of_any_batch() for batch, replay in replays.items()}
    if any(of_batch != left[1] for of_batch in left.values()):
        raise RuntimeError(f"batches leave a trace in {stream.table.name}: {left}")
    return {
        "messages": messages_hash(stream),
        "met": {name: count for name, count in sorted(replays[1].met.items()) if count},
        "left": left[1],
        "batches": {str(batch): replay.of_this_batch() for batch, replay in replays.items()},
    }


def messages_hash(stream: Stream) -> str:
    """Of the messages themselves: whether a stream is still the one that was recorded."""
    return _hash_of(dict(enumerate(stream.messages)))


def recorded() -> dict[str, Recording]:
    """The recordings by name of their stream."""
    found: dict[str, Recording] = json.loads(RECORDED.read_text())
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--record", action="store_true", help="write the file anew; else print what would be written")
    options.add_argument("--adult", type=Path, default=ROOT.parent / "shared" / "data" / "adult")
    chosen = options.parse_args()
    recordings = {name: record(make()) for name, make in {**STREAMS, **LONG_STREAMS}.items()}
    with tempfile.TemporaryDirectory() as directory:
        for name, size in ADULT_STREAMS.items():
            recordings[name] = record(adult_stream(Path(directory), chosen.adult, **size))
    text = json.dumps(recordings, indent=1, sort_keys=True) + "\n"
    if chosen.record:
        RECORDED.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
