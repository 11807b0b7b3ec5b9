"""The command `streamer` itself: what a failure looks like to people and to programs."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner, Result

from streamer.cli.main import main
from streamer.errors import LawViolated, ServerUnreachable, ShardRefused, StreamerError, UsageError

TOLD = {"ok": False, "error": "what is wrong, and what to do"}


def failing(error: Exception) -> click.Command:
    @click.command(name="failing")
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        raise error

    return command


def run(monkeypatch: pytest.MonkeyPatch, error: Exception, *arguments: str) -> Result:
    monkeypatch.setitem(main.commands, "failing", failing(error))
    return CliRunner().invoke(main, ["failing", *arguments])


@pytest.mark.parametrize(
    ("kind", "code"), [(UsageError, 2), (ShardRefused, 2), (LawViolated, 1), (ServerUnreachable, 3)]
)
def test_a_program_gets_an_object_where_the_command_fails(
    monkeypatch: pytest.MonkeyPatch, kind: type[StreamerError], code: int
) -> None:
    result = run(monkeypatch, kind("what is wrong, and what to do"), "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout) == {**TOLD, "kind": kind.__name__, "exit_code": code}
    assert result.stderr == "streamer: what is wrong, and what to do\n"


def test_people_get_the_sentence_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, UsageError("what is wrong, and what to do"))
    assert (result.stdout, result.stderr) == ("", "streamer: what is wrong, and what to do\n")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["failing", "--json", "--no-such-option"], "NoSuchOption"),
        (["check", "--json"], "MissingParameter"),
        (["topics", "check", "--json"], "MissingParameter"),
        (["no-such-command", "--json"], "UsageError"),
    ],
)
def test_a_program_gets_an_object_for_a_wrong_command_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], kind: str
) -> None:
    monkeypatch.setitem(main.commands, "failing", failing(UsageError("not reached")))
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert (said["ok"], said["kind"], said["exit_code"]) == (False, kind, 2)
    assert "Usage: streamer" in result.stderr


def test_what_nobody_foresaw_is_told_without_its_text_which_may_quote_people(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, KeyError("canary"), "--json")
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    assert (said["ok"], said["kind"], said["exit_code"]) == (False, "KeyError", 1)
    assert "canary" not in result.stdout


def test_a_command_that_ended_with_a_code_of_its_own_has_said_all(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, click.exceptions.Exit(1), "--json")
    assert (result.exit_code, result.stdout) == (1, "")


def test_the_commands_that_take_json_say_so_on_failure() -> None:
    result = CliRunner().invoke(main, ["verify", "--table", "nowhere", "live.jsonl", "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["kind"] == "ConfigError"
