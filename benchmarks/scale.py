"""Costs of an event while the table grows: the engine alone, at ten thousand to a million people.

People like Adult's, k = 5: the first 30,162 are Adult, every other one has each attribute from one of two of them. QI
groups are those of a Median Mondrian at first, none of 2k rows, because the default algorithm takes minutes at a
million rows. Then 40 % inserts, 30 % deletes, 30 % modifies of one attribute. Each part below prints its figures,
absolute and as ratios: in CPU time, which other work on the machine disturbs least, but for `threads` and `takeover`.

engine      µs per event to apply and drain, in batches of 500 and of one, and its growth with the table
commit      µs for one event to be applied, drained, written as records and encoded, at 1,000 and at 40,000 QI groups
threads     events per second of two shards in two threads over those of one
statements  seconds for `modify where` of 100,000 rows into one cell, of sensitive values alone, and `delete where`
takeover    seconds for a shard to come back from a real Redis: reading, and building the table with its index; bytes
            of a row in the worker then, and bytes of a dictionary of as many source keys alone
initial     seconds to load an initial table and drain it, beside those of the algorithm that makes its QI groups
crowded     µs per event if 24 cells hold 50,000 QI groups with equal boxes
models      µs per event if the table asks for more than k, without local repair and with it, and over plain k
            without it in the same run: people of the census with their occupation as the sensitive value, rows or
            individuals with 1.25 rows each
sealed      µs per event to be applied, drained, written and encoded, in batches of 500, with a sealed changelog beside
            `live` (epochs of 1,000 changes), and over `live` alone in the same run; seconds to form cohorts of
            newcomers, and to take people and cohorts over from what was stored
steps       µs per event of decoding, of the records' bytes and of encoding the commit, each by itself; bytes of it

    python benchmarks/scale.py [--only PART ...] [--rows-max N] [--repair PRICE] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter, process_time
from typing import Any, TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from streamer.grouping import cohort_formation
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.events.changes import Change, DeleteWhere, Insert, ModifyWhere, RowChange
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.statements import parse_assignments, parse_condition
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.formation import median_cuts
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.stored_state import StoredSealed
from streamer.incremental.shard.sealing import NOTHING_SEALED, SealedPart
from streamer.incremental.shard.sealing import committed as committed_by
from streamer.incremental.shard.steps import origins_of, similarity_of
from streamer.incremental.store import redis
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.privacy.models import k_anonymity, model_of
from streamer.recoding.algorithms import catalog
from streamer.recoding.algorithms.catalog import initial_groups
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.table.arrays import Ints
from streamer.table.codes import CategoricalAttribute, Diversity, KeptColumn
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import Microdata
from streamer.table.row import Row
from streamer.table.schema import NO_REPAIR, REPAIR, EpochLength, Repair, SealedRules, Table
from streamer.table.yaml.shape import read_repair
from worlds import adult_people

K = 5
SECRET = b"benchmarks"
SIZES = (10_000, 15_000, 300_000, 1_000_000)
QI_GROUPS = (1_000, 40_000)
ROWS_PER_QI_GROUP = 7  # about, of a Median Mondrian with k = 5
STATEMENT_ROWS, TAKEOVER_ROWS, INITIAL_ROWS = 100_000, 1_000_000, 300_000
CROWDED_QI_GROUPS = 50_000
SHARD_NAME, ROWS_PER_COMMIT = "benchmark-scale", 20_000
EVENTS, SECONDS = 20_000, 5.0
QUICK_ROWS, QUICK_EVENTS = 2_000, 1_000

Figures = dict[str, float]
Name = TypeVar("Name")
Result = TypeVar("Result")


@dataclass
class Options:
    """rows_max: what would be larger is made as large as this. skipped: what that changed, as sentences.

    repair: local repair in `engine` and `threads`. events: how many are timed; half as many come before.
    """

    rows_max: int
    repair: Repair = NO_REPAIR
    events: int = EVENTS
    skipped: list[str] = field(default_factory=list)

    @property
    def warm_up(self) -> int:
        """Events that come before those that are timed."""
        return self.events // 2

    def bounded(self, rows: int, what: str) -> int:
        """So many rows, or as many as there may be."""
        if rows > self.rows_max:
            self.skipped.append(f"{what}: {self.rows_max:,} rows instead of {rows:,}")
        return min(rows, self.rows_max)


def main() -> None:
    options = ready.options(__doc__, f"at most {QUICK_ROWS:,} rows, {QUICK_EVENTS:,} events")
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    options.add_argument("--rows-max", type=int, default=1_000_000)
    options.add_argument("--repair", type=read_repair, default=NO_REPAIR, help="5%%, .05, off; of `engine`, `threads`")
    options.add_argument("--take-over", metavar="URL", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    ready.compiled()
    if chosen.take_over:
        print(json.dumps(take_over(chosen.take_over)))
        return
    bounds = Options(chosen.rows_max, chosen.repair)
    if chosen.quick:
        bounds = replace(bounds, rows_max=min(chosen.rows_max, QUICK_ROWS), events=QUICK_EVENTS)
        bounds.skipped.append(f"all: {QUICK_EVENTS:,} events instead of {EVENTS:,}")
    parts: dict[str, Figures] = {}
    for name in chosen.only:
        gc.collect()
        parts[name] = {figure: float(f"{value:.4g}") for figure, value in PARTS[name](bounds).items()}
        if not chosen.json:
            show(name, parts[name])
    print(json.dumps({"benchmark": "scale", "parts": parts, "skipped": bounds.skipped}))


def show(name: str, figures: Figures) -> None:
    table = RichTable("figure", "value", title=name)
    for figure, value in figures.items():
        table.add_row(figure.replace("_", " "), f"{value:,.4g}")
    Console().print(table)


def timed(work: Callable[[], Result], clock: Callable[[], float] = process_time) -> tuple[float, Result]:
    begun = clock()
    done = work()
    return clock() - begun, done


# -- a shard with people ----------------------------------------------------------------------------------------------


@dataclass
class Shard:
    """An engine that holds people in QI groups, drained, and a stream of changes to them."""

    engine: Engine
    pool: list[Row]
    source_keys: list[str]

    def changes(self, n: int) -> list[Change]:
        """The first n."""
        return list(adult.mixed_changes(self.pool, self.source_keys, n, seed=1))


def people(n: int) -> Microdata:
    """n people like Adult's."""
    return adult.many(adult.microdata(K), n)


