"""`streamer hierarchy`: a hierarchy file from a column of a file of rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from streamer.cli.support.options import command_named, reads_rows, rows_argument
from streamer.cli.support.outputs import force_option, require_writable, text_option, words_beside
from streamer.cli.support.tables import plural, say
from streamer.errors import ConfigError, UsageError
from streamer.table.codes import cell_text, is_scalar, read_decimal, source_cells
from streamer.table.draft.columns import HierarchyRows
from streamer.table.draft.levels import by_frequency, by_intervals, by_order, by_prefix
from streamer.table.draft.yaml_text import hierarchy_text
from streamer.table.files import STDOUT, atomic_writer
from streamer.table.sources import RowSource

TAKEN = {"intervals": {"width", "fan"}, "order": {"fan", "values"}}
"""The options of each way; the others have none."""


@command_named(
    "hierarchy",
    "streamer hierarchy rows.csv --column icd10 --by prefix -o mine/hierarchies/icd10.csv",
    "streamer hierarchy rows.csv --column pain --by order --values none,mild,strong",
)
@rows_argument
@click.option("--column", required=True, metavar="NAME", help="The column.")
@click.option(
    "--by",
    required=True,
    type=click.Choice(["intervals", "prefix", "order", "frequency"]),
    help="What is joined: numbers in intervals, codes that begin alike (postal ones, ICD-10, NACE), neighbours in"
    " order, or the rarest values.",
)
@click.option("--width", metavar="NUMBER", help="Width of the first intervals.  [default: a round one]")
@click.option("--fan", type=click.IntRange(min=2), help="How many intervals or neighbours are joined.  [default: 2]")
@click.option("--values", metavar="A,B,...", help="The values in order, separated by commas.  [default: sorted]")
@text_option(".csv", ".txt")
@force_option
@reads_rows("data")
def command(
    data: RowSource,
    column: str,
    by: str,
    width: str | None,
    fan: int | None,
    values: str | None,
    out: Path,
    force: bool,
) -> None:
    """Drafts a hierarchy file, one line per value from the leaf to the root, from a column of rows.

    Files of ARX need no command: `hierarchy:` in table.yaml reads them as they are.
    """
    given = {name: value for name, value in (("width", width), ("fan", fan), ("values", values)) if value is not None}
    if others := [f"--{name}" for name in given if name not in TAKEN.get(by, ())]:
        raise UsageError(f"{', '.join(others)}: of no use with --by {by}")
    require_writable([out], force, data.files)
    frame = data.rows()
    if column not in frame.columns:
        raise UsageError(f"{data.name}: has no column {column!r}; it has {', '.join(map(str, frame.columns))}")
    cells = source_cells(frame[column]).tolist()
    if not all(map(is_scalar, cells)):
        raise UsageError(f"--column {column}: has values that are no text, number, boolean or date")
    try:
        rows = _drafted(by, list(map(cell_text, cells)), given)
    except ConfigError as error:
        raise UsageError(f"--column {column} --by {by}: {error}") from None
    with atomic_writer(out, text=True) as file:
        file.write(hierarchy_text(rows))
    with words_beside(out):
        where = "" if out == STDOUT else f"written: {out}; "
        say(f"{where}{plural(len(rows), 'value')}, {plural(max(map(len, rows)) - 2, 'level')} between value and root")
        if by == "intervals":
            ends = f"[{rows[0][0]}, {rows[-1][0]}]"
            say(f"A numeric column takes it as well if these are all values of its domain, {ends}.")
        say("Read it before you use it, and keep it as private as the data.")


def _drafted(by: str, texts: list[str], given: dict[str, Any]) -> HierarchyRows:
    fan = given.get("fan", 2)
    if by == "intervals":
        return by_intervals(texts, fan, _width(given.get("width")))
    if by == "order":
        return by_order(texts, fan, [value.strip() for value in given.get("values", "").split(",") if value.strip()])
    return by_prefix(texts) if by == "prefix" else by_frequency(texts)


def _width(text: str | None) -> Decimal | None:
    width = None if text is None else read_decimal(text)
    if text is not None and (width is None or width <= 0):
        raise UsageError("--width: must be a number above 0")
    return width
