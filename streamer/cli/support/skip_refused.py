"""`--skip-refused`: leaves out the rows of a data file that table.yaml refuses; lists which and why, without values."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click
import pandas as pd

from streamer.cli.support.outputs import CSV, OutputPath
from streamer.cli.support.progress import Stages
from streamer.errors import ConfigError
from streamer.table.data_warnings import RefusedRow, counted, refused_rows
from streamer.table.schema import Table

skip_refused_option = click.option(
    "--skip-refused",
    "left_out",
    metavar="LIST.csv",
    type=OutputPath(*CSV),
    help="Leave out refused rows, and list them here: data row, reason, column; no values.",
)

WAY_PAST = "`--skip-refused LIST.csv` leaves out all refused rows, and lists them with the reasons"


def refused_among(table: Table, frame: pd.DataFrame, progress: Stages, upserts: bool = False) -> list[RefusedRow]:
    """The rows that table.yaml refuses, found in a stage of its own."""
    with progress.stage("refused"):
        return refused_rows(table, frame, upserts=upserts)


def write_list(refused: Sequence[RefusedRow], file: IO[str]) -> None:
    """The list as CSV."""
    writer = csv.writer(file)
    writer.writerow(RefusedRow._fields)
    writer.writerows(refused)


def require_some_left(refused: Sequence[RefusedRow], rows: int) -> None:
    """Raises ConfigError if there are rows and all of them are refused."""
    if 0 < rows == len(refused):
        raise ConfigError(f"no row is left: all {rows:,} rows are refused: {_reasons(counted(refused))}")


def facts_of(refused: Sequence[RefusedRow], rows: int, left_out: Path) -> dict[str, Any]:
    """The rows that were left out, as plain values; rows: of the file."""
    by_reason = [{"reason": reason, "column": column, "rows": count} for reason, column, count in counted(refused)]
    return {"rows": len(refused), "of": rows, "refused": by_reason, "list": str(left_out)}


def sentence(facts: Mapping[str, Any]) -> str:
    """The same for people."""
    reasons = _reasons((one["reason"], one["column"], one["rows"]) for one in facts["refused"])
    return f"{facts['rows']:,} of {facts['of']:,} rows, listed in {facts['list']}: {reasons or 'none'}"


def _reasons(counts: Iterable[tuple[str, str, int]]) -> str:
    return ", ".join(f"{rows:,} {reason} ({column})" for reason, column, rows in counts)
