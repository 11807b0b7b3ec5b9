"""Sentences and tables for people: fitted to a terminal, whole in a pipe, and brackets are no markup."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from rich.table import Table

from streamer.cli.support.tables import PIPE_WIDTH, figure, print_table, say, say_facts


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


def test_a_table_in_a_pipe_is_as_wide_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table = Table("column")
    table.add_row("x" * 100)
    print_table(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 60


COLUMNS_OF_TEN = [f"quasi-identifier_{n}" for n in range(10)]


@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("value", ["0.9771", "2020-01-01 to 2020-01-31", "(none)"])
def test_a_table_whose_words_would_be_cut_has_its_rows_as_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: int, value: str
) -> None:
    """Before: with ten columns at 80 every heading and every figure was cut."""
    monkeypatch.setenv("COLUMNS", "80")
    table = Table("QI group", *COLUMNS_OF_TEN)
    for n in range(rows):
        table.add_row(f"0-{n}", *[value] * 10)
    print_table(table)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 and "\u2026" not in out
    parts = out.count("QI group")
    assert out.count(value) == 10 * rows
    assert [out.count(name) for name in COLUMNS_OF_TEN] == [parts] * 10
    assert [f"0-{n}" in out for n in range(rows)] == [True] * rows
    assert parts == 1 or rows > 2


def test_a_table_that_fits_stays_as_it_is_and_so_does_one_whose_texts_may_be_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table = Table("shard", "held by", "a text")
    table.columns[1].overflow = "fold"
    table.add_row("0", "x" * 40, "of many words that wrap")
    print_table(table)
    assert "held by" in capsys.readouterr().out.splitlines()[1]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0, "0"), (1234567, "1234567"), (0.5, "0.5"), (2 / 3, "0.6667"), (1e-9, "1e-09")]
)
def test_a_measure_takes_a_narrow_column(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes a terminal of 24 columns of what is captured."""
    monkeypatch.setenv("COLUMNS", "24")
    return lambda: monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


SENTENCE = "rows are cut between words, never in the-midst-of-one-however-long"


def test_a_sentence_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    say(SENTENCE)
    assert capsys.readouterr().out == f"{SENTENCE}\n"


def test_a_terminal_gets_it_broken_between_words_and_further_in(
    narrow: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    narrow()
    say(SENTENCE)
    assert capsys.readouterr().out.splitlines() == [
        "rows are cut between", "  words, never in", "  the-midst-of-one-however-long",
    ]  # fmt: skip


def test_lines_of_a_text_keep_their_beginnings(narrow: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    narrow()
    say("two faults\n  the first one is long enough\n  short")
    assert capsys.readouterr().out.splitlines() == ["two faults", "  the first one is long", "    enough", "  short"]


def test_facts_stand_below_one_another(narrow: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    narrow()
    say_facts({"QI groups": 1234, "rows": "some, and each is large enough"})
    assert capsys.readouterr().out.splitlines() == [
        "QI groups  1,234", "     rows  some, and", "           each is large", "           enough",
    ]  # fmt: skip