def keys_of(n: int) -> list[str]:
    return [f"old-{i}" for i in range(n)]


def quick_groups(those: Microdata) -> list[Ints]:
    """The QI groups of a Median Mondrian, as arrays of row numbers; those of 2k rows and more are cut into such below.

    A Mondrian leaves equal rows together, and the more people the more of them are equal: an engine would not have such
    groups, and would be seen to cut them up at a million rows and not at ten thousand. Where more than k is asked for,
    they may have to be as large, and stay.
    """
    qi_group = catalog.run(MONDRIAN, those, model_of(those.table)).qi_group
    order = np.lexsort((*those.codes.T, qi_group))
    whole = np.split(order, np.flatnonzero(np.diff(qi_group[order])) + 1)
    if (
        those.individuals is not None
        or those.table.diversity != Diversity()
        or those.table.kept[0].distribution is not None
    ):
        return whole
    return [piece for rows in whole for piece in np.array_split(rows, pieces_of(len(rows)))]


def pieces_of(rows: int) -> int:
    """The number of QI groups of these rows: of 1.4 k rows each, as in a table that was kept for long."""
    return max(round(rows / (1.4 * K)), -(-rows // (2 * K - 1)))


def shard_of(those: Microdata, groups: Sequence[Ints] | None = None, repair: Repair = NO_REPAIR) -> Shard:
    rows, keys = adult.rows_of(those), keys_of(len(those))
    engine = Engine(replace(those.table, repair=repair), secret=SECRET)
    engine.load_initial(keys, rows, those.codes, quick_groups(those) if groups is None else groups)
    engine.drain()
    gc.collect()
    gc.freeze()  # the people that the benchmark keeps are no worker's: it should not pay for looking at them
    return Shard(engine, rows[:30_162], keys)


def us_per_event(engine: Engine, changes: Iterator[Change], batch: int) -> float:
    """Microseconds to apply and drain, over these changes or as many as SECONDS allow."""
    events, seconds = 0, 0.0
    while seconds < SECONDS and (some := list(islice(changes, batch))):
        begun = process_time()
        for change in some:
            engine.apply(change)
        engine.drain()
        seconds += process_time() - begun
        events += len(some)
    return seconds / max(1, events) * 1e6


# -- the parts --------------------------------------------------------------------------------------------------------


def engine_part(options: Options) -> Figures:
    figures: Figures = {}
    sizes = [size for size in SIZES if size <= options.rows_max] or [options.rows_max // 2, options.rows_max]
    options.skipped += [f"engine: {size:,} rows" for size in SIZES if size > options.rows_max]
    for size in sizes:
        shard = shard_of(people(size), repair=options.repair)
        figures[f"qi_groups_of_{size}_rows"] = shard.engine.n_qi_groups
        changes = iter(shard.changes(options.warm_up + 2 * options.events))
        for change in islice(changes, options.warm_up):
            shard.engine.apply(change)
        shard.engine.drain()
        figures[f"us_{size}_rows_batches_of_500"] = us_per_event(shard.engine, islice(changes, options.events), 500)
        figures[f"us_{size}_rows_batches_of_1"] = us_per_event(shard.engine, islice(changes, options.events), 1)
    for batch in (500, 1):
        first, last = (figures[f"us_{size}_rows_batches_of_{batch}"] for size in (sizes[0], sizes[-1]))
        figures[f"ratio_{sizes[-1]}_to_{sizes[0]}_rows_batches_of_{batch}"] = last / first
    return figures


def commit_part(options: Options) -> Figures:
    figures: Figures = {}
    smallest, largest = (options.bounded(n * ROWS_PER_QI_GROUP, "commit") for n in QI_GROUPS)
    for rows in (min(smallest, largest // 2), largest):
        shard = shard_of(people(rows))
        committed, seconds, events = Committed(shard.engine.table), 0.0, 0
        for i, change in enumerate(shard.changes(options.warm_up + options.events)):
            begun = process_time()
            shard.engine.apply(change)
            committed.add(shard.engine.drain())
            if i >= options.warm_up // 10:
                events, seconds = events + 1, seconds + process_time() - begun
            if seconds > SECONDS:
                break
        figures[f"us_{shard.engine.n_qi_groups}_qi_groups"] = seconds / events * 1e6
    few, many = figures.values()
    return {**figures, "ratio": many / few}


class Committed:
    """Steps of a net effect on its way to Redis: the records' bytes, then the arguments of the one call."""

    def __init__(self, table: Table) -> None:
        self._changelog = Changelog(table, 0)
        self._number = 0
        self.records = 0
        self.arguments = 0
        self.bytes = 0
        self.diff_s = 0.0
        self.encode_s = 0.0

    def add(self, drained: Drained, sealed: SealedPart = NOTHING_SEALED) -> None:
        begun = process_time()
        outbox: list[OutboxEntry] = []
        for number, before, after in drained.published:
            outbox += self._changelog.diff(number, before, after)[0]
        written = process_time()
        meta = Meta(commit=self._number + 1, qi_group_next=drained.qi_group_next)
        origins = origins_of(drained, meta.commit)
        kept = drained.records, drained.qi_groups, similarity_of(drained, meta.commit)
        outbox += sealed.entries
        commit = Commit(meta, *kept, drained.statement_ids, outbox, origins=origins, sealed=sealed.changes)
        arguments = redis.arguments("1-fence", self._number, commit)
        self.arguments += len(arguments)
        self.bytes += sum(len(argument) for argument in arguments if isinstance(argument, bytes))
        self.diff_s, self.encode_s = self.diff_s + written - begun, self.encode_s + process_time() - written
        self._number, self.records = self._number + 1, self.records + len(outbox)


def threads_part(options: Options) -> Figures:
    those = people(options.bounded(100_000, "threads"))
    groups = quick_groups(those)
    shards = [shard_of(those, groups, options.repair) for _ in range(3)]
    changes = shards[0].changes(2 * options.events)

    def run(shard: Shard) -> None:
        for begin in range(0, len(changes), 500):
            for change in changes[begin : begin + 500]:
                shard.engine.apply(change)
            shard.engine.drain()

    one_s, _ = timed(lambda: run(shards[0]), perf_counter)
    two = [Thread(target=run, args=[shard]) for shard in shards[1:]]

    def both() -> None:
        for thread in two:
            thread.start()
        for thread in two:
            thread.join()

    two_s, _ = timed(both, perf_counter)
    return {"one_s": one_s, "two_s": two_s, "ratio": 2 * one_s / two_s, "cores": os.cpu_count() or 1}


def sealed_part(options: Options) -> Figures:
    figures: Figures = {}
    rules = SealedRules(EpochLength(events=1_000))
    for size in (options.bounded(15_000, "sealed"), options.bounded(1_000_000, "sealed")):
        those = people(size)
        alone = sealed_us(those, options)
        both = sealed_us(replace(those, table=replace(those.table, sealed=rules)), options)
        figures |= {f"us_{size}_rows": both, f"over_live_{size}_rows": both / alone}
    table = replace(those.table, sealed=rules)
    form = cohort_formation(table)
    form(table.space.cells(those.codes[:1_000]), 0)  # imports the algorithm
    for newcomers in (1_000, 10_000, 100_000):
        n = options.bounded(newcomers, "sealed")
        cells = table.space.cells(those.codes[:n])
        figures[f"form_{newcomers}_s"] = timed(partial(form, cells, 0))[0]
    return figures | {"restore_s": restored_seconds(replace(those, table=table))}


def sealed_us(those: Microdata, options: Options) -> float:
    """Microseconds per event, with everything that a commit does but the call."""
    shard = shard_of(those, repair=options.repair)
    sealed = None if those.table.sealed is None else begun_sealed(those)
    committed, changes, events, seconds = Committed(those.table), iter(shard.changes(options.events)), 0, 0.0
    while seconds < SECONDS and (some := list(islice(changes, 500))):
        begun = process_time()
        for change in some:
            shard.engine.apply(change)
        drained = shard.engine.drain()
        part = committed_by(sealed, drained.row_changes, holds_back=False, over=None)
        committed.add(drained, part)
        seconds, events = seconds + process_time() - begun, events + len(some)
    return seconds / events * 1e6


def begun_sealed(those: Microdata) -> Sealed:
    """All people in cohorts, by median cuts, which are quick; newcomers get the default ones."""
    sealed = Sealed(those.table, 0, median_cuts(those.table.space, K), drawn_by(SECRET))
    rows = zip(keys_of(len(those)), adult.rows_of(those), strict=True)
    sealed.begin((RowChange(key, None, row) for key, row in rows), 0)
    sealed.drain()
    sealed._form = cohort_formation(those.table)
    return sealed


def restored_seconds(those: Microdata) -> float:
    """Seconds to build the publisher of these people from the answers of a store."""
    sealed = Sealed(those.table, 0, median_cuts(those.table.space, K), drawn_by(SECRET))
    rows = dict(zip(keys_of(len(those)), adult.rows_of(those), strict=True))
    sealed.begin((RowChange(key, None, row) for key, row in rows.items()), 0)
    changes = sealed.drain()
    kept = StoredSealed(list(changes.places.items()), list(changes.cohorts.items()))  # type: ignore[arg-type]
    again = Sealed(those.table, 0, median_cuts(those.table.space, K), drawn_by(SECRET))
    return timed(lambda: again.restore(changes.mark, kept, lambda keys: [rows[key] for key in keys]))[0]


def statements_part(options: Options) -> Figures:
    rows = options.bounded(STATEMENT_ROWS, "statements")
    shard = shard_of(people(rows))
    engine, table = shard.engine, shard.engine.table
    everybody = parse_condition("age >= 17", table)
    gather = parse_assignments(place_of(shard.pool[0], table), table)
    revalue = parse_assignments({adult.SENSITIVE: "'>50K'"}, table)
    figures: Figures = {"rows": rows}
    for name, change in (
        ("modify_sensitive", ModifyWhere(everybody, revalue)),
        ("modify_into_one_cell", ModifyWhere(everybody, gather)),
        ("delete_all", DeleteWhere(everybody)),
    ):
        figures[f"{name}_s"], _ = timed(lambda change=change: (engine.apply(change), engine.drain()))  # type: ignore[misc]
    return figures


def place_of(row: Row, table: Table) -> dict[str, str]:
    """Assignments that make everybody like `row`."""
    said = {}
    for attribute, code in zip(table.attributes, row.codes, strict=True):
        if isinstance(attribute, CategoricalAttribute):
            said[attribute.name] = f"'{attribute.hierarchy.label(code, code)}'"
        else:
            said[attribute.name] = str(attribute.domain[0] + code)
    return said


def takeover_part(options: Options) -> Figures:
    rows = options.bounded(TAKEOVER_ROWS, "takeover")
    with ready.servers(kafka=False) as (servers, _):
        write_shard(servers.redis_url, people(rows))
        gc.collect()
        command = [sys.executable, __file__, "--take-over", servers.redis_url]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    figures: Figures = json.loads(told)
    return figures


def write_shard(url: str, those: Microdata) -> None:
    """An initial table, its similarity lists too, in commits of some QI groups each."""
    rows, keys = adult.rows_of(those), keys_of(len(those))
    engine = Engine(those.table, secret=SECRET)
    engine.load_initial(keys, rows, those.codes, quick_groups(those))
    drained = engine.drain()
    with connect(url) as client:
        client.delete(*client.scan_iter(match=f"{{{SHARD_NAME}:0}}*", count=10_000), "nothing")
        store = RedisStore(client, SHARD_NAME, 0)
        fence = store.take_over()
        records, qi_groups = iter(drained.records.items()), iter(drained.qi_groups.items())
        for number in range(1, 1 + -(-len(those) // ROWS_PER_COMMIT)):
            meta = Meta(commit=number, qi_group_next=drained.qi_group_next)
            commit = Commit(meta, first_of(records), first_of(qi_groups))
            store.commit(fence, number - 1, commit)


def first_of(items: Iterator[tuple[Name, Result]]) -> dict[Name, Result]:
    return dict(islice(items, ROWS_PER_COMMIT))


def take_over(url: str) -> Figures:
    """A worker's take-over of a shard; runs in a process of its own, whose memory is the figure."""
    table = adult.table(K)
    with connect(url) as client:
        store = RedisStore(client, SHARD_NAME, 0)
        keys_bytes = bytes_of_source_keys(client.hlen(f"{{{SHARD_NAME}:0}}:records"))
        before = resident_bytes()
        begun = perf_counter()
        state = store.load()
        assert state is not None
        parts = ("records", "qi_groups", "similarity")
        watched: dict[str, Any] = {part: Watched(getattr(state.kept, part)) for part in parts}
        read_s = perf_counter() - begun
        engine = Engine.load(table, 0, 1, replace(state.kept, **watched), SECRET)
        whole_s = perf_counter() - begun
        read_s += sum(part.seconds for part in watched.values())
        n, n_groups = engine.n_rows, engine.n_qi_groups
        del state, watched
        loaded = resident_bytes()
        client.delete(*client.scan_iter(match=f"{{{SHARD_NAME}:0}}*", count=10_000))
    return {
        "rows": n,
        "qi_groups": n_groups,
        "whole_s": whole_s,
        "reading_s": read_s,
        "building_s": whole_s - read_s,
        "bytes_per_row": (loaded - before) / n,
        "bytes_per_row_of_a_dict_of_source_keys": keys_bytes / n,
    }


def bytes_of_source_keys(n: int) -> int:
    """Bytes of a dictionary of n source keys as text, with their places, by itself."""
    before = resident_bytes()
    place_of = dict(zip(keys_of(n), range(n), strict=True))
    after = resident_bytes()
    del place_of
    return after - before


class Watched:
    """The answers of the store one by one, and their seconds."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = iter(source)
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        while True:
            begun = perf_counter()
            one = next(self._source, None)
            self.seconds += perf_counter() - begun
            if one is None:
                return
            yield one


def resident_bytes() -> int:
    """Memory of this process, after what is free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def initial_part(options: Options) -> Figures:
    those = people(options.bounded(INITIAL_ROWS, "initial"))
    initial_groups(people(500), k_anonymity(K), seed=0)  # imports the algorithm
    algorithm_s, groups = timed(lambda: initial_groups(those, k_anonymity(K), seed=0))
    rows, keys, engine = adult.rows_of(those), keys_of(len(those)), Engine(those.table, secret=SECRET)
    load_s, _ = timed(lambda: engine.load_initial(keys, rows, those.codes, groups))
    drain_s, _ = timed(engine.drain)
    figures = {"rows": len(those), "qi_groups": len(groups), "ordered_s": algorithm_s, "load_initial_s": load_s}
    return {**figures, "first_drain_s": drain_s, "load_and_drain_s": load_s + drain_s}


def crowded_part(options: Options) -> Figures:
    rows = options.bounded(CROWDED_QI_GROUPS * K, "crowded")
    fans = (2, 3, 4)
    trees = [Hierarchy.from_rows([str(leaf), "*"] for leaf in range(fan)) for fan in fans]
    columns = tuple(CategoricalAttribute(f"of {t.n_leaves}", t, Decimal(t.n_leaves) / 5) for t in trees)
    table = Table("crowded", ("id",), columns, (KeptColumn("problem", sensitive=True),), K)
    cells = np.sort(np.random.default_rng(0).integers(0, np.prod(fans), rows // K)).repeat(K)
    codes = np.stack(np.unravel_index(cells, fans), axis=1).astype(np.int64)
    those = Microdata(table, codes, None, np.zeros((len(codes), 1), dtype=np.int64), ((b'"flu"',),))
    shard = shard_of(those, np.split(np.arange(len(codes)), range(K, len(codes), K)))
    changes = iter(shard.changes(options.warm_up + 2 * options.events))
    us_per_event(shard.engine, islice(changes, options.warm_up), options.warm_up)
    return {
        "qi_groups": shard.engine.n_qi_groups,
        "us_batches_of_500": us_per_event(shard.engine, islice(changes, options.events), 500),
        "us_batches_of_1": us_per_event(shard.engine, islice(changes, options.events), 1),
    }


def steps_part(options: Options) -> Figures:
    table, everybody = adult.table(K), adult_people.read_people(adult.folder())
    first = dict(islice(everybody.items(), options.bounded(15_000, "steps")))
    decoder, decode_s = Decoder(table), 0.0
    engine, committed = Engine(table, secret=SECRET), Committed(table)
    inserts = [decoder.decode(*message) for message in adult_people.inserts(first.values())]
    rows = [change.row for change in inserts if isinstance(change, Insert)]
    codes = adult.codes_of(rows)
    those = Microdata(table, codes, None, np.zeros((len(rows), 1), dtype=np.int64), ((b"null",),))
    engine.load_initial(list(first), rows, codes, quick_groups(those))
    engine.drain()
    messages, events = adult_people.Changes(first, seed=1).more(options.events), 0
    while some := list(islice(messages, 500)):
        seconds, changes = timed(lambda some=some: [decoder.decode(*message) for message in some])  # type: ignore[misc]
        decode_s, events = decode_s + seconds, events + len(some)
        for change in changes:
            engine.apply(change)
        committed.add(engine.drain())
    return {
        "decode_us": decode_s / events * 1e6,
        "record_bytes_us": committed.diff_s / events * 1e6,
        "commit_arguments_us": committed.encode_s / events * 1e6,
        "records_per_event": committed.records / events,
        "arguments_per_event": committed.arguments / events,
        "commit_bytes_per_event": committed.bytes / events,
    }


def models_part(options: Options) -> Figures:
    """Turn by turn, so that what else the machine does meets all of them alike."""
    rows, figures = options.bounded(15_000, "models"), Figures()
    for counted, asked in adult.MODELS_ASKED.items():
        shards: dict[str, Shard] = {}
        for name in asked:
            those = adult.asking(K, rows, name)
            groups = quick_groups(those)
            shards[name], shards[f"{name}_with_repair"] = (
                shard_of(those, groups, repair) for repair in (NO_REPAIR, REPAIR)
            )
        turns = {name: iter(shard.changes(options.warm_up + options.events)) for name, shard in shards.items()}
        us: dict[str, list[float]] = {name: [] for name in shards}
        for events in (options.warm_up, *[options.events // 10] * 10):
            for name, shard in shards.items():
                us[name].append(us_per_event(shard.engine, islice(turns[name], events), 500))
        for name, shard in shards.items():
            figures[f"us_{name}"] = median(us[name][1:])
            figures[f"rows_per_qi_group_{name}"] = shard.engine.n_rows / shard.engine.n_qi_groups
        plain = figures[f"us_k_of_{counted}"]
        figures |= {f"ratio_{name}": figures[f"us_{name}"] / plain for name in shards if name != f"k_of_{counted}"}
    return figures


PARTS: dict[str, Callable[[Options], Figures]] = {
    "engine": engine_part,
    "commit": commit_part,
    "threads": threads_part,
    "statements": statements_part,
    "takeover": takeover_part,
    "initial": initial_part,
    "crowded": crowded_part,
    "models": models_part,
    "sealed": sealed_part,
    "steps": steps_part,
}

if __name__ == "__main__":
    main()
