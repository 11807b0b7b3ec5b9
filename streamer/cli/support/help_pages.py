"""The help pages of all commands, kept in a file: importing a command's libraries takes a second or two.

`make reference` writes help.json from the commands, and a test holds it to them. A call that says more than --help
imports its command as ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

FILE = "help.json"
ASKED = ("--help", "-h")


class HelpPage(click.Command):
    """A command of which only the help is known."""

    def __init__(self, name: str, page: Mapping[str, Any]) -> None:
        super().__init__(name, help=page["help"], epilog=page["epilog"])
        self._page = page

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return list(self._page["usage"])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading in ("Options", "Commands"):
            if rows := self._page[heading.lower()]:
                with formatter.section(heading):
                    formatter.write_dl([tuple(row) for row in rows])


def page_asked_for(words: list[str]) -> HelpPage | None:
    """The page of the command that these words ask help for, and nothing else; None: it has to be imported."""
    *name, last = words
    if last not in ASKED:
        return None
    page = json.loads(Path(__file__).with_name(FILE).read_text("utf-8")).get(" ".join(name))
    return None if page is None else HelpPage(" ".join(name), page)


def page_of(command: click.Command, context: click.Context) -> dict[str, Any]:
    """The page that is kept of a command."""
    below = command.commands if isinstance(command, click.Group) else {}
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return {
        "usage": command.collect_usage_pieces(context),
        "help": command.help,
        "options": [record for record in records if record is not None],
        "commands": [(name, below[name].get_short_help_str(click.HelpFormatter().width)) for name in sorted(below)],
        "epilog": command.epilog,
    }
