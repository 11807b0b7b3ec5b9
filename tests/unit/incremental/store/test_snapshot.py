"""When a stored snapshot is held back, and when it waits for nothing but its release."""

from __future__ import annotations

import pytest

from streamer.incremental.store.snapshot import Snapshot


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
