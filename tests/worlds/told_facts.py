"""What a worker reports at /facts, made up: a table at rest, of which a test changes what it is about."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def before(seconds: float) -> str:
    """The moment that lies so far before NOW, as the worker writes it."""
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def shard(number: int, **changes: Any) -> dict[str, Any]:
    """A shard that is held here and at rest."""
    calm = {
        "shard": number, "worker": "streamer-a1", "here": True, "state": "held", "since": before(7300),
        "lag": 0, "rows": 41_250, "pending": 0, "pending_oldest": None, "qi_groups": 5_480, "messages": 98_765,
        "applied": 98_700, "ignored": 60, "dead_letters": 5, "messages_per_s": 412.4, "records_per_s": 633.0,
        "merges": 210, "splits": 1_874, "release": 3_211, "last_commit": before(3), "ncp": 0.8124, "ncp_fresh": 0.7431,
        "reason": None, "rebuild": None, "rebuilds": [],
    }  # fmt: skip
    return calm | changes


def facts(*shards: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Everything works, an hour of history."""
    calm = {
        "table": "patients", "version": "0.1.0", "worker": "streamer-a1", "now": before(0), "k": 5,
        "model": "at least 5 rows", "form": "rows", "verdict": {"ok": True, "problems": [], "warnings": []},
        "shards": list(shards), "dead_letters": {"unknown-column": 4, "not-json": 1}, "unlisted": [],
        "history": history(),
    }  # fmt: skip
    return calm | changes


def history(points: int = 360) -> list[dict[str, Any]]:
    """An hour: a wave of messages, a lag that comes with it and goes, a loss that drifts."""
    return [_point(i / points, before(3600 * (1 - i / points))) for i in range(points)]


def _point(share: float, at: str) -> dict[str, Any]:
    wave = max(0.0, math.sin(share * 12))
    return {
        "at": at, "lag": int(2_400 * wave**4), "messages_per_s": 300 + 900 * wave, "records_per_s": 420 + 1_300 * wave,
        "ncp": 0.75 + 0.06 * share, "ncp_fresh": None if share < 0.1 else 0.742 + 0.002 * wave, "pending": 0,
        "rows": 41_000 + int(250 * share),
    }  # fmt: skip


def red(*problems: str, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    """A verdict with problems."""
    return {"ok": False, "problems": list(problems), "warnings": list(warnings)}
