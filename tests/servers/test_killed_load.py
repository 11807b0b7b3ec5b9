"""`streamer load` killed at three random moments; twenty, and those of `reload`, are a drill's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from drills.killed_commands import load_killed
from servers.broker.servers import Servers


@pytest.mark.slow
def test_a_load_killed_at_any_moment_goes_on_if_it_is_called_again(servers: Servers, tmp_path: Path) -> None:
    load_killed(servers, tmp_path, random.Random(7), kills=3, n_rows=400)
