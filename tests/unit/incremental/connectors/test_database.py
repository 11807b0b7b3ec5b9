"""Where a database is: read from the command line, and never repeated where it is wrong."""

from __future__ import annotations

import pytest

from streamer.errors import UsageError
from streamer.incremental.connectors.database import MYSQL, POSTGRES, Database, database_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db", Database("db")),
        ("db.example:5433", Database("db.example", 5433)),
        ("[::1]:3307/ward", Database("[::1]", 3307, "ward")),
    ],
)
def test_host_port_and_name_are_read(text: str, expected: Database) -> None:
    assert database_of(text) == expected


@pytest.mark.parametrize(
    "text", ["", "me:pw-Canary@db", "postgres://pw-Canary@db/x", "db:99999", "db:0", "pw-Canary db"]
)
def test_anything_else_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        database_of(text)
    assert "HOST[:PORT][/NAME]" in str(refused.value)
    assert "Canary" not in str(refused.value)


def test_a_port_that_nobody_said_is_the_system_s_own() -> None:
    assert (Database().port_of(POSTGRES), Database().port_of(MYSQL), Database("h", 1).port_of(MYSQL)) == (5432, 3306, 1)
