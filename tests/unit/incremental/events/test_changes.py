"""What a log line may hold of a change: its kind, and nothing of a person."""

from __future__ import annotations

import pytest

from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Nothing,
    Remove,
    Truncate,
    Upsert,
)
from streamer.table.row import Row
from worlds.small_tables import CodeIs, Shifted

ROW = Row((9052,), (b'"canary"',), ("canary",), "canary")
CONDITION, ASSIGNMENTS = CodeIs(0, 9052, 9052), Shifted(0, 9052, 9052, (b'"canary"',))


@pytest.mark.parametrize(
    "change",
    [
        Insert("canary", ROW),
        Delete("canary"),
        Modify("canary", {0: 9052}, {0: "canary"}, {0: b'"canary"'}, "canary"),
        Upsert("canary", ROW, "canary"),
        Remove("canary"),
        DeleteWhere(CONDITION),
        ModifyWhere(CONDITION, ASSIGNMENTS),
        Truncate(),
        Nothing(),
    ],
    ids=lambda change: type(change).__name__,
)
def test_the_repr_of_a_change_names_its_kind_and_no_value(change: Change) -> None:
    assert repr(change).startswith(type(change).__name__)
    assert "canary" not in repr(change)
    assert "9052" not in repr(change)


def test_the_id_of_a_statement_may_be_told() -> None:
    assert repr(DeleteWhere(CONDITION, "s-1")) == "DeleteWhere(statement_id='s-1')"
