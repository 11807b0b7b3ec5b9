"""`streamer explain`: why a row is in its QI group, and what the next loss would do to that group.

Redis is read and nothing else, as of one commit: where a worker commits meanwhile, it is read again, and not for ever.
Similarities, boxes and sizes are shown; source keys and values with --raw only. A row's similarities tell where it lies
among the boxes of others: what this command prints of a KEY is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import Any, NamedTuple

import click
import msgspec
import numpy as np
from rich.table import Table as RichTable

from streamer.cli.support.options import examples, json_option, qi_groups, redis_option, table_option
from streamer.cli.support.tables import figure, plural, print_table, say, shown_range
from streamer.errors import LawViolated, UsageError
from streamer.incremental.engine.explained import Similar, nearest_to, similar_to_row, slack
from streamer.incremental.engine.stored_state import PENDING, How, Origin, QIGroupState, Record, SimilarityList
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import connect
from streamer.table.published.rows import box_columns, json_texts, parse_qi_group, qi_group_name
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

NEAREST_SHOWN = 3
READINGS_MAX, AGAIN_SECONDS = 10, 0.2

SAID: dict[How, str] = {
    "formed": "formed by rows that were pending",
    "loaded": "made with the shard's first table",
    "merged": "merged out of two QI groups",
    "split": "a part of a QI group that was split",
    "cut afresh": "cut afresh out of two QI groups by local repair",
    "rebuilt": "made by a rebuild of its region",
}
NOT_KNOWN = "not known (formed by a streamer that did not write it down)"


class Read(NamedTuple):
    """What was read of one shard as of one commit; record: of the row that was asked for."""

    meta: Meta
    record: Record | None
    number: int
    qi_groups: dict[int, QIGroupState]
    members: dict[str, Record]
    similar: SimilarityList | None
    origin: Origin | None


@click.command(
    name="explain", epilog=examples("streamer explain --table mine 71", "streamer explain --table mine --group 0-17")
)
@table_option
@redis_option
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--group", metavar="GROUP", shell_complete=qi_groups, help="A QI group (like 0-17) instead of a row.")
@click.option("--raw", is_flag=True, help="Also print source keys, cells and values.")
@json_option
def command(table: str, redis: str, key: str | None, group: str | None, raw: bool, as_json: bool) -> None:
    """Explains why the row with the source key KEY is in its QI group, or what a QI GROUP is about.

    Said are the similarity to its own QI group and to the three it would join next, attribute by attribute (T-QGSSD);
    what the group can spare before its model breaks; how it was last formed, and in which commit; and with which one
    the next loss would merge it (QGSSD). KEY is written as in the file that `streamer index` writes.
    """
    if (key is None) == (group is None):
        raise UsageError("name a row by its KEY, or a QI group by --group: one of the two")
    schema = load_table(table)
    client = connect(redis)
    if group is not None:
        shard, number = _parsed(group)
        read = _as_of_one_commit(RedisLookups(client, schema.name, shard), None, number)
    else:
        stores = [RedisLookups(client, schema.name, shard) for shard in shards_of(client, schema.name)]
        store = next((store for store in stores if store.read_records([str(key)])), None)
        if store is None:
            raise UsageError(f"no shard of {schema.name} holds a row with this key: is it written as in the index?")
        shard, read = store.shard, _as_of_one_commit(store, key, None)
    report = explain(schema, shard, read, raw)
    if as_json:
        click.echo(msgspec.json.encode({"table": schema.name, **report}))
        return
    _print(schema, report)


def _parsed(name: str) -> tuple[int, int]:
    try:
        return parse_qi_group(name)
    except LawViolated:
        raise UsageError("--group: a QI group is named by its shard and its number, like 0-17") from None


def _as_of_one_commit(store: RedisLookups, key: str | None, number: int | None) -> Read:
    for _ in range(READINGS_MAX):
        before = store.meta()
        read = _read(store, key, number)
        if before is not None and read is not None and before.commit == read.meta.commit:
            return read
        if before is not None and read is None:
            what = "row with this key" if number is None else f"QI group {qi_group_name(store.shard, number)}"
            raise UsageError(f"shard {store.shard} has no {what} (any more)")
        if before is None:
            raise UsageError(f"Redis holds no shard {store.shard} of this table: is --redis right, has a worker run?")
        sleep(AGAIN_SECONDS)
    raise UsageError(
        f"shard {store.shard} was committed to during each of {READINGS_MAX} readings: try again when fewer changes "
        "come, or stop its worker meanwhile"
    )


def _read(store: RedisLookups, key: str | None, number: int | None) -> Read | None:
    """What is asked for; None where it is not there."""
    record = None if key is None else store.read_records([key]).get(key)
    if key is not None and record is None:
        return None
    own = record.qi_group if record is not None else number or PENDING
    state = store.load()  # reads the rows only when they are asked for, and nobody does
    qi_groups = {} if state is None else dict(state.kept.qi_groups)
    if own != PENDING and own not in qi_groups:
        return None
    members = store.read_records(qi_groups[own].members) if own != PENDING else {}
    similar = store.read_similarity(own) if own != PENDING else None
    origin = store.origin(own)
    meta = store.meta()
    return None if meta is None else Read(meta, record, own, qi_groups, members, similar, origin)


# -- what is said -----------------------------------------------------------------------------------------------------


def explain(table: Table, shard: int, read: Read, raw: bool) -> dict[str, Any]:
    """Everything as plain values. Raises ShardRefused where the shard was not written for this table.yaml."""
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
    """A row's cells as published, and its kept values."""
    cells = table.space.cells(np.array(record.row.codes, dtype=np.int64)).tolist()
    values = zip((column.name for column in table.kept), map(msgspec.Raw, record.row.values), strict=True)
    return {"cells": _box(table, cells, cells), "values": dict(values)}


