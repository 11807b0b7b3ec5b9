"""What a log line may hold of a change: its kind, and nothing of a person."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.events.changes import (
    APPLIED,
    DEAD,
    IGNORED,
    NO_MESSAGES,
    Change,
    Counts,
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


def test_a_statement_may_have_an_id() -> None:
    assert repr(DeleteWhere(CONDITION, "s-1")) == "DeleteWhere(statement_id='s-1')"


# Every message is counted once: applied, ignored or a dead letter.

UNLISTED = st.dictionaries(st.sampled_from(["job", "city", "sex"]), st.integers(1, 9))
COUNTS = st.builds(Counts, *[st.integers(0, 10**9)] * 4, UNLISTED)


@given(COUNTS, COUNTS, COUNTS)
def test_sums_do_not_depend_on_how_the_messages_were_cut_into_batches(one: Counts, other: Counts, last: Counts) -> None:
    assert (one + other) + last == one + (other + last)
    assert one + NO_MESSAGES == one
    assert (one + other).messages == one.messages + other.messages


def test_categories_that_are_not_listed_add_up_by_column_and_are_no_messages() -> None:
    both = Counts(applied=1, unlisted={"job": 1}) + Counts(applied=1, unlisted={"job": 2, "city": 1})
    assert (both.unlisted, both.messages) == ({"job": 3, "city": 1}, 2)


def test_one_message_of_each_kind_counts_one() -> None:
    assert [counts.messages for counts in (APPLIED, IGNORED, DEAD)] == [1, 1, 1]
    assert Counts(1, 1, 1) == APPLIED + IGNORED + DEAD
