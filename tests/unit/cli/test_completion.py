"""What a shell is offered: tables, algorithms, QI groups, and the commands' own names."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep
from typing import Any

import click
import pytest
from click.shell_completion import BashComplete

from agents.cli import main
from streamer.cli.completion import tables
from streamer.incremental.store import redis_lookups
from streamer.recoding.algorithms.catalog import ALGORITHMS
from worlds.checkout import PATIENTS


def offered(args: list[str], incomplete: str) -> list[str]:
    """What the shell shows behind these words."""
    found = BashComplete(main, {}, "streamer", "_STREAMER_COMPLETE").get_completions(args, incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.fixture
def _two_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "others/clinic", "others/deep/down/below", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("mine", "others/clinic", "others/deep/down/below"):
        (tmp_path / name / "table.yaml").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_two_tables")
def test_tables_near_by_are_offered_by_their_folders() -> None:
    assert offered(["status", "--table"], "") == ["mine", "others/clinic"]


@pytest.mark.usefixtures("_two_tables")
def test_what_is_written_already_narrows_the_tables() -> None:
    assert offered(["status", "--table"], "oth") == ["others/clinic"]
    assert offered(["dead-letters", "--table"], "mine/") == ["mine/table.yaml"]
    assert offered(["status", "--table"], "empty") == []


def test_folders_are_left_to_the_shell_where_no_table_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = click.Command("status")
    found = tables(click.Context(command), click.Option(["--table"]), "")
    assert [(item.type, item.value) for item in found] == [("dir", "")]


@pytest.mark.parametrize("command", ["anonymize", "rebuild"])
def test_every_algorithm_is_offered(command: str) -> None:
    assert set(offered([command, "--algorithm"], "")) == set(ALGORITHMS)
    assert offered([command, "--algorithm"], "mon") == ["mondrian"]


def test_commands_are_offered_by_name() -> None:
    assert {"start-anew", "status"} <= set(offered([], "sta"))


NOWHERE = "redis://127.0.0.1:1/0"

ASKING = [["explain", "--table", str(PATIENTS), "--group"], ["groups", "--table", str(PATIENTS), "--nearest"]]
"""Commands that are told a QI group, as far as they are written."""


class Held:
    """What Redis answers of a shard."""

    def __init__(self, _client: Any, _table_name: str, shard: int) -> None:
        self._shard = shard

    def qi_group_numbers(self) -> list[int]:
        return [1, 2, 10] if self._shard == 0 else [7]


@pytest.mark.parametrize("words", ASKING)
def test_the_qi_groups_that_redis_has_are_offered(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_lookups, "shards_of", lambda client, table_name: [0, 1])
    monkeypatch.setattr(redis_lookups, "RedisLookups", Held)
    assert offered(words, "") == ["0-1", "0-2", "0-10", "1-7"]
    assert offered(words, "0-1") == ["0-1", "0-10"]
    assert offered(words, "2") == []


@pytest.mark.parametrize("words", ASKING)
def test_nothing_is_offered_or_said_where_redis_does_not_answer(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert offered([words[0], "--redis", NOWHERE, *words[1:]], "") == []
    assert offered([words[0], "--table", "nowhere", words[-1]], "") == []
    assert capfd.readouterr() == ("", "")


def slow_shards(_client: Any, _table_name: str) -> list[int]:
    sleep(5.0)
    return [0]


def test_a_shell_waits_for_redis_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.cli.completion.ANSWER_SECONDS_MAX", 0.05)
    monkeypatch.setattr(redis_lookups, "shards_of", slow_shards)
    monkeypatch.setattr(redis_lookups, "RedisLookups", Held)
    began = monotonic()
    assert offered(ASKING[0], "") == []
    assert monotonic() - began < 4.0
