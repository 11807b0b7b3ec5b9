"""Anonymizing a whole table at once: what the commands and users of pandas have in common.

The privacy model is table.yaml's; only k may be replaced, because everybody asks what another k would cost. A DataFrame
may hold texts or typed values; its column says what a value means (`streamer.table.encode`). The result is what would
be published and nothing else: no source key, no trace of the order of the rows. Chance is drawn here, from the
operating system, and passed to pure functions."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from math import nan
from typing import Any
from warnings import warn

import pandas as pd
from pandas.api.types import infer_dtype

from streamer.errors import A_TEXT, FLAG, NUMBER, WHOLE_NUMBER, PrivacyWarning, UsageError, require_type
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM, algorithm_named, run
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.metrics.measures import measure
from streamer.recoding.publication import published_frame
from streamer.recoding.report.cautions import cautions
from streamer.recoding.report.findings import findings
from streamer.table.data_warnings import stand_ins, unknown_category_rows
from streamer.table.encode import Encoder
from streamer.table.microdata import microdata_of_columns
from streamer.table.schema import ROWS, Table
from streamer.table.typed_frame import decode_json
from streamer.table.yaml import K_MAX, K_MIN
from streamer.table.yaml.loading import Named, table_of

_NUMBERS = frozenset(("integer", "floating", "decimal", "mixed-integer-float", "boolean"))
"""The kinds of values, as pandas calls them, whose texts are JSON's own."""

INT64_MAX, FLOAT_WHOLE_MAX = 2**63 - 1, 2**53

SEED_BITS = 128
"""Bits of chance from the operating system: too many to try."""


def with_k(table: Table, k: int | None) -> Table:
    """The table with another k, or as it is if k is None. Raises UsageError for one that table.yaml may not have."""
    if k is None:
        return table
    if not K_MIN <= k <= K_MAX:
        raise UsageError(f"k must be at least {K_MIN} and at most {K_MAX:,}")
    return replace(table, k=k)


def without_absent_key(table: Table, columns: Iterable[object]) -> Table:
    """The table without its key if the data has none of its columns: a whole table needs no key."""
    return replace(table, source_key=()) if set(table.source_key).isdisjoint(columns) else table


def anonymize(
    frame: pd.DataFrame,
    table: Named,
    *,
    algorithm: str = DEFAULT_ALGORITHM,
    k: int | None = None,
    suppression: float | Decimal = 0.0,
    refine: int = 0,
    keep_equal_boxes: bool = False,
    seed: int | None = None,
) -> pd.DataFrame:
    """The published table of a DataFrame of people, by any algorithm of `streamer anonymize`.

    table: a Table, a table.yaml, a directory that holds one, or a dict of its settings. frame: the columns that the
    table names, with or without its key, as texts or typed values; NaN and None are nulls. keep_equal_boxes: QI groups
    that publish the same values stay apart, and the operating system's chance numbers them. seed: this chance, for
    tests. Returns the published columns, rows by QI group. Ends of intervals are int64 or float64 (Decimals if a float
    would round them), of dates and timestamps datetime64; labels are text; kept columns have the type that table.yaml
    gives them, else that of the DataFrame's numbers and booleans, else text: see `streamer.table.typed_frame`.
    `attrs["measures"]` holds every measure (`streamer.recoding.metrics.measures.WHAT`); `attrs["unlisted"]` says for
    each column how many rows have a category that only `other` takes. `attrs["cautions"]`, which are warned of
    (PrivacyWarning), and `attrs["to_know"]` are what the head of a report says.

    Raises ConfigError for a table or data that cannot be used, or a privacy model that cannot hold; UsageError for an
    argument of the wrong type, an unknown algorithm, or one that cannot do what is asked.

    >>> from decimal import Decimal
    >>> from streamer.table.codes import KeptColumn, NumericAttribute
    >>> from streamer.table.schema import Table
    >>> age = NumericAttribute("age", (Decimal(0), Decimal(99)), Decimal(10), Decimal(1), Decimal(20))
    >>> table = Table("people", ("id",), (age,), (KeptColumn("problem", sensitive=True),), k=2)
    >>> people = {"id": [1, 2, 3, 4], "age": [64, 31, 39, 68], "problem": ["ulcer", "flu", "ulcer", "flu"]}
    >>> published = anonymize(pd.DataFrame(people), table)
    >>> published
      qi_group  age_lo  age_hi problem
    0      0-1      30      39     flu
    1      0-1      30      39   ulcer
    2      0-2      60      69     flu
    3      0-2      60      69   ulcer
    >>> published.attrs["measures"]["k"]
    2
    """
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"anonymize takes a pandas DataFrame of people, not {type(frame).__name__}")
    require_type("algorithm", algorithm, A_TEXT)
    require_type("k", k, WHOLE_NUMBER, or_none=True)
    require_type("suppression", suppression, NUMBER)
    require_type("refine", refine, WHOLE_NUMBER)
    require_type("keep_equal_boxes", keep_equal_boxes, FLAG)
    require_type("seed", seed, WHOLE_NUMBER, or_none=True)
    chosen = algorithm_named(algorithm)
    options = checked_options(suppression, refine, keep_equal_boxes, seed)
    schema = without_absent_key(with_k(table_of(table, needs_key=False), k), frame.columns)
    microdata = microdata_of_columns(schema, Encoder(schema).columns(frame))
    model = model_of(microdata.table)
    recoding = run(chosen, microdata, model, options)
    published = _with_numbers(published_frame(microdata, recoding), schema, frame)
    published.attrs["measures"] = measure(microdata, recoding, model)
    published.attrs["unlisted"] = unknown_category_rows(schema, frame)
    said = cautions(schema, ROWS, findings(microdata, recoding, ROWS, schema.named), stand_ins(schema, frame))
    published.attrs |= said._asdict()
    for sentence in said.cautions:
        warn(sentence, PrivacyWarning, stacklevel=2)
    return published


