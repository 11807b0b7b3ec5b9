"""`--skip-refused`: rows of a data file that table.yaml refuses are left out, and a list says which and why.

The list has the number of the row, the reason and the column, and no value. Nothing is left out in silence: what was is
counted wherever the command says what it did.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click

from streamer.table.refused_rows import RefusedRow, counted

skip_refused_option = click.option(
    "--skip-refused",
    "left_out",
    metavar="LIST.csv",
    type=click.Path(path_type=Path),
    help="Leave out rows that are refused, and write which and why: data row, reason, column; no values.",
)


def write_list(refused: Sequence[RefusedRow], file: IO[str]) -> None:
    """The list as CSV."""
    writer = csv.writer(file)
    writer.writerow(RefusedRow._fields)
    writer.writerows(refused)


def facts_of(refused: Sequence[RefusedRow], rows: int, left_out: Path) -> dict[str, Any]:
    """What was left out of so many rows, as plain values."""
    by_reason = [{"reason": reason, "column": column, "rows": count} for reason, column, count in counted(refused)]
    return {"rows": len(refused), "of": rows, "refused": by_reason, "list": str(left_out)}


def sentence(facts: Mapping[str, Any]) -> str:
    """The same for people."""
    reasons = (f"{one['rows']:,} {one['reason']} ({one['column']})" for one in facts["refused"])
    return f"{facts['rows']:,} of {facts['of']:,} rows, listed in {facts['list']}: {', '.join(reasons) or 'none'}"
