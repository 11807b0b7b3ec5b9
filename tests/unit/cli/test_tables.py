"""Tables for people: whole in a pipe, and brackets are no markup."""

from __future__ import annotations

import pytest
from rich.table import Table

from streamer.cli.tables import PIPE_WIDTH, figure, print_table


def test_brackets_in_a_cell_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("column")
    table.add_row("[bold]1[/bold] [0-5]")
    print_table(table)
    assert "[bold]1[/bold] [0-5]" in capsys.readouterr().out


def test_a_pipe_gets_a_long_line_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("column")
    long = "x" * (PIPE_WIDTH - 10)
    table.add_row(long)
    print_table(table)
    assert long in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0, "0"), (1234567, "1234567"), (0.5, "0.5"), (2 / 3, "0.6667"), (1e-9, "1e-09")]
)
def test_a_measure_takes_a_narrow_column(value: float | None, text: str) -> None:
    assert figure(value) == text
