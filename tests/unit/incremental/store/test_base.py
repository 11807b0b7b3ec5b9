"""When a stored snapshot is held back, and when it waits for nothing but its release."""

from __future__ import annotations

import msgspec
import pytest

from streamer.incremental.engine.replacing import Replaced
from streamer.incremental.store.base import RUNNING, Progress, Rebuild, Snapshot


@pytest.mark.parametrize(
    ("ended", "released", "of", "holds", "is_over"),
    [
        ("", 0, 0, True, False),
        ("change", 0, 0, True, True),
        ("change", 1, 3, True, True),
        ("change", 3, 3, False, False),
        ("operator", 1, 1, False, False),
    ],
)
def test_rows_are_held_back_until_all_commits_of_the_release_are_done(
    ended: str, released: int, of: int, holds: bool, is_over: bool
) -> None:
    snapshot = Snapshot(7, ended=ended, released=released, of=of)
    assert (snapshot.holds, snapshot.is_over) == (holds, is_over)


# A rebuild as a store keeps it: progress adds up region by region, and comes back from its bytes.

REBUILD = Rebuild("r1", "ordered", 2**63, 4)


def test_progress_adds_up_over_regions() -> None:
    progress = Progress(REBUILD, 3)
    for replaced in (Replaced(2, 3, 1, 10, 5.0, 4.0, 12), Replaced(4, 4, 4, 0, 1.5, 1.5, 8)):
        progress = progress.after(replaced)
    assert progress == Progress(REBUILD, 3, 2, 0, 10, 6.5, 5.5, RUNNING, rows=20)


def test_it_comes_back_from_its_bytes_and_from_those_of_a_version_that_said_less() -> None:
    progress = Progress(REBUILD, 3, 1, 1, 10, 6.5, 5.5)
    data = msgspec.msgpack.encode(progress)
    assert msgspec.msgpack.decode(data, type=Progress) == progress
    fewer = msgspec.msgpack.encode(msgspec.msgpack.decode(data)[:4])
    assert msgspec.msgpack.decode(fewer, type=Progress) == Progress(REBUILD, 3, 1, 1)
