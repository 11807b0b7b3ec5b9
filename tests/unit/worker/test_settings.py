"""What a worker has to be told, and what it says of what is missing or does not fit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamer.errors import ConfigError, UsageError
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import VARIABLES, WorkerSettings
from worlds.checkout import PATIENTS

PASSWORD = "pw-Canary-7316"
REDIS = "redis://127.0.0.1:1/0"
ENVIRONMENT = {"STREAMER_TABLE": str(PATIENTS), "KAFKA_BOOTSTRAP": "a:9092,b:9092", "REDIS_URL": REDIS}


def test_the_environment_names_the_table_and_both_servers() -> None:
    settings = WorkerSettings.from_environment(ENVIRONMENT)
    assert settings.table.fingerprint == load_table(PATIENTS).fingerprint
    assert (settings.kafka, settings.redis) == ("a:9092,b:9092", REDIS)
    assert settings.app_id == "streamer-patients"


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_is_missing_or_empty_is_named_with_what_it_is_for(name: str) -> None:
    for environment in ({**ENVIRONMENT, name: ""}, {k: v for k, v in ENVIRONMENT.items() if k != name}):
        with pytest.raises(ConfigError) as refused:
            WorkerSettings.from_environment(environment)
        assert str(refused.value) == f"the environment does not name {name} ({VARIABLES[name]})"


@pytest.mark.parametrize(
    "kafka",
    [f"user:{PASSWORD}@host:9092", f"host:1,user:{PASSWORD}@host:9092", f"sasl://{PASSWORD}:9092", f"{PASSWORD}:99999"],
)
def test_a_password_in_kafkas_address_is_refused_and_never_printed(kafka: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT") as refused:
        WorkerSettings(load_table(PATIENTS), kafka, REDIS)
    assert PASSWORD not in str(refused.value)


def test_a_worker_is_named_by_its_host_and_process() -> None:
    assert WorkerSettings.from_environment(ENVIRONMENT).name.endswith(f":{os.getpid()}")


def test_a_worker_with_an_instance_is_named_by_it_as_kafka_keeps_the_name_of_its_first_process() -> None:
    assert WorkerSettings.from_environment({**ENVIRONMENT, "STREAMER_INSTANCE": "a"}).name == "a"


def test_the_servers_may_stand_in_the_file_of_kafkas_settings(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a.example:9093\n")
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "KAFKA_BOOTSTRAP"}
    settings = WorkerSettings.from_environment({**environment, "KAFKA_CONFIG": str(file)})
    assert settings.kafka == "a.example:9093"
    assert (
        WorkerSettings.from_environment({**ENVIRONMENT, "KAFKA_CONFIG": str(file)}).kafka
        == ENVIRONMENT["KAFKA_BOOTSTRAP"]
    )


def test_where_to_answer_browsers_may_be_said() -> None:
    assert WorkerSettings.from_environment(ENVIRONMENT).web is None
    assert WorkerSettings.from_environment({**ENVIRONMENT, "STREAMER_WEB": ""}).web is None
    settings = WorkerSettings.from_environment({**ENVIRONMENT, "STREAMER_WEB": "0.0.0.0:8080"})
    assert settings.web == ("0.0.0.0", 8080)
    with pytest.raises(UsageError, match="--web here: is not HOST:PORT"):
        WorkerSettings.from_environment({**ENVIRONMENT, "STREAMER_WEB": "here"})
