"""For how long do shards stand still while workers come and go, and which of them are loaded?

Adult's people, several times over, in sixteen shards; changes come at 500 a second. A worker serves all shards; a
second one joins, and leaves again. Then two workers with names of their own (`--instance`) are restarted, one after the
other.

For each of these: the longest time between two committed positions of a shard, in seconds, of the worst shard, of the
worst of those that stay where they are, and of the median one; how many shards were loaded by the worker that stays,
and how many stayed. --checkout names another checkout, whose workers are measured (older ones are not restarted).

    python benchmarks/rebalance.py [--copies 10] [--seconds 15] [--checkout FOLDER] [--quick] [--json]
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice, pairwise
from pathlib import Path
from threading import Event
from time import monotonic, sleep

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from streamer.incremental.events.key_form import shard_of
from workers import EVENTS_PER_SECOND, ROOT, Committed, Input, Placed, Positions, World
from worlds import adult_people

SHARDS_MANY = 16
SETTLED_SECONDS = 4.0
STANDSTILL_SECONDS_MAX = 120
WRITTEN_AT_ONCE = 20_000

Figures = dict[str, float]


def main() -> None:
    options = ready.options(__doc__, "3,000 people once, 3 seconds")
    options.add_argument("--copies", type=int, default=10, help="how many times Adult's people are there")
    options.add_argument("--seconds", type=float, default=15.0, help="between two changes of the workers")
    options.add_argument("--checkout", type=Path, default=ROOT, help="whose workers run")
    chosen = options.parse_args()
    ready.compiled()
    people = adult_people.read_people(adult.folder())
    if chosen.quick:
        people, chosen.copies, chosen.seconds = dict(islice(people.items(), 3000)), 1, 3.0
    many = {f"{copy}-{key}": {**person, "id": f"{copy}-{key}"} for copy in range(chosen.copies) for key, person in
            people.items()}  # fmt: skip
    with ready.servers() as (servers, directory):
        world = World(servers.kafka_bootstrap, servers.redis_url, directory, many, SHARDS_MANY, chosen.checkout)
        figures = measure(world, chosen.seconds, restarts=chosen.checkout == ROOT)
    if not chosen.json:
        show(figures)
    print(json.dumps({"benchmark": "rebalance", "people": len(many), "checkout": chosen.checkout.name, **figures}))


def measure(world: World, seconds: float, restarts: bool) -> dict[str, Figures]:
    """The figures of each thing that happens to the workers."""
    name, table = world.new_table(SHARDS_MANY)
    changes, positions = Input(world, name), Positions(world, name)
    worker = ["streamer.cli.main", "worker", "--table", str(table)]
    first = placed(adult_people.inserts(world.people.values()))
    for begin in range(0, len(first), WRITTEN_AT_ONCE):
        changes.write(first[begin : begin + WRITTEN_AT_ONCE])
    with world.running(f"{name}-load", worker) as loading:
        positions.until(changes.ends, loading)
    scene = Scene(world, changes, positions, seconds)
    found: dict[str, Figures] = {}
    with world.running(f"{name}-one", worker) as one, scene.under_way():
        scene.settle(lambda: one.log.read_text().count("taken over") >= SHARDS_MANY)
        with ExitStack() as second:
            found["joins"] = scene.during(lambda: second.enter_context(world.running(f"{name}-two", worker)), one.log)
            found["leaves"] = scene.during(second.close, one.log)
    if restarts:
        found["restarts"] = restarted(world, name, worker, scene)
    return found


def restarted(world: World, name: str, worker: Sequence[str], scene: Scene) -> Figures:
    """Two workers with names of their own, restarted one after the other; what that did to the other one's shards."""
    with ExitStack() as first, ExitStack() as second, scene.under_way():
        stacks = {"a": first, "b": second}
        begin: dict[str, Callable[[], object]] = {
            own: lambda own=own: stacks[own].enter_context(  # type: ignore[misc]
                world.running(f"{name}-{own}", [*worker, "--instance", own])
            )
            for own in stacks
        }
        for start in begin.values():
            start()
        logs = {own: world.directory / f"{name}-{own}.log" for own in stacks}
        scene.settle(lambda: all(log.exists() and log.read_text().count("taken over") for log in logs.values()))
        found = []
        for own, other in (("a", "b"), ("b", "a")):
            theirs = shards_of(logs[other])

            def restart(own: str = own) -> None:
                stacks[own].close()
                begin[own]()

            found.append(scene.during(restart, logs[other], only=theirs))
        return {what: max(one[what] for one in found) for what in found[0]}


