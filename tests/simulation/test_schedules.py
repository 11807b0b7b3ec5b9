"""Schedules by number: each obeys its laws, and the first of every kind publish and store the very bytes they did."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from simulation.schedules import KINDS, digest_of
from simulation.story import IN_SIXTHS

GOLDEN = Path(__file__).with_name("schedules.json")
SEEDS = range(16)
MORE = int(os.environ.get("STREAMER_SCHEDULES", "0"))
"""How many schedules are run beyond these and those of the night, over all kinds."""


@IN_SIXTHS
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_schedules_come_to_the_very_bytes(kind: str, sixth: int) -> None:
    found = [digest_of(KINDS[kind](seed)) for seed in SEEDS[sixth::6]]
    if os.environ.get("STREAMER_RECORD"):
        golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        golden.setdefault(kind, [""] * len(SEEDS))[sixth::6] = found
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(GOLDEN.read_text())[kind][sixth::6]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(len(SEEDS), 60 + MORE // len(KINDS)))
def test_further_schedules_obey_their_laws(seed: int, kind: str) -> None:
    KINDS[kind](seed)


@pytest.mark.parametrize(("seeds", "replaced"), [(12, 5), pytest.param(30, 10, marks=pytest.mark.night)])
def test_the_schedules_between_batches_met_what_they_are_about(seeds: int, replaced: int) -> None:
    """Regions that were replaced, rebuilds that were stopped by a crash, and refusals."""
    worlds = [world for seed in range(seeds) for world in KINDS["between batches"](seed)]
    states = {one.state for world in worlds for one in world.meta().rebuilds}
    assert sum(world.replaced for world in worlds) > replaced
    assert {"done", "stopped", "refused"} <= states
