"""Costs of beginning a table with all its rows at once, beside the whole-table algorithm and beside a pass-through.

The people are Adult's, drawn again and again with one value in five changed, until there are `--rows` of them.

algorithm   Seconds of the default whole-table algorithm alone, over encoded rows, one run.
replay      Seconds and the largest memory of a process `streamer replay --initial` without events, reading the CSV file
            and encoding it included.
load        Seconds of a process `streamer load` into four shards on a real Kafka and Redis, from its start to its end.
passthrough The Faust worker of `end_to_end.py`, which decodes messages and writes one record for each, in the same run.
phases      Costs of each step of a load, one after the other in one shard, in a process of its own: wall and CPU
            seconds, and its most memory up to then. Its algorithm is the one above.

Seconds of a busy machine say little; `cpu` is the processes' own time, of all threads together.

    python benchmarks/first_load.py [--rows 1000000] [--events 60000] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from end_to_end import passthrough_rate, placed
from streamer.grouping import first_groups
from streamer.incremental.engine.tie_break import SECRET_BYTES
from streamer.incremental.release.records import outgoing
from streamer.incremental.shard.bootstrap import RECORDS_MAX
from streamer.incremental.shard.first_commits import FirstTable, FoundShard, commits, prepare
from streamer.incremental.shard.input import InputState
from streamer.incremental.store import redis
from streamer.table.encode import Encoder
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from workers import ROOT, SHARDS, World
from worlds import adult_people

T = TypeVar("T")

SEED = 1
CHANGED = 0.2
"""Share of the values of a person drawn again that are someone else's."""


def main() -> None:
    options = ready.options(__doc__, "5,000 rows and messages")
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--events", type=int, default=60_000, help="messages that are passed through")
    options.add_argument("--phases-of", nargs=2, metavar=("TABLE", "ROWS"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.phases_of:
        print(json.dumps(phases(*map(Path, chosen.phases_of))))
        return
    rows, events = (5_000, 5_000) if chosen.quick else (chosen.rows, chosen.events)
    ready.compiled()
    people = adult_people.read_people(adult.folder())
    with ready.servers() as (servers, directory):
        world = World(servers.kafka_bootstrap, servers.redis_url, directory, people)
        figures = measure(world, rows, events)
    if not chosen.json:
        show(figures)
    print(json.dumps({"benchmark": "first_load", **figures}))


def measure(world: World, rows: int, events: int) -> dict[str, Any]:
    """All figures; everything large is done by processes of their own, so that their memory is not this one's."""
    _, table = world.new_table(SHARDS)
    file = world.directory / "rows.csv"
    adult_people.write_people(file, drawn(list(world.people.values()), rows))
    (world.directory / "no-events.jsonl").write_text("")
    replay = ["replay", "--table", str(table), str(world.directory / "no-events.jsonl"), "--initial", str(file)]
    servers = ["--kafka", world.bootstrap, "--redis", world.redis_url]
    replayed = run("-m", "streamer.cli.main", *replay, "--json")
    loaded = run("-m", "streamer.cli.main", "load", str(file), "--table", str(table), *servers, "--json")
    per_s = passthrough_rate(world, list(islice(placed(adult_people.inserts(world.people.values())), events)))
    by_phase = json.loads(run(__file__, "--phases-of", str(table), str(file)).said.splitlines()[-1])
    alone_s = by_phase["algorithm"]["s"]
    figures = {
        "rows": rows,
        "algorithm_s": alone_s,
        "replay_s": replayed.s,
        "replay_cpu_s": replayed.cpu_s,
        "replay_to_algorithm": replayed.s / alone_s,
        "replay_gb": replayed.gb,
        "load_s": loaded.s,
        "load_cpu_s": loaded.cpu_s,
        "load_gb": loaded.gb,
        "load_rows_per_s": rows / loaded.s,
        "passthrough_per_s": per_s,
        "load_to_passthrough": rows / loaded.s / per_s,
    }
    return {**{what: round(figure, 2) for what, figure in figures.items()}, "phases": by_phase}


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


def phases(table: Path, file: Path) -> dict[str, dict[str, float]]:
    """Costs of each step of a load in one shard; a small run before imports their modules."""
    schema, secret = load_table(table), bytes(SECRET_BYTES)
    few = file.with_name("few.csv")
    with file.open() as lines:
        few.write_text("".join(islice(lines, 201)))
    small = Encoder(schema).frame(read_rows(few))
    prepare(schema, 0, 1, FirstTable(small, first_groups(schema, small, SEED), secret, 0))
    costs: dict[str, dict[str, float]] = {}
    frame = timed(costs, "read", lambda: read_rows(file))
    encoded = timed(costs, "encode", partial(Encoder(schema).frame, frame))
    del frame
    groups = timed(costs, "algorithm", lambda: first_groups(schema, encoded, SEED))
    first = FirstTable(encoded, groups, secret, 0)
    prepared = timed(costs, "prepare", lambda: prepare(schema, 0, 1, first))
    state = InputState({}, 1, 0, 0)
    made = timed(costs, "commits", lambda: list(commits(schema, 0, state, prepared, FoundShard(), RECORDS_MAX)))
    timed(costs, "redis arguments", lambda: [len(redis.arguments("", 0, commit)) for commit in made])
    timed(costs, "kafka records", lambda: [len(outgoing(commit.outbox, 0, 0, True)) for commit in made])
    return costs


def timed(costs: dict[str, dict[str, float]], phase: str, step: Callable[[], T]) -> T:
    """The answer of a step, whose costs are noted down."""
    began, cpu = perf_counter(), process_time()
    answer = step()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    spent = {"s": perf_counter() - began, "cpu_s": process_time() - cpu, "gb": most}
    costs[phase] = {what: round(figure, 3) for what, figure in spent.items()}
    return answer


class Process(NamedTuple):
    """Costs of a process of our own: seconds, seconds of the processor, most memory; and its output."""

    s: float
    cpu_s: float
    gb: float
    said: str


def run(*arguments: str) -> Process:
    """Runs Python with these arguments to its end."""
    began = perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments[:3])}: {text[-2000:]}")
    return Process(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9, text)


def show(figures: dict[str, Any]) -> None:
    table = RichTable("figure", "value", title="a first load")
    for name, value in figures.items():
        if name != "phases":
            table.add_row(name, f"{value:,}")
    Console().print(table)
    by_phase = RichTable("phase", "s", "cpu s", "GB at most", title="one shard, one step after the other")
    for phase, costs in figures["phases"].items():
        by_phase.add_row(phase, *(f"{cost:,.2f}" for cost in costs.values()))
    Console().print(by_phase)


if __name__ == "__main__":
    main()
