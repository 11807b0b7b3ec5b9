"""A Postgres of the tests' own, out of Debian's package: the source of the pipeline, and where its sink writes.

Postgres refuses to run as root, so its data lie in a folder of its own user, beside what pytest keeps from others.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path

import psycopg

from servers.broker.processes import FORMAT_SECONDS_MAX, Process, install, is_present, run
from servers.broker.servers import NoServers, free_ports

BINARIES = Path("/usr/lib/postgresql")
"""Where Debian puts the programs of every version, none of them in anybody's path."""

PACKAGE = "postgresql"
OWNER = "postgres"
"""The system's user that Debian's package makes, and the database's user."""

PASSWORD = "Canary-7317"
"""Of the database's user; no log and no message may say it."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "fsync": "off",  # no one pulls the plug here
}


class Postgres(Process):
    """One server with one database; a folder of its own for its data, which `stop` leaves and `remove` takes away."""

    def __init__(self, directory: Path) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="streamer-postgres-"))
        (port,) = free_ports(1)
        flags = [word for name, value in {**SETTINGS, "port": port}.items() for word in ("-c", f"{name}={value}")]
        super().__init__(
            directory, "postgres", port, [*_as_owner(), str(program("postgres")), "-D", self._cluster, *flags]
        )
        self.address = f"host=127.0.0.1 port={port} user={OWNER} password={PASSWORD} dbname={OWNER}"
        """For clients that are Postgres' own."""

    @property
    def _cluster(self) -> str:
        return str(self.data / "cluster")

    def start(self) -> None:
        """Makes the data the first time; returns when it answers, raises NoServers where it does not."""
        if not Path(self._cluster).exists():
            self._make_cluster()
        super().start()

    def stop(self) -> None:
        """By SIGINT, which does not wait for clients to go."""
        self._signal(signal.SIGINT)
        super().stop()

    def remove(self) -> None:
        """Ends it and takes its data away."""
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)

    def connect(self) -> psycopg.Connection:
        """A connection that commits every statement by itself."""
        return psycopg.connect(self.address, autocommit=True, connect_timeout=5)

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1), self.connect():
                return True
        except (OSError, psycopg.OperationalError):
            return False

    def _make_cluster(self) -> None:
        secret = self.data / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            for path in (self.data, secret):
                shutil.chown(path, OWNER, OWNER)
        made = [*_as_owner(), str(program("initdb")), "-D", self._cluster, "-U", OWNER, "--pwfile", str(secret)]
        options = ["--auth", "scram-sha-256", "--encoding", "UTF8", "--no-sync"]
        run("make Postgres' data folder", [*made, *options], FORMAT_SECONDS_MAX)


def provide() -> None:
    """Sees that the programs are there; raises NoServers where they cannot be had."""
    if not list(BINARIES.glob("*/bin/postgres")):
        install([PACKAGE], f"a real Postgres is needed: install {PACKAGE} (Debian's name)")


def program(name: str) -> Path:
    """A program of Postgres', of the newest version; raises NoServers."""
    found = sorted(BINARIES.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    if not found:
        raise NoServers(f"Postgres' {name} is not where Debian puts it")
    return found[-1]


def _as_owner() -> list[str]:
    if os.geteuid() != 0:
        return []
    if not is_present("setpriv"):
        raise NoServers("Postgres does not run as root, and there is no setpriv (util-linux) to become another user")
    return ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
