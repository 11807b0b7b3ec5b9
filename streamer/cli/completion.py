"""What a shell offers while somebody types: tables, algorithms, QI groups. Switched on: docs/tutorial.md.

A shell waits while somebody types. Names of QI groups, which everybody may see, are in Redis alone: it is given a
moment to tell them. Where it does not, or where the table cannot be read, nothing is offered and nothing is said: what
stands on stderr would stand in the line that is being typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from threading import Thread
from typing import Any

import click
from click.shell_completion import CompletionItem

from streamer.table.yaml_files import FILE_NAME

DEPTH = 2
"""How many folders below what is written already a table is looked for."""


ANSWER_SECONDS_MAX = 0.5
"""How long a shell waits for Redis."""

QI_GROUPS_MAX = 100


def tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders with a table.yaml, and such files themselves; where there is none near, any folder."""
    begun = escape(incomplete)
    found = {file for depth in range(DEPTH) for file in glob(f"{begun}*/{'*/' * depth}{FILE_NAME}")}
    items = [CompletionItem(str(Path(file).parent)) for file in sorted(found)]
    items += [CompletionItem(file) for file in sorted(glob(f"{begun}*.yaml")) if Path(file).name == FILE_NAME]
    return items or [CompletionItem(incomplete, type="dir")]  # the shell's own folders


def algorithms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The whole-table algorithms."""
    from streamer.table.yaml_values import REBUILD_ALGORITHMS

    return [CompletionItem(name) for name in REBUILD_ALGORITHMS if name.startswith(incomplete)]


def qi_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The QI groups of the table that the command names, as Redis has them."""
    found: list[str] = []
    asking = Thread(target=_ask_redis, args=(dict(ctx.params), incomplete, found), daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS_MAX)
    return [CompletionItem(name) for name in found[:QI_GROUPS_MAX]]


def _ask_redis(options: Mapping[str, Any], incomplete: str, found: list[str]) -> None:
    """Fills in the names that begin so, shard by shard. Whatever goes wrong is not this shell's matter."""
    from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
    from streamer.incremental.store.redis_server import connect
    from streamer.table.published import qi_group_name
    from streamer.table.yaml_loading import load_table

    with suppress(Exception):
        table_name, client = load_table(options["table"]).name, connect(options["redis"], ANSWER_SECONDS_MAX)
        for shard in shards_of(client, table_name):
            numbers = RedisLookups(client, table_name, shard).qi_group_numbers()
            names = (qi_group_name(shard, number) for number in numbers)
            found += [name for name in names if name.startswith(incomplete)]
