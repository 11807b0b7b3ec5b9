"""How `streamer dead-letters` and its `retry` are told which table is meant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from streamer.cli import dead_letters, retry
from streamer.cli.main import main
from worlds.checkout import PATIENTS
from worlds.topics_in_memory import TopicsInMemory

BY_VARIABLE = {"STREAMER_TABLE": str(PATIENTS)}


@pytest.fixture(autouse=True)
def nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = TopicsInMemory({"patients.dead-letters": 2, "patients.changes": 2})

    @contextmanager
    def open_consumer(bootstrap: str, *more: int) -> Iterator[TopicsInMemory]:
        yield topics

    for module in (dead_letters, retry):
        monkeypatch.setattr(module, "open_consumer", open_consumer)


def call(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["dead-letters", *words], env=environment)


@pytest.mark.parametrize("words", [("--table", str(PATIENTS)), ()])
def test_the_table_is_named_by_an_option_or_by_a_variable(words: tuple[str, ...]) -> None:
    result = call(*words, **({} if words else BY_VARIABLE))
    assert (result.exit_code, result.output) == (0, "0 dead letters in patients.dead-letters\n")


def test_a_retry_takes_the_variable_too() -> None:
    result = call("retry", "--dry-run", **BY_VARIABLE)
    assert (result.exit_code, result.output) == (0, "nothing to be tried again\n")


def test_a_table_that_nobody_names_is_asked_for() -> None:
    result = call()
    assert result.exit_code == 2 and "--table" in result.output


def test_options_of_the_retry_come_behind_its_name() -> None:
    result = call("--table", str(PATIENTS), "retry", "--dry-run")
    assert result.exit_code == 2 and "come behind its name" in result.output
