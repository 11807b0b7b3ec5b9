"""`streamer dead-letters`: which messages a retry asks for, and which table is meant."""

from __future__ import annotations

import pytest

from streamer.cli.operate.dead_letters import chosen_of
from streamer.status.collect import Letter
from worlds.calls import streamer
from worlds.checkout import PATIENTS

LETTERS = [
    Letter("refused", "internal-error", "", 0, 9),
    Letter("refused", "skipped", "", 0, 3),
    Letter("refused", "skipped", "", 0, 4),
    Letter("retried", "retried", "", 0, 4),
    Letter("refused-again", "key-exists", "", 0, 9),
]


def chosen(reason: str | None = None, *offsets: int) -> list[int]:
    return [letter.offset for letter in chosen_of(LETTERS, reason, offsets)]


def test_what_stands_is_chosen_by_its_last_reason_and_by_its_offset() -> None:
    assert chosen() == [3, 9]
    assert chosen("skipped") == [3]
    assert chosen("internal-error") == []
    assert chosen("key-exists") == [9]
    assert chosen(None, 9, 4) == [9]


@pytest.mark.parametrize("words", [(), ("retry", "--dry-run")])
@pytest.mark.parametrize("option", [(), ("--table", "by-option")])
def test_the_table_is_named_by_an_option_or_by_a_variable(words: tuple[str, ...], option: tuple[str, ...]) -> None:
    result = streamer("dead-letters", *words, *option, STREAMER_TABLE="by-variable")
    assert (result.exit_code, "by-option" in result.output) == (2, bool(option))
    assert ("by-variable" in result.output) is not bool(option)


def test_a_table_that_nobody_names_is_asked_for() -> None:
    result = streamer("dead-letters")
    assert result.exit_code == 2 and "--table" in result.output


def test_options_of_the_retry_come_behind_its_name() -> None:
    result = streamer("dead-letters", "--table", PATIENTS, "retry", "--dry-run")
    assert result.exit_code == 2 and "come after its name" in result.output
