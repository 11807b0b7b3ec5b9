"""The table's own commands, called as an operator calls them, and the verdict that they give at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from drills.source import SourceTable
from servers.broker.servers import Servers
from streamer.cli.main import main
from worlds.patients import CANARY

SERVERS_OF = {"index": ("--redis",), "verify": (), "subscribe": ("--kafka",)}
"""Which servers a command asks for; all others ask for both."""


class Commands:
    """`streamer` for one table."""

    def __init__(self, table: Path, servers: Servers) -> None:
        self.table = table
        self._addresses = {"--kafka": servers.kafka_bootstrap, "--redis": servers.redis_url}

    def words(self, command: str, *arguments: object) -> list[str]:
        """The command line behind `streamer`."""
        asked = SERVERS_OF.get(command, tuple(self._addresses))
        addresses = [word for name in asked for word in (name, self._addresses[name])]
        return [command, *map(str, arguments), "--table", str(self.table), *addresses]

    def run(self, command: str, *arguments: object) -> Result:
        return CliRunner().invoke(main, self.words(command, *arguments))

    def report(self, command: str, *arguments: object) -> dict[str, Any]:
        done = self.run(command, *arguments, "--json")
        assert done.exit_code == 0, f"{command}: {done.output}"
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def verify(self, source: SourceTable, folder: Path) -> dict[str, Any]:
        """Every release is lawful, and the last one says what the source says; nothing there names anybody."""
        live, index, rows = folder / "live.jsonl", folder / "index.csv", folder / "rows.csv"
        self.report("subscribe", "--live", live)
        self.report("index", "--out", index)
        assert CANARY not in live.read_text()
        return self.report("verify", live, "--source", source.written(rows), "--index", index)
