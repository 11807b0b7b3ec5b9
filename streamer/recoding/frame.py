"""Anonymizing a whole table at once: what the commands and users of pandas have in common.

The privacy model is table.yaml's; only k may be replaced, because everybody asks what another k would cost. A DataFrame
may hold texts or typed values; its column says what a value means (`streamer.table.encode`). The result is what would
be published and nothing else: no source key, no trace of the order of the rows. Chance is drawn here, from the
operating system, and passed to pure functions."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from math import nan
from typing import Any, Literal, overload
from warnings import warn

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype

from streamer.errors import A_TEXT, FLAG, NUMBER, WHOLE_NUMBER, PrivacyWarning, UsageError, require_type
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM, algorithm_named, run
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding
from streamer.recoding.metrics.measures import measure
from streamer.recoding.publication import group_names, published_frame
from streamer.recoding.report.cautions import cautions
from streamer.recoding.report.findings import drawn_of, findings
from streamer.recoding.report.head import RUN, described, drawn_facts
from streamer.table import data_warnings
from streamer.table.codes import CategoricalAttribute
from streamer.table.encode import Encoder, require_frame, with_index, without_absent_key
from streamer.table.microdata import Microdata, microdata_of_columns
from streamer.table.published.rows import QI_GROUP, attribute_columns
from streamer.table.schema import ROWS, Table
from streamer.table.typed_frame import decode_json
from streamer.table.yaml import require_k
from streamer.table.yaml.loading import Named, table_of

_NUMBERS = frozenset(("integer", "floating", "decimal", "mixed-integer-float", "boolean"))
"""The kinds of values, as pandas calls them, whose texts are JSON's own."""

INT64_MAX, FLOAT_WHOLE_MAX = 2**63 - 1, 2**53

SEED_BITS = 128
"""Bits of chance from the operating system: too many to try."""


def with_k(table: Table, k: int | None) -> Table:
    """The table with another k, or as it is if k is None. Raises UsageError for one that table.yaml may not have."""
    require_k(k)
    return table if k is None else replace(table, k=k)


@overload
def anonymize(
    frame: pd.DataFrame, table: Named, *, algorithm: str = ..., k: int | None = ..., suppression: float | Decimal = ...,
    refine: int = ..., keep_equal_boxes: bool = ..., intervals: bool = ..., return_index: Literal[False] = ...,
    seed: int | None = ...,
) -> pd.DataFrame: ...  # fmt: skip
@overload
def anonymize(
    frame: pd.DataFrame, table: Named, *, algorithm: str = ..., k: int | None = ..., suppression: float | Decimal = ...,
    refine: int = ..., keep_equal_boxes: bool = ..., intervals: bool = ..., return_index: Literal[True],
    seed: int | None = ...,
) -> tuple[pd.DataFrame, pd.Series[Any]]: ...  # fmt: skip
def anonymize(
    frame: pd.DataFrame,
    table: Named,
    *,
    algorithm: str = DEFAULT_ALGORITHM,
    k: int | None = None,
    suppression: float | Decimal = 0.0,
    refine: int = 0,
    keep_equal_boxes: bool = False,
    intervals: bool = False,
    return_index: bool = False,
    seed: int | None = None,
) -> pd.DataFrame | tuple[pd.DataFrame, pd.Series[Any]]:
    """The published table of a DataFrame of people, by any algorithm of `streamer anonymize`.

    frame: texts or typed values; NaN and None are nulls. table: a Table, a table.yaml, its directory, or a dict of its
    settings, such as `init` drafts. keep_equal_boxes: QI groups with equal boxes stay apart. intervals: one column of
    pandas' intervals for `_lo` and `_hi`. return_index: also, by row of the frame, its QI group: private. seed: chance.

    Columns keep their types (docs/how-to/python.md). `streamer.report(published)` is the report. In `attrs`: `measures`
    (`streamer.recoding.metrics.measures.WHAT`), `unlisted` (rows by column that only `other` takes), `to_know` and
    `cautions`, of which a PrivacyWarning warns. Raises ConfigError for a table, data or a model that cannot be;
    UsageError for an argument.

    >>> people = {"id": [1, 2, 3, 4], "age": [64, 31, 39, 68], "problem": ["ulcer", "flu", "ulcer", "flu"]}
    >>> age = {"role": "quasi-identifier", "type": "integer", "domain": [0, 99], "grid": 10}
    >>> table = {"table": "people", "columns": {"age": age, "problem": {"role": "sensitive"}}, "privacy": {"k": 2},
    ...          "publish": {"live": {"form": "rows"}}}
    >>> anonymize(pd.DataFrame(people), table)
      qi_group  age_lo  age_hi problem
    0      0-1      30      39     flu
    1      0-1      30      39   ulcer
    2      0-2      60      69     flu
    3      0-2      60      69   ulcer
    """
    require_frame("anonymize", frame)
    require_type("algorithm", algorithm, A_TEXT)
    require_type("suppression", suppression, NUMBER)
    require_type("refine", refine, WHOLE_NUMBER)
    require_type("keep_equal_boxes", keep_equal_boxes, FLAG)
    require_type("intervals", intervals, FLAG)
    require_type("return_index", return_index, FLAG)
    require_type("seed", seed, WHOLE_NUMBER, or_none=True)
    chosen = algorithm_named(algorithm)
    options = checked_options(suppression, refine, keep_equal_boxes, seed)
    schema = with_k(table_of(table, needs_key=False), k)
    people = with_index(frame, schema)
    schema = without_absent_key(schema, people.columns)
    microdata = microdata_of_columns(schema, Encoder(schema).columns(people))
    model = model_of(microdata.table)
    recoding = run(chosen, microdata, model, options)
    published = _in_types_of_source(_with_numbers(published_frame(microdata, recoding), schema, people), schema, people)
    published = with_intervals(published, schema) if intervals else published
    published.attrs |= _attrs(chosen, options, microdata, recoding, people)
    for sentence in published.attrs["cautions"]:
        warn(sentence, PrivacyWarning, stacklevel=2)
    if not return_index:
        return published
    names = np.array([*group_names(recoding), None], dtype=object)  # SUPPRESSED is -1, which takes the last one
    return published, pd.Series(names[recoding.qi_group], index=frame.index, name=QI_GROUP, dtype=object)


