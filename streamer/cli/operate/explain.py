"""`streamer explain`: why a row is in its QI group, and what the next loss would do to that group.

Reads Redis as of one commit. Source keys and values are shown with --raw only. Even without it, what is printed for a
KEY is private: a row's similarities say where it lies among other boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click
import msgspec
import numpy as np
from rich.table import Table as Grid

from streamer.cli.operate.index import as_of_one_commit
from streamer.cli.support.options import command_named, json_option, parsed_group, qi_groups, redis_option, table_option
from streamer.cli.support.tables import Line, figure, plural, published_box, show, shown_range
from streamer.errors import UsageError
from streamer.incremental.engine.explained import Similar, nearest_to, similar_to_row, slack
from streamer.incremental.engine.stored_state import PENDING, How, Origin, QIGroupState, Record, SimilarityList
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.store.base import Adopted, Meta
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import connect_now
from streamer.table.published.rows import qi_group_name
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

NEAREST_SHOWN = 3

HOW_FORMED: dict[How, str] = {
    "formed": "formed from pending rows",
    "loaded": "loaded with the shard's first table",
    "merged": "merged from two QI groups",
    "split": "split from a QI group",
    "cut afresh": "cut again from two or three QI groups by local repair",
    "rebuilt": "made by a rebuild of its region",
}
NOT_KNOWN = "not known (an older streamer, which did not store it, formed the group)"


class Read(NamedTuple):
    """A shard as of one commit."""

    meta: Meta
    record: Record | None  # of KEY
    number: int  # of the QI group to explain, or PENDING
    qi_groups: dict[int, QIGroupState]
    members: dict[str, Record]  # of that QI group, by source key
    similar: SimilarityList | None
    origin: Origin | None


@command_named("explain", "streamer explain --table mine 71", "streamer explain --table mine --group 0-17")
@table_option
@redis_option
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--group", metavar="GROUP", shell_complete=qi_groups, help="A QI group (like 0-17) instead of a row.")
@click.option("--raw", is_flag=True, help="Also print source keys, cells and values.")
@json_option
def command(table: str, redis: str, key: str | None, group: str | None, raw: bool) -> None:
    """Explains why the row with the source key KEY is in its QI group; with --group, explains a QI group.

    It shows the row's similarity to its own QI group and to the next three, attribute by attribute (T-QGSSD); how many
    rows the group can lose before it violates the model; how and in which commit it was last formed; and with which
    group the next loss would merge it (QGSSD). KEY is written as in the file that `streamer index` writes.
    """
    if (key is None) == (group is None):
        raise UsageError("name either a row by its KEY, or a QI group by --group")
    schema = load_table(table)
    client = connect_now(redis)
    if group is not None:
        shard, number = parsed_group("--group", group)
        store, wanted = RedisLookups(client, schema.name, shard), f"QI group {group}"
    else:
        stores = [RedisLookups(client, schema.name, shard) for shard in shards_of(client, schema.name)]
        found = next((store for store in stores if store.read_records([str(key)])), None)
        if found is None:
            raise UsageError(f"no shard of {schema.name} holds a row with this key: is it written as in the index?")
        store, number, wanted = found, PENDING, "row with this key"
    if store.meta() is None:
        raise UsageError(f"Redis holds no shard {store.shard} of this table: is --redis right, has a worker run?")
    read = as_of_one_commit(store, lambda: _read(store, key, number))
    if read is None:
        raise UsageError(f"shard {store.shard} has no {wanted} (any more)")
    report = explain(schema, store.shard, read, raw)
    show({"table": schema.name, **report}, _lines(schema, report))


def _read(store: RedisLookups, key: str | None, number: int) -> Read | None:
    """Reads a shard with the row of a key, or with a QI group; None if it is not there."""
    record = None if key is None else store.read_records([key]).get(key)
    if key is not None and record is None:
        return None
    own = number if record is None else record.qi_group
    state = store.load()  # does not read the rows, which are loaded lazily
    qi_groups = {} if state is None else dict(state.kept.qi_groups)
    if own != PENDING and own not in qi_groups:
        return None
    members = store.read_records(qi_groups[own].members) if own != PENDING else {}
    similar = store.read_similarity(own) if own != PENDING else None
    origin = store.origin(own)
    meta = store.meta()
    return None if meta is None else Read(meta, record, own, qi_groups, members, similar, origin)


def explain(table: Table, shard: int, read: Read, raw: bool) -> dict[str, Any]:
    """The explanation as plain values. Raises ShardRefused if the shard was not written for this table.yaml."""
    check_written_for(table, shard, read.meta)
    report: dict[str, Any] = {"shard": shard, "commit": read.meta.commit}
    if read.record is not None:
        found = similar_to_row(table, read.record.row, read.number, read.qi_groups, NEAREST_SHOWN)
        report["row"] = {"pending": read.number == PENDING}
        if raw:
            report["row"] |= _raw_row(table, read.record)
        report["similarity"] = [_similar(table, shard, one, "t_qgssd") for one in found]
    if read.number != PENDING:
        report["qi_group"] = _group(table, shard, read, raw)
        report["next_loss"] = _next_loss(table, shard, read)
    return report


def _raw_row(table: Table, record: Record) -> dict[str, Any]:
    cells = table.space.cells(np.array(record.row.codes, dtype=np.int64)).tolist()
    values = zip((column.name for column in table.kept), map(msgspec.Raw, record.row.values), strict=True)
    return {"cells": published_box(table, cells, cells), "values": dict(values)}


def _similar(table: Table, shard: int, one: Similar, measure: str) -> dict[str, Any]:
    names = (attribute.name for attribute in table.attributes)
    described = {"qi_group": qi_group_name(shard, one.number), "place": one.place, measure: one.total}
    if measure == "t_qgssd":
        described["contains"] = one.contains
    return {**described, "terms": dict(zip(names, one.terms, strict=True))}


def _group(table: Table, shard: int, read: Read, raw: bool) -> dict[str, Any]:
    state = read.qi_groups[read.number]
    described: dict[str, Any] = {
        "name": qi_group_name(shard, read.number),
        "size": len(state.members),
        "box": published_box(table, state.lo, state.hi),
        "slack": [margin._asdict() for margin in slack(table, [record.row for record in read.members.values()])],
        "origin": read.origin,
        "adopted": (adopted := _adopted(read)) and msgspec.structs.asdict(adopted),
        "numbers_given": read.meta.qi_group_next - 1,
    }
    if table.space.is_bounded:
        described["withheld"] = table.space.forbids(state.lo, state.hi)
    if raw:
        described["members"] = sorted(state.members)
    return described


def _adopted(read: Read) -> Adopted | None:
    """The adoption of a QI group that an older version of the engine formed; None if this version formed it."""
    formed = read.origin.commit if read.origin is not None else read.meta.commit
    return next((one for one in read.meta.adopted if formed < one.commit), None)


def _next_loss(table: Table, shard: int, read: Read) -> dict[str, Any]:
    """The effect of the loss of one row, by the present boxes."""
    found = nearest_to(table, read.number, read.qi_groups, NEAREST_SHOWN)
    spare = min(margin.spare for margin in slack(table, [record.row for record in read.members.values()]))
    listed = read.similar and {
        "commit": read.similar.commit,
        "qgssd": {qi_group_name(shard, other): degree for other, degree in read.similar.neighbours},
    }
    return {
        "may_break_the_model": spare < 1,
        "local_repair": str(table.repair) if table.repair else None,
        "similarity": listed,
        "nearest": [_similar(table, shard, one, "qgssd") for one in found],
    }


def _lines(table: Table, report: dict[str, Any]) -> Iterator[Line]:
    names = [attribute.name for attribute in table.attributes]
    if "row" in report:
        row = report["row"]
        if "cells" in row:
            yield f"the row: {msgspec.json.encode(row['cells'] | row['values']).decode()}"
        yield f"similarity of the row (T-QGSSD), as of commit {report['commit']}, its own QI group first"
        yield from _similar_lines(report["similarity"], names, "T-QGSSD")
    if "qi_group" not in report:
        yield "the row is pending: no QI group of its shard can take it"
        return
    group, loss = report["qi_group"], report["next_loss"]
    box = ", ".join(f"{name} {shown_range(group['box'], name)}" for name in names)
    yield f"QI group {group['name']}: {plural(group['size'], 'row')}; {box}"
    if group.get("withheld"):
        yield "  withheld: it is wider than `coarsest` allows, so nobody gets it until it is narrower"
    for margin in group["slack"]:
        has, needs = figure(margin["has"]), figure(margin["needs"])
        yield f"  {margin['what']}: {has}, the model wants {needs}; rows to spare: {margin['spare']}"
    origin: Origin | None = group["origin"]
    formed = NOT_KNOWN if origin is None else f"{HOW_FORMED[origin.how]}, in commit {origin.commit}"
    yield f"  how it was formed: {formed}"
    if group["adopted"] is not None:
        adopted = Adopted(**group["adopted"])
        yield f"  engine version {adopted.version} formed it; a newer one adopted it, in commit {adopted.commit}"
    if "members" in group:
        yield f"  source keys: {', '.join(group['members'])}"
    if not loss["nearest"]:
        yield "if it falls below the model, its rows become pending: there is no other QI group"
        return
    when = "the next loss may merge it" if loss["may_break_the_model"] else "if it falls below the model, it merges"
    yield f"{when} with {loss['nearest'][0]['qi_group']}, the nearest group now (QGSSD)"
    if loss["similarity"]:
        listed = ", ".join(f"{name} {degree:.3f}" for name, degree in loss["similarity"]["qgssd"].items())
        yield f"similarity degrees (QGSSD) in Redis, as of commit {loss['similarity']['commit']}: {listed}"
    if loss["local_repair"]:
        yield f"  before that, local repair ({loss['local_repair']}) takes a row from a near group that can spare one"
    yield from _similar_lines(loss["nearest"], names, "QGSSD")


def _similar_lines(found: Sequence[dict[str, Any]], names: Sequence[str], title: str) -> Iterator[Line]:
    grid = Grid("QI group", title, *names)
    for one in found:
        inside = " *" if one.get("contains") else ""
        terms = (one[title.lower().replace("-", "_")], *(one["terms"][name] for name in names))
        grid.add_row(f"{one['qi_group']}{inside}", *map(figure, terms))
    yield grid
    if any(one.get("contains") for one in found):
        yield "* its box contains the row"
