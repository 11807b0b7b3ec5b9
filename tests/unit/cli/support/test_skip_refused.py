"""The list of rows that were left out, and what is said of it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from streamer.cli.support.skip_refused import facts_of, require_some_left, sentence, write_list
from streamer.errors import ConfigError
from streamer.table.data_warnings import RefusedRow

REFUSED = [
    RefusedRow(3, "missing-key", "id"),
    RefusedRow(7, "out-of-domain", "age"),
    RefusedRow(9, "missing-key", "id"),
]


def test_the_list_has_number_reason_and_column_of_each_row() -> None:
    file = StringIO()
    write_list(REFUSED, file)
    assert file.getvalue().split() == [
        "data_row,reason,column", "3,missing-key,id", "7,out-of-domain,age", "9,missing-key,id",
    ]  # fmt: skip


def test_what_is_said_adds_up() -> None:
    facts = facts_of(REFUSED, 1000, Path("list.csv"))
    assert facts["rows"] == sum(one["rows"] for one in facts["refused"]) == 3
    assert sentence(facts) == "3 of 1,000 rows, listed in list.csv: 2 missing-key (id), 1 out-of-domain (age)"
    assert sentence(facts_of([], 5, Path("list.csv"))) == "0 of 5 rows, listed in list.csv: none"


def test_that_no_row_is_left_is_said_with_the_reasons() -> None:
    with pytest.raises(ConfigError, match=r"all 3 rows are refused: 2 missing-key \(id\), 1 out-of-domain \(age\)"):
        require_some_left(REFUSED, 3)
    require_some_left(REFUSED, 4)
    require_some_left([], 0)
