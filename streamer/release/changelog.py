"""What leaves the house: published rows as bytes, and the records that turn one published QI group into another.

The rules of this file
----------------------
* A published row stands under the key `{"qi_group":"0-17","slot":3}`: shard, number of the QI group, slot; no source
  key ever leaves. Its value is flat JSON in the order of `Table.published_columns`: numeric columns as the two ends of
  an interval, in shortest decimals; categories by the label of a node; kept columns as the JSON texts they are.
* The bytes are a function of the QI group's number, its box and its values, so two diffs of the same groups agree, and
  a key is always the same bytes (a compacted topic keeps one record per key, by bytes).
* A diff is minimal: an unchanged box rewrites only the slots whose values differ, a changed box rewrites every row,
  freed slots become tombstones. Records come by slot, tombstones last.
* The digest of a table is the sum mod 2^64 of one hash per published row. It does not depend on any order, and a diff
  changes it by the rows it touches alone.
* `parse_key` and `RowReader` go the other way. They trust nothing: an interval off the grid, a label that is no node, a
  column too many raise `LawViolated`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from streamer.errors import EventRefused, LawViolated
from streamer.events.changes import Values
from streamer.store.base import Entry
from streamer.table.scalars import decimal_text, to_json_text
from streamer.table.schema import Attribute, CategoricalAttribute, KeptColumn, NumericAttribute, Table

LIVE = "live"
DIGEST_MASK = (1 << 64) - 1
FRAGMENTS_MAX = 1 << 16  # pieces of rows remembered per attribute; a piece holds no value of a person's row

_KEY = re.compile(rb'\{"qi_group":"(0|[1-9][0-9]{0,17})-([1-9][0-9]{0,17})","slot":(0|[1-9][0-9]{0,17})\}')
_QI_GROUP = re.compile(r"(0|[1-9][0-9]{0,17})-([1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_DECODER = msgspec.json.Decoder(float_hook=Decimal)


@dataclass(frozen=True, slots=True)
class PublishedGroup:
    """A QI group as readers see it: its box in cells, and the values that are no quasi-identifiers by slot."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    slots: tuple[Values, ...] = field(repr=False)


class RowKey(NamedTuple):
    """Where a published row stands; sorts by shard, number of the QI group and slot."""

    shard: int
    qi_group: int
    slot: int


def qi_group_name(shard: int, qi_group: int) -> str:
    """The published name of a QI group.

    >>> qi_group_name(0, 17)
    '0-17'
    """
    return f"{shard}-{qi_group}"


def column_types(table: Table) -> dict[str, str]:
    """Types of the published columns that say which box a row is in: str, or int64 where all ends are whole.

    The other ends are float64; kept columns hold what JSON says (dtype object).
    """
    types = {"qi_group": "str"}
    for attribute in table.attributes:
        if isinstance(attribute, NumericAttribute):
            numbers = (*attribute.domain, attribute.grid, attribute.step or attribute.grid)
            whole = all(number == number.to_integral_value() for number in numbers)
            types |= dict.fromkeys((f"{attribute.name}_lo", f"{attribute.name}_hi"), "int64" if whole else "float64")
        else:
            types[attribute.name] = "str"
    return types


def parse_qi_group(name: str) -> tuple[int, int]:
    """Shard and number of a published QI group. Raises LawViolated.

    >>> parse_qi_group("0-17")
    (0, 17)
    """
    match = _QI_GROUP.fullmatch(name)
    if match is None:
        raise LawViolated("a qi_group is not named by its shard and its number, like 0-17")
    return int(match[1]), int(match[2])


def row_key(key: RowKey) -> bytes:
    """The key of a published row as bytes.

    >>> row_key(RowKey(0, 17, 3))
    b'{"qi_group":"0-17","slot":3}'
    """
    return b'{"qi_group":"%d-%d","slot":%d}' % key


def parse_key(key: bytes) -> RowKey:
    """Reads a record's key back. Raises LawViolated where it is not exactly the bytes that `row_key` writes.

    >>> parse_key(b'{"qi_group":"0-17","slot":3}')
    RowKey(shard=0, qi_group=17, slot=3)
    """
    match = _KEY.fullmatch(key)
    if match is None:
        raise LawViolated('the key of a record is not of the form {"qi_group":"0-17","slot":3}')
    return RowKey(int(match[1]), int(match[2]), int(match[3]))


def row_hash(key: bytes, row: bytes) -> int:
    """A published row's share of the digest: 64 bits of BLAKE2b."""
    return int.from_bytes(blake2b(b"%b\0%b" % (key, row), digest_size=8).digest(), "big")


def interval_texts(attribute: NumericAttribute, lo: int, hi: int) -> tuple[str, str]:
    """Both ends of the published interval of the cells lo..hi."""
    first, last = attribute.interval(lo, hi)
    return decimal_text(first), decimal_text(last)


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


