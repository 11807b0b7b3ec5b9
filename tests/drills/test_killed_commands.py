"""`streamer load` and `streamer reload`, from a file and from the topic, each killed at twenty random moments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from drills.killed_commands import PHASES, Killed, load_killed
from servers.broker.servers import Servers

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1800)]

KILLS, ROWS, CHANGES = 20, 1_500, 100


def test_load_killed(servers: Servers, tmp_path: Path) -> None:
    load_killed(servers, tmp_path, random.Random("load"), KILLS, ROWS)


@pytest.mark.parametrize("source", ["file", "topic"])
def test_reload_killed(servers: Servers, tmp_path: Path, source: str) -> None:
    """Now and then a worker comes between: it finds a table, old or new, or the refusal that names the command."""
    rng = random.Random(f"reload from {source}")
    table = Killed(servers, tmp_path, rng, ROWS)
    if source == "topic":
        table.served.send(table.first)

    def command() -> tuple[object, ...]:
        return "reload", "--from-source", "topic" if source == "topic" else table.rows()

    seconds = table.timed(*command())
    for kill in range(KILLS):
        table.change(CHANGES)
        said = table.kill(kill % PHASES, seconds[kill % PHASES], *command())
        table.assert_lawful()
        between = table.serve() if rng.random() < 0.25 else "nobody came"
        table.served.must(*map(str, command()))
        table.assert_holds()
        table.assert_lawful()
        print(f"{said}; {between}", flush=True)
    table.change(CHANGES)
    table.serve(table.all_is_read)
    table.assert_holds()
