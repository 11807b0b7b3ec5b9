"""Costs of keeping a copy of the published table current: a batch of releases at several sizes of the table.

Prints, per kind of copy, the time of following releases of 200 changed records, at 10,000 rows, 300,000 and a million,
and the ratio to the smallest. A copy that is written whole costs as much as the table, one that follows as the release.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from streamer.copies import COPIES, Changed
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.frames import recorded_frames
from streamer.table.published.rows import RowKey, row_key
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

KINDS = {"csv": ("csv", "t.csv"), "parquet": ("parquet", "t.parquet"), "changes": ("parquet", "changes"),
         "duckdb": ("duckdb", "t.duckdb")}  # fmt: skip
"""Option and file of a copy, by its name here."""

RECORDS, REPEATED = 200, 15
EXAMPLE = Path(__file__).parents[1] / "examples" / "patients" / "table.yaml"


def record(number: int, problem: bytes) -> tuple[bytes, bytes]:
    """A published row of the example's table."""
    qi_group = number // 5 + 1
    box = b'"age_lo":20,"age_hi":24,"zip_lo":11000,"zip_hi":11499,"bmi_lo":20,"bmi_hi":22.4,"sex":"Male"'
    value = b'{"qi_group":"0-%d",%b,"problem":"%b"}' % (qi_group, box, problem)
    return row_key(RowKey(0, qi_group, number % 5)), value


def median_seconds(kind: str, table: Table, rows: int) -> float:
    """That of following one release, in a copy of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return statistics.median(seconds(kind, table, rows, Path(folder)))


def seconds(kind: str, table: Table, rows: int, folder: Path) -> list[float]:
    """Of each release that is followed."""
    stored = dict(record(number, b"flu") for number in range(rows))
    option, name = KINDS[kind]
    copy, times = COPIES[option](table, folder / name, "keep"), []
    copy.begin(recorded_frames(table, stored.items()), [])
    for number in range(REPEATED):
        first = number * rows // REPEATED
        changes: list[Any] = [record(first + i, b"ulcer") for i in range(RECORDS)]
        stored.update(changes)
        started = perf_counter()
        changed = Changed(
            table, [FoldedRelease(0, number + 1, number, changes)], lambda: recorded_frames(table, stored.items())
        )
        copy.change(changed)
        times.append(perf_counter() - started)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=(10_000, 300_000, 1_000_000), metavar="N")
    sizes = parser.parse_args().rows
    table = replace(load_table(EXAMPLE), name="people")
    print(f"{'copy':10} " + " ".join(f"{rows:>12,} rows" for rows in sizes) + "   over the first")
    for kind in KINDS:
        found = [median_seconds(kind, table, rows) for rows in sizes]
        ratios = " ".join(f"{other / found[0]:7.1f}" for other in found[1:])
        print(f"{kind:10} " + " ".join(f"{one * 1e3:14.1f} ms" for one in found) + f"   {ratios}")


if __name__ == "__main__":
    main()
