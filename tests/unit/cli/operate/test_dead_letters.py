"""How `streamer dead-letters` and its `retry` are told which table is meant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from streamer.cli.main import main
from streamer.cli.operate import dead_letters
from streamer.cli.operate.dead_letters import chosen_of
from streamer.status.collect import Letter
from worlds.checkout import PATIENTS
from worlds.kafka_in_memory import TopicsInMemory

# Which refused messages an operator's command has tried again.

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


BY_VARIABLE = {"STREAMER_TABLE": str(PATIENTS)}


@pytest.fixture
def nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = TopicsInMemory({"patients.dead-letters": 2, "patients.changes": 2})

    @contextmanager
    def open_consumer(bootstrap: str, *more: int) -> Iterator[TopicsInMemory]:
        yield topics

    for module in (dead_letters, dead_letters):
        monkeypatch.setattr(module, "open_consumer", open_consumer)


def call(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["dead-letters", *words], env=environment)


@pytest.mark.usefixtures("nothing_refused")
@pytest.mark.parametrize("words", [("--table", str(PATIENTS)), ()])
def test_the_table_is_named_by_an_option_or_by_a_variable(words: tuple[str, ...]) -> None:
    result = call(*words, **({} if words else BY_VARIABLE))
    assert (result.exit_code, result.output) == (0, "0 dead letters in patients.dead-letters\n")


@pytest.mark.usefixtures("nothing_refused")
def test_a_retry_takes_the_variable_too() -> None:
    result = call("retry", "--dry-run", **BY_VARIABLE)
    assert (result.exit_code, result.output) == (0, "nothing to be tried again\n")


@pytest.mark.usefixtures("nothing_refused")
def test_a_table_that_nobody_names_is_asked_for() -> None:
    result = call()
    assert result.exit_code == 2 and "--table" in result.output


@pytest.mark.usefixtures("nothing_refused")
def test_options_of_the_retry_come_behind_its_name() -> None:
    result = call("--table", str(PATIENTS), "retry", "--dry-run")
    assert result.exit_code == 2 and "come behind its name" in result.output
