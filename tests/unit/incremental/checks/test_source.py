"""The published table beside its source: every row where the index table says, and every forgery found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from streamer.errors import LawViolated
from streamer.incremental.checks.as_published import RowsSeen
from streamer.incremental.checks.changelog import ChangelogLaws
from streamer.incremental.checks.source import SOURCE_LAWS, IndexTable, SourceLaws, index_table
from streamer.incremental.engine.stored_state import PENDING
from worlds.busy_days import SMALL, busy_days, check, index_of


@cache
def final() -> dict[str, Any]:
    """The source behind the last release."""
    return busy_days().sources[-1]


@cache
def placed() -> list[str]:
    """The source keys of its published rows."""
    return sorted(key for key, record in final().items() if record.qi_group != PENDING)


def source_check(source: dict) -> None:
    SourceLaws(SMALL, check(SMALL, busy_days().records), index_of(source)).check_all("the last release")


def changed(source_key: str, **values: Any) -> dict:
    """The last source with another row under a source key."""
    record = final()[source_key]
    return final() | {source_key: replace(record, row=replace(record.row, **values))}


def moved(source_key: str, qi_group: int) -> dict:
    """The last source with a row in another QI group."""
    return final() | {source_key: replace(final()[source_key], qi_group=qi_group)}


def _one_person() -> dict:
    number = final()[placed()[0]].qi_group
    return {
        key: replace(record, row=replace(record.row, individual="one and the same"))
        if record.qi_group == number
        else record
        for key, record in final().items()
    }


def _too_large_a_share() -> dict:
    """Two individuals still, and all rows but one are the same one's."""
    sizes = Counter(final()[key].qi_group for key in placed())
    number = max(sizes, key=sizes.__getitem__)
    assert sizes[number] > 2
    members = [key for key in placed() if final()[key].qi_group == number]
    return final() | {
        key: replace(final()[key], row=replace(final()[key].row, individual="one and the same")) for key in members[1:]
    }


def _outside() -> dict:
    key = placed()[0]
    seen = check(SMALL, busy_days().records).qi_groups[0, final()[key].qi_group]
    assert isinstance(seen, RowsSeen)
    (row, *_) = seen.slots.values()
    age = 22 if row.hi[0] < 4 else 0
    assert not row.lo[0] <= age // 5 <= row.hi[0]
    return changed(key, codes=(age, final()[key].row.codes[1]))


def _one_cell_less() -> dict:
    """No row of a QI group has the highest age of its box any more."""
    groups = check(SMALL, busy_days().records).qi_groups
    boxes = {
        number: next(iter(seen.slots.values())) for (_, number), seen in groups.items() if isinstance(seen, RowsSeen)
    }
    number, row = next((number, row) for number, row in boxes.items() if row.lo[0] < row.hi[0])
    return {
        key: replace(
            record, row=replace(record.row, codes=(min(record.row.codes[0], 5 * row.hi[0] - 1), record.row.codes[1]))
        )
        if record.qi_group == number
        else record
        for key, record in final().items()
    }


def _in_another_qi_group() -> dict:
    here = final()[placed()[0]].qi_group
    other = next(final()[key].qi_group for key in placed() if final()[key].qi_group != here)
    return moved(placed()[0], qi_group=other)


SOURCE_FORGERIES = {
    "a row outside its box": ("containment", _outside),
    "a box wider than its rows": ("edges", _one_cell_less),
    "another value than the published one": ("values", lambda: changed(placed()[0], values=(b'"plague"',))),
    "a row that was forgotten": ("values", lambda: {key: final()[key] for key in final() if key != placed()[0]}),
    "a published row that is pending": ("values", lambda: moved(placed()[0], qi_group=PENDING)),
    "a row in another QI group": ("values", _in_another_qi_group),
    "k rows of one individual": ("individuals", _one_person),
    "an individual with too large a share": ("individuals", _too_large_a_share),
}


def test_the_published_table_tells_the_truth_about_its_source() -> None:
    source_check(final())


@pytest.mark.parametrize("name", sorted(SOURCE_FORGERIES))
def test_a_source_that_is_not_the_published_one_is_found(name: str) -> None:
    law, forge = SOURCE_FORGERIES[name]
    with pytest.raises(LawViolated, match=f"law '{law}' is broken at the last release, QI group 0-[0-9]+") as found:
        source_check(forge())
    assert "plague" not in str(found.value)


def test_an_unpublished_qi_group_of_the_index_table_is_found() -> None:
    with pytest.raises(LawViolated, match=r"law 'values' .* but 0 published rows"):
        SourceLaws(SMALL, ChangelogLaws(SMALL), index_of(final())).check_all("the last release")


Line = tuple[str, tuple[int, int] | None]


def lines() -> list[Line]:
    """The index table of the last release."""
    return [(key, (0, final()[key].qi_group)) for key in placed()]


FORGED_INDEXES: dict[str, Callable[[], list[Line]]] = {
    "source rows that are missing: 1": lambda: lines()[1:],
    "row {n_rows_and_one} names a source key for the second time": lambda: [*lines(), lines()[0]],
    "row 1 names a source key that the source does not have": lambda: [("canary", None), *lines()],
}


@pytest.mark.parametrize("what", FORGED_INDEXES)
def test_index_table_and_source_hold_the_same_rows_once(what: str) -> None:
    rows = {key: final()[key].row for key in placed()}
    assert len(index_table(rows, lines())) == len(rows)
    sentence = what.format(n_rows_and_one=len(rows) + 1)
    with pytest.raises(LawViolated, match=f"law 'index' is broken at the index table: {sentence}") as found:
        index_table(rows, FORGED_INDEXES[what]())
    assert "canary" not in str(found.value)


def test_every_source_law_has_its_forgery() -> None:
    assert {law for law, _ in SOURCE_FORGERIES.values()} | {"index"} == set(SOURCE_LAWS)


def test_an_index_table_forgets_where_a_row_was() -> None:
    index, row = IndexTable(), final()[placed()[0]].row
    assert index.put("a", row, (0, 1)) == {(0, 1)}
    assert index.put("a", row, (0, 2)) == {(0, 1), (0, 2)}
    assert index.put("a", row, None) == {(0, 2)}
    assert index.remove("a") == index.remove("a") == set()
    assert (len(index), index.qi_groups) == (0, set())
