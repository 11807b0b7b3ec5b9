"""What to tell about the data of a table: refused rows, unknown categories, NULLs, keys that look alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from streamer.errors import EventRefused
from streamer.table.attributes import Attribute, CategoricalAttribute
from streamer.table.encode import Encoder
from streamer.table.published.rows import box_columns
from streamer.table.scalars import DIGITS_MAX, decimal_text, read_decimal
from streamer.table.schema import Table
from streamer.table.yaml.columns import OTHER_LABEL

# Rows of a data file that table.yaml refuses: which they are and why, without their values; and the file without them.
#
# A key that comes twice is refused from the second time on, in the order of the file, as a stream of insertions would.
# Where rows say how they shall be, as upserts do, the last one of a key counts, and none is refused for its key.


class RefusedRow(NamedTuple):
    """A row that is refused: its number (the first one is 1), the reason of the refusal, the column at fault."""

    data_row: int
    reason: str
    column: str


def refused_rows(table: Table, frame: pd.DataFrame, *, upserts: bool = False) -> list[RefusedRow]:
    """The rows that would be refused, in the order of the file; upserts: keys may come twice.

    Raises ConfigError if a column is missing.
    """
    return list(_refused(table, frame, upserts))


def without_refused(frame: pd.DataFrame, refused: Sequence[RefusedRow]) -> pd.DataFrame:
    """The rows that are left."""
    kept = np.ones(len(frame), dtype=bool)
    kept[[row.data_row - 1 for row in refused]] = False
    return frame[kept]


def counted(refused: Sequence[RefusedRow]) -> list[tuple[str, str, int]]:
    """Reason, column and number of rows, the most frequent ones first."""
    counts = Counter((row.reason, row.column) for row in refused)
    return [(reason, column, rows) for (reason, column), rows in counts.most_common()]


def _refused(table: Table, frame: pd.DataFrame, upserts: bool) -> Iterator[RefusedRow]:
    encoder, known = Encoder(table), set()
    columns = encoder.named_columns(frame)
    for number, texts in enumerate(zip(*(frame[name].tolist() for name in columns), strict=True), start=1):
        fields = encoder.fields(dict(zip(columns, texts, strict=True)))
        try:
            source_key = encoder.source_key(fields) if table.source_key else str(number)
            encoder.row(fields)
        except EventRefused as refused:
            yield RefusedRow(number, refused.reason, refused.column or "")
            continue
        if source_key in known and not upserts:
            yield RefusedRow(number, "key-exists", ", ".join(table.source_key))
        known.add(source_key)


# Where nulls of quasi-identifiers are published, and which values of a data file are published there, too.
#
# A reader of a published cell cannot tell a null that counts as a value from that value. So nulls should have a cell of
# their own: in one that they share with values, they are published as measured.


def null_text(attribute: Attribute) -> str | None:
    """What is published of a null that stands alone: a category, or the ends of an interval; None: it is refused."""
    if attribute.null_code is None:
        return None
    cell = attribute.null_code // attribute.axis.codes_per_cell
    published = box_columns(attribute, cell, cell).values()
    return " to ".join(end if isinstance(end, str) else decimal_text(end) for end in published)


def beside_nulls(table: Table, frame: pd.DataFrame) -> dict[str, int]:
    """By column, how many rows that are no null lie in the cell of the nulls; columns without such rows are left out.

    frame: rows that table.yaml accepts.
    """
    encoder, found = Encoder(table), {}
    for j, attribute in enumerate(table.attributes):
        if attribute.null_code is None:
            continue
        per_cell, rows = attribute.axis.codes_per_cell, 0
        for text, count in frame[attribute.name].value_counts(dropna=False).items():
            value = encoder.fields({attribute.name: str(text)})[attribute.name]
            is_there = value is not None and encoder.code(j, value)[0] // per_cell == attribute.null_code // per_cell
            rows += int(count) * is_there
        if rows:
            found[attribute.name] = rows
    return found


# Categories of a data file that table.yaml does not list: how many rows have one, by column, and what is said of them.
#
# A node named by `other` takes them without a word, so a vocabulary that drifts would go unnoticed. The categories
# themselves are never shown: one that is rare may be a person's own.


def unlisted_rows(table: Table, frame: pd.DataFrame) -> dict[str, int]:
    """By column, the rows that have a category which only `other` takes; columns without such rows are left out.

    frame: rows as `Encoder.frame` takes them; each distinct category is looked at once, and one that is refused for
    itself is not counted.
    """
    encoder, found = Encoder(table), {}
    for name, encode in _takers(table, encoder):
        if name not in frame.columns:
            continue
        rows = sum(
            int(count)
            for cell, count in frame[name].value_counts().items()
            if _is_unlisted(encoder, name, encode, cell)
        )
        if rows:
            found[name] = rows
    return found


def _is_unlisted(encoder: Encoder, name: str, encode: Callable[[object], object], cell: Any) -> bool:
    encoder.unlisted.clear()
    try:
        encode(encoder.fields({name: cell})[name])
    except EventRefused:
        return False
    return name in encoder.unlisted


def unlisted_sentences(table: Table, unlisted: Mapping[str, int], of: int, what: str) -> Iterator[str]:
    """What there is to say of them, a sentence for each column; of: how many rows or messages there are in all."""
    leaves = leaves_of_others(table)
    for name, count in unlisted.items():
        yield (
            f"{count:,} of {of:,} {what} have a {name} that its hierarchy does not list: `other` takes it as"
            f" {leaves.get(name, OTHER_LABEL)!r}; where these are no strays, add them to the hierarchy"
        )


def leaves_of_others(table: Table) -> dict[str, str]:
    """By column, the leaf that such categories count as; of the columns that have one."""
    of_codes = {
        a.name: a.hierarchy.leaves[a.other_code]
        for a in table.attributes
        if isinstance(a, CategoricalAttribute) and a.other_code is not None
    }
    return of_codes | {column.name: column.other for column in table.kept if column.other is not None}


def _takers(table: Table, encoder: Encoder) -> Iterator[tuple[str, Callable[[object], object]]]:
    """The columns that have such a leaf, and what encodes their values."""
    names = leaves_of_others(table)
    for j, attribute in enumerate(table.attributes):
        if attribute.name in names:
            yield attribute.name, partial(encoder.code, j)
    for i, column in enumerate(table.kept):
        if column.name in names:
            yield column.name, partial(encoder.kept, i)


# Source keys and individuals that people would take for one, and that are several here.
#
# A key is text. A number of JSON has one text, but a text stays as it is: in a file, or in a message that writes keys
# as texts, `7`, `7.0`, ` 7` and `007` are four rows. Where they are meant to be one person, that person is counted four
# times. Individuals are texts in the same way, and where k counts them a QI group of one person four times over would
# hold k = 4.

_DIFFER = "they differ in blanks, in zeros or in a point, as 7, 7.0 and 007 do"


def look_alikes(source_keys: Iterable[str]) -> int:
    """How many different keys look like another one: they differ in blanks at their ends, zeros or a point alone.

    >>> look_alikes(["7", "7.0", " 7", "8"]), look_alikes(["7", "7", "8"])
    (3, 0)
    """
    different = set(source_keys)
    looks = Counter(map(_looks, different))
    return sum(looks[look] for look in looks if looks[look] > 1)


def warning_of(source_keys: Iterable[str], column: str) -> list[str]:
    """What there is to say of such keys: one sentence, or none."""
    count = look_alikes(source_keys)
    if not count:
        return []
    return [
        f"key column {column}: {count:,} keys look like another one ({_DIFFER}) and are rows of their own; where they"
        " mean one person, write them alike in the source"
    ]


def warning_of_individuals(individuals: Iterable[str | None], column: str | None) -> list[str]:
    """The same of the individuals, whom k counts; column None: it counts rows."""
    count = 0 if column is None else look_alikes(filter(None, individuals))
    if not count:
        return []
    return [
        f"individual column {column}: {count:,} individuals look like another one ({_DIFFER}) and are counted each;"
        " where they mean one person, a QI group has fewer people than k: write them alike in the source"
    ]


def _looks(source_key: str) -> str:
    text = source_key.strip()
    number = read_decimal(text)
    return text if number is None or abs(number.adjusted()) > DIGITS_MAX else decimal_text(number)
