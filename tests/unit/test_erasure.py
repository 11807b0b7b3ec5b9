"""When a row is gone from a live table, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamer import erasure
from streamer.incremental.store.base import Meta

KEY = "Canary-7316"


def row(source_key: str) -> erasure.FoundRow:
    return erasure.FoundRow(cast(Any, SimpleNamespace(shard=2)), source_key, 5, erasure.NEVER_SEALED)


def test_a_row_that_comes_meanwhile_is_not_passed_over() -> None:
    (came,) = erasure.came_since([row("a"), row("b")], ["a"])
    assert (came.state, came.shard) == (erasure.ROW_THERE, 2)
    assert "call this again" in came.why


def test_a_row_that_is_not_in_redis_is_not_gone_before_readers_have_that(monkeypatch: pytest.MonkeyPatch) -> None:
    store = cast(Any, SimpleNamespace(shard=1, meta=lambda: Meta(commit=7)))
    table = cast(Any, SimpleNamespace(name="t"))
    for published, is_behind in ((None, True), (6, True), (7, False)):
        position = None if published is None else SimpleNamespace(commit=published)
        monkeypatch.setattr(erasure, "last_position", lambda *_, position=position: position)
        behind = erasure.not_published(cast(Any, None), table, store)
        assert (behind is not None) == is_behind
        assert behind is None or "commit 7 is not published yet" in behind.why


def test_no_repr_shows_a_key() -> None:
    assert KEY not in repr((row(KEY), erasure.Erasure([KEY], KEY, True, 1.0, False)))
