"""A drafted table as the texts of its files: table.yaml with comments, and the hierarchies in ARX's format."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

import yaml

from streamer.table.draft.columns import IDS, NAMING, ROOT, Drafted, usable, words_of
from streamer.table.draft.kinds import SURE, TimeScale
from streamer.table.scalars import decimal_text

# The column that would name each row, were it not for a few rows.
#
# One that is called like an id may have a tenth of its rows in the way; any other, whose cells are codes with digits, a
# hundredth: incomes and birthdays repeat more. A column that names people by its own name is none.

ONE_IN_AN_ID = 10
ONE_IN_A_CODE = 100
_CODE = re.compile(r"[\w/-]*\d[\w/-]*")


@dataclass(frozen=True)
class NearKey:
    """A column, and its rows in the way: empty ones, and those with a value that a row before them has."""

    name: str
    empty: int
    repeated: int


def near_key_of(columns: dict[str, list[str]]) -> NearKey | None:
    """The column that is nearly different in every row, if none is; None if none is nearly.

    >>> near_key_of({"id": [*map(str, range(40)), "7", ""], "age": ["31"] * 42})
    NearKey(name='id', empty=1, repeated=1)
    """
    for one_in, fits in ((ONE_IN_AN_ID, _is_id), (ONE_IN_A_CODE, _is_code)):
        found = [_counted(name, texts) for name, texts in columns.items() if usable(name) and fits(name, texts)]
        near = [one for one in found if one_in * (one.empty + one.repeated) <= len(columns[one.name])]
        if near:
            return min(near, key=lambda one: one.empty + one.repeated)
    return None


def _is_id(name: str, texts: Sequence[str]) -> bool:
    return bool(words_of(name) & IDS)


def _is_code(name: str, texts: Sequence[str]) -> bool:
    return not words_of(name) & NAMING and all(_CODE.fullmatch(text) for text in texts if not _is_empty(text))


def _counted(name: str, texts: Sequence[str]) -> NearKey:
    filled = [text for text in texts if not _is_empty(text)]
    return NearKey(name, len(texts) - len(filled), len(filled) - len(set(filled)))


def _is_empty(text: str) -> bool:
    return not text.strip() or text in SURE


FOLDER = "hierarchies"
_NO_KEY = "no column that can be named is different in every row: `anonymize` needs no key, a stream does"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def quoted(text: str) -> str:
    """A text as YAML, on one line.

    >>> quoted("age"), quoted("native country")
    ('age', '"native country"')
    """
    if _PLAIN.fullmatch(text):
        return text
    written: str = yaml.dump(text, default_style='"', allow_unicode=True, width=sys.maxsize)
    return written.rstrip("\n")


def no_key(near: NearKey | None) -> str:
    """What to say where no column is a key; near: the one that nearly is.

    >>> no_key(NearKey("id", 0, 2)).partition("; ")[2].partition(":")[0]
    'id nearly is'
    """
    if near is None:
        return _NO_KEY
    return (
        f"{_NO_KEY}; {quoted(near.name)} nearly is: {_in_the_way(near)}; number them in the source, or leave them out"
        " (`produce --skip-refused`); where a person has several rows, it is the `individual`, and the key another"
    )


def _in_the_way(near: NearKey) -> str:
    rows = {"no value in it": near.empty, "the value of another row": near.repeated}
    return " and ".join(f"{'1 row has' if n == 1 else f'{n} rows have'} {what}" for what, n in rows.items() if n)


def hierarchy_names(columns: Sequence[Drafted]) -> dict[str, str]:
    """The hierarchy file of each categorical column, relative to table.yaml; no two alike."""
    names: dict[str, str] = {}
    for column in columns:
        if column.hierarchy:
            stem = _NO_FILE_NAME.sub("-", column.name).strip("-").lower() or "column"
            taken, number = set(names.values()), 1
            while (name := f"{FOLDER}/{stem}{'' if number == 1 else f'-{number}'}.csv") in taken:
                number += 1
            names[column.name] = name
    return names


def hierarchy_text(column: Drafted) -> str:
    """The hierarchy file of a column: `leaf;...;*`, one line for each value."""
    text = StringIO()
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(column.hierarchy)
    return text.getvalue()


def table_text(
    table: str, source: str, n_rows: int, source_key: str | NearKey | None, k: int, columns: Sequence[Drafted]
) -> str:
    """The table.yaml. source: the name of the data file; columns in the order of the file, the key not among them."""
    return "\n".join(_lines(table, source, n_rows, source_key, k, columns)) + "\n"


def _lines(
    table: str, source: str, n_rows: int, source_key: str | NearKey | None, k: int, columns: Sequence[Drafted]
) -> Iterator[str]:
    files = hierarchy_names(columns)
    yield f"# A first draft, made from {quoted(source)} ({n_rows} rows). Roles are a judgement: check every line."
    yield "# What has no line under `columns` never leaves."
    yield f"table: {quoted(table)}"
    if isinstance(source_key, str):
        yield f"key: {quoted(source_key)}  # different in every row; never published"
    else:
        yield f"# key: {no_key(source_key)}"
    if words := _words_of(columns):
        yield f"na: {_listed(words)}  # words that are nulls, in files and in messages"
    yield "# individual: a column that names the person, where one has several rows: then k counts persons"
    yield "columns:"
    yield "  # quasi-identifier: what others may know of a person. sensitive: published as it is"
    for column in columns:
        if column.role:
            yield f"  {quoted(column.name)}: {{{', '.join(_settings(column, files, words))}}}  # {column.why}"
    if not any(column.role == "sensitive" for column in columns):
        yield "  # no column looks sensitive by its name: give those that are `role: sensitive`"
    for column in columns:
        if not column.role:
            yield f"  # left out: {quoted(column.name)}: {column.why}"
    yield f"privacy: {{k: {k}}}  # `streamer check --data` shows what other k would cost"
    yield "publish:"
    yield "  live: {form: rows}"


def _settings(column: Drafted, files: dict[str, str], words: Collection[str]) -> Iterator[str]:
    yield f"role: {column.role}"
    if isinstance(column.scale, TimeScale):
        first, last = map(_moment, column.scale.domain)
        yield f"type: {column.scale.clock.name}"
        yield f"domain: [{first}, {last}]"
        yield f"grid: {column.scale.grid.text}"
    elif column.scale is not None:
        scale = column.scale
        yield f"type: {'integer' if scale.integer else 'decimal'}"
        yield f"domain: [{decimal_text(scale.domain[0])}, {decimal_text(scale.domain[1])}]"
        if scale.step is not None and not scale.integer:
            yield f"step: {decimal_text(scale.step)}"
        yield f"grid: {decimal_text(scale.grid)}"
    elif column.name in files:
        yield f"hierarchy: {files[column.name]}"
        if column.nulls:
            yield "null: own-category"
        yield f"other: {quoted(ROOT)}"
    else:
        yield f"type: {column.type}"
    if column.null_as is not None:
        yield f"null_as: {quoted(column.null_as)}"
    if column.written is not None:
        yield f"written: {quoted(column.written)}"
    if own := set(column.na) - set(words):
        yield f"na: {_listed(own.union(words))}"


def _words_of(columns: Sequence[Drafted]) -> list[str]:
    """The words that are nulls in every column; a blank text is one, too, where anything is."""
    words = {word for column in columns for word in column.na if word in SURE}
    return sorted(words | {""}) if any(column.nulls for column in columns) else []


def _listed(words: Collection[str]) -> str:
    return f"[{', '.join(quoted(word) for word in sorted(words))}]"


def _moment(text: str) -> str:
    """A day as it is; a time has colons."""
    return quoted(text) if ":" in text else text