def _box(table: Table, lo: Sequence[int], hi: Sequence[int]) -> dict[str, msgspec.Raw]:
    box: dict[str, msgspec.Raw] = {}
    for attribute, first, last in zip(table.attributes, lo, hi, strict=True):
        box |= {name: msgspec.Raw(text) for name, text in json_texts(box_columns(attribute, first, last)).items()}
    return box


def _similar(table: Table, shard: int, one: Similar, measure: str) -> dict[str, Any]:
    names = (attribute.name for attribute in table.attributes)
    said = {"qi_group": qi_group_name(shard, one.number), "place": one.place, measure: one.total}
    if measure == "t_qgssd":
        said["contains"] = one.contains
    return {**said, "terms": dict(zip(names, one.terms, strict=True))}


def _group(table: Table, shard: int, read: Read, raw: bool) -> dict[str, Any]:
    state = read.qi_groups[read.number]
    said: dict[str, Any] = {
        "name": qi_group_name(shard, read.number),
        "size": len(state.members),
        "box": _box(table, state.lo, state.hi),
        "slack": [margin._asdict() for margin in slack(table, [record.row for record in read.members.values()])],
        "origin": read.origin,
        "numbers_given": read.meta.qi_group_next - 1,
    }
    if raw:
        said["members"] = sorted(state.members)
    return said


def _next_loss(table: Table, shard: int, read: Read) -> dict[str, Any]:
    """What the loss of one row would do, by the boxes as they are now."""
    found = nearest_to(table, read.number, read.qi_groups, NEAREST_SHOWN)
    spare = min(margin.spare for margin in slack(table, [record.row for record in read.members.values()]))
    listed = None if read.similar is None else [qi_group_name(shard, other) for other, _ in read.similar.neighbours]
    return {
        "may_break_the_model": spare < 1,
        "local_repair": table.repair or None,
        "similarity_list": listed,
        "nearest": [_similar(table, shard, one, "qgssd") for one in found],
    }


# -- for people -------------------------------------------------------------------------------------------------------


def _print(table: Table, report: dict[str, Any]) -> None:
    names = [attribute.name for attribute in table.attributes]
    if "row" in report:
        _print_row(report, names)
    if "qi_group" not in report:
        say("the row is pending: its shard has no QI group that could take it")
        return
    group, loss = report["qi_group"], report["next_loss"]
    box = ", ".join(f"{name} {shown_range(group['box'], name)}" for name in names)
    say(f"QI group {group['name']}: {plural(group['size'], 'row')}; {box}")
    for margin in group["slack"]:
        say(
            f"  {margin['what']}: {figure(margin['has'])}, the model wants {figure(margin['needs'])}; "
            f"rows to spare: {margin['spare']}"
        )
    origin: Origin | None = group["origin"]
    came = NOT_KNOWN if origin is None else f"{SAID[origin.how]}, in commit {origin.commit}"
    say(f"  how it came to be: {came} (numbers given so far: {group['numbers_given']})")
    if "members" in group:
        say(f"  source keys: {', '.join(group['members'])}")
    if not loss["nearest"]:
        say("a loss that breaks its model would leave its rows pending: there is no other QI group")
        return
    when = "the next loss may merge it" if loss["may_break_the_model"] else "a loss that breaks its model merges it"
    where = "no similarity list in Redis" if loss["similarity_list"] is None else "it has a similarity list in Redis"
    say(f"{when} with {loss['nearest'][0]['qi_group']}, the nearest now by QGSSD ({where})")
    if loss["local_repair"]:
        say(
            f"local repair (engine: repair {loss['local_repair']:g}) comes first: a group that one row more would mend "
            "is given one that a near group can spare, and any event may move rows of the groups that it touches"
        )
    _print_similar(loss["nearest"], names, "qgssd", "QGSSD")


def _print_row(report: dict[str, Any], names: Sequence[str]) -> None:
    row = report["row"]
    if "cells" in row:
        say(f"the row: {msgspec.json.encode(row['cells'] | row['values']).decode()}")
    say(f"similarity of the row (T-QGSSD), as of commit {report['commit']}, its own QI group first")
    _print_similar(report["similarity"], names, "t_qgssd", "T-QGSSD")


def _print_similar(found: Sequence[dict[str, Any]], names: Sequence[str], measure: str, title: str) -> None:
    lines = RichTable("place", "QI group", title, *names)
    for one in found:
        inside = " *" if one.get("contains") else ""
        terms = [f"{one['terms'][name]:.6f}" for name in names]
        lines.add_row(str(one["place"]), f"{one['qi_group']}{inside}", f"{one[measure]:.6f}", *terms)
    print_table(lines)
    if any(one.get("contains") for one in found):
        say("* its box contains the row")
