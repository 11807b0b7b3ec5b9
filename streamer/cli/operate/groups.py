"""`streamer groups`: the QI groups of a table in Redis, with what the changelog shows of them.

Source keys are never shown, sensitive and kept values only with --raw. The nearest QI groups follow from the boxes as
they are now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec
import numpy as np
from rich.table import Table as Grid

from streamer.cli.support.options import command_named, json_option, parsed_group, redis_option, table_option
from streamer.cli.support.options import qi_groups as offered_qi_groups
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import Line, plural, published_box, show, shown_range
from streamer.errors import UsageError
from streamer.incremental.engine.explained import nearest_to
from streamer.incremental.engine.stored_state import QIGroupState
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import connect_now
from streamer.table.published.rows import qi_group_name
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table


@command_named(
    "groups", "streamer groups --table mine --shard 0 --limit 5", "streamer groups --table mine --nearest 0-17"
)
@table_option
@redis_option
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@click.option(
    "--nearest",
    metavar="GROUP",
    shell_complete=offered_qi_groups,
    help="The QI groups nearest to this one (like 0-17), best first.",
)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to print.")
@click.option("--raw", is_flag=True, help="Also print the sensitive and kept values.")
@json_option
def command(table: str, redis: str, shard: int | None, nearest: str | None, limit: int, raw: bool) -> None:
    """Shows the QI groups of a table with their boxes, sizes and losses (NCP: 0 exact values, 1 nothing left)."""
    schema = load_table(table)
    client = connect_now(redis)
    if nearest is not None:
        number, qi_group = parsed_group("--nearest", nearest)
        _nearest(schema, RedisLookups(client, schema.name, number), qi_group, limit)
        return
    numbers = shards_of(client, schema.name) if shard is None else [shard]
    shown: list[dict[str, Any]] = []
    total = 0
    with stages() as progress:
        for number in numbers:
            with progress.stage(f"shard {number}"):
                qi_groups = _qi_groups(schema, RedisLookups(client, schema.name, number))
            total += len(qi_groups)
            wanted = sorted(qi_groups)[: limit - len(shown)]
            shown += [group_described(schema, number, qi_group, qi_groups[qi_group], raw) for qi_group in wanted]
    show({"table": schema.name, "qi_groups": total, "shown": shown}, _lines(schema, shown, total, raw))


def _qi_groups(table: Table, store: RedisLookups) -> dict[int, QIGroupState]:
    """Raises ShardRefused if the shard was not written for this table.yaml."""
    state = store.load()  # does not read the rows, which are loaded lazily
    if state is None:
        return {}
    check_written_for(table, store.shard, state.meta)
    return dict(state.kept.qi_groups)


def _nearest(table: Table, store: RedisLookups, qi_group: int, limit: int) -> None:
    name = qi_group_name(store.shard, qi_group)
    if store.read_group(qi_group) is None:
        raise UsageError(f"{table.name} has no QI group {name} (any more)")
    found = nearest_to(table, qi_group, _qi_groups(table, store), limit)
    neighbours = [{"qi_group": qi_group_name(store.shard, one.number), "qgssd": one.total} for one in found]
    lines = [
        f"nearest to {name}",
        *(f"{one['qi_group']:>12}  QGSSD {one['qgssd']:.6f}" for one in neighbours),
    ]
    show({"qi_group": name, "nearest": neighbours}, lines)


def group_described(table: Table, shard: int, qi_group: int, state: QIGroupState, raw: bool) -> dict[str, Any]:
    lo, hi = np.array(state.lo, dtype=np.int64), np.array(state.hi, dtype=np.int64)
    described = {
        "qi_group": qi_group_name(shard, qi_group),
        "size": len(state.members),
        "ncp": table.space.mean_loss(float(table.space.width_loss(lo, hi))),
        "box": published_box(table, state.lo, state.hi),
    }
    if table.space.is_bounded:
        described["withheld"] = table.space.forbids(state.lo, state.hi)
    if raw:
        names = [column.name for column in table.kept]
        described["values"] = [dict(zip(names, map(msgspec.Raw, slot), strict=True)) for slot in state.slots]
    return described


def _lines(table: Table, shown: list[dict[str, Any]], total: int, raw: bool) -> Iterator[Line]:
    attributes = [attribute.name for attribute in table.attributes]
    grid = Grid("QI group", "size", "NCP", *attributes)
    if raw:
        grid.add_column("values", overflow="fold")
    for described in shown:
        ranges = [shown_range(described["box"], name) for name in attributes]
        values = [msgspec.json.encode(described["values"]).decode()] if raw else []
        name = described["qi_group"] + " -" * described.get("withheld", False)
        grid.add_row(name, str(described["size"]), f"{described['ncp']:.4f}", *ranges, *values)
    yield grid
    if any(described.get("withheld") for described in shown):
        yield "- withheld: wider than `coarsest` allows"
    yield f"{len(shown):,} of {plural(total, 'QI group')}"
