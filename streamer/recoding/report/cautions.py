"""The sentences at the head of a report, which commands and Python say, too: what to look at before a table leaves.

A *caution* is about people of whom the table tells too much. What is only *to know* alarms nobody: what else readers
should be told, and settings that may be meant otherwise. Both are counts and names of columns, never a value of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streamer.table.codes import CLOCKS, CategoricalAttribute
from streamer.table.data_warnings import StandIns, null_text
from streamer.table.schema import LOSSY_JOIN, Table
from streamer.table.yaml.columns import NULL_LABEL

EMPTY_SHARE, NUMBER_SHARE, UNIQUE_SHARE = 0.5, 0.5, 0.5
"""From these shares of the rows on, a column is mostly empty, holds numbers, or has values of one person each."""

MANY_QUASI_IDENTIFIERS, MANY_LEAVES = 15, 8


class Cautions(NamedTuple):
    """What is said of one run, a sentence each."""

    cautions: list[str]
    to_know: list[str]


def cautions(table: Table, form: str, found: Mapping[str, Any], stand_ins: Mapping[str, StandIns]) -> Cautions:
    """found: by `findings`; stand_ins: by quasi-identifier or kept column, of the rows of the source."""
    box, after, alarming, calm = "QI group" if form == LOSSY_JOIN else "box", found["after"], list[str](), list[str]()
    if after:
        for one in found["inference"]:
            _add_open(one, after["rows"], box, alarming, calm)
        alarming += _alone(found, box)
        alarming += _of_one(table, found, after["rows"])
        calm += _empty(found, after["rows"])
    calm += _placeholders(table, stand_ins, found["beside_nulls"])
    calm += _settings(table)
    for column in table.kept:
        if column.disguise is not None:
            said = alarming if column.name in table.pseudonyms else calm
            said.append(f"{column.name} is published {column.disguise.words}")
    return Cautions(alarming, calm)


def _add_open(one: Mapping[str, Any], rows: int, box: str, alarming: list[str], calm: list[str]) -> None:
    """Values that are open to whoever knows a person's box: an alarm, unless all are what anybody would guess."""
    name, known, agreed, usual = (one[name] for name in ("column", "known_rows", "agreed_rows", "usual_rows"))
    same = [f"{known:,} of {rows:,} rows have the value of all rows of their {box}"] * bool(known)
    same += [f"{agreed:,} of {rows:,} rows that of all in their {box} who have one"] * bool(agreed)
    if known + agreed > usual:
        least = f"; in {usual:,} of these rows it is the commonest value of the table" if usual else ""
        alarming.append(
            f"{name} is open to whoever knows a person's {box}: {', '.join(same)}{least}. `l` or `beta` in table.yaml"
            " (privacy) prevents that"
        )
    elif same:
        calm.append(
            f"{name}: {', '.join(same)}, but it is the commonest value of the table, which"
            f" {100 * one['usual']:.3g} % of all rows have"
        )
    if one["unanswered_rows"]:
        calm.append(
            f"{name}: {one['unanswered_rows']:,} of {rows:,} rows are in a {box} in which nobody has a value: readers"
            " learn that none is on record"
        )


def _alone(found: Mapping[str, Any], box: str) -> Iterator[str]:
    beside = found["with_kept"]
    if beside and beside["alone"]:
        yield (
            f"{beside['alone']:,} of {beside['rows']:,} rows stand alone by their {box} and what is published as it is"
            f" ({', '.join(found['as_they_are'])}): whoever knows both of a person finds her row. Leave such columns"
            " out, or make them quasi-identifiers"
        )


def _of_one(table: Table, found: Mapping[str, Any], rows: int) -> Iterator[str]:
    kept = {column.name: column for column in table.kept}
    numbers = {one["column"]: one["numbers"] for one in found["kept"]}
    for one in found["values_of_one"]:
        name, column = one["column"], kept[one["column"]]
        if column.type in ("integer", "decimal") or numbers[name] >= NUMBER_SHARE * rows:
            remedy = "Round it (`grid`) and cap the highest ones (`domain`), or make it a quasi-identifier"
        elif column.type in CLOCKS:
            remedy = "Make it a quasi-identifier, which is published as an interval"
        elif one["share"] >= UNIQUE_SHARE:
            remedy = "Leave it out: nearly every row has a text of its own"
        else:
            remedy = "Give it a hierarchy whose `other` takes rare values together, or leave it out"
        yield (
            f"{name} is published as it is, and in {one['rows']:,} of {rows:,} rows ({100 * one['share']:.3g} %) has a"
            f" value that nobody else has: whoever knows it finds the row, whatever k is. {remedy}"
        )


def _empty(found: Mapping[str, Any], rows: int) -> Iterator[str]:
    for one in found["kept"]:
        if one["empty"] >= EMPTY_SHARE * rows:
            yield (
                f"{one['column']} is empty in {one['empty']:,} of {rows:,} rows ({100 * one['empty'] / rows:.3g} %):"
                " that somebody has a value at all may be what must not be learned"
            )


def _placeholders(table: Table, stand_ins: Mapping[str, StandIns], beside: Mapping[str, int]) -> Iterator[str]:
    attributes = {attribute.name: attribute for attribute in table.attributes}
    for name in (column.name for column in (*table.attributes, *table.kept) if column.name in stand_ins):
        nulls, outside = stand_ins[name]
        if nulls and (text := null_text(attributes[name])) != NULL_LABEL:
            rows = (
                f"; {beside[name]:,} rows are published with it or an interval that holds it" if name in beside else ""
            )
            yield (
                f"{name}: {nulls:,} rows have no value and count as {text} (`null_as`), as if it had been"
                f" measured{rows}: tell recipients"
            )
        if outside:
            yield (f"{name}: {outside:,} rows lie outside the domain and count as its nearer end: tell recipients")


def _settings(table: Table) -> Iterator[str]:
    if table.k == 2:
        yield "k = 2: whoever knows a person's box guesses her row right every second time; 3 to 11 are usual"
    if (n := len(table.attributes)) >= MANY_QUASI_IDENTIFIERS:
        yield (
            f"{n} quasi-identifiers are many: each one widens the intervals of all others. Keep those that others can"
            " know of a person, and leave out or declare sensitive the rest"
        )
    flat = _flat(table)
    if flat:
        yield (
            f"flat hierarchies ({', '.join(flat)}): a category is published exactly or as *. Add levels, and groups of"
            " categories are published"
        )


def _flat(table: Table) -> list[str]:
    return [
        attribute.name
        for attribute in table.attributes
        if isinstance(attribute, CategoricalAttribute)
        and attribute.hierarchy.n_levels <= 2
        and attribute.hierarchy.n_leaves >= MANY_LEAVES
    ]
