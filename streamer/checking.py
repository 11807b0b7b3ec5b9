"""What a table.yaml means, and what it would do to rows: `streamer check`, and `check` from Python.

Publishes nothing, shows no value. Both wings meet here: what whole tables publish, and what a stream would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from streamer.errors import FLAG, ConfigError, require_type
from streamer.incremental.connect.sql_tables import sql_warnings
from streamer.incremental.sealed.alpha import check_alpha, frequencies
from streamer.incremental.topics import QIT, SEALED, STT, published_kinds
from streamer.privacy.models import (
    AtLeastDistinct,
    AtLeastRows,
    AtMostShare,
    Model,
    counted,
    margins,
    model_of,
    subject_names,
    words,
)
from streamer.progress import Stage, Stopwatch
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM, objections, run
from streamer.recoding.algorithms.contract import LEFT_OUT, Options
from streamer.recoding.costs import costs as costs_of
from streamer.recoding.report.cautions import Cautions, cautions
from streamer.recoding.report.findings import findings
from streamer.shown import Grid, Shape, Shown, figure, plural
from streamer.table import data_warnings
from streamer.table.codes import (
    CLOCKS,
    Attribute,
    CategoricalAttribute,
    KeptColumn,
    NumericAttribute,
    TemporalAttribute,
    decimal_text,
    moment_text,
)
from streamer.table.data_warnings import RefusedRow
from streamer.table.encode import EncodedColumns, Encoder, require_frame, with_index, without_absent_key
from streamer.table.hierarchy import labels_beside_their_leaves
from streamer.table.microdata import INDIVIDUAL, Microdata, microdata_of_columns
from streamer.table.published.groups import COUNT, SIZE, VALUES, group_columns, qit_columns, stt_columns
from streamer.table.published.rows import QI_GROUP, box_columns, published_columns
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, LOSSY_JOIN, ROWS, SealedRules, Table
from streamer.table.yaml.loading import Named, hidden_columns, table_of

ROWS_TRIED_MAX = 100_000  # accepted rows from which costs are computed, the first ones

# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """What a table means, and what it would do to some rows; facts: as `streamer check --data --json` prints them.

    accepted: how many rows the table takes. refused: the others, without their values. costs: by k the QI groups and
    the loss (NCP), or why it cannot hold; empty if it was not tried.
    """

    facts: Mapping[str, Any]
    accepted: int
    refused: Sequence[RefusedRow]
    cautions: Sequence[str]
    warnings: Sequence[str]
    costs: pd.DataFrame

    def lines(self) -> Iterator[Shape]:
        return lines_of(self.facts)


def check(frame: pd.DataFrame, table: Named, *, costs: bool = True) -> Checked:
    """What a table would do to a DataFrame of people, as `streamer check --data` says it; publishes nothing.

    table: a Table, a table.yaml, a directory that holds one, or a dict of its settings, such as `init` drafts. costs:
    also try other k and other grids, which may take minutes for a large frame. The answer prints what the command
    prints, and holds it as `accepted`, `refused`, `warnings`, `cautions`, `costs` (a DataFrame by k) and `facts`.

    Raises ConfigError for a table, or a DataFrame, that cannot be used at all; UsageError for an argument of the wrong
    type. A row that the table refuses is counted, not raised.
    """
    require_frame("check", frame)
    require_type("costs", costs, FLAG)
    schema = table_of(table, needs_key=False)
    facts = describe(schema)
    data, refused = try_data(schema, with_index(frame, schema), not costs, Stopwatch().stage)
    columns = ("k", "groups", "ncp", "cannot")
    tried = [{name: one.get(name) for name in columns} for one in (data["costs"] or {"k": ()})["k"]]
    return Checked(
        {"ok": data["accepted"] > 0, **facts, "data": data}, data["accepted"], refused, data["cautions"],
        [*data["warnings"], *facts["warnings"]], pd.DataFrame(tried, columns=columns).set_index("k"),
    )  # fmt: skip


def try_data(
    table: Table, frame: pd.DataFrame, no_costs: bool, stage: Stage
) -> tuple[dict[str, Any], list[RefusedRow]]:
    """Tries rows; returns counts, shares and column names, and the rows that would be refused.

    no_costs: do not try other k and grids.
    """
    about_key = [*_key_missing(table, frame)]
    table = without_absent_key(table, frame.columns)
    with stage("refused"):
        refused = data_warnings.refused_rows(table, frame)
    with stage("encode"):
        left = data_warnings.without_refused(frame, refused)
        accepted = Encoder(table).columns(left)
    n, whole = len(accepted), microdata_of_columns(table, accepted)
    individuals = n if whole.individuals is None else int(whole.individuals.max(initial=-1)) + 1
    used = whole.rows(np.arange(min(n, ROWS_TRIED_MAX)))
    table, model = whole.table, model_of(whole.table)
    shortfall = [*_shortfalls(table, model, whole)] if n else []
    tried, published = None, Cautions([], [])
    if n and not shortfall:
        with stage("publish"):
            published = _cautions(table, used, left.iloc[: len(used)])
            if len(used) < n:
                published.to_know.append(f"what is said of published rows is of the first {len(used):,} of {n:,}")
    if n and not no_costs:
        with stage("try") as on_progress:
            tried = costs_of(used, on_progress)
    unlisted = data_warnings.unknown_category_rows(table, left)
    found = {
        "rows": len(frame),
        "accepted": n,
        "hidden_columns": hidden_columns(table, frame.columns),
        "refused": data_warnings.by_reason(refused),
        "warnings": [
            *about_key,
            *data_warnings.stray_warnings_of(frame),
            *_warnings(table, individuals, shortfall),
            *_alpha_warnings(table, accepted),
            *data_warnings.warning_of_keys(accepted.source_keys.different, table),
            *data_warnings.warnings_of_writing(data_warnings.writing_of_keys(table, left)),
            *data_warnings.spelling_warnings(table, data_warnings.several_spellings(table, left)),
            *_null_warnings(table, data_warnings.beside_nulls(table, left)),
            *data_warnings.unknown_category_warnings(table, unlisted, n, "rows"),
        ],
        **published._asdict(),
        "costs": tried,
    }
    return found, refused


def _cautions(table: Table, microdata: Microdata, left: pd.DataFrame) -> Cautions:
    """What would be said of these rows if they were published as a whole table."""
    recoding = run(
        ALGORITHMS[DEFAULT_ALGORITHM], microdata, model_of(table), Options(merge_equal_boxes=True, too_wide=LEFT_OUT)
    )
    found = findings(microdata, recoding, ROWS, table.named)
    return cautions(table, ROWS, found, data_warnings.stand_ins(table, left))


def _key_missing(table: Table, frame: pd.DataFrame) -> Iterator[str]:
    if table.source_key and set(table.source_key).isdisjoint(frame.columns):
        names = ", ".join(table.source_key)
        yield (
            f"the data has no column {names}, the key: `check` and `anonymize` tell rows apart by their numbers;"
            " a stream needs the key"
        )


def _shortfalls(table: Table, model: Model, whole: Microdata) -> Iterator[str]:
    """Each constraint that all rows as one QI group break, and the strongest of its kind that they hold."""
    names = subject_names(table, model)
    for one in model.constraints:
        subjects = () if isinstance(one, AtLeastRows) else (one.subject,)
        codes = whole.subjects(subjects)
        if not (shortfall := Model([one]).shortfall(codes, names)):
            continue
        if isinstance(one, AtLeastRows) or one.subject == INDIVIDUAL:
            yield shortfall
            continue
        (held,) = (margin.has for margin in margins(table, Model([one]), codes) if margin.what != "rows")
        if not isinstance(one, AtMostShare | AtLeastDistinct):
            yield shortfall
            continue
        if isinstance(one, AtMostShare):
            best = f"{'r' if one.subject.level else 'beta'} = {ceil(1000 * held) / 1000:g} is the least they can hold"
        else:
            best = f"l = {held:g} is the most they can hold" if held > 1 else "they can hold no l"
        own, asked = table.kept[one.subject.column].diversity, one.share if isinstance(one, AtMostShare) else one.n
        is_own = own is not None and asked in (own.l, own.beta, own.r)
        alone = is_own or len(table.sensitive) == 1
        yield f"{shortfall}; {best}" + ("" if alone else ", and `columns` can ask for more of other columns alone")


def _warnings(table: Table, individuals: int, shortfalls: Sequence[str]) -> list[str]:
    who = "rows" if table.individual is None else "individuals"
    if individuals < table.k:
        return [f"{counted(individuals, who)} fewer than k = {table.k}: nothing would be published"]
    if individuals < 2 * table.k:
        return [f"{counted(individuals, who)} fewer than 2k = {2 * table.k}: there would be a single QI group"]
    return [f"all rows together, as one QI group: {one}: nothing would be published" for one in shortfalls]


def _alpha_warnings(table: Table, rows: EncodedColumns) -> list[str]:
    """The warnings about an alpha of its own of a sealed changelog that began with these rows.

    Of the alpha that is there by itself `load` speaks: whoever wants a file need not hear of it.
    """
    try:
        own = table.sealed is not None and table.sealed.alpha != SealedRules.alpha
        return check_alpha(table, frequencies(table, rows.by_row().values)) if own else []
    except ConfigError as refused:
        return [str(refused)]


def _null_warnings(table: Table, rows: Mapping[str, int]) -> Iterator[str]:
    for attribute in table.attributes:
        if attribute.name in rows:
            published = data_warnings.null_text(attribute)
            yield (
                f"columns.{attribute.name}.null_as: nulls are published as {published}, as are"
                f" {rows[attribute.name]:,} rows with such a value; give nulls a cell or category of their own"
            )


# -- table.yaml -------------------------------------------------------------------------------------------------------


def describe(table: Table) -> dict[str, Any]:
    """table.yaml as plain values, with an example of a published row."""
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
        "publishes": list(published_kinds(table)),
        "form": table.form,
        "format": table.format,
        "published_columns": _published_columns(table),
        "example": _example(table),
    }


BOTH_PUBLISHED = (
    "publish: live tells whoever keeps its releases what changed people's values are, so sealed promises nothing to"
    " those who can read live, too: give each to readers of its own (topics and their ACLs)"
)


def _table_warnings(table: Table) -> Iterator[str]:
    try:
        _ = table.fingerprint
    except ConfigError as missing:  # the key of a column
        yield str(missing)
    yield from (
        f"columns.{column.name}.t: a stream and fragments need a `distribution` to compare with: put what `streamer"
        " distribution` prints below the column"
        for column in table.kept
        if table.source_key and column.distribution and column.distribution.t is not None
        if column.distribution.reference is None
    )
    yield from sql_warnings(table)
    chosen = ALGORITHMS[table.rebuilding.algorithm]
    for objection in objections(chosen, table, model_of(table)):
        yield f"rebuild.algorithm: {chosen.name} cannot rebuild this table: {objection}"
    if table.form == LOSSY_JOIN:
        yield from LOSSY_JOIN_REVEALS
    if table.live and table.sealed is not None:
        yield BOTH_PUBLISHED
    if table.pseudonyms and table.sealed is not None:
        names = ", ".join(table.pseudonyms)
        yield (
            f"publish.sealed: whoever is published again with a new value has the same pseudonym ({names}), so readers"
            " see both values of one person, which cohorts alone hide"
        )
    for attribute in table.attributes:
        tree = attribute.hierarchy if isinstance(attribute, NumericAttribute) else None
        wrong = [] if tree is None else list(labels_beside_their_leaves(tree))
        if wrong:
            leaf, label = wrong[0]
            yield (
                f"columns.{attribute.name}.hierarchy: {len(wrong)} labels do not contain their leaf, the first {leaf}"
                f" under {label}; intervals are published from the leaves, not from the labels"
            )


def _described(attribute: Attribute) -> dict[str, Any]:
    shared = {"name": attribute.name, "role": "quasi-identifier", "unit": attribute.unit}
    null_text = data_warnings.null_text(attribute)
    nulls = {"nulls": "refused" if attribute.null_code is None else "null_as", "nulls_published": null_text}
    if isinstance(attribute, CategoricalAttribute):
        tree = attribute.hierarchy
        own: dict[str, Any] = {"type": "category", "leaves": tree.n_leaves, "levels": tree.n_levels}
    elif isinstance(attribute, TemporalAttribute):
        calendar = attribute.calendar
        ends = [moment_text(end, calendar.clock) for end in (calendar.first, calendar.last)]
        own = {"type": calendar.clock.name, "domain": ends, "step": None, "grid": calendar.grid.text}
        own |= {"levels": attribute.levels.n_levels, "cells": calendar.n_cells}
    else:
        own = {"type": "integer" if attribute.integer else "decimal", "domain": list(attribute.domain)}
        own |= {"step": attribute.step, "grid": attribute.grid, "cells": attribute.n_cells}
    rules: dict[str, Any] = {"weight": attribute.weight} if attribute.weight != 1 else {}
    if attribute.coarsest is not None:
        in_cells = isinstance(attribute, TemporalAttribute)
        rules |= {"coarsest": f"{int(attribute.coarsest)} cells" if in_cells else attribute.coarsest}
    return {**shared, **own, **rules, **nulls}


def _described_kept(column: KeptColumn) -> dict[str, Any]:
    role = "sensitive" if column.sensitive else "keep"
    described: dict[str, Any] = {"name": column.name, "role": role, "type": column.type or "any"}
    if column.hierarchy is not None:
        described |= {"leaves": column.hierarchy.n_leaves, "levels": column.hierarchy.n_levels}
    if column.disguise is not None:
        described["published"] = column.disguise.words
    return described


def _published_columns(table: Table) -> list[str] | dict[str, list[str]]:
    """The published columns; of a lossy join by table."""
    if table.form == LOSSY_JOIN:
        return {QIT: list(qit_columns(table)), STT: list(stt_columns(table))}
    return list(group_columns(table) if table.form == GROUPS else published_columns(table))


def _example(table: Table) -> dict[str, Any]:
    """A published row, two cells wide in columns of intervals, the root in categories; of a lossy join single cells.

    If a sealed changelog alone is published, a cohort.
    """
    kept: dict[str, Any] = {column.name: _example_value(column) for column in table.kept}
    row: dict[str, Any] = {QI_GROUP: "0-1"}
    for attribute in table.attributes:
        last = attribute.axis.n_cells - 1
        if table.form == LOSSY_JOIN:
            last = 0
        elif isinstance(attribute, CategoricalAttribute):
            last = _largest_node(attribute)
        else:
            last = min(1, last, attribute.cells_max - 1)
        row |= box_columns(attribute, 0, last)
    if not table.live:
        box = {name: value for name, value in row.items() if name != QI_GROUP}
        return {"n": table.k, "box": box, "sensitive": [list(kept.values())] * table.k}
    if table.form == LOSSY_JOIN:
        return {QIT: row, STT: {QI_GROUP: "0-1"} | kept | {COUNT: 1}}
    if table.form == GROUPS:
        return row | {SIZE: table.k, VALUES: [kept | {COUNT: table.k}]}
    return row | kept


def _largest_node(attribute: CategoricalAttribute) -> int:
    """The last leaf of the largest node over the first one that may be published."""
    tree = attribute.hierarchy
    return int(tree.node_hi[tree.levels[-1 if attribute.coarsest is None else attribute.coarsest, 0]])


def _example_value(column: KeptColumn) -> object:
    if column.hierarchy is not None:
        return column.hierarchy.leaves[0]
    if column.type in CLOCKS:
        return CLOCKS[column.type].example
    return {"integer": 0, "decimal": Decimal("0.5"), "boolean": True}.get(column.type or "", "...")


LOSSY_JOIN_REVEALS = (
    "lossy-join publishes the exact quasi-identifiers (cells of the grid) of everybody: anyone who knows somebody's"
    " quasi-identifiers learns that this person is in the table, and in which QI group; only which of the group's"
    " sensitive rows is whose is hidden, as well as l and beta demand",
    "that is true of the table at one moment: anyone who sees the two topics change learns whose the values are, from"
    " the cells and values that come or go together; let only those read the topics who may know that, and give others"
    " a copy of the table (`subscribe --csv`)",
)
"""Warnings for everyone who chooses the form lossy-join."""


# -- for people --------------------------------------------------------------------------------------------------------

_FORMATS_NEED = {
    CONNECT_JSON: ", with Kafka Connect's schema in every record",
    AVRO: ", by a schema registry (SCHEMA_REGISTRY_URL)",
}


def lines_of(report: Mapping[str, Any]) -> Iterator[Shape]:
    """The same for people. What counts comes first: the rows, if there are any, then the table, then costs."""
    data = report.get("data")
    if data is not None:
        yield from _data_lines(data)
    key, whose = ", ".join(report["key"]) or "none (a stream needs one)", report["individual"] or "rows"
    yield f"table {report['table']}, key {key}, k = {report['k']} ({whose})"
    grid = Grid("column", "role", "type", "domain or hierarchy", "grid", "cells")
    for one in report["columns"]:
        cells, step = str(one.get("cells", one.get("leaves", ""))), str(one.get("grid", ""))
        grid.add_row(one["name"], one["role"], one["type"], _extent(one), step, cells)
    yield grid
    for column in report["columns"]:
        if column.get("nulls_published") is not None:
            yield f"nulls of {column['name']} are published as {column['nulls_published']}"
        if "weight" in column:
            yield f"{column['name']} has the weight {column['weight']}"
        if "coarsest" in column:
            what = "above level" if "leaves" in column else "wider than"
            yield f"{column['name']} is never published {what} {column['coarsest']}"
        if "published" in column and data is None:  # with data the cautions say it
            yield f"{column['name']} is published {column['published']}"
    yield f"privacy: every QI group has {report['model']}"
    for algorithm in report["algorithms"]:
        text = f"cannot satisfy it: {algorithm['cannot'][0]}" if algorithm["cannot"] else algorithm["what"]
        yield f"  {algorithm['name']}: {text}"
    yield from (f"warning: {warning}" for warning in report["warnings"])
    if data is None or report["publishes"] != [SEALED]:  # whoever wants a file need not hear of cohorts
        what = {GROUPS: "a published QI group", LOSSY_JOIN: "published rows"}.get(report["form"], "a published row")
        what = "a published cohort" if report["publishes"] == [SEALED] else what
        example = msgspec.json.Encoder(decimal_format="number").encode(report["example"])
        yield f"{what}: {msgspec.json.format(example, indent=0).decode()}"  # with blanks, so that it can be wrapped
    if report["format"] != JSON:
        yield f"it is written as {report['format']}{_FORMATS_NEED[report['format']]}"
    if data is not None and data["costs"] is not None:
        yield from _cost_lines(data["costs"], data["accepted"])


def _extent(column: dict[str, Any]) -> str:
    if "domain" in column:
        return f"{column['domain'][0]} to {column['domain'][1]}" + (f" by {column['step']}" if column["step"] else "")
    return f"{column['leaves']} leaves, {column['levels']} levels" if "leaves" in column else ""


def _data_lines(data: dict[str, Any]) -> Iterator[Shape]:
    yield f"data: {data['accepted']:,} of {plural(data['rows'], 'row')} would be accepted"
    yield f"columns that never leave: {', '.join(data['hidden_columns']) or 'none'}"
    if data["refused"]:
        refused = ((f"{one['rows']:,}", one["reason"], one["column"] or "") for one in data["refused"])
        yield Grid("refused rows", "reason", "column", rows=refused)
    yield from (f"warning: {warning}" for warning in (*data["cautions"], *data["warnings"]))
    yield from (f"to know: {sentence}" for sentence in data["to_know"])


def _cost_lines(tried: dict[str, Any], accepted: int) -> Iterator[Shape]:
    used = f"all {accepted:,}" if tried["rows"] == accepted else f"the first {tried['rows']:,}"
    yield f"what k costs ({tried['algorithm']}, {used} accepted rows; NCP 0: exact values, 1: nothing left)"
    grid = Grid("k", "QI groups", "NCP", "rows left out", "NCP of the others")
    for line in tried["k"]:
        if "cannot" in line:
            grid.add_row(str(line["k"]), line["cannot"])
            continue
        left = line["suppressing"]
        grid.add_row(*map(figure, (line["k"], line["groups"], line["ncp"], left["suppressed"], left["gcp"])))
    yield grid
    if not tried["attributes"]:
        return
    grid = Grid("column", "its NCP", "with another grid: NCP of the table")
    for line in tried["attributes"]:
        texts = ((at["grid"], figure(at["ncp"])) for at in line["grids"])
        others = "; ".join(f"{at if isinstance(at, str) else decimal_text(at)}: {ncp}" for at, ncp in texts)
        grid.add_row(line["name"], figure(line["ncp"]), others)
    yield grid
