"""Asks for the role of each column: `streamer init --ask`.

Five values of a column are shown as examples, so this is for a terminal only: never a file, a pipe or a log.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice

import click

from streamer.errors import UsageError
from streamer.table.draft.columns import Drafted, drafted
from streamer.table.draft.kinds import TimeScale

PAGE = "docs/explanation/what-is-a-quasi-identifier.md"
EXAMPLES = 5
EXAMPLE_MAX = 40
"""Characters of a value that are shown."""

ROLES = {"q": "quasi-identifier", "s": "sensitive", "o": ""}
_MEANINGS = (
    "q  quasi-identifier: others may know it of a person; it is published as an interval or a group",
    "s  sensitive: what nobody should learn of a person; it is published as it is",
    "o  out: never published, such as names and numbers of people",
)


def require_terminal() -> None:
    """Raises UsageError if what is asked would not be asked on a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("--ask: shows values of people, so it needs a terminal on both sides; leave it out here")


def asked(column: Drafted, texts: Sequence[str]) -> Drafted:
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
