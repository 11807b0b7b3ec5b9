"""From the input topic to the committed changelog, on a real Kafka and Redis, beside Faust passing the same events on.

The table is Adult in four shards, with all its rows loaded, then changes (40 % inserts, 30 % deletes, 30 % modifies) as
plain JSON messages. Three figures:

throughput  A worker finds a backlog of changes; events per second between the first and the last committed transaction.
            The same for `passthrough.py`, a Faust worker that decodes the same messages and writes one record for each,
            in transactions of the same size. The two take turns.
latency     Milliseconds from producing a change to reading, as committed, the transaction with its effect, at a few
            events per second and at many; transactions per second, and records per event in them.
phases      Microseconds per event of the loop of one shard that holds the whole table, by phase: `handle` decodes,
            applies and drains; then the commit to Redis and the transaction to Kafka.

Each worker is one process. The servers are those of the tests, or the ones that KAFKA_BOOTSTRAP and REDIS_URL name.

    python benchmarks/end_to_end.py [--events 60000] [--rounds 2] [--seconds 20] [--quick] [--json]
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from streamer.grouping import first_groups
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.replay import encode_initial
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from workers import EVENTS_PER_SECOND, SHARDS, Committed, Input, Placed, Positions, Worker, World
from worlds import adult_people
from worlds.shards import Driven

PACES = (1, 10, EVENTS_PER_SECOND)
WARM_UP_SECONDS = 2
"""So many seconds' worth of events go first where latency is measured, and are not counted."""


def main() -> None:
    options = ready.options(__doc__, "3,000 rows and changes, one round, 3 seconds")
    options.add_argument("--events", type=int, default=60_000, help="changes in the backlog")
    options.add_argument("--rounds", type=int, default=2, help="turns of each worker")
    options.add_argument("--seconds", type=float, default=20.0, help="how long latency is measured")
    chosen = options.parse_args()
    ready.compiled()
    people = adult_people.read_people(adult.folder())
    if chosen.quick:
        people = dict(islice(people.items(), 3000))
        chosen.events, chosen.rounds, chosen.seconds = 3000, 1, 3.0
    with ready.servers() as (servers, directory):
        world = World(servers.kafka_bootstrap, servers.redis_url, directory, people)
        figures = measure(world, chosen.events, chosen.rounds, chosen.seconds)
    if not chosen.json:
        show(figures)
    print(json.dumps({"benchmark": "end_to_end", **figures}))


def streamer_worker(table: Path) -> list[str]:
    return ["streamer.cli.main", "worker", "--table", str(table)]


def passthrough_worker(folder: Path) -> list[str]:
    """The Faust worker that passes messages through; Faust keeps its own files in the folder."""
    return ["faust", "-A", "passthrough", "--datadir", str(folder), "worker", "--loglevel", "warn"]


def placed(messages: Iterator[adult_people.Message]) -> list[Placed]:
    """Messages with the shards that their keys give."""
    return [(shard_of(message_key, SHARDS), message_key, value) for message_key, value in messages]


# -- the figures ------------------------------------------------------------------------------------------------------


def measure(world: World, events: int, rounds: int, seconds: float) -> dict[str, object]:
    """Everything; rates in events per second."""
    backlog = placed(adult_people.Changes(world.people, seed=1).more(events))
    streamer, passthrough = [], []
    for _ in range(rounds):
        passthrough.append(passthrough_rate(world, backlog))
        streamer.append(streamer_rate(world, backlog))
    return {
        "events": events,
        "streamer_events_per_s": [round(rate) for rate in streamer],
        "passthrough_events_per_s": [round(rate) for rate in passthrough],
        "ratio": round(statistics.mean(streamer) / statistics.mean(passthrough), 3),
        "latency_ms": latency(world, seconds),
        "us_per_event": phases(world, events),
    }


def streamer_rate(world: World, backlog: Sequence[Placed]) -> float:
    """Events per second of `streamer worker`, which finds its state in Redis and the backlog in Kafka."""
    name, table = world.new_table(SHARDS)
    changes, positions = loaded(world, name, table)
    loaded_to = list(changes.ends)
    changes.write(backlog)
    with world.running(name, streamer_worker(table)) as worker:
        return rate(positions.until(changes.ends, worker), loaded_to, len(backlog))


def loaded(world: World, name: str, table: Path) -> tuple[Input, Positions]:
    """Has a worker apply the initial load; returns the table's input and output after it."""
    changes, positions = Input(world, name), Positions(world, name)
    changes.write(placed(adult_people.inserts(world.people.values())))
    with world.running(name, streamer_worker(table)) as worker:
        positions.until(changes.ends, worker)
    return changes, positions


def passthrough_rate(world: World, backlog: Sequence[Placed]) -> float:
    """Events per second of the Faust worker that passes the same messages through."""
    name, _ = world.new_table(SHARDS)
    changes, positions = Input(world, name), Positions(world, name)
    changes.write(backlog)
    with world.running(name, passthrough_worker(world.directory / "faust"), PASSTHROUGH_NAME=name) as worker:
        return rate(positions.until(changes.ends, worker), [0] * SHARDS, len(backlog))


