"""How the source's texts are written, as table.yaml says it: words that are nulls, patterns of dates and numbers.

Every fault is one sentence: place, what is wrong, what is allowed. A column's own `na` stands instead of the table's,
and the table's holds for the key and the individual, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamer.table.attributes import Attribute, CategoricalAttribute
from streamer.table.moments import CLOCKS, DATE, TIMESTAMP
from streamer.table.schema import KeptColumn, SourceText
from streamer.table.source_texts import DIGITS, NUMBERS, fault_of_pattern
from streamer.table.yaml_shape import ColumnSettings, TableSettings


def source_texts(settings: TableSettings) -> tuple[SourceText, ...]:
    """How the texts of each column are written, of those that say anything of their own."""
    texts = [
        SourceText(name, _sorted(settings.na)) for name in (*settings.key, settings.individual) if name is not None
    ]
    for name, column in settings.columns.items():
        texts.append(SourceText(name, _words(settings, column), column.written))
    return tuple(text for text in dict.fromkeys(texts) if text.na or text.written)


def faults_of_texts(settings: TableSettings, columns: list[Attribute | KeptColumn]) -> Iterator[str]:
    """Patterns that are none of the column's type, and words that would hide a category."""
    for name, column in settings.columns.items():
        if column.written is not None and (fault := _fault_of_written(column.written, column.type)):
            yield f"columns.{name}.written: {fault}"
    for built in columns:
        tree = built.hierarchy if isinstance(built, CategoricalAttribute | KeptColumn) else None
        null_code = built.null_code if isinstance(built, CategoricalAttribute) else None
        for word in _words(settings, settings.columns[built.name]):
            if tree is not None and tree.code_of.get(word, null_code) != null_code:
                yield (
                    f"columns.{built.name}.na: {word!r} is a category of its hierarchy, and would be a null; remove one"
                    " of the two, or give the column an `na` of its own"
                )


def _words(settings: TableSettings, column: ColumnSettings) -> tuple[str, ...]:
    return _sorted(settings.na if column.na is None else column.na)


def _sorted(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))


def _fault_of_written(written: str, type_: str | None) -> str | None:
    if type_ in ("integer", "decimal"):
        allowed = [*NUMBERS, *([DIGITS] if type_ == "integer" else [])]
        return None if written in allowed else f"must be one of {'; '.join(allowed)}"
    if type_ == TIMESTAMP.name:
        return "a timestamp comes as ISO text with its offset from UTC; what has none is a local-timestamp"
    if type_ in CLOCKS:
        return fault_of_pattern(written, with_time=type_ != DATE.name)
    return "is for numbers, dates and local timestamps"
