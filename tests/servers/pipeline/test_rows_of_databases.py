"""Rows out of a Postgres and a MariaDB: the same anonymous table as from CSV, read only, and no password anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from sqlalchemy import create_engine

from servers.broker.processes import is_present
from servers.broker.servers import NoServers
from servers.pipeline import binlog_servers, postgres
from servers.pipeline.binlog_servers import CLINIC, BinlogServer
from servers.pipeline.pipeline import await_answer
from servers.pipeline.postgres import OWNER, PASSWORD, Postgres
from streamer.incremental.connect.connectors import MARIADB
from streamer.table.sources import PASSWORDS, SYSTEMS
from worlds.calls import streamer
from worlds.checkout import PATIENTS

pytestmark = [pytest.mark.servers, pytest.mark.night, pytest.mark.timeout(300)]


class Served(NamedTuple):
    """A database with the patients: its URL without a password, and the variable with it."""

    url: str
    environment: dict[str, str]


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, system = tmp_path_factory.mktemp("database"), request.param
    try:
        if system == "mariadb" and not is_present("mariadbd"):
            raise NoServers("a real MariaDB is needed: install mariadb-server (Debian's name)")
        if system == "postgresql":
            postgres.provide()
        server = BinlogServer(folder, MARIADB) if system == "mariadb" else Postgres(folder)
    except NoServers as reason:
        pytest.skip(str(reason))
    owner, name = (binlog_servers.OWNER, CLINIC) if system == "mariadb" else (OWNER, OWNER)
    try:
        server.start()
        await_answer(server.answers, system, server.last_words)
        driver = "mysql+pymysql" if system == "mariadb" else "postgresql+psycopg"
        place = f"127.0.0.1:{server.port}/{name}"
        engine = create_engine(f"{driver}://{owner}:{PASSWORD}@{place}")
        pd.read_csv(PATIENTS / "rows.csv").to_sql("people", engine, index=False)
        engine.dispose()
        yield Served(f"{system}://{owner}@{place}", {PASSWORDS[SYSTEMS[system]]: PASSWORD})
    finally:
        server.remove()


def test_a_table_and_a_query_give_the_published_table_of_the_same_rows(database: Served, tmp_path: Path) -> None:
    url = database.url
    expected = streamer("anonymize", "--table", PATIENTS, PATIENTS / "rows.csv", "-o", "-", "--seed", 1).stdout
    for place in ([f"{url}?table=people"], [url, "--query", "select * from people"]):
        found = streamer("anonymize", "--table", PATIENTS, *place, "-o", "-", "--seed", 1, **database.environment)
        assert (found.exit_code, found.stdout) == (0, expected), found.stderr
        assert PASSWORD not in found.output
    drafted = streamer("init", f"{url}?table=people", "-o", tmp_path, **database.environment)
    assert drafted.exit_code == 0, drafted.output
    assert PASSWORD not in drafted.output + (tmp_path / "table.yaml").read_text()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("delete from people", "read"),
        ("drop table people", "read"),
        ("create table other as select 1 as one", "read"),
        ("select nothing from people", "there is no such column"),
        ("select * from nobody", "there is no such table"),
        ("selec", "the query is not valid SQL"),
    ],
)
def test_a_query_that_cannot_be_read_changes_nothing_and_is_told_without_quoting_it(
    database: Served, query: str, says: str
) -> None:
    def read(sql: str) -> tuple[int, str]:
        words = ("anonymize", "--table", PATIENTS, database.url, "--query", sql, "-o", "-", "--seed", 1)
        found = streamer(*words, **database.environment)
        return found.exit_code, found.stdout if found.exit_code == 0 else found.stderr

    before = read("select * from people")
    exit_code, said = read(query)
    assert (exit_code, says in said, query in said) == (2, True, False), said
    assert read("select * from people") == before


def test_a_wrong_password_and_a_silent_server_are_told_apart(database: Served) -> None:
    (variable,) = database.environment
    words = ("anonymize", "--table", PATIENTS, "-o", "-")
    wrong = streamer(*words, f"{database.url}?table=people", **{variable: "Canary-other"})
    assert (wrong.exit_code, "it refuses the user or the password" in wrong.stderr) == (2, True), wrong.stderr
    silent = streamer(*words, f"{database.url.rpartition(':')[0]}:1/x?table=people", **database.environment)
    assert (silent.exit_code, "the database cannot be reached" in silent.stderr) == (3, True), silent.stderr
    assert "Canary" not in wrong.output + silent.output
