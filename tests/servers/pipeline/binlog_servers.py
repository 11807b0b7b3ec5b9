"""A MariaDB and a MySQL of the tests' own, as sources whose binlog Debezium reads.

MariaDB is Debian's package. MySQL is where someone has installed it; else it is unpacked out of Debian's unstable
release into a folder, with its own libraries, and nothing is installed. Debezium's plugins come from Maven Central.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pymysql

from servers.broker.processes import INSTALL_SECONDS_MAX, JARS, UNPACK, Process, fetch, install, is_present, run
from servers.broker.servers import NoServers, free_ports, say
from servers.pipeline.postgres import PASSWORD
from streamer.incremental.connect.connectors import MARIADB, MYSQL

HERE = Path(__file__).parent
PLUGINS = JARS.parent / "debezium-binlog-3.3"
UNSTABLE = JARS.parent / "mysql-of-unstable"
MAKE_SECONDS_MAX = 300
CLINIC, OWNER, CONNECTOR = "clinic", "owner", "connector"
"""The database, who owns its tables, and who reads the binlog."""

SETTINGS = {
    "user": "root",
    "bind-address": "127.0.0.1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "innodb-flush-log-at-trx-commit": "0",  # no one pulls the plug here
    "sync-binlog": "0",
    "default-time-zone": "+05:00",
}
"""The clock is none that a connector could guess."""

USERS = f"""
CREATE USER IF NOT EXISTS '{OWNER}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO '{OWNER}'@'%' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS '{CONNECTOR}'@'%' IDENTIFIED BY '{PASSWORD}';
CREATE DATABASE IF NOT EXISTS {CLINIC};
"""


class BinlogServer(Process):
    """One server with one database; `remove` takes its data away. system: MARIADB or MYSQL."""

    def __init__(self, directory: Path, system: str) -> None:
        self.system = system
        self._directory = Path(tempfile.mkdtemp(prefix=f"streamer-{system}-"))
        self._data = self._directory / "data"
        self._program = [*_program(system), f"--datadir={self._data}"]
        (port,) = free_ports(1)
        users = self._directory / "users.sql"
        users.write_text(USERS)
        own = {"port": port, "socket": self._directory / "socket", "init-file": users, "server-id": 1}
        flags = [f"--{name}={value}" for name, value in {**SETTINGS, **own}.items()]
        more = ["--secure-file-priv=NULL", "--mysqlx=OFF"] if system == MYSQL else []
        super().__init__(directory, system, port, [*self._program, *flags, *more])

    def start(self) -> None:
        """Makes the data the first time."""
        if not self._data.exists():
            self._make_data()
        super().start()

    def remove(self) -> None:
        """Ends it and takes its data away."""
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def connect(self) -> pymysql.Connection:
        """A connection of the owner's that commits every statement by itself."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=OWNER,
            password=PASSWORD,
            database=CLINIC,
            autocommit=True,
            connect_timeout=5,
        )

    def answers(self) -> bool:
        try:
            self.connect().close()
        except (OSError, pymysql.err.Error):
            return False
        return True

    def _make_data(self) -> None:
        if self.system == MYSQL:
            made = [*self._program, "--initialize-insecure", "--user=root"]
        else:
            made = ["mariadb-install-db", "--no-defaults", "--user=root", "--skip-test-db", f"--datadir={self._data}"]
        run(f"make {self.system}'s data folder", made, MAKE_SECONDS_MAX)


def provide(system: str) -> None:
    """Sees that a server and Debezium's plugins are there; raises NoServers where they cannot be had."""
    if os.geteuid() != 0:
        raise NoServers(f"{system} is started as root here")
    if system == MARIADB and not is_present("mariadbd"):
        install(["mariadb-server"], "a real MariaDB is needed: install mariadb-server (Debian's name)")
    if system == MYSQL and not (_installed_mysql() or UNSTABLE.exists()):
        _unpack(["mysql-server-core"], UNSTABLE)
    fetch("Debezium's plugins for MySQL and MariaDB", HERE / "binlog.xml", PLUGINS, UNPACK)


def _program(system: str) -> list[str]:
    if system == MARIADB or _installed_mysql():
        return ["mariadbd" if system == MARIADB else "mysqld", "--no-defaults"]
    usr = UNSTABLE / "usr"
    (libraries,) = (usr / "lib").glob("*-linux-gnu")
    (loader,) = libraries.glob("ld-linux*")
    places = {"basedir": usr, "lc-messages-dir": usr / "share/mysql", "plugin-dir": usr / "lib/mysql/plugin"}
    named = [f"--{name}={place}" for name, place in places.items()]
    return [str(loader), "--library-path", str(libraries), str(usr / "sbin/mysqld"), "--no-defaults", *named]


def _installed_mysql() -> bool:
    """Whether there is a MySQL: MariaDB's program has that name, too."""
    if shutil.which("mysqld") is None:
        return False
    return "MariaDB" not in subprocess.run(["mysqld", "--version"], capture_output=True, text=True).stdout


def _unpack(packages: Sequence[str], folder: Path) -> None:
    """Debian's packages of its unstable release, and all they need, into a folder; raises NoServers."""
    say(f"unpacking {' '.join(packages)} of Debian's unstable release")
    with tempfile.TemporaryDirectory() as made:
        home, fresh = Path(made), Path(f"{folder}.fresh")
        for name in ("state/lists/partial", "cache/archives/partial"):
            (home / name).mkdir(parents=True)
        (home / "sources.list").write_text(f"deb {_mirror()} unstable main\n")
        (home / "status").touch()
        places = {
            "Dir::Etc::sourcelist": "sources.list", "Dir::State": "state", "Dir::State::status": "status",
            "Dir::Cache": "cache",
        }  # fmt: skip
        told = [word for name, place in places.items() for word in ("-o", f"{name}={home / place}")]
        told += ["-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Sandbox::User=root"]
        run("read Debian's unstable release", ["apt-get", *told, "-qq", "update"], INSTALL_SECONDS_MAX)
        wanted = ["-qq", "-y", "--download-only", "--no-install-recommends", "install", *packages]
        run(f"download {' '.join(packages)}", ["apt-get", *told, *wanted], INSTALL_SECONDS_MAX)
        for package in (home / "cache" / "archives").glob("*.deb"):
            run(f"unpack {package.name}", ["dpkg-deb", "-x", str(package), str(fresh)], MAKE_SECONDS_MAX)
        fresh.rename(folder)


def _mirror() -> str:
    """Where this Debian has its own packages from."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Component: main"]
    said = subprocess.run(asked, capture_output=True, text=True).stdout.split()
    if not said:
        raise NoServers("a real MySQL is needed, and this is no Debian that could say where its packages come from")
    return said[0]