def _fragment(attribute: Attribute, lo: int, hi: int) -> bytes:
    """The piece of a row that publishes one attribute, with a comma in front."""
    if isinstance(attribute, CategoricalAttribute):
        return b",%b:%b" % (_quoted(attribute.name), _quoted(attribute.hierarchy.label(lo, hi)))
    first, last = interval_texts(attribute, lo, hi)
    names = _quoted(f"{attribute.name}_lo"), _quoted(f"{attribute.name}_hi")
    return b",%b:%b,%b:%b" % (names[0], first.encode(), names[1], last.encode())


class Changelog:
    """Writes the published rows of one shard.

    Building a row is one formatting of bytes: whatever is the same for all rows of a QI group is put together once.
    """

    def __init__(self, table: Table, shard: int) -> None:
        self._attributes = table.attributes
        self._shard = shard
        self._piece = lru_cache(FRAGMENTS_MAX)(self._piece_of)
        names = (_quoted(column.name).replace(b"%", b"%%") for column in table.kept)
        self._end = b"".join(b",%b:%%b" % name for name in names) + b"}"

    def diff(
        self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None
    ) -> tuple[list[Entry], int]:
        """The records that turn `before` into `after`, and the change of the digest (mod 2^64).

        None stands for a QI group that has no published rows.
        """
        old_slots = before.slots if before else ()
        new_slots = after.slots if after else ()
        common = min(len(old_slots), len(new_slots))
        changed = list(range(common))
        if before and after and before.lo == after.lo and before.hi == after.hi:
            changed = [slot for slot in changed if old_slots[slot] != new_slots[slot]]
        written = self._rows(qi_group, after, [*changed, *range(common, len(new_slots))])
        replaced = self._rows(qi_group, before, [*changed, *range(common, len(old_slots))])
        freed = replaced[len(changed) :]
        records = [Entry(LIVE, key, row) for key, row in written]
        records += [Entry(LIVE, key, None) for key, _ in freed]
        digest = sum(row_hash(*row) for row in written) - sum(row_hash(*row) for row in replaced)
        return records, digest & DIGEST_MASK

    def _rows(self, qi_group: int, group: PublishedGroup | None, slots: list[int]) -> list[tuple[bytes, bytes]]:
        """Key and value of the rows in `slots`."""
        if group is None or not slots:
            return []
        name = qi_group_name(self._shard, qi_group).encode()
        key = b'{"qi_group":"%b","slot":%%d}' % name
        box = b"".join(map(self._piece, range(len(self._attributes)), group.lo, group.hi))
        row = b'{"qi_group":"%b"%b%b' % (name, box.replace(b"%", b"%%"), self._end)
        return [(key % slot, row % group.slots[slot]) for slot in slots]

    def _piece_of(self, j: int, lo: int, hi: int) -> bytes:
        return _fragment(self._attributes[j], lo, hi)


class PublishedRow(NamedTuple):
    """A published row read back: the name of its QI group, its box in cells, and its kept values, canonical."""

    qi_group: str
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    values: Values


class RowReader:
    """Reads published rows back; whitespace and the order of the columns do not matter.

    Raises LawViolated where a row does not have exactly the published columns, or publishes what is not on a grid or
    not a node of a hierarchy.
    """

    def __init__(self, table: Table) -> None:
        columns = table.published_columns
        fields = [(f"c{i}", msgspec.Raw, msgspec.field(name=column)) for i, column in enumerate(columns)]
        row = msgspec.defstruct("Row", fields, forbid_unknown_fields=True)
        self._attributes = table.attributes
        self._decoder = msgspec.json.Decoder(row)
        self._n_box = len(columns) - len(table.kept)
        self._box = lru_cache(FRAGMENTS_MAX)(self._box_of)
        self._kept = tuple(map(_kept_reader, table.kept))

    def read(self, row: bytes) -> PublishedRow:
        """One published row from its JSON."""
        try:
            texts = tuple(map(bytes, msgspec.structs.astuple(self._decoder.decode(row))))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise LawViolated("a row does not have exactly the published columns") from None
        lo, hi = self._box(texts[1 : self._n_box])
        values = tuple([read(text) for read, text in zip(self._kept, texts[self._n_box :], strict=True)])
        return PublishedRow(_text(texts[0], "qi_group"), lo, hi, values)

    def _box_of(self, texts: tuple[bytes, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The box in cells that a row's quasi-identifier columns publish."""
        remaining = iter(texts)
        box = []
        for attribute in self._attributes:
            if isinstance(attribute, CategoricalAttribute):
                box.append(_node(attribute, _text(next(remaining), attribute.name)))
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
        if 0 <= lo <= hi < attribute.n_cells and interval_texts(attribute, lo, hi) == texts:
            return lo, hi
    raise LawViolated(f"column {attribute.name} holds an interval that is not on its grid")


def _text(text: bytes, column: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError:
        raise LawViolated(f"column {column} does not hold a text") from None


def _kept_reader(column: KeptColumn) -> Callable[[bytes], bytes]:
    """Canonical JSON text of a kept column's published value, whatever wrote it."""
    canonical = to_json_text(column)

    def read(text: bytes) -> bytes:
        try:
            return canonical(_DECODER.decode(text))
        except (msgspec.DecodeError, EventRefused):
            raise LawViolated(f"column {column.name} holds a value that table.yaml does not allow") from None

    return lru_cache(FRAGMENTS_MAX)(read)
