"""What a shell offers while a command is being written: tables and algorithms. Switching it on: README.

Nothing is asked of a server, and no table is read: a shell waits while somebody types.
"""

from __future__ import annotations

from glob import escape, glob
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from streamer.table.yaml_files import FILE_NAME

DEPTH = 2
"""How many folders below what is written already a table is looked for."""


def tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders with a table.yaml, and such files themselves; where there is none near, any folder."""
    begun = escape(incomplete)
    found = {file for depth in range(DEPTH) for file in glob(f"{begun}*/{'*/' * depth}{FILE_NAME}")}
    items = [CompletionItem(str(Path(file).parent)) for file in sorted(found)]
    items += [CompletionItem(file) for file in sorted(glob(f"{begun}*.yaml")) if Path(file).name == FILE_NAME]
    return [CompletionItem(incomplete, type="dir"), *items]  # the shell's own folders, where nothing follows


def algorithms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The whole-table algorithms."""
    from streamer.table.yaml_shape import REBUILD_ALGORITHMS

    return [CompletionItem(name) for name in REBUILD_ALGORITHMS if name.startswith(incomplete)]
