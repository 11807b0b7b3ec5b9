"""The published row: its columns, its key and its bytes, and what all forms of publication share.

The rules of this file
----------------------
* The key of a published row is `{"qi_group":"0-17","slot":3}`: shard, number of the QI group, slot; a source key is
  never published. A key is always the same bytes, because a compacted topic keeps one record per key, by bytes.
* The value is flat JSON in the order of `published_columns`: numbers, dates and timestamps as the two ends of an
  interval (shortest decimals, ISO texts), categories as the label of a node, kept columns as the JSON texts that they
  are.
* `box_columns` alone decides what an attribute publishes of a run of cells, for bytes, for tables and for people.
* Nothing that is read back is trusted. The other forms are in `streamer.table.published.groups`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import NamedTuple

import msgspec

from streamer.errors import EventRefused, LawViolated
from streamer.table.codes import (
    Attribute,
    CategoricalAttribute,
    KeptColumn,
    NumericAttribute,
    TemporalAttribute,
    decimal_text,
    moment_of,
    moment_text,
)
from streamer.table.codes.column_codes import to_json_text
from streamer.table.row import Values
from streamer.table.schema import Table

QI_GROUP = "qi_group"
"""The column that names a row's QI group."""

FRAGMENTS_MAX = 1 << 16  # remembered pieces of rows per attribute; a piece holds no value of a person's row

_KEY = re.compile(rb'\{"qi_group":"(0|[1-9][0-9]{0,17})-([1-9][0-9]{0,17})","slot":(0|[1-9][0-9]{0,17})\}')
_QI_GROUP = re.compile(r"(0|[1-9][0-9]{0,17})-([1-9][0-9]{0,17})")


class RowKey(NamedTuple):
    """The key of a published row; sorts by shard, number of the QI group and slot."""

    shard: int
    qi_group: int
    slot: int


_LONGEST_KEY = RowKey(10**18 - 1, 10**18 - 1, 10**18 - 1)


def qi_group_name(shard: int, qi_group: int) -> str:
    """The published name of a QI group.

    >>> qi_group_name(0, 17)
    '0-17'
    """
    return f"{shard}-{qi_group}"


LONGEST_NAME = qi_group_name(*_LONGEST_KEY[:2])


def interval_columns(name: str) -> tuple[str, str]:
    """The two columns that publish an attribute with intervals.

    >>> interval_columns("age")
    ('age_lo', 'age_hi')
    """
    return f"{name}_lo", f"{name}_hi"


def attribute_columns(attribute: Attribute) -> tuple[str, ...]:
    """The columns that publish one attribute."""
    return (attribute.name,) if isinstance(attribute, CategoricalAttribute) else interval_columns(attribute.name)


def all_box_columns(table: Table) -> tuple[str, ...]:
    """The columns that publish a box."""
    return tuple(column for attribute in table.attributes for column in attribute_columns(attribute))


def published_columns(table: Table) -> tuple[str, ...]:
    """Columns of the published table, in the order of the changelog's JSON."""
    return (QI_GROUP, *all_box_columns(table), *(column.name for column in table.kept))


def box_columns(attribute: Attribute, lo: int, hi: int) -> dict[str, Decimal | str]:
    """The cells lo..hi of one attribute as published: the shortest ends of an interval, or the label of a node."""
    if isinstance(attribute, CategoricalAttribute):
        return {attribute.name: attribute.hierarchy.label(lo, hi)}
    ends: Iterable[Decimal | str]
    if isinstance(attribute, TemporalAttribute):
        ends = attribute.calendar.texts(lo, hi)
    else:
        ends = _ends(attribute, lo, hi)
    return dict(zip(interval_columns(attribute.name), ends, strict=True))


def _ends(attribute: NumericAttribute, lo: int, hi: int) -> list[Decimal | str]:
    """The ends of the cells lo..hi: numbers, or codes with all their digits."""
    texts, width = map(decimal_text, attribute.interval(lo, hi)), attribute.width
    if width is None:
        return [Decimal(text) for text in texts]
    return ["-" * text.startswith("-") + text.removeprefix("-").zfill(width) for text in texts]


def json_texts(columns: Mapping[str, Decimal | str]) -> dict[str, bytes]:
    """The same as JSON texts."""
    return {
        name: msgspec.json.encode(value) if isinstance(value, str) else decimal_text(value).encode()
        for name, value in columns.items()
    }


def frame_bytes(table: Table) -> int:
    """The most bytes of key and value of a published row, without its kept values."""
    return len(row_key(_LONGEST_KEY)) + box_bytes(table) + names_bytes(column.name for column in table.kept)


def box_bytes(table: Table) -> int:
    """The most bytes of a JSON object with the name of a QI group and a box."""
    texts = sum(_longest_text(attribute) for attribute in table.attributes)
    return len(LONGEST_NAME) + len('{""}') + names_bytes((QI_GROUP, *all_box_columns(table))) + texts


def names_bytes(columns: Iterable[str]) -> int:
    """Bytes of columns in a JSON object, without their values."""
    return sum(len(msgspec.json.encode(name)) + len(":,") for name in columns)


def _longest_text(attribute: Attribute) -> int:
    """The most bytes that one attribute publishes, without the names of its columns."""
    if isinstance(attribute, CategoricalAttribute):
        return max(len(msgspec.json.encode(label)) for label in attribute.hierarchy.interval_of)
    if isinstance(attribute, TemporalAttribute):  # the domain may begin or end with microseconds
        return 2 * (len('""') + len(attribute.calendar.clock.example) + len(".000000"))
    if attribute.width is not None:
        return 2 * (len('"-"') + attribute.width)
    return 2 * (len("-") + attribute.whole_digits + len(".") + attribute.scale)