def _attrs(
    algorithm: Algorithm, options: Options, microdata: Microdata, recoding: Recoding, people: pd.DataFrame
) -> dict[str, Any]:
    """What a published DataFrame says of itself: plain values, and no source key or value of a row."""
    table, measures = microdata.table, measure(microdata, recoding, model_of(microdata.table))
    unlisted, strays = data_warnings.unknown_category_rows(table, people), data_warnings.stray_warnings_of(people)
    found, stood = findings(microdata, recoding, ROWS, table.named), data_warnings.stand_ins(table, people)
    spelt = data_warnings.several_spellings(table, people)
    facts = described(algorithm, options, table, ROWS, measures, recoding.levels, recoding.details)
    facts |= drawn_facts(table, drawn_of(microdata, recoding))
    facts["warnings"] = data_warnings.warnings_of_rows(table, strays, spelt, unlisted, len(microdata))
    return {"measures": measures, "unlisted": unlisted, **cautions(table, ROWS, found, stood)._asdict(), RUN: facts}


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


def _in_types_of_source(published: pd.DataFrame, table: Table, source: pd.DataFrame) -> pd.DataFrame:
    """The published table in pandas' own types of the source: nullable ones, texts, categories, dates in its zone."""
    for attribute in table.attributes:
        kind = source[attribute.name].dtype
        if isinstance(attribute, CategoricalAttribute):
            leaves = attribute.hierarchy.interval_of
            cells = published[attribute.name]
            labels = sorted(cells.unique(), key=leaves.__getitem__)
            published[attribute.name] = _as_texts(cells, kind, labels, is_ordered=False)
            continue
        for name in attribute_columns(attribute):
            published[name] = _as_numbers(published[name], kind)
    for column in table.kept:
        kind, cells = source[column.name].dtype, published[column.name]
        if all(isinstance(cell, str) or cell is None for cell in cells.unique()):
            values = cells.dropna().unique().tolist()
            levels = [one for one in getattr(kind, "categories", ()) if one in values] if kind == "category" else []
            is_ordered = bool(getattr(kind, "ordered", False)) and len(levels) == len(values)
            cells = _as_texts(cells, kind, levels if is_ordered else sorted(values), is_ordered)
            published[column.name] = _as_moments(cells, kind) if column.hierarchy is None else cells
        else:
            published[column.name] = _as_numbers(cells, kind)
    return published


def _as_texts(cells: pd.Series[Any], kind: Any, labels: list[str], is_ordered: bool) -> pd.Series[Any]:
    """Texts as categories of what is published, or in the source's type of texts. An order that nobody meant is not
    taken over: it may be that of the rows."""
    if isinstance(kind, pd.CategoricalDtype):
        return cells.astype(pd.CategoricalDtype(labels, is_ordered))
    return cells.astype(kind) if isinstance(kind, pd.StringDtype) and kind.na_value is pd.NA else cells


def _as_numbers(cells: pd.Series[Any], kind: Any) -> pd.Series[Any]:
    """Numbers and booleans that may be NA if the source's may, moments in its time zone."""
    if kind.name.startswith(("Int", "UInt", "Float", "boolean")) and is_numeric_dtype(cells.dtype):
        is_float = kind.name.startswith("Float") or cells.dtype.kind == "f"
        name = "boolean" if is_bool_dtype(cells.dtype) else "Float64" if is_float else "Int64"
        return cells.astype(pd.api.types.pandas_dtype(name))
    zone = getattr(kind, "tz", None)
    return cells.dt.tz_convert(zone) if zone and isinstance(cells.dtype, pd.DatetimeTZDtype) else cells


def _as_moments(cells: pd.Series[Any], kind: Any) -> pd.Series[Any]:
    """Texts of moments in the source's own type of moments, if it is one and has them all."""
    if not isinstance(kind, np.dtype | pd.DatetimeTZDtype) or kind.kind != "M":
        return cells
    with suppress(ValueError):
        moments = pd.to_datetime(cells, format="ISO8601", utc=True)
        return moments.dt.tz_convert(getattr(kind, "tz", None)).astype(kind)
    return cells


def with_intervals(published: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The published table with a column of closed intervals for each pair of ends, if pandas has intervals of them."""
    shown: dict[str, Any] = {str(name): published[name] for name in published}
    for attribute in table.attributes:
        names = attribute_columns(attribute)
        if len(names) == 2 and all(shown[name].dtype.kind in "iufM" for name in names):
            lo, hi = (plain_numbers(shown[name]).array for name in names)
            both: Any = pd.arrays.IntervalArray.from_arrays(lo, hi, closed="both")
            shown = {attribute.name if name == names[0] else name: cells for name, cells in shown.items()}
            shown[attribute.name] = both
            del shown[names[1]]
    return pd.DataFrame(shown)


def plain_numbers(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column without nulls in NumPy's type instead of pandas' nullable one; of moments, as it is."""
    return cells.astype(pd.api.types.pandas_dtype(cells.dtype.name.lower())) if cells.dtype.kind in "iuf" else cells


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
