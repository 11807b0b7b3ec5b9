"""A variable that is nearly one of ours is told once, without its value, on stderr or in a worker's log."""

from __future__ import annotations

import json
import logging

import click
import pytest
from click.testing import CliRunner

from agents.app import create_app
from agents.cli import main
from agents.worker_settings import WorkerSettings
from streamer.cli.config import misspelt_sentences, unheard
from streamer.cli.options import VARIABLES
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.patients import CANARY

SAYS = "the variable STREAMER_LOGLEVEL is no setting, and sets nothing: is STREAMER_LOG_LEVEL meant?"


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("STREAMER_TABEL", "STREAMER_TABLE"),
        ("STREAMER_LIMIT_BATCH_MS_MAX", "STREAMER_LIMITS_BATCH_MS_MAX"),
        ("STREAMER_BATCH_EVENTS_MAX", "STREAMER_LIMITS_BATCH_EVENTS_MAX"),
        ("STREAMER_REBUILDS_DRIFT", "STREAMER_REBUILD_DRIFT"),
        ("STREAMER_WEBTOKEN", "STREAMER_WEB_TOKEN"),
    ],
)
def test_the_setting_that_is_nearest_is_named(misspelt: str, meant: str) -> None:
    (sentence,) = misspelt_sentences({misspelt: CANARY})
    assert misspelt in sentence and f"is {meant} meant?" in sentence and CANARY not in sentence


@pytest.mark.parametrize(
    "other",
    [
        "STREAMER_SERVICE_HOST", "STREAMER_SERVICE_PORT", "STREAMER_PORT", "STREAMER_PORT_8080_TCP_ADDR",
        "STREAMER_WEB_SERVICE_HOST", "STREAMER_WEB_PORT", "STREAMER_DATA",
    ],
)  # fmt: skip
def test_what_a_cluster_says_of_its_services_is_no_misspelling(other: str) -> None:
    assert (unheard({other: "10.0.0.1"}), list(misspelt_sentences({other: "10.0.0.1"}))) == ([other], [])


def test_what_is_heard_refused_or_empty_is_no_misspelling() -> None:
    heard = dict.fromkeys([*VARIABLES, "STREAMER_LIMITS_BATCH_MS_MAX", "STREAMER_REBUILD_EVRY"], "x")
    assert unheard({**heard, "STREAMER_LOGLEVEL": ""}) == []


def test_the_variables_of_options_are_all_known() -> None:
    def options(command: click.Command) -> list[click.Parameter]:
        if not isinstance(command, click.Group):
            return command.params
        context = click.Context(command)
        named = [command.get_command(context, name) for name in command.list_commands(context)]
        return [option for one in named if one is not None for option in options(one)]

    said = {str(option.envvar) for option in options(main) if str(option.envvar).startswith("STREAMER_")}
    assert said <= {*VARIABLES}


def call(*words: str) -> tuple[str, str]:
    result = CliRunner().invoke(main, words, env={"STREAMER_LOGLEVEL": CANARY})
    return result.stdout, result.stderr


def test_a_command_says_it_once_and_leaves_json_as_it_is() -> None:
    said, warned = call("check", "--table", str(PATIENTS), "--json")
    assert json.loads(said)["ok"] and warned == f"streamer: warning: {SAYS}\n"


def test_a_command_of_several_parts_says_it_and_one_that_hears_no_variable_does_not() -> None:
    assert SAYS in call("topics", "check", "--table", "nowhere")[1]
    assert call("init", "nowhere.csv")[1].count("LOGLEVEL") == 0


def test_where_all_settings_are_shown_it_is_among_them() -> None:
    said, warned = call("config", "--table", str(PATIENTS))
    assert "STREAMER_LOGLEVEL" in said and warned == ""


def test_a_worker_says_it_in_its_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("STREAMER_LOGLEVEL", CANARY)
    monkeypatch.setattr("agents.app.warm_in_background", lambda table: None)
    with caplog.at_level(logging.WARNING):
        create_app(WorkerSettings(load_table(PATIENTS), "127.0.0.1:1", "redis://127.0.0.1:1/0"))
    assert [record.getMessage() for record in caplog.records] == [SAYS]
    assert call("worker", "--no-such-option")[1].count("LOGLEVEL") == 0