def _with_numbers(published: pd.DataFrame, table: Table, source: pd.DataFrame) -> pd.DataFrame:
    """The published table, in which kept columns of numbers or booleans are that again, of a type to compute with."""
    for column in table.kept:
        cells = published[column.name]
        if column.type is None and column.hierarchy is None and _kind_of(source[column.name]) in _NUMBERS:
            said = {text: None if text is None else decode_json(text) for text in cells.unique()}
            cells = pd.Series([said[text] for text in cells], index=cells.index, dtype=object)
        published[column.name] = _computable(cells)
    return published


def _kind_of(cells: pd.Series[Any]) -> str:
    return infer_dtype(cells.dtype.categories if isinstance(cells.dtype, pd.CategoricalDtype) else cells)


def _computable(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column of objects in the type of its numbers or booleans; as it is if it holds others, or one would change."""
    found, has_nulls = set(map(type, cells)), bool(cells.isna().any())
    found.discard(type(None))
    if found == {bool}:
        return cells.astype("boolean" if has_nulls else "bool")
    if found == {int} and all(-INT64_MAX <= cell <= INT64_MAX for cell in cells.dropna()):
        return cells.astype("Int64" if has_nulls else "int64")
    if float in found <= {int, float} and all(abs(cell) <= FLOAT_WHOLE_MAX for cell in cells if type(cell) is int):
        return cells.astype("float64")
    return cells


def checked_options(
    suppression: float | Decimal = 0.0, refine: int = 0, keep_equal_boxes: bool = False, seed: int | None = None
) -> Options:
    """The options of a run; without a seed, chance comes from the operating system and differs in every run.

    Raises UsageError for an option out of range.
    """
    try:
        share = float(suppression)
    except (ValueError, OverflowError):  # a signaling NaN; a whole number beyond all floats
        share = nan
    if not 0 <= share < 1:
        raise UsageError("suppression must be a share of the rows, at least 0 and below 1")
    if refine < 0:
        raise UsageError("refine counts sweeps: it must not be negative")
    if seed is not None and seed < 0:
        raise UsageError("seed must not be negative")
    chance = secrets.randbits(SEED_BITS) if seed is None else seed
    return Options(seed or 0, share, refine, not keep_equal_boxes, chance)
