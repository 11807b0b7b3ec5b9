"""What every command prints, on a terminal, into pipes and for programs, is what its golden file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate.commands import all_commands
from streamer import reader
from streamer.kafka import clients
from worlds.golden_cases import cases, furnish
from worlds.golden_files import Case, check

TAKES_JSON = {name for name, command in all_commands() if any(one.name == "as_json" for one in command.params)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    furnish(folder)
    return folder


@pytest.mark.parametrize(
    "case",  # a forecast takes as long as thirty others
    [pytest.param(one, id=str(one), marks=[pytest.mark.night] * (one.command == "forecast")) for one in cases()],
)
def test_the_output_is_the_golden_files(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(clients, "CONNECT_SECONDS_MAX", 0.1)  # nobody answers there, however long one waits
    monkeypatch.setattr(reader, "CONNECT_MS_MAX", 100)
    check(case, case.command in TAKES_JSON)
