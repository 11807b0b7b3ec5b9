"""What every command prints of a table on real servers is what its golden file holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate.commands import all_commands
from servers.broker.servers import Servers
from streamer.cli.operate import rebuild
from streamer.loading import first_tables
from worlds.golden_cases import SECRET, ServedTable, served_cases
from worlds.golden_files import Case, check

TAKES_JSON = {name for name, command in all_commands() if any(one.name == "as_json" for one in command.params)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def served(servers: Servers, folder: Path) -> ServedTable:
    return ServedTable(servers, folder)


@pytest.mark.gate(
    "dead-letters",
    "dead-letters retry",
    "dead-letters acknowledge",
    "doctor",
    "erase",
    "explain",
    "groups",
    "index",
    "load",
    "produce",
    "rebuild",
    "skip",
    "reload",
    "status",
    "subscribe",
    "topics check",
    "topics create",
    "lost topics",
)
@pytest.mark.parametrize("case", list(served_cases()), ids=str)
def test_the_output_is_the_golden_files(
    case: Case, served: ServedTable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(first_tables, "token_bytes", lambda n: SECRET[:n])
    monkeypatch.setattr(rebuild, "TAKEN_UP_SECONDS_MAX", 0.0)  # there is nobody to wait for
    words = tuple(word.replace("FROM t ", f"FROM {served.name} ") for word in case.words)
    case = replace(case, words=words, environment=served.environment, before=served.before(case))
    check(case, case.command in TAKES_JSON)
