"""Time of a shard to come back from Redis, and the costs of its commits.

Writes a shard of `--rows` rows (8 quasi-identifiers, groups of 7, a similarity list for one QI group in seven) to a
real Redis with `appendfsync always`, in commits of 20,000 rows; reads it back as a worker does after a crash; then
makes commits the size of a batch's and one as large as a step may get (100,000 rows, 20,000 published),
and trims its outbox.

    python benchmarks/load.py [--rows 1000000] [--quick] [--json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import ready
from streamer.table.row import Row

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table as RichTable

from streamer.incremental.engine.stored_state import QIGroupState, Record, SimilarityList
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect

ATTRIBUTES = 8
ROWS_PER_QI_GROUP = 7
ROWS_PER_COMMIT = 20_000
BATCH_EVENTS, BATCHES = 200, 50
STEP_ROWS, STEP_ENTRIES = 100_000, 20_000


def main() -> None:
    options = ready.options(__doc__, "20,000 rows")
    options.add_argument("--rows", type=int, default=1_000_000)
    chosen = options.parse_args()
    with ready.servers(kafka=False) as (servers, _):
        figures = measure(servers.redis_url, 20_000 if chosen.quick else chosen.rows)
    if not chosen.json:
        show(figures)
    print(json.dumps(figures))


def measure(url: str, rows: int) -> dict[str, float]:
    """All figures; seconds, bytes and milliseconds as their names say."""
    with connect(url) as client:
        memory_before = client.info("memory")["used_memory"]
        store = RedisStore(client, "benchmark-load", 0)
        fence = store.take_over()
        figures: dict[str, float] = {"rows": rows}
        figures["write_s"], commits = _timed(lambda: write_shard(store, fence, rows))
        figures["redis_bytes_per_row"] = (client.info("memory")["used_memory"] - memory_before) / rows
        figures |= read_shard(store)
        figures |= commit_batches(store, fence, commits, rows)
        figures |= commit_a_large_step(store, fence, commits + BATCHES)
        client.delete(*client.scan_iter(match="{benchmark-load:0}*", count=10_000))
    return {name: round(figure, 3) for name, figure in figures.items()}


def write_shard(store: RedisStore, fence: str, rows: int) -> int:
    """Fills the shard; returns the number of the last commit."""
    number = 0
    for number, first in enumerate(range(0, rows, ROWS_PER_COMMIT), start=1):
        last = min(first + ROWS_PER_COMMIT, rows)
        some = dict(people(first, last))
        qi_groups = {n: group_of(n) for n in range(first // ROWS_PER_QI_GROUP + 1, last // ROWS_PER_QI_GROUP + 1)}
        lists = {n: SimilarityList(((n + 1, 2.5), (n + 2, 1 / 3)), number) for n in qi_groups if n % 7 == 0}
        store.commit(fence, number - 1, Commit(Meta(commit=number, next=last), some, qi_groups, lists))
    return number


def read_shard(store: RedisStore) -> dict[str, float]:
    """The load, in its two parts; the records go into columns, as the engine holds them."""
    state = store.load()
    if state is None:
        raise SystemExit("the shard is empty")
    kept = state.kept
    records_s, (source_keys, codes) = _timed(lambda: columns(kept.records))
    load_s, _ = _timed(lambda: (dict(kept.qi_groups), dict(kept.similarity)))
    return {
        "load_records_s": records_s,
        "load_qi_groups_s": load_s,
        "load_us_per_row": (load_s + records_s) / len(source_keys) * 1e6,
        "rows_loaded": len(codes),
    }


def columns(records: Any) -> tuple[list[str], Any]:
    """Source keys and codes (n, d) of the records."""
    source_keys, codes = [], []
    for source_key, record in records:
        source_keys.append(source_key)
        codes.append(record.row.codes)
    return source_keys, np.array(codes, dtype=np.int64)


def commit_batches(store: RedisStore, fence: str, number: int, rows: int) -> dict[str, float]:
    """Commits of a batch of events each: per event one record, half a QI group, 2.4 published rows."""
    seconds = 0.0
    for batch in range(BATCHES):
        first = batch * BATCH_EVENTS % rows
        commit = Commit(
            Meta(commit=number + batch + 1, next=rows + batch),
            dict(people(first, first + BATCH_EVENTS)),
            {n: group_of(n) for n in range(1, BATCH_EVENTS // 2 + 1)},
            {n: SimilarityList(((n + 1, 2.5),), 1) for n in range(1, BATCH_EVENTS // 7 + 1)},
            outbox=published(BATCH_EVENTS * 12 // 5),
        )
        seconds += _timed(lambda c=commit, n=number + batch: store.commit(fence, n, c))[0]  # type: ignore[misc]
        seconds += _timed(lambda c=commit: store.trim(fence, c.meta.commit))[0]  # type: ignore[misc]
    return {"batch_commit_and_trim_ms": seconds / BATCHES * 1e3, "batch_events_per_s": BATCHES * BATCH_EVENTS / seconds}


def commit_a_large_step(store: RedisStore, fence: str, number: int) -> dict[str, float]:
    """One commit at the bounds of a step."""
    outbox = published(STEP_ENTRIES)
    large = Commit(Meta(commit=number + 1), dict(people(0, STEP_ROWS)), outbox=outbox)
    later = Commit(Meta(commit=number + 2), outbox=outbox[:10])
    commit_s, _ = _timed(lambda: store.commit(fence, number, large))
    store.commit(fence, number + 1, later)
    outbox_s, entries = _timed(lambda: sum(1 for _ in store.outbox()))
    trim_s, _ = _timed(lambda: store.trim(fence, number + 1))
    return {"step_commit_s": commit_s, "outbox_read_s": outbox_s, "outbox_entries": entries, "trim_s": trim_s}


def people(first: int, last: int) -> Iterator[tuple[str, Record]]:
    """Rows first..last - 1 of the shard, seeded by their number."""
    codes = np.random.default_rng(first).integers(0, 100, (last - first, ATTRIBUTES)).tolist()
    for i, row in enumerate(codes, start=first):
        yield str(i), Record(Row(tuple(row), (b'"Adm-clerical"',)), i // ROWS_PER_QI_GROUP + 1)


def group_of(number: int) -> QIGroupState:
    members = tuple(str((number - 1) * ROWS_PER_QI_GROUP + i) for i in range(ROWS_PER_QI_GROUP))
    return QIGroupState((0,) * ATTRIBUTES, (99,) * ATTRIBUTES, members, ((b'"Adm-clerical"',),) * ROWS_PER_QI_GROUP)


def published(size: int) -> list[OutboxEntry]:
    value = b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"sex":"Male","problem":"flu"}'
    return [OutboxEntry("live", b'{"qi_group":"0-17","slot":%d}' % i, value) for i in range(size)]


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = perf_counter()
    done = work()
    return perf_counter() - start, done


def show(figures: dict[str, float]) -> None:
    table = RichTable("figure", "value", title="A shard in Redis (appendfsync always)")
    for name, figure in figures.items():
        table.add_row(name, f"{figure:,.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
