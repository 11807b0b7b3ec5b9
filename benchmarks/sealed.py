"""Costs of a sealed changelog: loss over that of `live`, withheld values, ghosts, waiting, records, seconds, memory.

The census of 45,222 people with occupation as the sensitive column, 20,000 of them at first, then as many events: 60 %
come, 25 % go, 7.5 % get another occupation, 7.5 % other quasi-identifiers. `live` keeps them in QI groups; for each
setting of epoch, tau and way of forming cohorts, the same events are published in sealed cohorts. Losses are means over
the people who are published at the end. Epochs of delay: between a newcomer's epoch and its cohort's, a mean.

    python benchmarks/sealed.py [--k 5 10] [--rows 20000] [--events 20000] [--quick] [--json]
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import msgspec
import numpy as np
from msgspec import structs
from rich.console import Console
from rich.table import Table as RichTable

import adult
import drift
import ready
from streamer.grouping import cohort_formation
from streamer.incremental.events.changes import Change, Delete, Insert, Modify, RowChange
from streamer.incremental.sealed.formation import Formation, median_cuts
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.records import Add, EpochEnd, Live, Retire, SealedRecord, encode
from streamer.incremental.store.codec import encode_cohort, encode_place
from streamer.table.published.rows import BoxReader
from streamer.table.row import Row
from streamer.table.schema import EpochLength, SealedRules, Table

Result = dict[str, Any]


class Setting(NamedTuple):
    """How the sealed changelog is published."""

    events: int  # of an epoch
    alpha: str = "0.5"
    tau: str | None = None
    delta: int = 1
    way: str = "ordered"


SETTINGS = (
    Setting(1_000, way="median"),
    Setting(1_000),
    Setting(1_000, tau="0.12", delta=4),
    Setting(1_000, tau="0.05", delta=4),
    Setting(4_000),
    Setting(4_000, tau="0.05", delta=4),
    Setting(1_000, alpha="0.4"),
)


def main() -> None:
    options = ready.options(__doc__, "1,000 rows, 500 events, k = 5, two settings")
    options.add_argument("--k", type=int, nargs="+", default=[5, 10])
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--events", type=int, default=20_000)
    chosen = options.parse_args()
    ready.compiled()
    if chosen.quick:
        chosen.k, chosen.rows, chosen.events = [5], 1_000, 500
    settings = (Setting(100), Setting(100, tau="0.05", delta=4)) if chosen.quick else SETTINGS
    results = [one for k in chosen.k for one in courses(k, chosen.rows, chosen.events, settings)]
    if not chosen.json:
        show(results)
    print(json.dumps({"benchmark": "sealed", "rows": chosen.rows, "events": chosen.events, "results": results}))


def courses(k: int, rows: int, events: int, settings: tuple[Setting, ...]) -> Iterator[Result]:
    """The same events by `live`, then in each setting."""
    table = replace(adult.table_45222(k), sealed=SealedRules(EpochLength(events=1_000)))
    pool = adult.rows_of(adult.many(adult.microdata_45222(k), rows + events))
    engine = drift.started(table, pool[:rows])
    engine.drain()
    changes = list[RowChange]()
    for change in happening(pool, rows, events):
        engine.apply(change)
        changes += engine.drain().row_changes
    live = engine.published.loss or 0.0
    first = drift.encoded(table, pool[:rows])
    began = [RowChange(key, None, row) for key, row in zip(first.source_keys, pool[:rows], strict=True)]
    for setting in settings:
        found = course(table, setting, began, changes)
        of_live = {"loss_of_live": round(live, 4), "over_live": round(found["loss"] / live, 2)}
        yield {"k": k, **setting._asdict(), **of_live, **found}


def happening(pool: list[Row], rows: int, events: int) -> Iterator[Change]:
    """People come, go, and get other values; pool: those who are there at first, then those who come."""
    rng, there, coming = random.Random(1), [drift.shapes.key_of_first(i) for i in range(rows)], iter(pool[rows:])
    now = dict(zip(there, pool[:rows], strict=True))
    for i in range(events):
        dice = rng.random()
        at = rng.randrange(len(there))
        name = there[at]
        if dice < 0.6:
            there.append(f"new-{i}")
            now[there[-1]] = next(coming)
            yield Insert(there[-1], now[there[-1]])
        elif dice < 0.85:
            there[at] = there[-1]
            there.pop()
            yield Delete(name)
        elif dice < 0.925:
            values = now[name].values
            while values == now[name].values:
                values = rng.choice(pool).values
            now[name] = structs.replace(now[name], values=values)
            yield Modify(name, values={0: values[0]})
        else:
            codes = rng.choice(pool).codes
            now[name] = structs.replace(now[name], codes=codes)
            yield Modify(name, codes=dict(enumerate(codes)))


def course(table: Table, setting: Setting, began: list[RowChange], changes: list[RowChange]) -> Result:
    """Results of a setting at the end."""
    rules = SealedRules(
        EpochLength(events=setting.events),
        Decimal(setting.alpha),
        tau=None if setting.tau is None else Decimal(setting.tau),
        delta=setting.delta,
    )
    table = replace(table, sealed=rules)
    form: Formation = cohort_formation(table) if setting.way == "ordered" else median_cuts(table.space, table.k)
    form(table.space.cells(np.array([change.row.codes for change in began[:100] if change.row])), 0)  # imports
    sealed, log = Sealed(table, 0, form, drawn_by(b"benchmark")), list[SealedRecord]()
    since = process_time()
    log += sealed.begin(began, 0)
    first = process_time() - since
    n_first, since = len(log), process_time()
    for records in sealed.take(changes):
        log += records
    seconds = process_time() - since
    return {
        **figures(table, log),
        "waiting": sealed.n_waiting,
        "records_per_event": round((len(log) - n_first) / len(changes), 2),
        "bytes_per_record": round(sum(len(encode(one).value) for one in log) / len(log)),
        "first_s": round(first, 2),
        "us_per_event": round(seconds / len(changes) * 1e6, 1),
        "state_bytes_per_row": round(_stored_bytes(sealed) / max(1, sealed.n_rows)),
    }


def _stored_bytes(sealed: Sealed) -> int:
    """Its state in a store, beside the rows."""
    kept = sealed.drain()
    places = sum(len(key) + len(encode_place(place)) for key, place in kept.places.items() if place is not None)
    return places + sum(len(encode_cohort(cohort)) for cohort in kept.cohorts.values() if cohort is not None)


def figures(table: Table, log: list[SealedRecord]) -> Result:
    """Of the cohorts that are there at the end."""
    adds, left = dict[str, Add](), dict[str, int]()
    withheld = published = 0
    for one in log:
        if isinstance(one, Add):
            adds[one.cohort], left[one.cohort] = one, one.n
            withheld, published = withheld + one.n * (one.sensitive is None), published + one.n
        elif isinstance(one, Live):
            left[one.cohort] = one.live
        elif isinstance(one, Retire):
            del adds[one.cohort], left[one.cohort]
        elif isinstance(one, EpochEnd) and one.epoch == 1:
            first = set(adds)
    reader = BoxReader(table)
    texts = (msgspec.json.decode(one.box, type=dict[str, msgspec.Raw]).values() for one in adds.values())
    boxes = [reader.read(tuple(map(bytes, one))) for one in texts]
    ncp = table.space.ncp(np.array([lo for lo, _ in boxes]), np.array([hi for _, hi in boxes])) / table.space.d
    people, rows = np.array([left[name] for name in adds]), sum(one.n for one in adds.values())
    newer = np.array([name not in first for name in adds])
    return {
        "loss": round(float((ncp * people).sum() / people.sum()), 4),
        "loss_of_newcomers": round(float((ncp * people)[newer].sum() / people[newer].sum()), 4),
        "withheld": round(withheld / published, 3),
        "ghosts": round(1 - int(people.sum()) / rows, 3),
        "cohorts": len(adds),
    }


def show(results: list[Result]) -> None:
    grid = RichTable(title="sealed changelogs of the census")
    for name in results[0]:
        grid.add_column(name.replace("_", " "), justify="right")
    for one in results:
        grid.add_row(*map(str, one.values()))
    Console(width=220).print(grid)


if __name__ == "__main__":
    main()
