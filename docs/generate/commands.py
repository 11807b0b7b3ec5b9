"""The reference of the commands: what each says of itself, as `--help` shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from streamer.cli.main import COMMANDS, main
from streamer.cli.support.help_pages import page_of

HEAD = """\
# Commands

What every command says of itself by `--help`. `--json`, where a command has it, prints one object for programs; a
failure is then one, too: `{"ok": false, "error": ..., "hint": ..., "kind": ..., "exit_code": ...}`.

"""
WIDTH = 110
SETTINGS: dict[str, Any] = {"help_option_names": main.context_settings["help_option_names"]}


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, in the order of their names; those of groups behind their group."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if command is None:
            continue
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", command.commands[below]) for below in sorted(command.commands))


def help_json() -> str:
    """What `--help` shows of every command, groups too, for `streamer.cli.support.help_pages`."""
    found = {**dict(all_commands()), **{name: main.get_command(click.Context(main), name) for name in COMMANDS}}
    pages = {}
    for name, command in sorted(found.items()):
        assert command is not None
        context = click.Context(command, info_name=name, parent=click.Context(main, info_name="streamer"), **SETTINGS)
        pages[name] = page_of(command, context)
    return json.dumps(pages, ensure_ascii=False, indent=1) + "\n"


def page() -> str:
    """The whole page."""
    found = list(all_commands())
    listed = "\n".join(f"* [{name}](#{_anchor(name)}): {command.get_short_help_str(100)}" for name, command in found)
    return f"{HEAD}{listed}\n" + "".join(_section(name, command) for name, command in found)


def _anchor(name: str) -> str:
    return f"streamer-{name.replace(' ', '-')}"


def _section(name: str, command: click.Command) -> str:
    context = click.Context(
        command, info_name=f"streamer {name}", max_content_width=WIDTH, terminal_width=WIDTH, **main.context_settings
    )
    return f"\n## streamer {name}\n\n```\n{command.get_help(context).rstrip()}\n```\n"
