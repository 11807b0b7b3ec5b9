"""What a shell is offered: tables and algorithms, and the commands' own names."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from agents.cli import main
from streamer.cli.completion import tables
from streamer.recoding.algorithms.catalog import ALGORITHMS


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
