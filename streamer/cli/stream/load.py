"""`streamer load`: loads the first rows of an empty table, all at once."""

from __future__ import annotations

import click

from streamer.cli.operate.reload import Loading, carry_out, loading_options
from streamer.cli.stream.bootstrap import empty_shards
from streamer.cli.support.options import ROWS_OR_URL, TOPIC, examples, reads_rows
from streamer.errors import UsageError
from streamer.table.sources import RowSource


@click.command(
    name="load",
    epilog=examples("streamer load rows.csv --table mine", "streamer load people.parquet --table mine --shards 0-15"),
)
@click.argument("rows", metavar=ROWS_OR_URL)
@loading_options
@reads_rows("rows")
def command(how: Loading, rows: RowSource) -> None:
    """Loads all rows of a file or a database into an empty table; the whole-table algorithm makes the QI groups.

    Call it before the first worker is started: the rows go straight to Redis and the output, not through the input.
    Workers apply later what is written to the input in the meantime. A table that is not empty is refused; `reload`
    replaces one.
    """
    if str(rows) == TOPIC:
        raise UsageError(f"load reads a file or a database; `streamer reload --from-source {TOPIC}` reads the input")
    carry_out(how, "streamer load", empty_shards, rows)
