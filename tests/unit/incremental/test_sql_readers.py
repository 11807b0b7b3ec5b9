"""Who may count rows in the published table, and who is warned not to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.sql_readers import sql_warnings
from worlds.small_tables import YEARS, table


def test_where_k_counts_individuals_a_reader_that_counts_rows_is_warned_of() -> None:
    (warning,) = sql_warnings(table(YEARS, individual="ssn"))
    assert "k counts individuals (ssn)" in warning
    assert "`streamer subscribe`" in warning, "the mend"
    assert "HAVING count(*)" in warning


def test_where_k_counts_rows_every_reader_can() -> None:
    assert list(sql_warnings(table(YEARS))) == []


@pytest.mark.parametrize(("form", "word"), [("rows", "individuals"), ("groups", None), ("lossy-join", "two topics")])
def test_what_a_reader_in_sql_must_know_depends_on_the_form(form: str, word: str | None) -> None:
    said = list(sql_warnings(replace(table(YEARS, k=2, individual="ssn"), form=form)))
    assert len(said) == (word is not None)
    assert word is None or word in said[0]
