"""Warnings about the data of a table: refused rows, nulls, unknown categories, texts in several spellings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamer.errors import EventRefused
from streamer.table.codes import Attribute, CategoricalAttribute, cell_text, decimal_text, source_cells
from streamer.table.codes.key_spellings import BLANKS, EXPONENT, POINT, ZEROS, way_of_writing
from streamer.table.codes.same_text import Spellings, spellings
from streamer.table.encode import UNREADABLE, Encoder
from streamer.table.published.rows import box_columns
from streamer.table.schema import Table
from streamer.table.stray_rows import TITLES, said_of, stray_among
from streamer.table.yaml.columns import OTHER_LABEL

if TYPE_CHECKING:
    import pandas as pd


class RefusedRow(NamedTuple):
    """A row that table.yaml refuses, without its values."""

    data_row: int  # the first one is 1
    reason: str
    column: str  # the one at fault


def refused_rows(table: Table, frame: pd.DataFrame, *, upserts: bool = False) -> list[RefusedRow]:
    """The rows that would be refused, in the order of the file. Raises ConfigError if a column is missing.

    A repeated key is refused from its second row on, as in a stream of insertions. upserts: the last row of a key
    counts, and none is refused for its key.
    """
    encoder, known, refused = Encoder(table), set[str](), list[RefusedRow]()
    columns = encoder.named_columns(frame)
    for number, texts in enumerate(
        zip(*(source_cells(frame[name]).tolist() for name in columns), strict=True), start=1
    ):
        try:
            fields = encoder.fields(dict(zip(columns, texts, strict=True)))
            source_key = encoder.source_key(fields) if table.source_key else str(number)
            encoder.row(fields)
        except EventRefused as refusal:
            refused.append(RefusedRow(number, refusal.reason, refusal.column or ""))
            continue
        if source_key in known and not upserts:
            refused.append(RefusedRow(number, "key-exists", ", ".join(table.source_key)))
        known.add(source_key)
    return refused


def without_refused(frame: pd.DataFrame, refused: Sequence[RefusedRow]) -> pd.DataFrame:
    """The rows that are left."""
    kept = np.ones(len(frame), dtype=bool)
    kept[[row.data_row - 1 for row in refused]] = False
    return frame[kept]


def counted(refused: Sequence[RefusedRow]) -> list[tuple[str, str, int]]:
    """Reason, column and number of rows, the most frequent ones first."""
    counts = Counter((row.reason, row.column) for row in refused)
    return [(reason, column, rows) for (reason, column), rows in counts.most_common()]


def by_reason(refused: Sequence[RefusedRow]) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [{"reason": reason, "column": column or None, "rows": rows} for reason, column, rows in counted(refused)]


# Nulls of quasi-identifiers. A reader of a published cell cannot tell a null from a value, so nulls should have a cell
# of their own: in a cell that they share with values they are published as measured.


def null_text(attribute: Attribute) -> str | None:
    """The published cell of a null: a category, or the ends of an interval; None: a null is refused."""
    if attribute.null_code is None:
        return None
    cell = attribute.null_code // attribute.axis.codes_per_cell
    published = box_columns(attribute, cell, cell).values()
    return " to ".join(dict.fromkeys(end if isinstance(end, str) else decimal_text(end) for end in published))


def beside_nulls(table: Table, frame: pd.DataFrame) -> dict[str, int]:
    """By column, how many values are in the cell of the nulls; without columns that have none.

    frame: rows that table.yaml accepts.
    """
    encoder, found = Encoder(table), {}
    for j, attribute in enumerate(table.attributes):
        if attribute.null_code is None:
            continue
        per_cell, rows = attribute.axis.codes_per_cell, 0
        for cell, count in source_cells(frame[attribute.name]).value_counts(dropna=False).items():
            value = encoder.fields({attribute.name: cell})[attribute.name]
            is_beside = value is not None and encoder.code(j, value)[0] // per_cell == attribute.null_code // per_cell
            rows += int(count) * is_beside
        if rows:
            found[attribute.name] = rows
    return found


class StandIns(NamedTuple):
    """How many rows of a column have another value than the source has, which readers take for measured."""

    nulls: int  # that `null_as` gives a value
    outside: int  # beyond the domain, which count as its nearer end


def stand_ins(table: Table, frame: pd.DataFrame) -> dict[str, StandIns]:
    """By column; without columns that have none. frame: rows that table.yaml accepts."""
    encoder, exact, found = Encoder(table), Encoder(_without_ends(table)), {}
    plans: list[tuple[str, Callable[[object], str]]]
    plans = [
        (a.name, partial(_stood_in, exact, j))
        for j, a in enumerate(table.attributes)
        if a.null_code is not None or a.name in table.coarse
    ]
    plans += [(c.name, partial(_capped, encoder, exact, i)) for i, c in enumerate(table.kept) if c.domain is not None]
    for name, stands_in in plans:
        rows = Counter[str]()
        for cell, count in source_cells(frame[name]).value_counts(dropna=False).items():
            rows[stands_in(encoder.fields({name: cell})[name])] += int(count)
        if rows["nulls"] or rows["outside"]:
            found[name] = StandIns(rows["nulls"], rows["outside"])
    return found


def _without_ends(table: Table) -> Table:
    """The table that takes no value outside a domain."""
    strict = (a if isinstance(a, CategoricalAttribute) else replace(a, ends_take_all=False) for a in table.attributes)
    return replace(table, attributes=tuple(strict), kept=tuple(replace(c, domain=None) for c in table.kept))


def _stood_in(exact: Encoder, j: int, value: object) -> str:
    if exact.is_null(j, value):
        return "nulls"
    try:
        exact.code(j, value)
    except EventRefused as refused:
        return "outside" if refused.reason == "out-of-domain" else ""
    return ""


def _capped(encoder: Encoder, exact: Encoder, i: int, value: object) -> str:
    one, other = (coded.kept(i, value).strip(b'"') for coded in (encoder, exact))
    return "outside" if one != b"null" and Decimal(one.decode()) != Decimal(other.decode()) else ""


def united_stand_ins(parts: Sequence[Mapping[str, StandIns]]) -> dict[str, StandIns]:
    """Those of a table from those of its parts."""
    names = {name for part in parts for name in part}
    some = {name: [part[name] for part in parts if name in part] for name in sorted(names)}
    return {name: StandIns(sum(of.nulls for of in own), sum(of.outside for of in own)) for name, own in some.items()}


def stray_warnings(stray: Mapping[int, str], titles: str, refused: Sequence[RefusedRow] = ()) -> list[str]:
    """Warnings of titles, and of the rows that seem to be no data, by number from 0.

    titles: what is said of them; refused: the rows that are left out anyway.
    """
    out = {row.data_row - 1 for row in refused}
    said = said_of({number: what for number, what in stray.items() if number not in out})
    return [*filter(None, (titles, said))]


def stray_warnings_of(frame: pd.DataFrame, refused: Sequence[RefusedRow] = ()) -> list[str]:
    """The same of a whole table."""
    return stray_warnings(stray_among(frame), frame.attrs.get(TITLES, ""), refused)


# Unknown categories: those that only `other` takes. Nothing else would show that a vocabulary changes. They are counted
# and never shown, because a rare one may be a person's own.


def unknown_category_rows(table: Table, frame: pd.DataFrame) -> dict[str, int]:
    """By column, the rows with an unknown category; without columns that have none. A refused cell is not counted.

    frame: as `Encoder.frame` takes it.
    """
    encoder, found = Encoder(table), {}
    for name, encode in _encoders_of_others(table, encoder):
        rows = 0
        for cell, count in source_cells(frame[name]).value_counts().items() if name in frame.columns else ():
            encoder.unlisted.clear()
            with suppress(EventRefused):
                encode(encoder.fields({name: cell})[name])
                rows += int(count) * (name in encoder.unlisted)
        if rows:
            found[name] = rows
    return found


def unknown_category_warnings(table: Table, unlisted: Mapping[str, int], of: int, what: str) -> Iterator[str]:
    """A warning for each column with unknown categories; of: how many rows or messages there are in all."""
    leaves = leaves_of_others(table)
    for name, count in unlisted.items():
        remedy = "if these are not mistakes, add them to the hierarchy"
        if count == of > 1:
            remedy = "none is a leaf of it: is that the hierarchy of another column?"
        yield (
            f"{count:,} of {of:,} {what} have a {name} that its hierarchy does not list: `other` takes it as"
            f" {leaves.get(name, OTHER_LABEL)!r}; {remedy}"
        )


def leaves_of_others(table: Table) -> dict[str, str]:
    """By column, the leaf that unknown categories count as; without columns that have none."""
    of_codes = {
        a.name: a.hierarchy.leaves[a.other_code]
        for a in table.attributes
        if isinstance(a, CategoricalAttribute) and a.other_code is not None
    }
    others = {column.name: column.source.other for column in table.kept}
    return of_codes | {name: leaf for name, leaf in others.items() if leaf is not None}


def _encoders_of_others(table: Table, encoder: Encoder) -> Iterator[tuple[str, Callable[[object], object]]]:
    """The columns that have such a leaf, and their encoders."""
    names = leaves_of_others(table)
    for j, attribute in enumerate(table.attributes):
        if attribute.name in names:
            yield attribute.name, partial(encoder.code, j)
    for i, column in enumerate(table.kept):
        if column.name in names:
            yield column.name, partial(encoder.kept, i)


# Texts that are written in several ways. Source keys are exact, so `7` and `007` are two rows; of individuals and of
# sensitive values they count as one. The source should know either way: only it can say which of them are mistakes.

_DIFFER = "they differ only in capitals, blanks, characters that nobody sees, zeros or a point, as 7, 7.0 and 007 do"


def warning_of_keys(source_keys: Iterable[str], table: Table) -> list[str]:
    """A warning if keys of one column look like another one."""
    ways = spellings(source_keys, table.counted_text).ways if len(table.source_key) == 1 else 0
    if not ways:
        return []
    return [
        f"key column {table.source_key[0]}: {ways:,} keys look like another one ({_DIFFER}) and are rows of their own;"
        " if they mean one person, write them alike in the source"
    ]


_WAYS = {
    POINT: "end with a point, as 1.0 for 1",
    EXPONENT: "are rounded, as 1.23E+11 for 123456789012",
    ZEROS: "have zeros in front, as 007 for 7",
    BLANKS: "have blanks at an end, as CHAR columns do",
}
KEYS_SEEN = 10_000
"""The first rows of a table, or of a part of one, whose keys tell how all are written."""


def writing_of_keys(table: Table, frame: pd.DataFrame) -> dict[str, str]:
    """By key column, the way in which nearly all are written if messages may write them otherwise."""
    found = {}
    for name in table.source_key:
        cells = frame[name].head(KEYS_SEEN).tolist() if name in frame.columns else []
        way = way_of_writing([text for text in map(cell_text, cells) if text])
        if way is not None:
            found[name] = way
    return found


def warnings_of_writing(found: Mapping[str, str]) -> list[str]:
    """A warning for each such key column."""
    return [
        f"key column {name}: keys {_WAYS[way]}: if the stream's messages write them otherwise, changes and deletions"
        " find no row, and people who were deleted stay published; write them in the file as the messages do"
        for name, way in found.items()
    ]


def several_spellings(table: Table, frame: pd.DataFrame) -> dict[str, Spellings]:
    """By column, individuals and sensitive values that are written in several ways; without columns that have none.

    frame: as `Encoder.frame` takes it.
    """
    encoder, found = Encoder(table), {}
    words = [column.name for column in table.kept if column.sensitive and column.type in (None, "text")]
    for name in filter(None, (table.individual, *words)):
        with suppress(*UNREADABLE):
            texts = map(cell_text, source_cells(frame[name]).unique().tolist() if name in frame.columns else ())
            ways = spellings([text for text in texts if _is_said(encoder, name, text)], table.counted_text)
            found[name] = ways
    return {name: ways for name, ways in found.items() if ways.ways}


def _is_said(encoder: Encoder, name: str, text: str) -> bool:
    """True for the text of a value; false for a null and for what the encoder refuses."""
    with suppress(EventRefused):
        return text != "" and encoder.meant(name, text) is not None
    return False


def most_spellings(*parts: Mapping[str, Spellings]) -> dict[str, Spellings]:
    """The figures of a table in parts, by column: those of the part that has most."""
    names = {name for part in parts for name in part}
    return {name: max(part[name] for part in parts if name in part) for name in sorted(names)}


def spelling_warnings(table: Table, found: Mapping[str, Spellings]) -> list[str]:
    """A warning for each column of individuals or sensitive values that are written in several ways."""
    remedy = "write each in one way in the source"
    if not table.capitals_count:
        remedy += "; if capitals tell them apart, say `capitals_count: true` under privacy"
    return [
        f"{'individual' if name == table.individual else 'sensitive'} column {name}: {ways:,} texts are {same:,} in"
        f" several spellings ({_DIFFER}), and count as {same:,}: {remedy}"
        for name, (ways, same) in found.items()
    ]


def warnings_of_rows(
    table: Table, strays: Sequence[str], spelt: Mapping[str, Spellings], unlisted: Mapping[str, int], rows: int
) -> list[str]:
    """All warnings about the rows of a published table; strays: of `stray_warnings`; spelt: of `several_spellings`."""
    return [*strays, *spelling_warnings(table, spelt), *unknown_category_warnings(table, unlisted, rows, "rows")]
