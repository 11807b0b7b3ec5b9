"""Where a database is, as the operator says it, or as a word that the operator is to replace."""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamer.errors import UsageError

POSTGRES, MYSQL, MARIADB = "postgres", "mysql", "mariadb"

PORTS = {POSTGRES: 5432, MYSQL: 3306, MARIADB: 3306}

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:(?P<port>[0-9]{1,5}))?(/(?P<name>[\w$-]+))?")


@dataclass(frozen=True)
class Database:
    """A server and a database on it."""

    host: str = "HOST"
    port: int | None = None
    name: str = "DATABASE"

    def port_of(self, system: str) -> int:
        """The port, where none is said the system's own."""
        return self.port or PORTS[system]


def database_of(text: str) -> Database:
    """The database in "host[:port][/name]". Raises UsageError, which never repeats the text: a password may be in it.

    >>> database_of("db.example/hospital")
    Database(host='db.example', port=None, name='hospital')
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or 1) not in range(1, 1 << 16):
        raise UsageError("--database: expected HOST[:PORT][/NAME] and nothing else: no user, no password, no protocol")
    return Database(found["host"], int(found["port"]) if found["port"] else None, found["name"] or Database.name)
