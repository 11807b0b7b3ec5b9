"""`streamer check`: what a table.yaml means, and what it would do to a data file; nothing is published.

Without --data it answers at once, and needs neither Kafka nor Redis. A data file's rows are counted, by reason and
column, and tried; no value of them is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from streamer.cli.apart import require_apart
from streamer.cli.connector_check import check_connectors, print_connectors
from streamer.cli.left_out import skip_refused_option, write_list
from streamer.cli.options import examples, json_option, table_option
from streamer.cli.progress import Stages, stages
from streamer.cli.sql_readers import sql_warnings
from streamer.cli.tables import console, figure
from streamer.errors import EXIT_LAW, UsageError
from streamer.incremental.topics import QIT, STT
from streamer.privacy.models import model_of, subject_names, words
from streamer.privacy.subjects import SubjectCodes
from streamer.recoding.algorithms.catalog import ALGORITHMS, objections
from streamer.recoding.costs import SUPPRESSION, costs
from streamer.table.encode import Encoder
from streamer.table.files import atomic_writer, read_rows
from streamer.table.levels import labels_beside_their_leaves
from streamer.table.look_alike_keys import warning_of
from streamer.table.microdata import microdata_of
from streamer.table.moments import CLOCKS, moment_text
from streamer.table.null_cells import beside_nulls, null_text, words_that_are_values
from streamer.table.published import QI_GROUP, box_columns, published_columns
from streamer.table.published_group import COUNT, SIZE, VALUES, group_columns
from streamer.table.published_join import qit_columns, stt_columns
from streamer.table.refused_rows import counted, refused_rows, without_refused
from streamer.table.scalars import decimal_text
from streamer.table.schema import (
    AVRO,
    CONNECT_JSON,
    GROUPS,
    JSON,
    LOSSY_JOIN,
    Attribute,
    CategoricalAttribute,
    KeptColumn,
    NumericAttribute,
    Table,
    TemporalAttribute,
)
from streamer.table.yaml_loading import files_of, hidden_columns, load_table

ROWS_TRIED_MAX = 100_000
"""Rows that costs are computed from: the first accepted ones."""

LOSSY_JOIN_REVEALS = (
    "lossy-join publishes the exact quasi-identifiers (cells of the grid) of everybody: whoever knows somebody's finds"
    " that this person is in the table, and in which QI group; hidden is only which of the group's sensitive rows is"
    " whose, as well as privacy.l and privacy.beta demand",
    "that holds for the table at one moment: whoever sees the two topics change reads, from the cells and the values"
    " that come or go together, whose the values are; give the topics to those alone who may know that, and others a"
    " copy of the table (`subscribe --csv`)",
)
"""What a form of publication tells, which nobody who chooses it should learn from somebody else."""

_FORMATS_NEED = {
    CONNECT_JSON: ", with Kafka Connect's schema in every record",
    AVRO: ", by a schema registry (SCHEMA_REGISTRY_URL)",
}

_to_json = msgspec.json.Encoder(decimal_format="number").encode


@click.command(
    name="check",
    epilog=examples(
        "streamer check --table mine",
        "streamer check --table mine --data mine/rows.csv",
        "streamer check --table mine --connector http://connect:8083",
    ),
)
@table_option
@click.option("--data", metavar="ROWS.csv", help="A data file to try: which columns stay, which rows are refused.")
@click.option(
    "--connector",
    metavar="URL|FILE",
    help="Kafka Connect's address, or a connector's configuration as JSON: what would be lost or misread?",
)
@skip_refused_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, table: str, data: str | None, connector: str | None, left_out: Path | None, as_json: bool
) -> None:
    """Validates TABLE and says what it means: roles, cells, the privacy model and which algorithms can hold it, what a
    published row looks like, what never leaves.

    With --data it also counts the rows of a CSV file that would be refused, by reason and column, without their values,
    and tries what other k and other grids would cost; --skip-refused lists these rows. The first time on a machine,
    that compiles some code, too.
    With --connector it names every setting of a source or sink by which something of this table would be lost or
    misread, with its mend (user and password for Connect: CONNECT_USER, CONNECT_PASSWORD).
    Exit code 1 where a connector has such a setting, 2 where TABLE or ROWS.csv cannot be used at all.
    """
    if left_out is not None and data is None:
        raise UsageError("--skip-refused lists rows of a data file: say --data")
    if left_out is not None and data is not None:
        require_apart([*files_of(table), Path(data)], [left_out])
    schema = load_table(table, needs_key=False)
    report = describe(schema)
    if connector is not None:
        report["connectors"] = check_connectors(schema, connector)
    if data is not None:
        with stages(as_json) as progress:
            report["data"] = try_data(schema, data, left_out, progress)
    if as_json:
        click.echo(_to_json(report))
    else:
        _print(report, console())
    if any(one["findings"] for one in report.get("connectors", ())):
        ctx.exit(EXIT_LAW)


# -- what the table means -------------------------------------------------------------------------------------------


def describe(table: Table) -> dict[str, Any]:
    """table.yaml as plain values, with a published row as an example."""
    model = model_of(table)
    return {
        "table": table.name,
        "key": list(table.source_key),
        "individual": table.individual,
        "k": table.k,
        "model": words(table, model),
        "algorithms": [
            {"name": algorithm.name, "what": algorithm.what, "cannot": list(objections(algorithm, table, model))}
            for algorithm in ALGORITHMS.values()
        ],
        "warnings": list(_table_warnings(table)),
        "columns": [_described(attribute) for attribute in table.attributes] + [_described_kept(c) for c in table.kept],
        "form": table.form,
        "format": table.format,
        "published_columns": _published_columns(table),
        "example": _example(table),
    }


def _table_warnings(table: Table) -> Iterator[str]:
    yield from sql_warnings(table)
    chosen = ALGORITHMS[table.rebuilding.algorithm]
    for said in objections(chosen, table, model_of(table)):
        yield f"rebuild.algorithm: {chosen.name} cannot rebuild this table: {said}"
    if table.form == LOSSY_JOIN:
        yield from LOSSY_JOIN_REVEALS
    for column, word in words_that_are_values(table):
        yield (
            f"columns.{column}.na: {word!r} is in the domain, too: as a text it is a null, as a number of JSON it is"
            " itself; where it is never a value, let the domain end before it"
        )
    for attribute in table.attributes:
        tree = attribute.hierarchy if isinstance(attribute, NumericAttribute) else None
        wrong = [] if tree is None else list(labels_beside_their_leaves(tree))
        if wrong:
            leaf, label = wrong[0]
            yield (
                f"columns.{attribute.name}.hierarchy: {len(wrong)} labels do not hold their leaf, the first {leaf}"
                f" under {label}; what is published is made from the leaves, not from the labels"
            )


def _described(attribute: Attribute) -> dict[str, Any]:
    shared = {"name": attribute.name, "role": "quasi-identifier", "unit": attribute.unit}
    nulls = {"nulls": "refused" if attribute.null_code is None else "null_as", "nulls_published": null_text(attribute)}
    if isinstance(attribute, CategoricalAttribute):
        tree = attribute.hierarchy
        return {**shared, "type": "category", "leaves": tree.n_leaves, "levels": tree.n_levels, **nulls}
    if isinstance(attribute, TemporalAttribute):
        return {**shared, **_described_calendar(attribute), **nulls}
    return {
        **shared,
        "type": "integer" if attribute.integer else "decimal",
        "domain": list(attribute.domain),
        "step": attribute.step,
        "grid": attribute.grid,
        "cells": attribute.n_cells,
        **nulls,
    }


def _described_calendar(attribute: TemporalAttribute) -> dict[str, Any]:
    """Cells of the calendar; the unit counts them."""
    calendar = attribute.calendar
    return {
        "type": calendar.clock.name,
        "domain": [moment_text(end, calendar.clock) for end in (calendar.first, calendar.last)],
        "step": None,
        "grid": calendar.grid.text,
        "levels": attribute.levels.n_levels,
        "cells": calendar.n_cells,
    }


def _described_kept(column: KeptColumn) -> dict[str, Any]:
    role = "sensitive" if column.sensitive else "keep"
    described: dict[str, Any] = {"name": column.name, "role": role, "type": column.type or "any"}
    if column.hierarchy is not None:
        described |= {"leaves": column.hierarchy.n_leaves, "levels": column.hierarchy.n_levels}
    return described


def _published_columns(table: Table) -> list[str] | dict[str, list[str]]:
    """Columns of what is published, of a lossy join by table."""
    if table.form == LOSSY_JOIN:
        return {QIT: list(qit_columns(table)), STT: list(stt_columns(table))}
    return list(group_columns(table) if table.form == GROUPS else published_columns(table))


def _example(table: Table) -> dict[str, Any]:
    """What is published, with a box two cells wide in every column of intervals, and the whole tree in the others.

    A lossy join publishes one cell of each.
    """
    kept: dict[str, Any] = {column.name: _example_value(column) for column in table.kept}
    row: dict[str, Any] = {QI_GROUP: "0-1"}
    for attribute in table.attributes:
        last = attribute.axis.n_cells - 1
        wide = last if isinstance(attribute, CategoricalAttribute) else min(1, last)
        row |= box_columns(attribute, 0, 0 if table.form == LOSSY_JOIN else wide)
    if table.form == LOSSY_JOIN:
        return {QIT: row, STT: {QI_GROUP: "0-1"} | kept | {COUNT: 1}}
    if table.form == GROUPS:
        return row | {SIZE: table.k, VALUES: [kept | {COUNT: table.k}]}
    return row | kept


def _example_value(column: KeptColumn) -> object:
    if column.hierarchy is not None:
        return column.hierarchy.leaves[0]
    if column.type in CLOCKS:
        return CLOCKS[column.type].example
    return {"integer": 0, "decimal": Decimal("0.5"), "boolean": True}.get(column.type or "", "...")


# -- what it does to data -------------------------------------------------------------------------------------------


def try_data(table: Table, path: str, left_out: Path | None, progress: Stages) -> dict[str, Any]:
    """What would become of the rows of a data file; counts, shares and column names only.

    left_out: where to list the refused rows.
    """
    with progress.stage("read"):
        frame = read_rows(path)
    model = model_of(table)
    with progress.stage("encode"):
        refused = refused_rows(table, frame)
        left = without_refused(frame, refused)
        accepted = Encoder(table).frame(left)
    if left_out is not None:
        with atomic_writer(left_out, text=True) as file:
            write_list(refused, file)
    n = len(accepted.source_keys)
    individuals = n if table.individual is None else len(set(accepted.individuals))
    used = microdata_of(table, accepted).rows(np.arange(min(n, ROWS_TRIED_MAX)))
    shortfall = model.shortfall(
        SubjectCodes(table, model).of(accepted.values, accepted.individuals), subject_names(table, model)
    )
    with progress.stage("try") as tick:
        tried = costs(used, tick) if n else None
    return {
        "rows": len(frame),
        "accepted": n,
        "hidden_columns": hidden_columns(table, frame.columns),
        "refused": [
            {"reason": reason, "column": column or None, "rows": rows} for reason, column, rows in counted(refused)
        ],
        "warnings": [
            *_warnings(table, individuals, shortfall),
            *_key_warnings(table, accepted.source_keys),
            *_null_warnings(table, beside_nulls(table, left)),
        ],
        "costs": tried,
    }


def _warnings(table: Table, individuals: int, shortfall: str) -> list[str]:
    who = "rows" if table.individual is None else "individuals"
    if individuals < table.k:
        return [f"{individuals} {who} are fewer than k = {table.k}: nothing would be published"]
    if individuals < 2 * table.k:
        return [f"{individuals} {who} are fewer than 2k = {2 * table.k}: they would be one single QI group"]
    if shortfall:
        return [f"all rows together, as one QI group: {shortfall}: nothing would be published"]
    return []


def _null_warnings(table: Table, rows: Mapping[str, int]) -> Iterator[str]:
    for attribute in table.attributes:
        if attribute.name in rows:
            yield (
                f"columns.{attribute.name}.null_as: nulls are published as {null_text(attribute)}, as are"
                f" {rows[attribute.name]:,} rows of which it is true; give nulls a cell or category of their own"
            )


def _key_warnings(table: Table, source_keys: list[str]) -> list[str]:
    return warning_of(source_keys, table.source_key[0]) if len(table.source_key) == 1 else []


# -- for people -----------------------------------------------------------------------------------------------------


def _print(report: dict[str, Any], out: Console) -> None:
    counted = report["individual"] or "rows"
    key = ", ".join(report["key"]) or "none (a stream needs one)"
    out.print(f"table {report['table']}, key {key}, k = {report['k']} ({counted})")
    grid = Grid("column", "role", "type", "domain or hierarchy", "grid", "cells")
    for column in report["columns"]:
        cells = column.get("cells", column.get("leaves", ""))
        grid.add_row(
            column["name"], column["role"], column["type"], _extent(column), str(column.get("grid", "")), str(cells)
        )
    out.print(grid)
    for column in report["columns"]:
        if column.get("nulls_published") is not None:
            out.print(f"nulls of {column['name']} are published as {column['nulls_published']}")
    out.print(f"privacy: every QI group has {report['model']}")
    for algorithm in report["algorithms"]:
        said = f"cannot hold it: {algorithm['cannot'][0]}" if algorithm["cannot"] else algorithm["what"]
        out.print(f"  {algorithm['name']}: {said}")
    for warning in report["warnings"]:
        out.print(f"warning: {warning}")
    what = {GROUPS: "a published QI group", LOSSY_JOIN: "published rows"}.get(report["form"], "a published row")
    out.print(f"{what}: {_to_json(report['example']).decode()}")
    if report["format"] != JSON:
        out.print(f"which is written as {report['format']}{_FORMATS_NEED[report['format']]}")
    if "data" in report:
        _print_data(report["data"], out)
    print_connectors(report.get("connectors", []), out)


def _extent(column: dict[str, Any]) -> str:
    if "domain" in column:
        return f"{column['domain'][0]} to {column['domain'][1]}" + (f" by {column['step']}" if column["step"] else "")
    return f"{column['leaves']} leaves, {column['levels']} levels" if "leaves" in column else ""


def _print_data(data: dict[str, Any], out: Console) -> None:
    out.print(f"data: {data['accepted']} of {data['rows']} rows would be accepted")
    out.print(f"columns that never leave: {', '.join(data['hidden_columns']) or 'none'}")
    if data["refused"]:
        grid = Grid("refused rows", "reason", "column")
        for line in data["refused"]:
            grid.add_row(str(line["rows"]), line["reason"], line["column"] or "")
        out.print(grid)
    for warning in data["warnings"]:
        out.print(f"warning: {warning}")
    if data["costs"] is not None:
        _print_costs(data["costs"], data["accepted"], out)


def _print_costs(tried: dict[str, Any], accepted: int, out: Console) -> None:
    used = f"all {accepted}" if tried["rows"] == accepted else f"the first {tried['rows']}"
    out.print(f"what k costs ({tried['algorithm']}, {used} accepted rows; NCP 0: exact values, 1: nothing left)")
    names = " or ".join(sorted({line["suppressing"]["algorithm"] for line in tried["k"] if "suppressing" in line}))
    leaving = (f"NCP of {names}, {SUPPRESSION:.0%} may be suppressed", "suppressed") if names else ()
    grid = Grid("k", "QI groups", "NCP", *leaving)
    for line in tried["k"]:
        if "cannot" in line:
            grid.add_row(str(line["k"]), line["cannot"])
            continue
        other = [line["suppressing"][name] for name in ("ncp", "suppressed")] if "suppressing" in line else []
        grid.add_row(*map(figure, (line["k"], line["groups"], line["ncp"], *other)))
    out.print(grid)
    if tried["none_suppressing"]:
        out.print(f"with {SUPPRESSION:.0%} suppressed it was not tried: {tried['none_suppressing']}")
    if not tried["attributes"]:
        return
    grid = Grid("column", "its NCP", "NCP of the table with another grid")
    for line in tried["attributes"]:
        others = "; ".join(f"{_grid_text(at['grid'])}: {figure(at['ncp'])}" for at in line["grids"])
        grid.add_row(line["name"], figure(line["ncp"]), others)
    out.print(grid)


def _grid_text(grid: Decimal | str) -> str:
    return grid if isinstance(grid, str) else decimal_text(grid)