def rate(seen: Sequence[Committed], began_at: Sequence[int], events: int) -> float:
    """Events per second after the first transaction."""
    first = seen[0]
    return (events - (first.next - began_at[first.shard])) / (seen[-1].at - first.at)


def latency(world: World, seconds: float) -> dict[str, dict[str, float]]:
    """Quantiles in milliseconds by events per second at a steady pace, after the worker has warmed up."""
    name, table = world.new_table(SHARDS)
    changes, positions = loaded(world, name, table)
    warm_up, counts = WARM_UP_SECONDS * EVENTS_PER_SECOND, {pace: round(pace * seconds) for pace in PACES}
    messages = iter(placed(adult_people.Changes(world.people, seed=2).more(warm_up + sum(counts.values()))))
    figures = {}
    with world.running(name, streamer_worker(table)) as worker:
        changes.write(list(islice(messages, warm_up)))
        positions.until(changes.ends, worker)
        for pace, count in counts.items():
            figures[f"{pace}/s"] = at_pace(pace, list(islice(messages, count)), changes, positions, worker)
    return figures


def at_pace(
    pace: int, messages: Sequence[Placed], changes: Input, positions: Positions, worker: Worker
) -> dict[str, float]:
    """Quantiles in milliseconds, transactions per second and records per event, of messages at a steady pace."""
    base, ends, published = list(changes.ends), changes.ends_after(messages), sum(positions.records)
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(changes.write_paced, messages, pace)
        seen = positions.until(ends, worker)
        waited = sorted(waits(sending.result(), base, seen))
    figures = {f"p{n}": round(1000 * waited[len(waited) * n // 100], 1) for n in (50, 99)}
    records = sum(positions.records) - published
    per_second = len(seen) * pace / len(messages)
    return {**figures, "transactions/s": round(per_second, 1), "records/event": round(records / len(messages), 2)}


def waits(sent_at: Sequence[Sequence[float]], base: Sequence[int], seen: Sequence[Committed]) -> Iterator[float]:
    """Seconds from producing to reading as committed, of every message; base: offset of the first one, by shard."""
    done = list(base)
    for committed in seen:
        sent = sent_at[committed.shard]
        for offset in range(done[committed.shard], committed.next):
            yield committed.at - sent[offset - base[committed.shard]]
        done[committed.shard] = committed.next


def phases(world: World, events: int) -> dict[str, float]:
    """Microseconds per event of the loop of one shard that holds all rows, in batches of `batch_events_max`."""
    name, path = world.new_table(1)
    table = load_table(path)
    source = path.with_name("people.csv")
    adult_people.write_people(source, world.people.values())
    store = RedisStore(connect(world.redis_url), name, 0)
    outlet = KafkaOutlet(world.bootstrap, name, 0)
    publisher = Driven(table, 0, store, outlet)
    publisher.take_over(KafkaInput(world.bootstrap, name, 0).state())
    publisher.load_initial(lambda secret: encode_initial(table, read_rows(source), first_groups, secret))
    changes = enumerate(adult_people.Changes(world.people, seed=3).more(events))
    messages = [Message(offset, message_key, value) for offset, (message_key, value) in changes]
    return split_of(publisher, messages, table.limits.batch_events_max)


def split_of(publisher: Driven, messages: Sequence[Message], batch_events: int) -> dict[str, float]:
    total, began = StepReport(), perf_counter()
    for first in range(0, len(messages), batch_events):
        total += publisher.step(messages[first : first + batch_events])
    commit, publish, all_of_it = total.commit_seconds, total.publish_seconds, perf_counter() - began
    seconds = {"handle": all_of_it - commit - publish, "commit": commit, "publish": publish, "all": all_of_it}
    per_event = {phase: round(1e6 * spent / total.counts.messages, 1) for phase, spent in seconds.items()}
    return {**per_event, "records": round(total.published / total.counts.messages, 2)}


def show(figures: dict[str, Any]) -> None:
    rates = RichTable("round", "streamer", "Faust, passing on", title="Events per second (4 shards, one process)")
    rounds = zip(figures["streamer_events_per_s"], figures["passthrough_events_per_s"], strict=True)
    for number, pair in enumerate(rounds, start=1):
        rates.add_row(str(number), *(f"{rate:,}" for rate in pair))
    rates.add_row("ratio", f"{figures['ratio']:.2f}", "1")
    Console().print(rates)
    for pace, row in figures["latency_ms"].items():
        print_row(f"Milliseconds to the changelog, at {pace}", row)
    print_row("Microseconds per event in the loop of one shard, and records published", figures["us_per_event"])


def print_row(title: str, row: dict[str, float]) -> None:
    table = RichTable(*row, title=title)
    table.add_row(*map(str, row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
