"""Published rows, read back: JSON -> the name of a QI group, a box in cells, and canonical values.

Nothing is trusted, whatever tool wrote it: an interval off the grid, a label that is no node, a column too many raise
`LawViolated`, whose words hold no value. The other forms read their boxes and values by the same
readers. Texts that come again, as boxes do row by row, are taken apart once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import NamedTuple

import msgspec

from streamer.errors import EventRefused, LawViolated
from streamer.table.attributes import Attribute, CategoricalAttribute, NumericAttribute, TemporalAttribute
from streamer.table.column_codes import to_json_text
from streamer.table.moments import moment_of, moment_text
from streamer.table.published import FRAGMENTS_MAX, QI_GROUP, published_columns
from streamer.table.row import Values
from streamer.table.scalars import decimal_text
from streamer.table.schema import KeptColumn, Table

_DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_DECODER = msgspec.json.Decoder(float_hook=Decimal)


class PublishedRow(NamedTuple):
    """A published row read back: the name of its QI group, its box in cells, and its kept values, canonical."""

    qi_group: str
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    values: Values


Box = tuple[tuple[int, ...], tuple[int, ...]]
"""First and last cells, both inclusive."""


class TextsReader:
    """Takes JSON objects of exactly some columns apart, into the texts of these; whitespace and order do not matter."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        # No Struct, which reads faster: a field of one cannot be called `Q2 "trust"`, and a column can.
        self._decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def read(self, row: bytes) -> tuple[bytes, ...]:
        """The columns' texts. Raises LawViolated where there are others, or fewer."""
        try:
            texts = self._decoder.decode(row)
            if len(texts) == len(self._columns):
                return tuple([bytes(texts[column]) for column in self._columns])
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            pass
        raise LawViolated("a row does not have exactly the published columns")


class RowReader:
    """Reads published rows back.

    Raises LawViolated where a row does not have exactly the published columns, or publishes what is not on a grid or
    not a node of a hierarchy.
    """

    def __init__(self, table: Table) -> None:
        columns = published_columns(table)
        self._texts = TextsReader(columns)
        self._n_box = len(columns) - len(table.kept)
        self._box = BoxReader(table)
        self._values = ValuesReader(table)

    def read(self, row: bytes) -> PublishedRow:
        """One published row from its JSON."""
        texts = self._texts.read(row)
        lo, hi = self._box.read(texts[1 : self._n_box])
        return PublishedRow(read_text(texts[0], QI_GROUP), lo, hi, self._values.read(texts[self._n_box :]))


class ValuesReader:
    """Canonical JSON texts of the kept columns' published values, whatever wrote them."""

    def __init__(self, table: Table) -> None:
        self._kept = tuple(map(_kept_reader, table.kept))

    def read(self, texts: Iterable[bytes]) -> Values:
        """The values of the kept columns in table.yaml order. Raises LawViolated for what table.yaml does not allow."""
        return tuple([read(text) for read, text in zip(self._kept, texts, strict=True)])


def _kept_reader(column: KeptColumn) -> Callable[[bytes], bytes]:
    """Canonical JSON text of a kept column's published value, whatever wrote it."""
    canonical = to_json_text(replace(column, other=None))  # a label that is published stands in the hierarchy

    def read(text: bytes) -> bytes:
        try:
            return canonical(_DECODER.decode(text))
        except (msgspec.DecodeError, EventRefused):
            raise LawViolated(f"column {column.name} holds a value that table.yaml does not allow") from None

    return lru_cache(FRAGMENTS_MAX)(read)


class BoxReader:
    """The box in cells that quasi-identifier columns publish."""

    def __init__(self, table: Table) -> None:
        self._attributes = table.attributes
        self.read: Callable[[tuple[bytes, ...]], Box] = lru_cache(FRAGMENTS_MAX)(self._box_of)
        """The box behind the JSON texts of the columns. Raises LawViolated."""

    def _box_of(self, texts: tuple[bytes, ...]) -> Box:
        remaining = iter(texts)
        box = []
        for attribute in self._attributes:
            if isinstance(attribute, CategoricalAttribute):
                box.append(_node(attribute, read_text(next(remaining), attribute.name)))
            elif isinstance(attribute, TemporalAttribute):
                box.append(_calendar_cells(attribute, next(remaining), next(remaining)))
            else:
                box.append(_cells(attribute, next(remaining), next(remaining)))
        lo, hi = zip(*box, strict=True)
        return lo, hi


def _node(attribute: CategoricalAttribute, label: str) -> tuple[int, int]:
    leaves = attribute.hierarchy.interval_of.get(label)
    if leaves is None:
        raise LawViolated(f"column {attribute.name} holds a label that is no node of its hierarchy")
    return leaves


def _cells(attribute: NumericAttribute, first: bytes, last: bytes) -> tuple[int, int]:
    """Cells of a published interval; whatever the arithmetic says, they have to publish exactly these texts again."""
    texts = first.decode(), last.decode()
    if all(map(_DECIMAL.fullmatch, texts)):
        start, step, grid = attribute.domain[0], attribute.step or Decimal(0), attribute.grid
        lo = int((Decimal(texts[0]) - start) / grid)
        end = (Decimal(texts[1]) - start + step) / grid
        hi = max(0, int(end.to_integral_value(ROUND_CEILING)) - 1)
        if 0 <= lo <= hi < attribute.n_cells and tuple(map(decimal_text, attribute.interval(lo, hi))) == texts:
            return lo, hi
    raise _off_grid(attribute)


def _calendar_cells(attribute: TemporalAttribute, first: bytes, last: bytes) -> tuple[int, int]:
    """The same of dates and timestamps."""
    texts = [read_text(text, attribute.name) for text in (first, last)]
    clock = attribute.calendar.clock
    try:
        lo, hi = (moment_of(text, attribute.name, clock) for text in texts)
    except EventRefused:
        raise _off_grid(attribute) from None
    cells = attribute.calendar.cells_between(lo, hi)
    if cells is None or [moment_text(lo, clock), moment_text(hi, clock)] != texts:
        raise _off_grid(attribute)
    return cells


def _off_grid(attribute: Attribute) -> LawViolated:
    return LawViolated(f"column {attribute.name} holds an interval that is not on its grid")


def read_text(text: bytes, column: str) -> str:
    """A column's text from its JSON. Raises LawViolated."""
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        raise LawViolated(f"column {column} does not hold a text") from None
