"""streamer/ARCHITECTURE.md says what is: its files exist, its numbers are the code's."""

from __future__ import annotations

import re

from streamer.table.schema import Limits
from worlds.checkout import ROOT

ARCHITECTURE = (ROOT / "streamer" / "ARCHITECTURE.md").read_text("utf-8")


def test_the_files_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|md)|(?:\w+/)+)`", ARCHITECTURE))
    assert len(named) > 15
    assert {name for name in named if not ((ROOT / name).exists() or (ROOT / "streamer" / name).exists())} == set()


def test_the_limits_of_the_architecture_are_those_of_the_code() -> None:
    limits = Limits()
    told = re.findall(r"^\| `(\w+)` \| ([\d,.]+)", ARCHITECTURE, re.M)
    assert {name: float(value.replace(",", "")) for name, value in told} == {
        name: getattr(limits, name) for name in limits.__dataclass_fields__
    }
