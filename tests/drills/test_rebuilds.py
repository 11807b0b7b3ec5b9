"""Rebuilds at random moments under load, with every model, and workers killed in the middle of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drills.conftest import FIGURES
from drills.models import MODELS
from drills.rebuild_drill import COLUMNS, LINE, RebuildDrill
from servers.broker.servers import Servers

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1800)]

ROUNDS, PAUSE_SECONDS, KILLS = 6, 4.0, 20
FORM = {"distinct-l": "groups", "k-l": "lossy-join"}
"""The models whose table is published in another form than rows."""

QUIETER = 250
"""Changes a second, where killed workers have to catch up."""

Begin = Callable[..., RebuildDrill]


@pytest.fixture
def begin(request: pytest.FixtureRequest, servers: Servers, tmp_path: Path) -> Iterator[Begin]:
    """A drill in full swing; its test says at the end: `finish()`."""
    servers.require_own()
    drills = []

    def one(model: str, **more: int) -> RebuildDrill:
        name = request.node.name.removeprefix("test_")
        drill = RebuildDrill(name, servers, tmp_path, model, FORM.get(model, "rows"), **more)
        drills.append(drill)
        drill.start()
        return drill

    yield one
    for drill in drills:
        drill.abandon()
        if drill.figures:
            FIGURES.extend([LINE.format(*COLUMNS.split()), drill.figures])


@pytest.mark.parametrize("model", MODELS)
def test_laws_under_rebuilds(begin: Begin, model: str) -> None:
    drill = begin(model)
    for _ in range(ROUNDS):
        drill.go_on(PAUSE_SECONDS)
        drill.rng.choice([*[drill.ask_at_random] * 5, drill.cancel, drill.talk_nonsense])()
        if drill.rng.random() < 0.5:
            drill.until_all_are_answered()
    drill.finish()


def test_workers_killed_during_rebuilds(begin: Begin) -> None:
    drill = begin("k", events=QUIETER)
    seconds = 0.0
    for kill in range(KILLS):
        began = time.monotonic()
        if kill % 5 == 0:  # how long it takes now
            drill.ask()
            drill.until_all_are_answered()
            seconds = time.monotonic() - began
        drill.ask()
        moment = drill.rng.uniform(0, seconds)
        print(f"{drill.name}: killed {moment:.2f} s into a rebuild of {seconds:.1f} s", flush=True)
        time.sleep(moment)
        drill.kill_worker()
        drill.until_all_are_answered()
    drill.finish()
