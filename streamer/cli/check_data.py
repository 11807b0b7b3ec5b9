"""What a table.yaml would do to a data file: rows counted, by reason and column, and tried; no value is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from streamer.cli.left_out import refused_among, write_list
from streamer.cli.progress import Stages
from streamer.cli.tables import figure, grid_of, print_table, say, so_many
from streamer.privacy.models import model_of, subject_names
from streamer.privacy.subjects import SubjectCodes
from streamer.recoding.costs import SUPPRESSION, costs
from streamer.recoding.frame import without_absent_key
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import read_rows
from streamer.table.look_alike_keys import warning_of, warning_of_individuals
from streamer.table.microdata import Microdata, microdata_of
from streamer.table.null_cells import beside_nulls, null_text
from streamer.table.refused_rows import counted, without_refused
from streamer.table.scalars import decimal_text
from streamer.table.schema import Table
from streamer.table.unlisted import unlisted_rows, unlisted_sentences
from streamer.table.written_files import atomic_writer
from streamer.table.yaml_loading import hidden_columns

ROWS_TRIED_MAX = 100_000
"""Rows that costs are computed from: the first accepted ones."""


def try_data(table: Table, path: str, left_out: Path | None, no_costs: bool, progress: Stages) -> dict[str, Any]:
    """What would become of the rows of a data file; counts, shares and column names only.

    left_out: where to list the refused rows. no_costs: do not try what other k and grids cost.
    """
    with progress.stage("read"):
        frame = read_rows(path)
    keyless = [*_without_key(table, frame)]
    table, model = without_absent_key(table, frame), model_of(table)
    refused = refused_among(table, frame, progress)
    with progress.stage("encode"):
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
    tried = _tried(used, progress) if n and not no_costs else None
    return {
        "rows": len(frame),
        "accepted": n,
        "hidden_columns": hidden_columns(table, frame.columns),
        "refused": [
            {"reason": reason, "column": column or None, "rows": rows} for reason, column, rows in counted(refused)
        ],
        "warnings": [
            *keyless,
            *_warnings(table, individuals, shortfall),
            *_key_warnings(table, accepted),
            *_null_warnings(table, beside_nulls(table, left)),
            *unlisted_sentences(table, unlisted_rows(table, left), n, "rows"),
        ],
        "costs": tried,
    }


def _tried(used: Microdata, progress: Stages) -> dict[str, Any]:
    with progress.stage("try") as on_progress:
        return costs(used, on_progress)


def _without_key(table: Table, frame: pd.DataFrame) -> Iterator[str]:
    if table.source_key and set(table.source_key).isdisjoint(frame.columns):
        names = ", ".join(table.source_key)
        yield (
            f"the data has no column {names}, the key: rows are told apart by their numbers here and by `anonymize`;"
            " a stream needs the key"
        )


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


def _key_warnings(table: Table, rows: EncodedRows) -> list[str]:
    of_keys = warning_of(rows.source_keys, table.source_key[0]) if len(table.source_key) == 1 else []
    return of_keys + warning_of_individuals(rows.individuals, table.individual)


# -- for people ----------------------------------------------------------------------------------------------------


def print_data(data: dict[str, Any]) -> None:
    say(f"data: {data['accepted']:,} of {so_many(data['rows'], 'row')} would be accepted")
    say(f"columns that never leave: {', '.join(data['hidden_columns']) or 'none'}")
    if data["refused"]:
        grid = grid_of("refused rows", "reason", "column")
        for line in data["refused"]:
            grid.add_row(f"{line['rows']:,}", line["reason"], line["column"] or "")
        print_table(grid)
    for warning in data["warnings"]:
        say(f"warning: {warning}")
    if data["costs"] is not None:
        _print_costs(data["costs"], data["accepted"])


def _print_costs(tried: dict[str, Any], accepted: int) -> None:
    used = f"all {accepted:,}" if tried["rows"] == accepted else f"the first {tried['rows']:,}"
    say(f"what k costs ({tried['algorithm']}, {used} accepted rows; NCP 0: exact values, 1: nothing left)")
    names = " or ".join(sorted({line["suppressing"]["algorithm"] for line in tried["k"] if "suppressing" in line}))
    leaving = (f"NCP of {names}", f"suppressed (up to {SUPPRESSION:.0%})") if names else ()
    grid = grid_of("k", "QI groups", "NCP", *leaving)
    for line in tried["k"]:
        if "cannot" in line:
            grid.add_row(str(line["k"]), line["cannot"])
            continue
        other = [line["suppressing"][name] for name in ("ncp", "suppressed")] if "suppressing" in line else []
        grid.add_row(*map(figure, (line["k"], line["groups"], line["ncp"], *other)))
    print_table(grid)
    if tried["none_suppressing"]:
        say(f"with {SUPPRESSION:.0%} suppressed it was not tried: {tried['none_suppressing']}")
    if not tried["attributes"]:
        return
    grid = grid_of("column", "its NCP", "with another grid: NCP of the table")
    for line in tried["attributes"]:
        others = "; ".join(f"{_grid_text(at['grid'])}: {figure(at['ncp'])}" for at in line["grids"])
        grid.add_row(line["name"], figure(line["ncp"]), others)
    print_table(grid)


def _grid_text(grid: Decimal | str) -> str:
    return grid if isinstance(grid, str) else decimal_text(grid)
