"""streamer/ARCHITECTURE.md says what is: its files exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from worlds.checkout import ROOT

ARCHITECTURE = (ROOT / "streamer" / "ARCHITECTURE.md").read_text("utf-8")
NAMED = re.compile(r"`((?:\w+/)*\w+\.(?:py|md|html)|(?:\w+/)+)`")


def named(text: str) -> Iterator[tuple[str, list[Path]]]:
    """Names of files and folders, each with the folders from which it is named: in the table of rooms also its room."""
    for line in text.splitlines():
        first, *_ = line.split(" | ")
        rooms = [Path(name) for name in NAMED.findall(first) if line.startswith("| ") and name.endswith("/")]
        for name in NAMED.findall(line):
            yield name, [ROOT / above / room for above in ("", "streamer") for room in (Path(), *rooms)]


def lost(text: str) -> list[str]:
    return [name for name, folders in named(text) if not any((folder / name).exists() for folder in folders)]


def test_the_files_that_the_architecture_names_exist() -> None:
    assert len(list(named(ARCHITECTURE))) > 100
    assert lost(ARCHITECTURE) == []


def test_a_file_is_looked_for_in_the_room_of_its_row_only() -> None:
    assert lost("| `privacy/` | `models.py` |\n| `agents/` | `ingest.py`, `web/page.html` |") == []
    assert lost("| `privacy/` | `ingest.py` |\n`models.py`") == ["ingest.py", "models.py"]
