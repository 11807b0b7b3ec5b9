"""What it takes to begin a table with all its rows at once, beside the whole-table algorithm and beside a pass-through.

The people are Adult's, drawn again and again with one value in five changed, until there are `--rows` of them.

algorithm   Seconds of the default whole-table algorithm alone, over encoded rows, one run.
replay      Seconds and the largest memory of a process `streamer replay --initial` without events, reading the CSV file
            and encoding it included.
load        Seconds of a process `streamer load` into four shards on a real Kafka and Redis, from its start to its end.
passthrough The Faust worker of `end_to_end.py`, which decodes messages and writes one record for each, in the same run.

    python benchmarks/first_load.py [--rows 1000000] [--events 60000] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from end_to_end import passthrough_rate, placed
from servers.broker import ways
from streamer.cli.first_groups import first_groups
from streamer.table.encode import Encoder
from streamer.table.files import read_rows
from streamer.table.yaml_loading import load_table
from workers import ROOT, SHARDS, World
from worlds import adult_people

SEED = 1
CHANGED = 0.2
"""Share of the values of a person drawn again that are somebody else's."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--events", type=int, default=60_000, help="messages that are passed through")
    options.add_argument("--quick", action="store_true", help="5,000 rows and messages")
    options.add_argument("--json", action="store_true", help="print the JSON object alone")
    chosen = options.parse_args()
    rows, events = (5_000, 5_000) if chosen.quick else (chosen.rows, chosen.events)
    ready.compiled()
    people = adult_people.read_people(adult.folder())
    with tempfile.TemporaryDirectory() as directory:
        servers = ways.find(Path(directory) / "servers")
        servers.start()
        try:
            world = World(servers.kafka_bootstrap, servers.redis_url, Path(directory), people)
            figures = measure(world, rows, events)
        finally:
            servers.stop()
    if not chosen.json:
        show(figures)
    print(json.dumps({"benchmark": "first_load", **figures}))


def measure(world: World, rows: int, events: int) -> dict[str, float]:
    """All figures; the processes come first, so that their memory is not this one's."""
    _, table = world.new_table(SHARDS)
    file = world.directory / "rows.csv"
    adult_people.write_people(file, drawn(list(world.people.values()), rows))
    (world.directory / "no-events.jsonl").write_text("")
    replay = ["replay", "--table", str(table), str(world.directory / "no-events.jsonl"), "--initial", str(file)]
    replay_s, replay_bytes = run_command([*replay, "--json"])
    load_s, load_bytes = run_command(
        ["load", str(file), "--table", str(table), "--kafka", world.bootstrap, "--redis", world.redis_url, "--json"]
    )
    per_s = passthrough_rate(world, list(islice(placed(adult_people.inserts(world.people.values())), events)))
    alone_s = algorithm(table, file)
    figures = {
        "rows": rows,
        "algorithm_s": alone_s,
        "replay_s": replay_s,
        "replay_to_algorithm": replay_s / alone_s,
        "replay_gb": replay_bytes / 1e9,
        "load_s": load_s,
        "load_gb": load_bytes / 1e9,
        "load_rows_per_s": rows / load_s,
        "passthrough_per_s": per_s,
        "load_to_passthrough": rows / load_s / per_s,
    }
    return {what: round(figure, 2) for what, figure in figures.items()}


def drawn(people: list[adult_people.Person], rows: int) -> Iterator[adult_people.Person]:
    """Adult's people first, then as many more as are wanted."""
    rng = random.Random(SEED)
    for i in range(rows):
        if i < len(people):
            yield people[i]
            continue
        person = {**people[rng.randrange(len(people))], "id": str(i)}
        for column in person:
            if column != "id" and rng.random() < CHANGED:
                person[column] = people[rng.randrange(len(people))][column]
        yield person


def algorithm(table: Path, file: Path) -> float:
    """Seconds of the algorithm; what it needs compiled is compiled by a small run before."""
    schema = load_table(table)
    encoded = Encoder(schema).frame(read_rows(file))
    first_groups(schema, Encoder(schema).frame(read_rows(file).head(200)), SEED)
    began = perf_counter()
    first_groups(schema, encoded, SEED)
    return perf_counter() - began


def run_command(arguments: list[str]) -> tuple[float, int]:
    """Seconds of a process of our own, and the most memory it held, in bytes."""
    began = perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "agents.cli", *arguments], cwd=ROOT, env=environment, stdout=said, stderr=said
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode:
            raise SystemExit(f"streamer {arguments[0]}: {said.read()[-2000:]}")
    return perf_counter() - began, usage.ru_maxrss * 1024


def show(figures: dict[str, float]) -> None:
    table = RichTable("figure", "value", title="a first load")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
