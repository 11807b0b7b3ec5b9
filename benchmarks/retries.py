"""What it costs to try refused messages again: reading what lies behind them once more, over applying it.

The table is Adult in one shard without servers, then changes (40 % inserts, 30 % deletes, 30 % modifies) as plain JSON
messages. Some of the first are skipped, as `streamer skip` has it, and tried again from behind all others.

reading    Seconds of `Retrial` over those in which the shard's own loop applies as many messages, at three distances,
           for one message and hundreds at once. The loop commits to memory; with Redis and Kafka it takes longer.
applying   Seconds of the commit that applies what may be applied late, over the loop's for as many messages.

Seconds are those of the processor, so that neighbours disturb them less.

    python benchmarks/retries.py [--quick] [--json]
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from streamer.incremental.replay import encode_initial
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import DeafOutlet
from streamer.incremental.shard.retrial import Judged, Retrial
from streamer.incremental.store.base import Meta
from streamer.incremental.store.memory import MemoryServer, MemoryStore
from streamer.kafka.shard_input import PIECE_MESSAGES_MAX
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds import adult_people
from worlds.shards import Driven


@dataclass(frozen=True)
class Sizes:
    """People, messages that are applied, distances to the end of the input, and how many are tried again at once."""

    people: int = 30_162
    applied: int = 10_000
    distances: tuple[int, ...] = (10_000, 300_000, 1_000_000)
    at_once: tuple[int, ...] = (1, 500)


QUICK = Sizes(people=2_000, applied=1_000, distances=(1_000, 3_000), at_once=(1, 50))


def main() -> None:
    options = ready.options(__doc__, "2,000 people and 3,000 changes")
    chosen = options.parse_args()
    ready.compiled()
    figures = measure(QUICK if chosen.quick else Sizes())
    if not chosen.json:
        show(figures)
    print(json.dumps({"benchmark": "retries", **figures}))


def measure(sizes: Sizes) -> dict[str, object]:
    people = dict(islice(adult_people.read_people(adult.folder()).items(), sizes.people))
    with TemporaryDirectory() as directory:
        path = adult_people.write_table(Path(directory), adult.folder(), "people")
        source = path.with_name("people.csv")
        adult_people.write_people(source, people.values())
        table = load_table(path)
        messages = [
            Message(offset, message_key, value)
            for offset, (message_key, value) in enumerate(
                adult_people.Changes(people, seed=1).more(max(sizes.distances))
            )
        ]
        refused = sorted(random.Random(2).sample(range(sizes.applied // 10), max(sizes.at_once)))
        publisher = Driven(table, 0, MemoryStore(MemoryServer(), table.name, 0), DeafOutlet())
        publisher.take_over(InputState({}, 1, 0, len(messages)), refused)
        publisher.load_initial(lambda secret: encode_initial(table, read_rows(source), alike, secret))
    per_message = seconds_of_the_loop(publisher, messages[: sizes.applied]) / sizes.applied
    readings = [
        {"distance": distance, "at_once": n, "ratio": round(seconds / (distance * per_message), 4)}
        for distance in sizes.distances
        for n in sizes.at_once
        for seconds in [seconds_of_reading(table, messages[:distance], refused[:n])[0]]
    ]
    judged = seconds_of_reading(table, messages[: sizes.applied], refused)[1]
    began = process_time()
    counts = publisher.retry(judged, 0).counts
    applying = (process_time() - began) / -counts.dead_letters / per_message
    return {
        "us_per_message": round(1e6 * per_message, 1),
        "readings": readings,
        "growth": {str(n): growth(readings, n) for n in sizes.at_once},
        "applied_late": -counts.dead_letters,
        "applying_ratio": round(applying, 2),
    }


def growth(readings: Sequence[Mapping[str, float]], at_once: int) -> float:
    """The cost of reading a message at the largest distance, over the smallest."""
    nearest, *_, farthest = [one["ratio"] for one in readings if one["at_once"] == at_once]
    return round(farthest / nearest, 2)


def alike(table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
    """QI groups of rows that follow one another by their codes; changes soon make others of them."""
    return np.array_split(np.lexsort(rows.codes.T), len(rows.codes) // (table.k + 2))


def seconds_of_the_loop(publisher: Driven, messages: Sequence[Message]) -> float:
    began = process_time()
    for batch in pieces(messages, publisher.table.limits.batch_events_max):
        publisher.step(batch)
    return process_time() - began


def seconds_of_reading(table: Table, messages: Sequence[Message], offsets: Sequence[int]) -> tuple[float, list[Judged]]:
    """Seconds, and what becomes of the messages at some offsets."""
    meta = Meta(commit=1, next=len(messages), skipped=tuple(offsets))
    began = process_time()
    retrial = Retrial(table, offsets, meta)
    for piece in pieces(messages, PIECE_MESSAGES_MAX):
        retrial.see(piece, piece[-1].offset + 1)
    judged = retrial.judged()
    return process_time() - began, judged


def pieces(messages: Sequence[Message], size: int) -> Iterator[Sequence[Message]]:
    return (messages[first : first + size] for first in range(0, len(messages), size))


def show(figures: dict[str, object]) -> None:
    table = RichTable("messages behind", "tried again at once", "reading, over applying")
    for one in figures["readings"]:  # type: ignore[attr-defined]
        table.add_row(f"{one['distance']:,}", f"{one['at_once']:,}", f"{one['ratio']:.3f}")
    Console().print(table)
    Console().print(f"a message at the largest distance, over the smallest, by how many at once: {figures['growth']}")
    Console().print(f"a commit of {figures['applied_late']:,} of them, over the loop: {figures['applying_ratio']}")


if __name__ == "__main__":
    main()
