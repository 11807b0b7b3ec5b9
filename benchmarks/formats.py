"""Costs of the formats of `live`: a published record written as plain JSON, with Connect's schema in it, as Avro.

A QI group of the example's table of patients is written as records by the changelog, which is the whole cost of plain
JSON, and then put into each format, as the outlet does it; a batch is one row or 500, in a QI group of as many.
Formats take turns, and each figure is the best of several. The ratios are times over plain JSON's; bytes are those of
key and value.

    python benchmarks/formats.py [--quick] [--json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table as RichTable

import ready
from streamer.incremental.events.registered_schemas import Known
from streamer.incremental.formats.live_format import LiveFormat, live_format
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.table.schema import AVRO, CONNECT_JSON, JSON
from streamer.table.yaml.loading import load_table

ROOT = Path(__file__).resolve().parents[1]
FORMATS = (JSON, CONNECT_JSON, AVRO)
BATCHES = (1, 500)
RECORDS, QUICK_RECORDS, TURNS = 20_000, 1_000, 5
PROBLEMS = (b'"flu"', b'"ulcer"', b'"gastritis"', b'"sprain"', b"null")


class Ids:
    """A registry of two schemas, in memory."""

    def __init__(self) -> None:
        self.known: Known | None = {}

    def register(self, subject: str, schema: str) -> int:
        return 1 + subject.endswith("-value")

    def learn(self, ids: Iterable[int]) -> None:
        """Nothing is read here."""


def main() -> None:
    options = ready.options(__doc__, "a thousand records")
    chosen = options.parse_args()
    records = QUICK_RECORDS if chosen.quick else RECORDS
    found = {str(batch): measured(batch, records) for batch in BATCHES}
    table = RichTable("batch", "format", "µs per record", "over plain JSON", "bytes")
    for batch, formats in found.items():
        for name, figures in formats.items():
            table.add_row(batch, name, f"{figures['us']:.2f}", f"{figures['ratio']:.2f}", f"{figures['bytes']:.0f}")
    Console(width=160, quiet=chosen.json).print(table)
    print(json.dumps({"benchmark": "formats", "records": records, "batches": found}))


def measured(batch: int, records: int) -> dict[str, dict[str, float]]:
    """By format: microseconds and bytes of a record, and the time over plain JSON's."""
    table = load_table(ROOT / "examples" / "patients")
    formats = {name: live_format(replace(table, format=name), Ids()) for name in FORMATS}
    for one in formats.values():
        one.begin()
    changelog = Changelog(table, 0)
    slots = tuple((PROBLEMS[i % len(PROBLEMS)],) for i in range(batch))
    group = PublishedGroup((4, 2, 3, 0), (5, 4, 6, 0), slots)
    best, size = dict.fromkeys(FORMATS, float("inf")), dict[str, float]()
    for _ in range(TURNS):
        for name in FORMATS:
            seconds, size[name] = written(changelog, group, formats[name], records // batch, plain=name == JSON)
            best[name] = min(best[name], seconds)
    return {name: {"us": best[name] * 1e6, "ratio": best[name] / best[JSON], "bytes": size[name]} for name in FORMATS}


def written(
    changelog: Changelog, group: PublishedGroup, one: LiveFormat, times: int, plain: bool
) -> tuple[float, float]:
    """Seconds and bytes per record."""
    n_bytes = 0
    began = perf_counter()
    for number in range(1, times + 1):
        entries, _ = changelog.diff(number, None, group)
        if plain:
            continue
        for entry in entries:
            n_bytes = len(one.written_key(entry.key)) + len(one.written_value(entry.value or b""))
    seconds = perf_counter() - began
    if plain:
        n_bytes = len(entries[-1].key) + len(entries[-1].value or b"")
    return seconds / (times * len(group.slots)), n_bytes


if __name__ == "__main__":
    main()
