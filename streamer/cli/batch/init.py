"""`streamer init`: a first table.yaml, with its hierarchies, from a file of rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import click

from streamer.cli.support.next_call import say_next
from streamer.cli.support.options import command_named, reads_rows, rows_argument
from streamer.cli.support.outputs import OutputPath, force_option, require_writable, words_beside
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import plural, say
from streamer.errors import UsageError
from streamer.table.codes import cell_text, is_scalar, source_cells
from streamer.table.draft import yaml_text
from streamer.table.draft.columns import Drafted, drafted, source_key_of
from streamer.table.draft.hints import is_no_header
from streamer.table.draft.identifiers import identified
from streamer.table.draft.kinds import TimeScale
from streamer.table.files import STDOUT, atomic_writers
from streamer.table.sources import RowSource
from streamer.table.stray_rows import TITLES, said_of, stray_rows
from streamer.table.yaml import FILE_NAME

K_WANTED = 5
PAGE = "docs/explanation/what-is-a-quasi-identifier.md"
FLAT_MAX = 4  # categories that need no levels
EXAMPLES, EXAMPLE_MAX = 5, 40  # values of a column that are shown, and characters of each

ROLES = {"q": "quasi-identifier", "s": "sensitive", "o": ""}
_MEANINGS = (
    "q  quasi-identifier: others may know it of a person; it is published as an interval or a group",
    "s  sensitive: what nobody should learn of a person; it is published as it is",
    "o  out: never published, such as names and numbers of people",
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


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
        if is_no_header(list(frame.columns)):
            raise UsageError(
                f"{data.name}: its first line looks like a row: most of its names are numbers or dates; put a line with"
                " the names of the columns before it"
            )
        cells = {name: source_cells(frame[name]).tolist() for name in frame.columns}
        strange = {name: _strange_of(name, values) for name, values in cells.items() if not all(map(is_scalar, values))}
        texts = {name: list(map(cell_text, values)) for name, values in cells.items() if name not in strange}
        if len(frame) < 2:
            raise UsageError(f"{data.name}: has {plural(len(frame), 'row')}; a table needs at least two")
        stray = stray_rows(texts)
        texts = {name: [text for i, text in enumerate(cells) if i not in stray] for name, cells in texts.items()}
        with progress.stage("look"):
            source_key = source_key_of(texts) or yaml_text.near_key_of(texts)
            columns = [
                strange[name] if name in strange else drafted(name, texts[name]) for name in cells if name != source_key
            ]
    if ask:
        columns = [column if column.name in strange else _asked(column, texts[column.name]) for column in columns]
    columns = list(_apart(columns))
    if not any(column.role == "quasi-identifier" for column in columns):
        why = "; ".join(f"{column.name!r}: {column.why}" for column in columns)
        raise UsageError(f"{data.name}: no column looks like a quasi-identifier ({why}); write {FILE_NAME} by hand")
    name = _NOT_IN_NAMES.sub("-", data.stem).strip("-._")[:200] or "table"
    k = max(2, min(K_WANTED, len(frame) // 2))
    held = identified(texts[source_key]) if isinstance(source_key, str) else ""
    text = yaml_text.table_text(name, data.name, len(frame), source_key, k, columns, said_of(stray), held)
    files = {drafted_file: text}
    named = yaml_text.hierarchy_names(columns)
    files |= {out / named[one.name]: yaml_text.hierarchy_text(one.hierarchy) for one in columns if one.name in named}
    if out == STDOUT and named:
        raise UsageError(f"--out -: the hierarchies of {', '.join(named)} are files of their own: name a folder")
    require_writable(list(files), force, data.files)
    _write(files)
    with words_beside(out):
        _print(out, source_key, held, columns, data)
        if titles := frame.attrs.get(TITLES):
            say(f"warning: {titles}")
        if stray:
            say(f"warning: {said_of(stray)}; the draft is made from the others")


def _strange_of(name: str, values: Sequence[object]) -> Drafted:
    """A column with lists, bytes and the like, which is left out."""
    strange = [value for value in values if not is_scalar(value)]
    kinds = ", ".join(sorted({type(value).__name__ for value in strange}))
    why = f"{plural(len(strange), 'row')} with a value that is no text, number, boolean or date ({kinds}): convert it"
    return Drafted(name, "", f"{why} in the source, or in the query, if the column is to be published")


def _apart(columns: list[Drafted]) -> Iterator[Drafted]:
    """The columns; those that would be published under a name that is taken lose their role."""
    taken = {"qi_group"}
    for column in columns:
        ends = (f"{column.name}_lo", f"{column.name}_hi")
        published = {*ends} if column.scale is not None else {column.name} if column.role else set()
        if taken & published:
            yield replace(column, role="", why="would be published under a name that is taken; rename it", hierarchy=())
            continue
        taken |= published
        yield column


def _write(files: dict[Path, str]) -> None:
    for path in files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent}: cannot be created: {error.strerror}") from None
    with atomic_writers(list(files), text=True) as opened:
        for file, text in zip(opened, files.values(), strict=True):
            file.write(text)


def _print(
    out: Path, source_key: str | yaml_text.NearKey | None, held: str, columns: list[Drafted], data: RowSource
) -> None:
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
        file = out / yaml_text.hierarchy_names(columns)[name]
        yield ["hierarchy", *data.words, "--column", name, "--by", "frequency", "-o", str(file), "--force"]


def _asked(column: Drafted, texts: Sequence[str]) -> Drafted:
    """The column in the role that is chosen; Enter takes the proposed one."""
    values = islice(dict.fromkeys(text for text in texts if text), EXAMPLES)
    click.echo(f"\n{column.name}: {', '.join(map(_shown, values)) or 'holds nothing'}", err=True)
    click.echo(f"  taken for {_kind(column)}: {column.why}", err=True)
    for line in _MEANINGS:
        click.echo(f"    {line}", err=True)
    proposed = next(letter for letter, role in ROLES.items() if role == column.role)
    chosen = click.prompt("  role", default=proposed, type=click.Choice([*ROLES]), err=True)
    if chosen == proposed:
        return column
    again = drafted(column.name, texts, ROLES[chosen])
    if again.role != ROLES[chosen]:
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
