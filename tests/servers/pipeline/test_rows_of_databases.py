"""Rows out of a Postgres and a MariaDB: the same anonymous table as from CSV, read only, and no password anywhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from sqlalchemy import create_engine, text

from servers.broker.processes import is_present
from servers.broker.servers import NoServers
from servers.pipeline import binlog_servers, postgres
from servers.pipeline.binlog_servers import CLINIC, BinlogServer
from servers.pipeline.pipeline import await_answer
from servers.pipeline.postgres import OWNER, PASSWORD, Postgres
from streamer.incremental.connect.connectors import MARIADB
from streamer.table.sources import PASSWORDS, SYSTEMS, RowSource
from worlds.calls import streamer
from worlds.checkout import PATIENTS, ROOT, put_streamer
from worlds.documents import block_for

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


def test_a_first_anonymous_table_is_made_as_the_page_says(database: Served, tmp_path: Path) -> None:
    if "postgresql" not in database.url:
        pytest.skip("the page shows Postgres")
    block = block_for(__file__, "docs/how-to/any-table.md")
    assert block.count("postgresql://me@db.example/clinic?table=patients") == 2
    call = block.replace("postgresql://me@db.example/clinic?table=patients", f"{database.url}?table=people")
    path = f"{put_streamer(tmp_path / 'bin')}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    how = {"cwd": tmp_path, "env": environment, "input": f"{PASSWORD}\n", "capture_output": True, "text": True}
    run = subprocess.run(["bash", "-euc", call], **how)  # type: ignore[call-overload]
    assert run.returncode == 0, run.stderr
    assert PASSWORD not in run.stdout + run.stderr
    assert len(pd.read_csv(tmp_path / "anonymous.csv")) == len(pd.read_csv(PATIENTS / "rows.csv"))


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


STAYS = "STAYS_URL"
ENDLESS = """
create table stays as select n as id, 30 + n as age, 'flu' as problem,
  case n when 1 then date 'infinity' when 2 then date '0044-03-15 BC' else date '2020-05-17' end as valid_to,
  case n when 1 then timestamptz '-infinity' else timestamptz '12000-01-01 00:00Z' end as seen, time '24:00' as at
from generate_series(1, 4) as n
"""


def test_dates_that_python_has_not_are_postgres_own_texts(database: Served) -> None:
    if not database.url.startswith("postgresql"):
        pytest.skip("MariaDB has no infinity")
    (password,) = database.environment.values()
    engine = create_engine(database.url.replace("://", "+psycopg://", 1).replace("@", f":{password}@", 1))
    with engine.begin() as connection:
        connection.execute(text(ENDLESS))
    engine.dispose()
    source = RowSource(f"env:{STAYS}")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(STAYS, f"{database.url.replace('@', f':{password}@', 1)}?table=stays")
        everything, named = source.rows(), source.rows(["id", "age"])
    assert list(map(str, everything["valid_to"])) == ["infinity", "0044-03-15 BC", "2020-05-17", "2020-05-17"]
    assert list(everything["seen"]) == ["-infinity", *["12000-01-01 00:00:00+00"] * 3]
    assert list(everything["at"]) == ["24:00:00"] * 4
    assert (list(named["age"]), named["valid_to"].notna().any()) == ([31, 32, 33, 34], False)
