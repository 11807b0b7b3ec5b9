"""`streamer init`: a first table.yaml, with its hierarchies, from a file of rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import click

from streamer.cli.support.next_call import say_next
from streamer.cli.support.options import command_named, reads_rows, rows_argument
from streamer.cli.support.outputs import OutputPath, force_option, require_writable, words_beside
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import say
from streamer.errors import UsageError
from streamer.table.draft import yaml_text
from streamer.table.draft.columns import Drafted, drafted
from streamer.table.draft.drafting import TableDraft, draft_of, write_files
from streamer.table.draft.kinds import TimeScale
from streamer.table.files import STDOUT
from streamer.table.sources import RowSource
from streamer.table.stray_rows import TITLES, said_of
from streamer.table.yaml import FILE_NAME

PAGE = "docs/explanation/what-is-a-quasi-identifier.md"
FLAT_MAX = 4  # categories that need no levels
EXAMPLES, EXAMPLE_MAX = 5, 40  # values of a column that are shown, and characters of each

_LETTERS = {"q": "quasi-identifier", "s": "sensitive", "o": ""}
_MEANINGS = (
    "q  quasi-identifier: others may know it of a person; it is published as an interval or a group",
    "s  sensitive: what nobody should learn of a person; it is published as it is",
    "o  out: never published, such as names and numbers of people",
)


@command_named(
    "init",
    "streamer init rows.csv -o mine",
    "streamer init 'postgresql://reader@db.example/clinic?table=patients' -o mine",
)
@rows_argument
@click.option(
    "-o",
    "--out",
    metavar="DIR|-",
    type=OutputPath(folder=True, stdout=True),
    default=Path("."),
    show_default=True,
    help="Where to write table.yaml and hierarchies/; -: table.yaml to standard output, if there are no hierarchies.",
)
@click.option("--ask", is_flag=True, help="Ask what each column is, with five of its values; only on a terminal.")
@force_option
@reads_rows("data")
def command(data: RowSource, out: Path, ask: bool, force: bool) -> None:
    """Drafts a table.yaml, with its hierarchy files, from a file of rows or a table of a database.

    It guesses types, scales and obvious hierarchies. The roles of the columns are yours to judge; the file says what to
    check. --ask goes through the columns one by one.
    """
    if ask and not (sys.stdin.isatty() and sys.stderr.isatty()):  # values are never shown in a file, a pipe or a log
        raise UsageError("--ask: shows values of people, so it needs a terminal on both sides; leave it out here")
    drafted_file = out if out == STDOUT else out / FILE_NAME
    require_writable([drafted_file], force, data.files)
    with stages() as progress:
        with progress.stage("read"):
            frame = data.rows()
        with progress.stage("look"):
            draft = draft_of(frame, data.name)
    draft = draft.judged(_asked if ask else lambda column, _: column)
    hierarchies = draft.hierarchies
    files = {drafted_file: draft.text(data.stem)} | {out / name: text for name, text in hierarchies.items()}
    if out == STDOUT and hierarchies:
        named = yaml_text.hierarchy_names(column.name for column in draft.columns if column.hierarchy)
        raise UsageError(f"--out -: the hierarchies of {', '.join(named)} are files of their own: name a folder")
    require_writable(list(files), force, data.files)
    write_files(files)
    with words_beside(out):
        _print(out, draft, data)
        if titles := frame.attrs.get(TITLES):
            say(f"warning: {titles}")
        if draft.stray:
            say(f"warning: {said_of(draft.stray)}; the draft is made from the others")


def _print(out: Path, draft: TableDraft, data: RowSource) -> None:
    source_key, held, columns = draft.key, draft.held, draft.columns
    key = f"key {source_key}, which is never published" if isinstance(source_key, str) else yaml_text.no_key(source_key)
    say(f"written: {out / FILE_NAME}; {key}{f' (holds {held})' if held else ''}")
    for column in columns:
        say(f"  {column.name}: {column.role or 'left out'} ({column.why})")
    if any(column.hierarchy for column in columns):
        say(f"The values of the categories are in {out / yaml_text.FOLDER}/: keep it as private as the data.")
    say(f"The roles are guesses: check every line ({PAGE}).")
    if out != STDOUT:
        say_next(["check", "--table", str(out), "--data", *data.words], *_joined_next(out, columns, data))


def _joined_next(out: Path, columns: list[Drafted], data: RowSource) -> Iterator[list[str]]:
    """The call that joins values of the flat hierarchy with the most, if it has some."""
    flat = [
        column
        for column in columns
        if len(column.hierarchy) > FLAT_MAX and all(len(row) == 2 for row in column.hierarchy)
    ]
    if flat:
        name = max(flat, key=lambda column: len(column.hierarchy)).name
        file = out / yaml_text.hierarchy_names(column.name for column in columns if column.hierarchy)[name]
        yield ["hierarchy", *data.words, "--column", name, "--by", "frequency", "-o", str(file), "--force"]


def _asked(column: Drafted, texts: Sequence[str]) -> Drafted:
    """The column in the role that is chosen; Enter takes the proposed one."""
    values = islice(dict.fromkeys(text for text in texts if text), EXAMPLES)
    click.echo(f"\n{column.name}: {', '.join(map(_shown, values)) or 'holds nothing'}", err=True)
    click.echo(f"  taken for {_kind(column)}: {column.why}", err=True)
    for line in _MEANINGS:
        click.echo(f"    {line}", err=True)
    proposed = next(letter for letter, role in _LETTERS.items() if role == column.role)
    chosen = click.prompt("  role", default=proposed, type=click.Choice([*_LETTERS]), err=True)
    if chosen == proposed:
        return column
    again = drafted(column.name, texts, _LETTERS[chosen])
    if again.role != _LETTERS[chosen]:
        click.echo(f"  cannot be one: {again.why}", err=True)
    return again


def _shown(text: str) -> str:
    """A value that is safe to print: no control characters, and not too long."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return plain if len(plain) <= EXAMPLE_MAX else plain[:EXAMPLE_MAX] + "..."


def _kind(column: Drafted) -> str:
    if not column.role:
        return "a column to leave out"
    if isinstance(column.scale, TimeScale):
        what = column.scale.clock.name
    elif column.scale is not None:
        what = "code" if column.scale.width is not None else "number"
    else:
        what = column.type or "category"
    return f"a {column.role}, of type {what}"
