"""A rebuild as a store keeps it: progress adds up region by region, and comes back from its bytes."""

from __future__ import annotations

import msgspec

from streamer.incremental.groups.replacing import Replaced
from streamer.incremental.store.rebuild import RUNNING, Progress, Rebuild

REBUILD = Rebuild("r1", "ordered", 2**63, 4)


def test_progress_adds_up_over_regions() -> None:
    progress = Progress(REBUILD, 3)
    for replaced in (Replaced(2, 3, 1, 10, 5.0, 4.0), Replaced(4, 4, 4, 0, 1.5, 1.5)):
        progress = progress.after(replaced)
    assert progress == Progress(REBUILD, 3, 2, 0, 10, 6.5, 5.5, RUNNING)


def test_it_comes_back_from_its_bytes_and_from_those_of_a_version_that_said_less() -> None:
    progress = Progress(REBUILD, 3, 1, 1, 10, 6.5, 5.5)
    data = msgspec.msgpack.encode(progress)
    assert msgspec.msgpack.decode(data, type=Progress) == progress
    fewer = msgspec.msgpack.encode(msgspec.msgpack.decode(data)[:4])
    assert msgspec.msgpack.decode(fewer, type=Progress) == Progress(REBUILD, 3, 1, 1)
