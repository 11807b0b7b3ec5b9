"""Costs of a change: records and bytes on `live`, with 3, 8 and 10 quasi-identifiers, with local repair and without.

The tables are `three numbers` of `shapes.py`, Adult, and `sparse` of `shapes.py` (ten numbers that do not depend on one
another, the worst kind), k = 5; an Adult of more rows than it has is made of them (`adult.many`). Each begins as
`ordered` anonymizes it, and sees as many changes as it has rows; then changes are counted, 35 % insertions, 35 %
deletions, 30 % modifications of one quasi-identifier, one by one and in batches of 500, as `streamer forecast` counts
them (`streamer.incremental.forecast`). For the largest size it also prints the forecast from its two samples.

`--kafka` measures something else: the bytes of Adult's changes on a real Kafka's disk, with streamer's settings (which
compress nothing), and with a broker that compresses (`compression.type` of the topic).

    python benchmarks/change_costs.py [--table NAME ...] [--rows 10000 300000] [--repair off 5%] [--kafka] [--quick]
        [--json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
import shapes
from streamer.grouping import first_groups
from streamer.incremental.forecast import LEAST, MIX, MOST, ChangeTally, Forecast, ShardTrial, TriedShard, try_changes
from streamer.incremental.topics import LIVE, topic_name
from streamer.kafka.outlet import KafkaOutlet
from streamer.table.codes import from_code
from streamer.table.microdata import Microdata
from streamer.table.schema import NO_REPAIR, REPAIR, Repair
from streamer.table.yaml.shape import read_repair
from worlds.forecasts import PublishedToo, bytes_on_disk
from worlds.kafka_and_redis import fresh_name, make_topics

TABLES = ("three numbers", shapes.ADULT, "sparse")
ROWS, QUICK_ROWS = (10_000, 300_000), (200, 400)
SAMPLES = (5_000, 20_000)
"""Those of `streamer forecast`."""

COMPRESSIONS = ("producer", "gzip", "lz4", "zstd")
"""Settings of the topic; `producer` leaves records as streamer sends them."""

Result = dict[str, Any]


def main() -> None:
    options = ready.options(__doc__, "200 and 400 rows")
    options.add_argument("--table", nargs="+", default=list(TABLES), choices=shapes.SYNTHETIC.keys() | {shapes.ADULT})
    options.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    options.add_argument("--repair", type=read_repair, nargs="+", default=[NO_REPAIR, REPAIR], metavar="WAY")
    options.add_argument("--kafka", action="store_true", help="what a real Kafka has on its disk, and nothing else")
    chosen = options.parse_args()
    ready.compiled()
    if chosen.kafka:
        on_kafka(QUICK_ROWS[0] if chosen.quick else ROWS[0], quiet=chosen.json)
        return
    sizes = QUICK_ROWS if chosen.quick else chosen.rows
    results = []
    for name, repair in product(chosen.table, chosen.repair):
        results += measured(name, repair, sizes, (50, 100) if chosen.quick else SAMPLES)
        if not chosen.json:
            print(json.dumps(results[-1]), file=sys.stderr)
    if not chosen.json:
        show(results)
    print(json.dumps({"benchmark": "change_costs", "results": results}))


def measured(name: str, repair: Repair, sizes: Sequence[int], samples: Sequence[int]) -> list[Result]:
    """Costs of a change in a table of each size; with the largest one, the forecast."""
    people = pool(name, max(sizes))
    table, rows = replace(people.table, k=5, repair=repair), frame_of(people)

    def tried(n: int) -> TriedShard:
        return try_changes(table, rows.sample(n, random_state=n), first_groups, None, 1)

    found = [figures(tried(n), name, n, repair) for n in sizes]
    if max(sizes) > max(samples):
        foreseen = Forecast(max(sizes), [tried(n) for n in samples])
        found[-1]["foreseen"] = {
            "alone": round(foreseen.of_each(lambda one: one.alone, lambda tally: tally.records_of_each(LIVE)), 2),
            "together": round(foreseen.of_each(lambda one: one.together, lambda tally: tally.records_of_each(LIVE)), 2),
        }
    return found


def pool(name: str, n: int) -> Microdata:
    """n people of a table."""
    if name == shapes.ADULT:
        return adult.many(adult.microdata(5), n)
    people, first = shapes.pool(name, n)
    return people.rows(pd.RangeIndex(first).to_numpy())


def frame_of(people: Microdata) -> pd.DataFrame:
    """The people as a file would hold them."""
    table = people.table
    columns: dict[str, Any] = {"id": [str(number) for number in range(len(people))]}
    for j, attribute in enumerate(table.attributes):
        codes, numbers = pd.factorize(people.codes[:, j])
        texts = [str(from_code(attribute, int(code), None)) for code in numbers]
        columns[attribute.name] = pd.Series(texts, dtype=object).to_numpy()[codes]
    for i, kept in enumerate(table.kept):
        texts = [msgspec.json.decode(text) for text in people.texts[i]]
        columns[kept.name] = pd.Series(texts, dtype=object).to_numpy()[people.values[:, i]]
    return pd.DataFrame(columns)


def figures(tried: TriedShard, name: str, rows: int, repair: Repair) -> Result:
    ways = {**{kind: tried.costs[kind] for kind in MIX}, "alone": tried.alone, "together": tried.together}
    return {
        "table": name,
        "rows": rows,
        "repair": str(repair),
        "ncp": None if tried.ncp is None else round(tried.ncp, 4),
        "redis_bytes_of_a_row": [round(tried.redis_bytes(added) / max(1, tried.rows)) for added in (LEAST, MOST)],
        "worker_bytes_of_a_row": round(tried.worker_bytes / max(1, tried.rows)),
        "takeover_us_of_a_row": round(1e6 * tried.takeover_seconds / max(1, tried.rows), 1),
        **{way: cost(tally) for way, tally in ways.items()},
    }


def cost(tally: ChangeTally) -> dict[str, float]:
    return {
        "records": round(tally.records_of_each(LIVE), 2),
        "bytes": round((tally.bytes_of_each(LIVE, LEAST) + tally.bytes_of_each(LIVE, MOST)) / 2),
        "microseconds": round(tally.microseconds),
    }


def on_kafka(rows: int, quiet: bool) -> None:
    """Bytes per change on `live`, by the topic's compression, one by one and in batches of CHANGES_PER_BATCH."""
    people = pool(shapes.ADULT, rows)
    frame, found = frame_of(people), []
    with ready.servers() as (servers, folder):
        for compression in COMPRESSIONS:
            table = replace(people.table, name=fresh_name(), repair=REPAIR)
            config = {LIVE: {"compression.type": compression}}
            make_topics(servers.kafka_bootstrap, table.name, 1, config=config)
            outlet = PublishedToo(table, KafkaOutlet(servers.kafka_bootstrap, table.name, 0))
            trial, topic = ShardTrial(table, frame, first_groups, None, 1, outlet), topic_name(table.name, LIVE)
            sizes = [bytes_on_disk(folder, topic)]
            counted = [trial.together(rows // 2, ChangeTally())]
            sizes.append(bytes_on_disk(folder, topic))
            counted.append(ChangeTally())
            for one in trial.one_by_one(rows // 20).values():
                counted[1].add(one)
            sizes.append(bytes_on_disk(folder, topic))
            found.append(
                {
                    "compression": compression,
                    "together": round((sizes[1] - sizes[0]) / counted[0].changes),
                    "alone": round((sizes[2] - sizes[1]) / counted[1].changes),
                    **{
                        f"counted_{way}": [round(tally.bytes_of_each(LIVE, added)) for added in (LEAST, MOST)]
                        for way, tally in zip(("together", "alone"), counted, strict=True)
                    },
                }
            )
    grid = RichTable(*found[0], title=f"MB on the disk of a Kafka per million changes of Adult ({rows:,} rows)")
    for one in found:
        grid.add_row(*map(str, one.values()))
    Console(width=120, quiet=quiet).print(grid)
    print(json.dumps({"benchmark": "change_costs", "kafka": found}))


def show(results: Sequence[Result]) -> None:
    title = "A change, by itself and (one of 500): records, MB on `live` per million changes, µs of a processor"
    grid = RichTable("table", "rows", "repair", "NCP", "records", "MB", "µs", "foreseen records", title=title)
    for one in results:
        alone, together = one["alone"], one["together"]
        both = (f"{alone[name]:,} ({together[name]:,})" for name in ("records", "bytes", "microseconds"))
        foreseen = one.get("foreseen")
        said = f"{foreseen['alone']} ({foreseen['together']})" if foreseen else ""
        grid.add_row(one["table"], f"{one['rows']:,}", one["repair"], str(one["ncp"]), *both, said)
    Console(width=160).print(grid)


if __name__ == "__main__":
    main()
