"""streamer/ARCHITECTURE.md says what is: its files exist."""

from __future__ import annotations

import re

from worlds.checkout import ROOT

ARCHITECTURE = (ROOT / "streamer" / "ARCHITECTURE.md").read_text("utf-8")


def test_the_files_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|md)|(?:\w+/)+)`", ARCHITECTURE))
    assert len(named) > 15
    assert {name for name in named if not ((ROOT / name).exists() or (ROOT / "streamer" / name).exists())} == set()
