"""`streamer index`: the private index of a live table, source key by source key, for `verify --source`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import TypeVar

import click

from streamer.cli.support.options import command_named, json_option, redis_option, table_option
from streamer.cli.support.outputs import CSV, OutputPath, force_option, require_writable, words_beside
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import plural, show
from streamer.errors import Conflict, UsageError
from streamer.incremental.engine.stored_state import PENDING
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import connect_now
from streamer.table.csv_files import write_index
from streamer.table.files import atomic_writer
from streamer.table.published.rows import qi_group_name
from streamer.table.yaml.loading import files_of, load_table

READINGS_MAX, AGAIN_SECONDS = 10, 0.2

T = TypeVar("T")


@command_named("index", "streamer index --table mine --out private.csv")
@table_option
@redis_option
@click.option(
    "--out",
    metavar="PRIVATE.csv|-",
    required=True,
    type=OutputPath(*CSV, stdout=True),
    help="Where to write it; keep it as secret as the rows.",
)
@force_option
@json_option
def command(table: str, redis: str, out: Path, force: bool) -> None:
    """Writes the QI group of every source row of a live table (columns key, qi_group; empty while pending).

    The file is private: it joins published rows to people. Each shard is read as of one commit. For `verify`, write
    this file, the changelog and the source table while no changes come.
    """
    require_writable([out], force, files_of(table))
    schema = load_table(table)
    client = connect_now(redis)
    numbers = shards_of(client, schema.name)
    if not numbers:
        raise UsageError(f"Redis holds no shard of {schema.name}: is --redis right, has a worker run?")
    pairs: list[tuple[str, str]] = []
    shards = []
    with stages() as progress:
        for number in numbers:
            store = RedisLookups(client, schema.name, number)
            with progress.stage(f"shard {number}"):
                meta, members = as_of_one_commit(store, store.index_table)
                pairs += ((key, "" if group == PENDING else qi_group_name(number, group)) for key, group in members)
            shards.append({"shard": number, "release": meta.release, "next": meta.next, "rows": len(members)})
        with progress.stage("write"), atomic_writer(out, text=True) as file:
            write_index(pairs, file)
    pending = sum(not name for _, name in pairs)
    lines = ["  ".join(f"{name} {value:,}" for name, value in shard.items()) for shard in shards]
    lines.append(f"{plural(len(pairs), 'row')}, {pending:,} of them pending, in {out}, which is private")
    report = {"table": schema.name, "out": str(out), "rows": len(pairs), "pending": pending, "shards": shards}
    with words_beside(out):
        show(report, lines)


def as_of_one_commit(store: RedisLookups, read: Callable[[], T]) -> T:
    """Returns what `read` returns; calls it again if a worker has committed in between. Raises UsageError."""
    for _ in range(READINGS_MAX):
        before = store.meta()
        with suppress(Conflict):
            found, after = read(), store.meta()
            if (before and before.commit) == (after and after.commit):
                return found
        sleep(AGAIN_SECONDS)
    raise UsageError(
        f"shard {store.shard} was committed to during each of {READINGS_MAX} readings: try again when fewer changes "
        "come, or stop its worker first"
    )