def shards_of(log: Path) -> set[int]:
    """The shards that a worker serves, by its log."""
    lines = re.findall(r"shard (\d+) of \S+ (taken over|is ours again|is assigned here again)", log.read_text())
    return {int(number) for number, _ in lines[-(SHARDS_MANY // 2) :]}


class Scene:
    """Changes at an even pace, and what becomes of them."""

    def __init__(self, world: World, changes: Input, positions: Positions, seconds: float) -> None:
        self._changes, self._positions, self._seconds = changes, positions, seconds
        self._messages = placed(
            adult_people.Changes(world.people, seed=3).more(round(EVENTS_PER_SECOND * 40 * seconds))
        )
        self._seen: list[Committed] = []
        self._over = Event()

    def under_way(self) -> ExitStack:
        """Writes and reads until the block ends."""
        self._over.clear()
        threads = ThreadPoolExecutor(2)
        running: list[Future[None]] = [threads.submit(self._write), threads.submit(self._read)]
        end = ExitStack()

        def close() -> None:
            self._over.set()
            for one in running:
                one.result()
            threads.shutdown()

        end.callback(close)
        return end

    def _write(self) -> None:
        second = EVENTS_PER_SECOND
        while not self._over.is_set():
            some, self._messages = self._messages[:second], self._messages[second:]
            self._changes.write_paced(some)

    def _read(self) -> None:
        while not self._over.is_set():
            self._seen += self._positions.seen_within(0.2)

    def settle(self, ready_: Callable[[], object]) -> None:
        """Waits until everything goes its way. Raises TimeoutError if it does not, on a machine that has other work."""
        end = monotonic() + STANDSTILL_SECONDS_MAX
        while not ready_():
            if monotonic() > end:
                raise TimeoutError("no shard was taken over within two minutes: measure with nothing else running")
            sleep(0.1)
        sleep(SETTLED_SECONDS)

    def during(self, happens: Callable[[], object], log: Path, only: set[int] | None = None) -> Figures:
        """What shards stood still while something happened; log: of a worker that stays; only: these shards."""
        before = log.read_text()
        began = monotonic()
        happens()
        sleep(self._seconds)
        shards = range(SHARDS_MANY) if only is None else sorted(only)
        self._until_all_commit(shards)
        said = log.read_text()[len(before) :]
        gaps = self._gaps(began, monotonic(), shards)
        kept = re.findall(r"shard (\d+) of \S+ is (?:ours|assigned here) again", said)
        stay = set(map(int, kept)) or gaps.keys()
        return {
            "worst_s": round(max(gaps.values()), 2),
            "worst_that_stays_s": round(max(gaps[shard] for shard in stay), 2),
            "median_s": round(statistics.median(gaps.values()), 2),
            "loaded": said.count("taken over"),
            "kept": len(kept),
        }

    def _until_all_commit(self, shards: Sequence[int]) -> None:
        """Else a shard that still stands still would count as one that has begun again. Raises TimeoutError."""
        now = monotonic()
        while not set(shards) <= {one.shard for one in list(self._seen) if one.at > now}:
            if monotonic() > now + STANDSTILL_SECONDS_MAX:
                raise TimeoutError("a shard has stood still for two minutes")
            sleep(0.1)

    def _gaps(self, began: float, ended: float, shards: Sequence[int]) -> dict[int, float]:
        """By shard, the longest time between two commits."""
        seen = list(self._seen)
        times = {shard: [began, *(one.at for one in seen if one.shard == shard and began < one.at < ended), ended] for
                 shard in shards}  # fmt: skip
        return {shard: max(later - earlier for earlier, later in pairwise(times[shard])) for shard in shards}


def placed(messages: object) -> list[Placed]:
    """Messages with the shards that their keys give."""
    return [(shard_of(key, SHARDS_MANY), key, value) for key, value in messages]  # type: ignore[attr-defined]


def show(figures: dict[str, Figures]) -> None:
    """The figures as a table."""
    table = RichTable(title=f"{SHARDS_MANY} shards, {EVENTS_PER_SECOND} changes a second")
    for column in ("what happens", "worst shard, s", "worst that stays, s", "median, s", "loaded by who stays", "kept"):
        table.add_column(column, justify="left" if column == "what happens" else "right")
    for what, of in figures.items():
        table.add_row(
            what, *(f"{of[name]:g}" for name in ("worst_s", "worst_that_stays_s", "median_s", "loaded", "kept"))
        )
    Console().print(table)


if __name__ == "__main__":
    main()
