"""A table's columns as statements see them: exact values out of stored rows, each distinct one read once, and back."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from msgspec import structs

from streamer.errors import EventRefused
from streamer.incremental.core.record_types import INSERT
from streamer.incremental.events.statement_columns import Column, Draft, RowsOnce, columns_of, find
from streamer.incremental.events.statement_syntax import Scalar
from streamer.incremental.events.statement_values import Type, scalar
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.queue import Queue
from streamer.incremental.groups.rows import Rows
from streamer.table.encode import Encoder
from streamer.table.row import Row, RowsView
from streamer.table.schema import KeptColumn
from worlds.small_tables import AGE, BMI, CITY, PROBLEM, table

PEOPLE = replace(
    table(AGE, BMI, CITY, individual="ssn"),
    kept=(PROBLEM, KeptColumn("cost", False, "decimal"), KeptColumn("smokes", False, "boolean")),
)
FIELDS: dict[str, object] = {
    "id": 7, "ssn": "s-1", "age": 21, "bmi": Decimal("11.5"), "city": "b1", "problem": "flu", "cost": Decimal("2.50"),
    "smokes": True,
}  # fmt: skip
ROW = Encoder(PEOPLE).row(FIELDS)


def view_of(*rows: Row) -> RowsView:
    held = Held(PEOPLE)
    stored = Rows(PEOPLE, held)
    queue = Queue(stored, held, b"")
    for i, row in enumerate(rows):
        queue.add(INSERT, stored.add(str(i), row), row)
    queue.run()
    return stored.view()


@pytest.mark.parametrize(
    ("name", "value", "type_"),
    [
        ("age", 21, Type.NUMBER),
        ("bmi", Fraction(23, 2), Type.NUMBER),
        ("city", "b1", Type.TEXT),
        ("problem", "flu", Type.ANY),
        ("cost", Fraction(5, 2), Type.NUMBER),
        ("smokes", True, Type.BOOLEAN),
    ],
)
def test_a_column_reads_the_exact_value_of_a_row(name: str, value: Scalar, type_: Type) -> None:
    column = find(name, PEOPLE)
    assert (column.of_row(ROW), column.type) == (value, type_)
    assert column.of_rows(RowsOnce(view_of(ROW, ROW))) == [value, value]


def test_each_distinct_stored_value_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    column, read = find("problem", PEOPLE), list[bytes]()
    reader = column.read
    monkeypatch.setattr(column, "read", lambda stored: read.append(stored) or reader(stored))  # type: ignore[func-returns-value]
    other = structs.replace(ROW, values=(b"null", *ROW.values[1:]))
    assert column.of_rows(RowsOnce(view_of(ROW, other, ROW, other))) == ["flu", None, "flu", None]
    assert read == [b'"flu"'], "a null is nothing to read"


def test_a_view_is_asked_for_each_property_once() -> None:
    asked: list[str] = []

    class View:
        def __getattr__(self, name: str) -> list[str]:
            asked.append(name)
            return []

    rows = RowsOnce(View())  # type: ignore[arg-type]
    for _ in range(2):
        assert (rows.exact, rows.values) == ([], [])
    assert asked == ["exact", "values"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("age", 3), ("bmi", Decimal("10.25")), ("city", "a1"), ("problem", None), ("cost", 7), ("smokes", False)],
)
def test_what_is_assigned_is_read_back_and_nothing_else_changes(name: str, value: object) -> None:
    draft = Draft.of(ROW)
    find(name, PEOPLE).assign(draft, value)
    changed = draft.row(ROW.individual)
    read = {other: column.of_row(changed) for other, column in columns_of(PEOPLE).items()}
    before = {other: column.of_row(ROW) for other, column in columns_of(PEOPLE).items()}
    assert read == before | {name: scalar(value)}
    assert changed.individual == ROW.individual


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("age", 24, "out-of-domain"),
        ("bmi", "canary", "wrong-type"),
        ("city", "canary", "unknown-category"),
        ("smokes", "canary", "wrong-type"),
    ],
)
def test_a_value_that_is_none_of_the_column_is_refused_without_being_told(
    name: str, value: object, reason: str
) -> None:
    with pytest.raises(EventRefused) as refused:
        find(name, PEOPLE).assign(Draft.of(ROW), value)
    assert (refused.value.reason, refused.value.column) == (reason, name)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["id", "ssn"])
def test_a_statement_may_not_say_whose_row_it_is(name: str) -> None:
    with pytest.raises(EventRefused, match="says whose row it is") as refused:
        find(name, PEOPLE)
    assert refused.value.column == name


def test_a_name_that_table_yaml_does_not_have_is_not_repeated_for_it_may_be_a_value() -> None:
    with pytest.raises(EventRefused) as refused:
        find("canary", PEOPLE)
    assert "canary" not in f"{refused.value} {refused.value.column}"


def test_the_columns_of_a_table_are_made_once() -> None:
    assert columns_of(PEOPLE) is columns_of(PEOPLE)
    assert all(isinstance(column, Column) for column in columns_of(PEOPLE).values())


def test_only_a_category_has_a_hierarchy_and_only_even_codes_have_a_scale() -> None:
    columns = columns_of(PEOPLE)
    assert [name for name, column in columns.items() if column.hierarchy is not None] == ["city"]
    assert [name for name, column in columns.items() if column.scale is not None] == ["age", "city"]
