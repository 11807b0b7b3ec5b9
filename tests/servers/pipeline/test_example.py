"""examples/pipeline and the profile of docker-compose.yml run on the same parts as the tests, and say the same.

Compose itself cannot run here. Its services are the ones that the tests start from Debian's and Maven's packages; what
names, variables and versions have to do with each other is checked in the files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from drills.crew import Crew
from servers.broker.processes import install, is_present
from servers.pipeline.configurations import IN_COMPOSE, SECRETS, Shape, sink_config, source_config, source_sql, view_sql
from servers.pipeline.connect import CLASSES, EXAMPLE, HERE, PLUGINS, example_settings
from servers.pipeline.pipeline import Parts
from servers.pipeline.postgres import PASSWORD, program
from streamer.cli.main import main
from streamer.incremental.connect.connectors import Database
from streamer.table.yaml.loading import load_table
from worlds.checkout import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
CONNECTORS = {name: json.loads((EXAMPLE / f"{name}.json").read_text()) for name in ("source", "sink")}
TABLE = load_table(EXAMPLE)
SHOWN_SECONDS_MAX = 300


@pytest.mark.slow
@pytest.mark.servers
def test_its_script_shows_a_change_that_arrives(parts: Parts, tmp_path: Path) -> None:
    if not is_present("curl"):
        install(["curl"], "the example's script needs curl")
    servers = parts.servers.environment()
    kafka = ["--table", str(EXAMPLE), "--kafka", servers["KAFKA_BOOTSTRAP"]]
    made = CliRunner().invoke(main, ["topics", "create", *kafka])
    assert made.exit_code == 0, made.output
    for name in CONNECTORS:
        put = _placed(parts.place, (EXAMPLE / f"{name}.json").read_text())
        (tmp_path / f"{name}.json").write_text(put)
    script = shutil.copy(EXAMPLE / "show.sh", tmp_path)
    with parts.postgres.connect() as database:
        database.execute((EXAMPLE / "clinic.sql").read_text())
    crew = Crew({**servers, "STREAMER_TABLE": str(EXAMPLE / "table.yaml")}, tmp_path, 1)
    crew.start()
    client = f"{program('psql')} -h 127.0.0.1 -p {parts.postgres.port} -U postgres"
    told = {"CONNECT": f"http://127.0.0.1:{parts.connect.port}", "PSQL": client, "PGPASSWORD": PASSWORD}
    try:
        shown = subprocess.run(
            [script], env={**os.environ, **told}, capture_output=True, text=True, timeout=SHOWN_SECONDS_MAX
        )
        assert shown.returncode == 0, shown.stderr
        (row,) = shown.stdout.splitlines()
        assert row.endswith("|gout")
        assert parts.connect.faults() == {}
    finally:
        crew.abandon()
        for name in CONNECTORS:
            parts.connect.delete(f"clinic-{name}")


def _placed(place: Database, configuration: str) -> str:
    """A connector's configuration for a Postgres somewhere else."""
    compose = IN_COMPOSE
    elsewhere = configuration.replace(f"//{compose.host}:{compose.port}/", f"//{place.host}:{place.port}/")
    elsewhere = elsewhere.replace(f'"database.hostname": "{compose.host}"', f'"database.hostname": "{place.host}"')
    return elsewhere.replace(f'"database.port": "{compose.port}"', f'"database.port": "{place.port}"')


def test_its_connectors_are_what_the_tests_run() -> None:
    assert CONNECTORS["source"] == source_config(TABLE, Shape(), IN_COMPOSE)
    assert CONNECTORS["sink"] == sink_config(TABLE, IN_COMPOSE)


def test_its_tables_and_its_view_are_what_the_tests_run() -> None:
    statements = (EXAMPLE / "clinic.sql").read_text()
    assert source_sql(TABLE) in statements
    assert view_sql(TABLE) in statements


def test_the_profile_adds_two_services_that_no_one_else_starts() -> None:
    assert {name for name, one in SERVICES.items() if "profiles" in one} == {"postgres", "connect"}
    assert all(SERVICES[name]["profiles"] == ["pipeline"] for name in ("postgres", "connect"))
    assert "TABLE_DIR=./examples/pipeline docker compose --profile pipeline up" in (
        (ROOT / "docker-compose.yml").read_text()
    )


def test_connect_is_given_every_variable_that_its_connectors_ask_for() -> None:
    asked = set(re.findall(r"\$\{env:(\w+)\}", json.dumps(CONNECTORS)))
    given = SERVICES["connect"]["environment"]
    assert asked == set(SECRETS) <= set(given)
    assert {given["SOURCE_USER"], given["SINK_USER"]} == {"postgres"}
    assert {given["SOURCE_PASSWORD"], given["SINK_PASSWORD"]} == {
        SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"]
    }
    assert CONNECTORS["source"]["database.hostname"] in SERVICES


def test_connect_finds_the_broker_and_its_plugins() -> None:
    settings = example_settings()
    assert settings["bootstrap.servers"] == SERVICES["worker"]["environment"]["KAFKA_BOOTSTRAP"]
    recipe = SERVICES["connect"]["build"]["dockerfile_inline"]
    assert f"COPY --from=plugins {settings['plugin.path']} {settings['plugin.path']}" in recipe
    copied = re.findall(r"^COPY (\w[\w.]*)", recipe, re.M)
    assert sorted(copied) == ["connect.properties", "plugins.xml"]
    assert all((ROOT / SERVICES["connect"]["build"]["context"] / name).is_file() for name in copied)


def test_the_images_have_the_versions_that_the_tests_run() -> None:
    (kafka,) = re.findall(r"<kafka.version>(.*)</kafka.version>", (HERE / "pom.xml").read_text())
    (debezium,) = re.findall(r"<debezium.version>(.*)\.Final<", (EXAMPLE / "plugins.xml").read_text())
    assert f"FROM apache/kafka:{kafka}\n" in SERVICES["connect"]["build"]["dockerfile_inline"]
    assert (CLASSES.name, PLUGINS.name) == (f"connect-{kafka}", f"debezium-{debezium}")


def test_postgres_writes_what_debezium_reads() -> None:
    assert "wal_level=logical" in SERVICES["postgres"]["command"]
    mounted = [one.split(":") for one in SERVICES["postgres"]["volumes"] if one.startswith("./")]
    assert [(ROOT / source).is_file() for source, *_ in mounted] == [True]
    assert mounted[0][1].startswith("/docker-entrypoint-initdb.d/")
