"""`streamer pseudonym`: makes the key of a circle of readers, and says the pseudonym of a value to whoever holds it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from streamer.cli.support.options import command_named, json_option, optional_table_option
from streamer.cli.support.tables import show
from streamer.errors import UsageError
from streamer.table.codes.disguise import Pseudonym
from streamer.table.codes.same_text import counted_text
from streamer.table.key_files import make_key, read_key
from streamer.table.yaml.loading import load_table

_file = click.Path(path_type=Path)


@command_named(
    "pseudonym",
    "streamer pseudonym --make-key mine/readers.key",
    "streamer pseudonym --key-file mine/readers.key 4711",
    "streamer pseudonym --key-file mine/readers.key < values.txt",
)
@click.option("--make-key", "new", metavar="FILE", type=_file, help="Write a new key, for its owner alone.")
@click.option("--key-file", "file", metavar="FILE", type=_file, help="The key, as `publish` in TABLE names it.")
@optional_table_option
@click.argument("values", metavar="[VALUE]...", nargs=-1)
@json_option
def command(new: Path | None, file: Path | None, table: str | None, values: tuple[str, ...]) -> None:
    """Prints the pseudonym of each VALUE, or of each line of standard input, as columns with `publish: {pseudonym:
    FILE}` have it; or makes a key.

    A VALUE stays in the shell's history, and lines of standard input do not. TABLE is only needed if it says
    `capitals_count`. A key that is lost cannot be made again: keep a copy, apart from what is published.
    """
    if (new is None) == (file is None) or (new is not None and values):
        raise UsageError("give --make-key FILE alone, or --key-file FILE and values")
    if new is not None:
        make_key(new)
        show({"ok": True, "key_file": str(new)}, [f"written: {new}; keep a copy, and give it to no reader"])
        return
    if file is not None:
        pseudonym = Pseudonym(read_key(file))
        counted = counted_text(table is not None and load_table(table, needs_key=False).capitals_count)
        lines = values or (line.rstrip("\r\n") for line in sys.stdin)
        texts = [pseudonym.text(counted(value)) for value in lines]
        show({"ok": True, "pseudonyms": texts}, texts)
