"""Costs of the status page for a worker: changes with no one watching, and with pages and Prometheus.

The people are those of `first_load.py`, in four shards, loaded as messages; the table grows from size to size. Then the
worker gets changes as fast as they come (40 % inserts, 30 % deletes, 30 % modifies), again and again, in turns:

off      without `--web`
alone    with `--web`, and no one asks
watched  three status pages are open, each asking every five seconds, and Prometheus asks every second, fifteen times as
         often as it does by default

Events per second between the first and the last committed transaction, CPU microseconds of the worker per event over
the same time, both as ratios to `off`; and the most milliseconds that /metrics took to answer.

    python benchmarks/page.py [--rows 10000 300000 1000000] [--events 60000] [--rounds 2] [--quick] [--json]
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean
from threading import Event, Thread
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import httpx
from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from end_to_end import loaded, placed, rate, streamer_worker
from first_load import drawn
from servers.broker.servers import free_ports
from workers import SHARDS, Input, Placed, Positions, Worker, World
from worlds import adult_people

PAGES = 3
PAGE_SECONDS, SCRAPE_SECONDS = 5.0, 1.0
WARM_UP_SHARE = 20
"""One in so many changes comes first and is not counted."""

WAYS = ("off", "alone", "watched")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = ready.options(__doc__, "2,000 rows and changes, one round")
    options.add_argument("--rows", type=int, nargs="+", default=[10_000, 300_000, 1_000_000])
    options.add_argument("--events", type=int, default=60_000, help="changes in each turn")
    options.add_argument("--rounds", type=int, default=2, help="turns of each way")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.rows, chosen.events, chosen.rounds = [2_000], 2_000, 1
    ready.compiled()
    people = list(adult_people.read_people(adult.folder()).values())
    with ready.servers() as (servers, directory):
        world = World(servers.kafka_bootstrap, servers.redis_url, directory, {})
        sizes = []
        for rows in chosen.rows:
            world.people = {person["id"]: person for person in drawn(people, rows)}
            sizes.append(measure(world, chosen.events, chosen.rounds))
    if not chosen.json:
        show(sizes)
    print(json.dumps({"benchmark": "page", "events": chosen.events, "sizes": sizes}))


def measure(world: World, events: int, rounds: int) -> dict[str, Any]:
    """One size: each way's figures, in turns over one table."""
    name, table = world.new_table(SHARDS)
    changes, positions = loaded(world, name, table)
    stream = adult_people.Changes(world.people, seed=1)
    seen: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            backlog = placed(stream.more(events))
            seen[way].append(one_turn(world, way, table, changes, positions, backlog))
    figures: dict[str, Any] = {"rows": len(world.people)}
    off_rate, off_cpu = (mean(turn[i] for turn in seen["off"]) for i in (0, 1))
    for way in WAYS:
        per_s, cpu = (mean(turn[i] for turn in seen[way]) for i in (0, 1))
        figures[way] = {"events_per_s": round(per_s), "cpu_us_per_event": round(cpu, 1)}
        figures[way] |= {"rate_over_off": round(per_s / off_rate, 3), "cpu_over_off": round(cpu / off_cpu, 3)}
    figures["watched"]["metrics_ms_max"] = round(max(turn[2] for turn in seen["watched"]), 1)
    return figures


def one_turn(
    world: World, way: str, table: Path, changes: Input, positions: Positions, backlog: Sequence[Placed]
) -> tuple[float, float, float]:
    """Events per second, CPU microseconds per event, and the most milliseconds of an answer of /metrics."""
    port, first = free_ports(1)[0], len(backlog) // WARM_UP_SHARE
    web = [] if way == "off" else ["--web", f"127.0.0.1:{port}"]
    changes.write(backlog[:first])
    with world.running(table.parent.name, [*streamer_worker(table), *web]) as worker, ExitStack() as stack:
        slowest = stack.enter_context(watching(port)) if way == "watched" else [0.0]
        positions.until(changes.ends, worker)  # taken over, and warm
        began_at, cpu_before = list(changes.ends), cpu_seconds(worker)
        changes.write(backlog[first:])
        per_s = rate(positions.until(changes.ends, worker), began_at, len(backlog) - first)
        return per_s, 1e6 * (cpu_seconds(worker) - cpu_before) / (len(backlog) - first), 1000 * max(slowest)


def cpu_seconds(worker: Worker) -> float:
    """The time of a process up to now, user and system together (Linux)."""
    fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


@contextmanager
def watching(port: int) -> Iterator[list[float]]:
    """Pages and a Prometheus, as soon as the worker listens; yields the seconds that /metrics took, as they come."""
    over, took = Event(), [0.0]
    watchers = [Thread(target=page, args=(port, over)) for _ in range(PAGES)]
    watchers.append(Thread(target=prometheus, args=(port, over, took)))
    for watcher in watchers:
        watcher.start()
    try:
        yield took
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()


def page(port: int, over: Event) -> None:
    """Asks for the page, as a browser that shows it does."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        while not over.is_set():
            try:
                client.get("/").raise_for_status()
            except httpx.HTTPError:
                over.wait(0.2)
                continue
            over.wait(PAGE_SECONDS)


def prometheus(port: int, over: Event, took: list[float]) -> None:
    """Asks for the metrics every second."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        while not over.wait(SCRAPE_SECONDS):
            began = perf_counter()
            try:
                client.get("/metrics").raise_for_status()
            except httpx.HTTPError:
                continue
            took.append(perf_counter() - began)


def show(sizes: Sequence[dict[str, Any]]) -> None:
    columns = ("rows", "way", "events/s", "over off", "CPU us/event", "over off", "/metrics ms, most")
    table = RichTable(*columns, title="A worker that is looked at")
    for size in sizes:
        for way in WAYS:
            figures = size[way]
            cells = (figures["events_per_s"], figures["rate_over_off"], figures["cpu_us_per_event"])
            most = figures.get("metrics_ms_max", "")
            table.add_row(f"{size['rows']:,}", way, *map(str, (*cells, figures["cpu_over_off"], most)))
    Console().print(table)


if __name__ == "__main__":
    main()
