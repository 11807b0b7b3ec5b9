"""`streamer reload`: loads a table again from its source, whatever Redis and the output hold.

This is the remedy for most of what a worker refuses: Redis is empty or old, table.yaml has changed, the input was
recreated or has more partitions. Readers of the output go on, and end with exactly the new table.
"""

from __future__ import annotations

import click

from streamer.cli.stream.load import Loading, carry_out, loading_options
from streamer.cli.support.options import ROWS_OR_URL, TOPIC, command_named, reads_rows
from streamer.errors import UsageError
from streamer.loading.shards import found_shards
from streamer.table.sources import RowSource


@command_named(
    "reload",
    "streamer reload --table mine --from-source now.csv --from-offset earliest",
    "streamer reload --table mine --from-source topic",
)
@loading_options
@click.option(
    "--from-source",
    "source",
    metavar=f"{ROWS_OR_URL}|{TOPIC}",
    required=True,
    help=f"A file or a database with all rows of the source table; or {TOPIC}: the whole input is read again.",
)
@click.option(
    "--although-trimmed",
    is_flag=True,
    help="Accept an input that has lost its beginning: rows that it no longer contains are removed.",
)
@reads_rows("source")
def command(how: Loading, source: RowSource, although_trimmed: bool) -> None:
    """Loads the table again from its source; replaces what Redis and the output hold of it.

    Stop the workers first: a running one is shut out, and if one has read on since this command began, nothing is
    written. The whole-table algorithm makes the QI groups. In the output, the releases that bring the new rows remove
    the old ones; they have the header `outside`. After any error, call the command again: it starts from the beginning.
    While it runs, another `load` or `reload` of its shards is refused.
    """
    if although_trimmed and str(source) != TOPIC:
        raise UsageError(f"--although-trimmed: goes with --from-source {TOPIC} only")
    carry_out(how, "streamer reload", found_shards, None if str(source) == TOPIC else source, although_trimmed)
