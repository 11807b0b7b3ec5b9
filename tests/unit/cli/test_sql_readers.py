"""Who may count rows in the published table, and who is warned not to."""

from __future__ import annotations

from streamer.cli.sql_readers import sql_warnings
from worlds.small_tables import YEARS, table


def test_where_k_counts_individuals_a_reader_that_counts_rows_is_warned_of() -> None:
    (warning,) = sql_warnings(table(YEARS, individual="ssn"))
    assert "k counts individuals (ssn)" in warning
    assert "`streamer subscribe`" in warning, "the mend"
    assert "HAVING count(*)" in warning


def test_where_k_counts_rows_every_reader_can() -> None:
    assert list(sql_warnings(table(YEARS))) == []
