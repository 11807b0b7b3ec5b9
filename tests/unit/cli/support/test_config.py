"""Every setting in effect and where it comes from; of secrets, that they are set."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import Result

from streamer.cli.main import main
from streamer.cli.support.config import misspelt_sentences, unknown_variables
from streamer.cli.support.options import OPTION_VARIABLES
from streamer.table.schema import REPAIR
from worlds.calls import streamer
from worlds.checkout import PATIENTS, ROOT
from worlds.patients import CANARY


def call(*words: str, **environment: str | None) -> Result:
    table = () if "STREAMER_TABLE" in environment else ("--table", str(PATIENTS))
    return streamer("config", *table, *words, **environment)


def settings(*words: str, **environment: str | None) -> dict[str, tuple[str, str]]:
    """Value and where it comes from, by name."""
    result = call("--json", *words, **environment)
    assert result.exit_code == 0, result.output
    return {one["name"]: (one["value"], one["from"]) for one in json.loads(result.stdout)["settings"]}


def test_an_option_wins_over_a_variable_and_that_over_the_default() -> None:
    assert settings()["kafka"] == ("127.0.0.1:9092", "default")
    assert settings(KAFKA_BOOTSTRAP="a:1")["kafka"] == ("a:1", "KAFKA_BOOTSTRAP")
    assert settings("--kafka", "b:2", KAFKA_BOOTSTRAP="a:1")["kafka"] == ("b:2", "--kafka")


def test_a_workers_log_is_shown_too() -> None:
    found = settings("--log-level", "error", STREAMER_LOG_FORMAT="json")
    assert (found["log-level"], found["log-format"]) == (("error", "--log-level"), ("json", "STREAMER_LOG_FORMAT"))
    assert (settings()["log-level"], settings()["log-format"]) == (("info", "default"), ("text", "default"))


def test_where_a_worker_answers_browsers_is_shown() -> None:
    assert settings()["web"] == ("-", "default")
    assert settings(STREAMER_WEB="8080")["web"] == ("8080", "STREAMER_WEB")
    assert settings("--web", "0.0.0.0:80", STREAMER_WEB="8080")["web"] == ("0.0.0.0:80", "--web")


def test_whether_it_runs_uncompiled_is_shown() -> None:
    assert settings(STREAMER_NATIVE="off")["native"] == ("off", "STREAMER_NATIVE")
    assert "native" not in settings(STREAMER_NATIVE="")


def test_the_table_may_be_named_by_a_variable() -> None:
    assert settings(STREAMER_TABLE=str(PATIENTS))["table"] == (str(PATIENTS), "STREAMER_TABLE")


def test_a_setting_of_table_yaml_is_told_from_its_default_and_from_a_variable() -> None:
    found = settings(STREAMER_LIMITS_BATCH_MS_MAX="20")
    assert found["privacy.k"] == ("3", "table.yaml")
    assert found["limits.batch_ms_max"] == ("20", "STREAMER_LIMITS_BATCH_MS_MAX")
    assert found["limits.batch_events_max"] == ("2000", "default")
    assert not [name for name in found if name.startswith("columns")]


def test_what_local_repair_costs_is_what_holds_and_not_that_nothing_was_said() -> None:
    assert settings()["engine.repair"] == (str(REPAIR), "default")


def test_no_secret_is_shown_wherever_it_stands(tmp_path: Path) -> None:
    file, password = tmp_path / "client.properties", tmp_path / "password"
    password.write_text(CANARY)
    file.write_text(
        f"bootstrap.servers=c:3\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nclient.id={CANARY}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="me" password="{CANARY}";\n'
        f"basic.auth.user.info=me:{CANARY}\n"
    )
    secrets = {
        "KAFKA_CONFIG": str(file), "REDIS_URL": f"redis://me:{CANARY}@d:4/0", "REDIS_SENTINEL_PASSWORD": CANARY,
        "SCHEMA_REGISTRY_URL": "http://e:5", "SCHEMA_REGISTRY_BASIC_AUTH": f"me:{CANARY}",
    }  # fmt: skip
    found = settings(**secrets)
    assert found["kafka"] == ("c:3", "KAFKA_CONFIG, bootstrap.servers")
    assert found["kafka security.protocol"] == ("SASL_PLAINTEXT", "KAFKA_CONFIG")
    assert found["kafka client.id"] == ("(set)", "KAFKA_CONFIG, not used")
    assert found["redis"] == ("Redis d:4", "REDIS_URL")
    for how in ((), ("--json",)):
        assert CANARY not in call(*how, **secrets).output


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"STREAMER_PRIVACY_K": "2"}, "can only be set in table.yaml"),
        ({"SCHEMA_REGISTRY_URL": f"http://me:{CANARY}@e:5"}, "SCHEMA_REGISTRY_URL: expected"),
        ({"KAFKA_SASL_PASSWORD": CANARY}, "has no effect under security.protocol"),
        ({"KAFKA_BOOTSTRAP": f"me:{CANARY}@c:9092"}, "--kafka (KAFKA_BOOTSTRAP): expected HOST:PORT"),
        ({"STREAMER_WEB": "0.0.0.0"}, "is not HOST:PORT"),
    ],
)
def test_what_a_worker_would_refuse_is_refused_here(environment: dict[str, str], says: str) -> None:
    result = call(**environment)
    assert result.exit_code == 2 and says in result.output and CANARY not in result.output


def test_settings_stand_as_table_yaml_would_say_them() -> None:
    assert settings(STREAMER_REBUILD_EVERY="24h")["rebuild.every"][0] == "1d"
    assert settings(STREAMER_REBUILD_EVERY="90m")["rebuild.every"][0] == "90m"
    assert settings(STREAMER_REBUILD_EVERY="never", STREAMER_REBUILD_DRIFT="never")["rebuild.drift"][0] == "never"
    assert settings()["rebuild.every"] == ("never", "default")


def test_which_database_of_redis_is_meant_is_shown_and_whether_by_tls() -> None:
    assert settings()["redis database"] == ("0", "default")
    found = settings(REDIS_URL=f"rediss://me:{CANARY}@d:4/7")
    assert (found["redis database"], found["redis tls"]) == (("7", "REDIS_URL"), ("true", "REDIS_URL"))


def test_a_cluster_is_shown_without_being_asked_for() -> None:
    assert settings(REDIS_URL=f"redis+cluster://me:{CANARY}@127.0.0.1:1")["redis"][0] == "Redis Cluster 127.0.0.1:1"


def test_a_price_of_nothing_is_shown_as_the_word_for_it(tmp_path: Path) -> None:
    shutil.copytree(PATIENTS, tmp_path / "table")
    with open(tmp_path / "table" / "table.yaml", "a") as file:
        file.write("engine: {repair: off}\n")
    assert settings(STREAMER_TABLE=str(tmp_path / "table"))["engine.repair"] == ("off", "table.yaml")


def test_a_variable_that_looks_like_ours_and_says_nothing_is_shown_without_its_value() -> None:
    misspelt = {"STREAMER_LIMIT_BATCH_MS_MAX": CANARY, "STREAMER_LOGLEVEL": CANARY}
    found = settings(**misspelt)
    assert found["STREAMER_LIMIT_BATCH_MS_MAX"] == ("-", "not a setting of streamer")
    assert found["STREAMER_LOGLEVEL"] == ("-", "not a setting of streamer")
    assert CANARY not in call(**misspelt).output


# -- a variable with nearly one of our names is reported once, without its value --------------------------------------

SAYS = "the variable STREAMER_LOGLEVEL is not a setting and has no effect: is STREAMER_LOG_LEVEL meant?"


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("STREAMER_TABEL", "STREAMER_TABLE"),
        ("STREAMER_LIMIT_BATCH_MS_MAX", "STREAMER_LIMITS_BATCH_MS_MAX"),
        ("STREAMER_BATCH_EVENTS_MAX", "STREAMER_LIMITS_BATCH_EVENTS_MAX"),
        ("STREAMER_REBUILDS_DRIFT", "STREAMER_REBUILD_DRIFT"),
        ("STREAMER_WEBB", "STREAMER_WEB"),
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
    assert (unknown_variables({other: "10.0.0.1"}), list(misspelt_sentences({other: "10.0.0.1"}))) == ([other], [])


def test_what_is_heard_refused_or_empty_is_no_misspelling() -> None:
    heard = dict.fromkeys([*OPTION_VARIABLES, "STREAMER_LIMITS_BATCH_MS_MAX", "STREAMER_REBUILD_EVRY"], "x")
    assert unknown_variables({**heard, "STREAMER_LOGLEVEL": ""}) == []


def test_the_variables_of_options_are_all_known() -> None:
    def options(command: click.Command) -> list[click.Parameter]:
        if not isinstance(command, click.Group):
            return command.params
        context = click.Context(command)
        named = [command.get_command(context, name) for name in command.list_commands(context)]
        return [option for one in named if one is not None for option in options(one)]

    said = {str(option.envvar) for option in options(main) if str(option.envvar).startswith("STREAMER_")}
    assert said <= {*OPTION_VARIABLES}


def misspelling(*words: str) -> tuple[str, str]:
    result = streamer(*words, STREAMER_LOGLEVEL=CANARY)
    return result.stdout, result.stderr


def test_a_command_says_it_once_and_leaves_json_as_it_is() -> None:
    said, warned = misspelling("check", "--table", str(PATIENTS), "--json")
    assert json.loads(said)["ok"] and warned == f"streamer: warning: {SAYS}\n"


def test_a_command_of_several_parts_says_it_and_one_that_hears_no_variable_does_not() -> None:
    assert SAYS in misspelling("topics", "check", "--table", "nowhere")[1]
    assert misspelling("init", "nowhere.csv")[1].count("LOGLEVEL") == 0


def test_where_all_settings_are_shown_it_is_among_them() -> None:
    said, warned = misspelling("config", "--table", str(PATIENTS))
    assert "STREAMER_LOGLEVEL" in said and warned == ""


def test_a_worker_says_it_in_its_log() -> None:
    """In a process of its own: a worker takes the log of its process for itself."""
    words = [sys.executable, "-m", "streamer.cli.main", "worker", "--table", "nowhere"]
    environment = os.environ | {"STREAMER_LOGLEVEL": CANARY}
    said = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120).stderr
    assert said.count(SAYS) == 1 and f"streamer: warning: {SAYS}" not in said and CANARY not in said
    assert misspelling("worker", "--no-such-option")[1].count("LOGLEVEL") == 0
