"""A recoding as the table that is published, with the columns, types and texts of the live changelog.

The rules of this file
----------------------
* The columns are `published_columns`; QI groups are numbered from 1 and named as those of shard 0.
* Rows are sorted by QI group, then by their kept values. So the order says nothing about whose row is where: rows that
  publish the same are interchangeable. Suppressed rows are left out.
* A lossy join (Tong et al. 2010, section 3.2) is two such tables: the rows' own cells by QI group, and the kept values
  by QI group and individual. An individual's number is valid within its QI group only.
* Values that many rows share are made once: the ends of an interval and a label per box, a kept value per text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from streamer.errors import ConfigError
from streamer.recoding.algorithms.contract import Recoding
from streamer.recoding.algorithms.lossy_join import lossy_join
from streamer.table.arrays import Ints, Objects
from streamer.table.arrow_table import require, to_arrow
from streamer.table.codes import Attribute, CategoricalAttribute
from streamer.table.microdata import Microdata
from streamer.table.published.rows import attribute_columns, box_columns, qi_group_name
from streamer.table.typed_frame import decode_json, typed_frame

FIRST_NUMBER = 1
"""Number of the first QI group, as in the changelog, and of the first individual of each QI group in a lossy join."""

INDIVIDUAL_COLUMN = "individual"


def group_names(recoding: Recoding, first_number: int = FIRST_NUMBER) -> list[str]:
    """The published names of the QI groups 0..g-1."""
    return [qi_group_name(0, first_number + number) for number in range(recoding.n_groups)]


def published_order(microdata: Microdata, recoding: Recoding) -> Ints:
    """Numbers of the published rows, in published order; int64 (rows,)."""
    order = np.lexsort((*microdata.values.T[::-1], recoding.qi_group))
    return order[np.searchsorted(recoding.qi_group[order], 0) :]


def published_frame(microdata: Microdata, recoding: Recoding) -> pd.DataFrame:
    """The published table, typed by `typed_frame`, with a fresh index from 0."""
    return pd.DataFrame(dict(_taken(microdata, recoding)))


def published_arrow(microdata: Microdata, recoding: Recoding, first_number: int = FIRST_NUMBER) -> Any:
    """The same as a pyarrow.Table; first_number: that of the first QI group."""
    table, arrow = microdata.table, dict[str, Any]()
    for name, different, numbers in _published_columns(microdata, recoding, first_number):
        arrow[name] = to_arrow(table, typed_frame(table, {name: different}))[name].combine_chunks().take(numbers)
    return require("pyarrow", "parquet").table(arrow)


def _taken(microdata: Microdata, recoding: Recoding) -> Iterator[tuple[str, pd.Series[Any]]]:
    """Name and column of the published table; each different value is made once."""
    for name, different, numbers in _published_columns(microdata, recoding):
        column = typed_frame(microdata.table, {name: different})[name]
        yield name, column.take(numbers).reset_index(drop=True)


def _published_columns(
    microdata: Microdata, recoding: Recoding, first_number: int = FIRST_NUMBER
) -> Iterator[tuple[str, Objects, Ints]]:
    """Name, different values, and by published row the number of its value."""
    table, order = microdata.table, published_order(microdata, recoding)
    group = recoding.qi_group[order]
    yield "qi_group", _objects(group_names(recoding, first_number)), group
    for j, attribute in enumerate(table.attributes):
        for name, different, numbers in _boxes_of(attribute, recoding.lo[:, j], recoding.hi[:, j]):
            yield name, different, numbers[group]
    for i, (column, texts) in enumerate(zip(table.kept, microdata.texts, strict=True)):
        yield column.name, _objects([decode_json(text) for text in texts]), microdata.values[order, i]


def lossy_join_frames(microdata: Microdata, recoding: Recoding) -> tuple[pd.DataFrame, pd.DataFrame]:
    """QIT (QI group and exact cells) and STT (QI group, individual and kept values).

    Cells are written as boxes are, by their ends or their leaf. Raises ConfigError if a kept column is called
    `individual`.
    """
    table, joined = microdata.table, lossy_join(microdata, recoding)
    if any(column.name == INDIVIDUAL_COLUMN for column in table.kept):
        raise ConfigError(f"a lossy join publishes a column {INDIVIDUAL_COLUMN!r} of its own; rename the kept one")
    names = _objects(group_names(recoding))
    qit: dict[str, Objects] = {"qi_group": names[joined.qit_group]}
    for j, attribute in enumerate(table.attributes):
        cells = joined.qit_cells[:, j]
        qit |= {name: different[numbers] for name, different, numbers in _boxes_of(attribute, cells, cells)}
    stt: dict[str, Objects] = {"qi_group": names[joined.stt_group]}
    stt[INDIVIDUAL_COLUMN] = (joined.stt_individual + FIRST_NUMBER).astype(object)
    for i, (column, texts) in enumerate(zip(table.kept, microdata.texts, strict=True)):
        stt[column.name] = _objects([decode_json(text) for text in texts])[joined.stt_values[:, i]]
    return typed_frame(table, qit), typed_frame(table, stt).astype({INDIVIDUAL_COLUMN: "int64"})


def _boxes_of(attribute: Attribute, lo: Ints, hi: Ints) -> Iterator[tuple[str, Objects, Ints]]:
    """The published columns of one attribute for runs of cells lo..hi (m,): name, different cells, number by run."""
    if isinstance(attribute, CategoricalAttribute):
        runs, numbers = np.unique(lo * attribute.hierarchy.n_leaves + hi, return_inverse=True)
        ends = [
            (number // attribute.hierarchy.n_leaves, number % attribute.hierarchy.n_leaves) for number in runs.tolist()
        ]
        yield attribute.name, _objects([box_columns(attribute, *one)[attribute.name] for one in ends]), numbers
        return
    for name, cells in zip(attribute_columns(attribute), (lo, hi), strict=True):  # an end says nothing of the other one
        different, numbers = np.unique(cells, return_inverse=True)
        yield name, _objects([box_columns(attribute, cell, cell)[name] for cell in different.tolist()]), numbers


def _objects(values: Sequence[object]) -> Objects:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
