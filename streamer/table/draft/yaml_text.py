"""A drafted table as the texts of its files: table.yaml with comments, and the hierarchies in ARX's format."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from math import ceil
from typing import Any

import yaml

from streamer.table.codes import decimal_text
from streamer.table.draft.columns import IDS, NAMING, ROOT, Drafted, HierarchyRows, usable, words_of
from streamer.table.draft.kinds import SURE, TimeScale
from streamer.table.schema import SealedRules

# A column is nearly a key if few of its rows are in the way: a tenth if it is named like an id, a hundredth if its
# cells are codes with digits, because incomes and birthdays repeat more.

ONE_IN_AN_ID = 10
ONE_IN_A_CODE = 100
_CODE = re.compile(r"[\w/-]*\d[\w/-]*")


@dataclass(frozen=True)
class NearKey:
    """A column that is nearly a key, and the rows in the way."""

    name: str
    empty: int  # rows without a value
    repeated: int  # rows with the value of an earlier row


def near_key_of(columns: dict[str, list[str]]) -> NearKey | None:
    """The column with the fewest rows in the way, of those named like an id if there is one; None if none is nearly."""
    ids, codes = list[NearKey](), list[NearKey]()
    for name, texts in columns.items():
        words = words_of(name)
        filled = [text for text in texts if text.strip() and text not in SURE]
        near = NearKey(name, len(texts) - len(filled), len(filled) - len(set(filled)))
        if not near.empty + near.repeated:
            continue  # it is different in every row, and no key all the same: a day, a measure, somebody's name
        one_in = len(texts) / (near.empty + near.repeated)
        if usable(name) and words & IDS and one_in >= ONE_IN_AN_ID:
            ids.append(near)
        if usable(name) and not words & NAMING and one_in >= ONE_IN_A_CODE and all(map(_CODE.fullmatch, filled)):
            codes.append(near)
    return min(ids or codes, key=lambda near: near.empty + near.repeated, default=None)


FOLDER = "hierarchies"
_NO_KEY = "no column that can be a key is different in every row: `anonymize` needs no key, a stream does"
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
    """The sentence if no column is a key; near: the column that nearly is."""
    if near is None:
        return _NO_KEY
    rows = {"no value in it": near.empty, "the value of another row": near.repeated}
    in_the_way = " and ".join(f"{'1 row has' if n == 1 else f'{n} rows have'} {what}" for what, n in rows.items() if n)
    return (
        f"{_NO_KEY}; {quoted(near.name)} nearly is: {in_the_way}; number these rows in the source, or leave them out"
        " (`produce --skip-refused`); if a person has several rows, this is the `individual`, and the key is another"
    )


def hierarchy_names(columns: Iterable[str]) -> dict[str, str]:
    """The hierarchy file of each of these columns, relative to table.yaml; all different."""
    names: dict[str, str] = {}
    for column in columns:
        stem = _NO_FILE_NAME.sub("-", column).strip("-").lower() or "column"
        taken, number = set(names.values()), 1
        while (name := f"{FOLDER}/{stem}{'' if number == 1 else f'-{number}'}.csv") in taken:
            number += 1
        names[column] = name
    return names


def hierarchy_text(rows: HierarchyRows) -> str:
    """A hierarchy file: `leaf;...;*`, one line for each value."""
    text = StringIO()
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(rows)
    return text.getvalue()


def table_text(
    table: str,
    source: str,
    n_rows: int,
    source_key: str | NearKey | None,
    k: int,
    columns: Sequence[Drafted],
    remark: str = "",
    held: str = "",
) -> str:
    """The table.yaml.

    source: the name of the data file; columns: in the order of the file, without the key; remark: about the rows; held:
    what identifies people in the key.
    """
    lines = [*_lines(table, source, n_rows, source_key, k, columns)]
    if held:
        lines = [line + f"; holds {held}" * line.startswith("key: ") for line in lines]
    if remark:
        lines.insert(1, f"# {remark[0].upper()}{remark[1:]}.")
    return "\n".join(lines) + "\n"


def _lines(
    table: str, source: str, n_rows: int, source_key: str | NearKey | None, k: int, columns: Sequence[Drafted]
) -> Iterator[str]:
    files = hierarchy_names(column.name for column in columns if column.hierarchy)
    words = {word for column in columns for word in column.na if word in SURE}
    if any(column.nulls for column in columns):
        words.add("")  # a blank text is a null wherever anything is
    yield f"# A first draft, made from {quoted(source)} ({n_rows} rows). Check roles, domains, grids."
    yield "# A column that is not listed under `columns` is never published."
    yield f"table: {quoted(table)}"
    if isinstance(source_key, str):
        yield f"key: {quoted(source_key)}  # different in every row; never published"
    else:
        yield f"# key: {no_key(source_key)}"
    if words:
        yield f"na: {_listed(words)}  # words that are nulls, in files and in messages"
    yield "# individual: a column that names the person, if one has several rows: then k counts persons"
    yield "columns:"
    yield "  # quasi-identifier: what others may know of a person. sensitive: published as it is"
    for column in columns:
        if column.role:
            yield f"  {quoted(column.name)}: {{{', '.join(_settings(column, files, words))}}}  # {column.why}"
    if not any(column.role == "sensitive" for column in columns):
        yield "  # no column looks sensitive by its name: give `role: sensitive` to those that are"
    for column in columns:
        if not column.role:
            yield f"  # left out: {quoted(column.name)}: {column.why}"
    yield f"privacy: {{k: {k}}}  # `check --data` shows what another k would cost"
    yield from _publish(max((column.largest for column in columns), default=Decimal(0)))


def _publish(largest: Decimal) -> Iterator[str]:
    """The sealed changelog, because it is safe for readers who keep everything; largest: share of a sensitive value."""
    yield "publish:"
    if largest > SealedRules.alpha:
        share = decimal_text(Decimal(ceil(1000 * largest)) / 10)
        yield f"  # sealed protects nothing here: {share} % of the rows have one value, and nothing hides that."
        yield "  # live: current to the last change, so whoever keeps two releases learns the values of who came, went"
        yield "  # or changed: for readers who may know them."
        yield "  live: {form: rows}"
        return
    yield "  # sealed: people come in cohorts that never change, so no change tells whose value it was."
    yield "  # live: current to the last change, so whoever keeps two releases learns the values of who came, went"
    yield "  # or changed: for readers who may know them. Never give both to the same readers."
    yield "  sealed: {epoch: 10min}"
    yield "  # live: {form: rows}"


def _settings(column: Drafted, files: dict[str, str], words: Collection[str]) -> Iterator[str]:
    scale = column.scale
    yield f"role: {column.role}"
    if isinstance(scale, TimeScale):
        first, last = (quoted(end) if ":" in end else end for end in scale.domain)  # a time has colons
        yield f"type: {scale.clock.name}"
        yield f"domain: [{first}, {last}]"
        yield f"grid: {scale.grid.text}"
    elif scale is not None:
        yield f"type: {'integer' if scale.integer else 'decimal'}"
        yield f"domain: [{decimal_text(scale.domain[0])}, {decimal_text(scale.domain[1])}]"
        if scale.step is not None and not scale.integer:
            yield f"step: {decimal_text(scale.step)}"
        yield f"grid: {decimal_text(scale.grid)}"
        if scale.width is not None:
            yield f"width: {scale.width}"
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


def _listed(words: Collection[str]) -> str:
    return f"[{', '.join(quoted(word) for word in sorted(words))}]"


# A draft as a dict, which somebody edits, and back.

_NUMBERS = {"k", "domain", "grid", "step", "width"}
"""The settings of a draft whose texts are numbers if they look like one; a category or a word may be `1` or `no`."""


def settings_of(text: str) -> dict[str, Any]:
    """The settings of a drafted table.yaml, with numbers as numbers."""
    settings: dict[str, Any] = yaml.load(text, yaml.BaseLoader)
    return {name: _with_numbers(name, said) for name, said in settings.items()}


def _with_numbers(name: str, said: Any) -> Any:
    if isinstance(said, dict):
        return {inner: _with_numbers(inner, one) for inner, one in said.items()}
    if isinstance(said, list):
        return [_with_numbers(name, one) for one in said]
    for number in (int, float) if name in _NUMBERS else ():
        with suppress(ValueError):
            if str(number(said)) == said:
                return number(said)
    return said


def edited(text: str, settings: Mapping[str, Any]) -> str:
    """A drafted table.yaml with settings that may have been edited since; a line that says the same keeps its comment.

    >>> text = "table: mine  # a guess\\nprivacy: {k: 5}  # usual\\n"
    >>> edited(text, {"table": "mine", "privacy": {"k": 3}})
    'table: mine  # a guess\\nprivacy: {k: 3}\\n'
    """
    if settings == settings_of(text):
        return text
    known: dict[tuple[str, str], str] = {}
    lines = []
    for line in text.splitlines():
        if (parsed := yaml.load(line, yaml.BaseLoader)) is None:  # a comment
            lines.append(line.strip())
        else:
            known[line[: len(line) - len(line.lstrip())], repr(parsed)] = line
    for name, said in settings.items():
        is_block = name in ("columns", "publish") and isinstance(said, Mapping)
        lines.append(f"{name}:" if is_block else _line(known, "", name, said))
        lines += [_line(known, "  ", inner, one) for inner, one in said.items()] if is_block else []
    return "\n".join(lines) + "\n"


def _line(known: Mapping[tuple[str, str], str], indent: str, name: object, said: object) -> str:
    line = f"{indent}{quoted(str(name))}: {_flow(said)}"
    return known.get((indent, repr(yaml.load(line, yaml.BaseLoader))), line)


def _flow(said: Any) -> str:
    """A setting as YAML on one line."""
    if isinstance(said, Mapping):
        return f"{{{', '.join(f'{quoted(str(name))}: {_flow(one)}' for name, one in said.items())}}}"
    if isinstance(said, list | tuple):
        return f"[{', '.join(map(_flow, said))}]"
    if isinstance(said, bool):
        return str(said).lower()
    return "" if said is None else quoted(said) if isinstance(said, str) else str(said)
