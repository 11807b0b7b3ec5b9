"""Encoded rows on their way between the steps of a large table, as Arrow: a column for each attribute and kept column.

Columns have numbers for names: cells (`c0`, int32), kept values as JSON text (`v0`), the individual (`who`) and, if the
index is wanted, the source key (`key`). Texts stay texts: numbers for them would need all of them in one place. From
the first anonymizing on, rows stand QI group by QI group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from streamer.privacy.models import Model
from streamer.recoding.fragments.plan import counted_values
from streamer.table.arrays import Ints
from streamer.table.arrow_table import require
from streamer.table.encode import Coded, EncodedColumns
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

WHO, KEY = "who", "key"

Texts = Mapping[int, Sequence[bytes]]
"""By number of a kept column, all its different texts in order, if all parts of a table must number them alike."""


def arrow_rows(table: Table, encoded: EncodedColumns, with_keys: bool) -> Any:
    """Encoded rows as a pyarrow.Table."""
    arrow = require("pyarrow", "parquet")
    cells = table.space.cells(encoded.codes).astype(np.int32)
    columns = {f"c{j}": arrow.array(cells[:, j]) for j in range(cells.shape[1])}
    columns |= {f"v{i}": _texts(column) for i, column in enumerate(encoded.kept)}
    if encoded.individuals is not None:
        columns[WHO] = _texts(encoded.individuals)
    if with_keys:
        columns[KEY] = _texts(encoded.source_keys)
    return arrow.table(columns)


def _texts(column: Coded[Any]) -> Any:
    arrow = require("pyarrow", "parquet")
    different = [text.encode() if isinstance(text, str) else text for text in column.different]
    return arrow.array(different, arrow.large_binary()).take(arrow.array(column.numbers))


def microdata_of_rows(table: Table, rows: Any, texts: Texts | None = None) -> Microdata:
    """The rows as numbers; a column of `texts` is numbered by these, others by the texts that are there."""
    n, known = rows.num_rows, texts or {}
    codes = cells_of_rows(table, rows) * table.space.codes_per_cell
    values, found = np.zeros((n, len(table.kept)), dtype=np.int64), list[tuple[bytes, ...]]()
    for i in range(len(table.kept)):
        values[:, i], different = numbered_texts(rows[f"v{i}"], known.get(i))
        found.append(different)
    who = None if table.individual is None else numbered_texts(rows[WHO])[0]
    return Microdata(table, codes, who, values, tuple(found))


def cells_of_rows(table: Table, rows: Any) -> Ints:
    """The cells alone; int64 (n, d)."""
    cells = np.empty((rows.num_rows, table.space.d), dtype=np.int64)
    for j in range(table.space.d):
        cells[:, j] = rows[f"c{j}"].to_numpy()
    return cells


def numbered_texts(column: Any, known: Sequence[bytes] | None = None) -> tuple[Ints, tuple[bytes, ...]]:
    """Texts of a column as numbers in their order, int64 (n,), and the different texts; known: all there can be."""
    if not len(column):
        return np.zeros(0, dtype=np.int64), tuple(known or ())
    coded = column.combine_chunks().dictionary_encode() if hasattr(column, "chunks") else column.dictionary_encode()
    if hasattr(coded, "chunks"):
        coded = coded.chunk(0)
    here = coded.dictionary.to_pylist()
    different = sorted(here) if known is None else known
    number = {text: i for i, text in enumerate(different)}
    return np.array([number[text] for text in here], dtype=np.int64)[coded.indices.to_numpy()], tuple(different)


def individual_codes(rows: Any) -> Ints:
    """A code for the individual of each row, the same in every part of a table; int64 (n,), from 0.

    Codes are hashes of 63 bits: to take two people for one is next to impossible, and makes a QI group look smaller.
    """
    number, different = numbered_texts(rows[WHO])
    return (pd.util.hash_array(np.array(different, dtype=object), categorize=False) >> 1).astype(np.int64)[number]


def counted_texts(model: Model, rows: Any) -> dict[int, set[bytes]]:
    """The different texts of the kept columns that the model counts."""
    columns = {subject.column for subject in counted_values(model)}
    return {i: set(numbered_texts(rows[f"v{i}"])[1]) for i in sorted(columns)}