def parse_qi_group(name: str) -> tuple[int, int]:
    """Shard and number of a published QI group. Raises LawViolated.

    >>> parse_qi_group("0-17")
    (0, 17)
    """
    match = _QI_GROUP.fullmatch(name)
    if match is None:
        raise LawViolated("a qi_group is not named by its shard and its number, like 0-17")
    return int(match[1]), int(match[2])


class _Named(msgspec.Struct):
    """The first member of the keys of all forms."""

    qi_group: str


_NAMED = msgspec.json.Decoder(_Named)


def qi_group_of(key: bytes) -> tuple[int, int]:
    """Shard and number of the QI group of a record of any form, by its key. Raises LawViolated.

    >>> qi_group_of(b'{"qi_group":"0-17","problem":"flu"}')
    (0, 17)
    """
    try:
        return parse_qi_group(_NAMED.decode(key).qi_group)
    except msgspec.MsgspecError:
        raise LawViolated("the key of a record does not name a qi_group") from None


def row_key(key: RowKey) -> bytes:
    """The key of a published row as bytes.

    >>> row_key(RowKey(0, 17, 3))
    b'{"qi_group":"0-17","slot":3}'
    """
    return b'{"qi_group":"%d-%d","slot":%d}' % key


def parse_key(key: bytes) -> RowKey:
    """Reads a record's key back. Raises LawViolated if it is not exactly what `row_key` writes.

    >>> parse_key(b'{"qi_group":"0-17","slot":3}')
    RowKey(shard=0, qi_group=17, slot=3)
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise LawViolated('the key of a record is not of the form {"qi_group":"0-17","slot":3}')
    return RowKey(int(match[1]), int(match[2]), int(match[3]))


def box_text(table: Table, lo: Sequence[int], hi: Sequence[int]) -> bytes:
    """The members of a JSON object that publish a box, each after a comma."""
    return b"".join(map(box_piece, table.attributes, lo, hi))


def box_piece(attribute: Attribute, lo: int, hi: int) -> bytes:
    """The members that publish one attribute, each after a comma."""
    texts = json_texts(box_columns(attribute, lo, hi))
    return b"".join(b",%b:%b" % (msgspec.json.encode(name), text) for name, text in texts.items())


# Reading published rows back: JSON -> the name of a QI group, a box in cells, and canonical values. An interval off the
# grid, an unknown label or an additional column raise `LawViolated`, never with the value. Repeated texts, such as the
# boxes of one QI group, are parsed once.

_DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_DECODER = msgspec.json.Decoder(float_hook=Decimal)


class PublishedRow(NamedTuple):
    """A published row read back: the name of its QI group, its box in cells, and its canonical kept values."""

    qi_group: str
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    values: Values


Box = tuple[tuple[int, ...], tuple[int, ...]]
"""First and last cells, both inclusive."""


class TextsReader:
    """Parses JSON objects with exactly some columns into their texts; whitespace and order do not matter."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        # A Struct would be faster, but its fields cannot have names such as `Q2 "trust"`.
        self._decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def read(self, row: bytes) -> tuple[bytes, ...]:
        """The columns' texts. Raises LawViolated if there are other columns."""
        try:
            texts = self._decoder.decode(row)
            if len(texts) == len(self._columns):
                return tuple([bytes(texts[column]) for column in self._columns])
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            pass
        raise LawViolated("a row does not have exactly the published columns")


class RowReader:
    """Reads published rows back. Raises LawViolated for what is never published."""

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
    """Reads the published values of kept columns back as canonical JSON texts, whatever wrote them."""

    def __init__(self, table: Table) -> None:
        self._kept = tuple(map(_kept_reader, table.kept))

    def read(self, texts: Iterable[bytes]) -> Values:
        """The values in table.yaml order. Raises LawViolated for a value that table.yaml does not allow."""
        return tuple([read(text) for read, text in zip(self._kept, texts, strict=True)])


def _kept_reader(column: KeptColumn) -> Callable[[bytes], bytes]:
    canonical = to_json_text(replace(column, other=None))  # a published label is in the hierarchy

    def read(text: bytes) -> bytes:
        try:
            return canonical(_DECODER.decode(text))
        except (msgspec.DecodeError, EventRefused):
            raise LawViolated(f"column {column.name} holds a value that table.yaml does not allow") from None

    return lru_cache(FRAGMENTS_MAX)(read)


class BoxReader:
    """Reads the published columns of a box back as cells."""

    def __init__(self, table: Table) -> None:
        self._attributes = table.attributes
        self.read: Callable[[tuple[bytes, ...]], Box] = lru_cache(FRAGMENTS_MAX)(self._box_of)
        """The box of the columns' JSON texts. Raises LawViolated."""

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
    """Cells of a published interval, which must publish exactly these texts again."""
    is_code = attribute.width is not None
    texts = [read_text(text, attribute.name) if is_code else text.decode() for text in (first, last)]
    if all(map(_DECIMAL.fullmatch, texts)):
        start, step, grid = attribute.domain[0], attribute.step or Decimal(0), attribute.grid
        lo = int((Decimal(texts[0]) - start) / grid)
        end = (Decimal(texts[1]) - start + step) / grid
        hi = max(0, int(end.to_integral_value(ROUND_CEILING)) - 1)
        if 0 <= lo <= hi < attribute.n_cells:
            shown = [end if isinstance(end, str) else decimal_text(end) for end in _ends(attribute, lo, hi)]
            if shown == texts:
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
