"""`streamer distribution`: how many rows have each value of a sensitive column, for `t` in table.yaml."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from streamer.cli.support.options import command_named, reads_rows, rows_argument, table_option
from streamer.cli.support.outputs import force_option, require_writable, text_option, words_beside
from streamer.cli.support.tables import plural, say
from streamer.errors import UsageError
from streamer.table.codes import counted_rows
from streamer.table.encode import Encoder, without_absent_key
from streamer.table.files import STDOUT, atomic_writer
from streamer.table.microdata import Microdata, microdata_of_columns, rows_by_text
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import load_table


@command_named("distribution", "streamer distribution rows.csv --table mine --column problem")
@rows_argument
@table_option
@click.option("--column", required=True, metavar="NAME", help="A sensitive column of table.yaml.")
@text_option(".yaml", ".txt")
@force_option
@reads_rows("data")
def command(data: RowSource, table: Path, column: str, out: Path, force: bool) -> None:
    """Counts the rows of each value of a sensitive column, as `distribution:` in table.yaml has them.

    `t` compares every QI group with it. A stream needs one that stays: its own table changes with every event.
    """
    schema = load_table(table, needs_key=False)
    names = [one.name for one in schema.kept if one.sensitive]
    if column not in names:
        raise UsageError(f"--column {column}: is no sensitive column of the table; it has {', '.join(names) or 'none'}")
    require_writable([out], force, data.files)
    frame = data.rows(schema.named)
    schema = without_absent_key(schema, frame.columns)
    rows = _rows_by_value(microdata_of_columns(schema, Encoder(schema).columns(frame)), column)
    with atomic_writer(out, text=True) as file:
        file.write(yaml.safe_dump({"distribution": rows}, allow_unicode=True, sort_keys=False))
    with words_beside(out):
        where = "" if out == STDOUT else f"written: {out}; "
        say(f"{where}{plural(len(rows), 'value')} of {plural(sum(rows.values()), 'row')}. Put it below {column} in")
        say("table.yaml. Every reader may infer it from what is published; the file is as private as the data.")


def _rows_by_value(microdata: Microdata, column: str) -> dict[str, int]:
    """The most frequent value first; '' for nulls."""
    i = [one.name for one in microdata.table.kept].index(column)
    counted = counted_rows(rows_by_text(microdata, i), microdata.table.counted_text)
    return {text or "": n for text, n in sorted(counted.items(), key=lambda one: (-one[1], one[0] or ""))}
