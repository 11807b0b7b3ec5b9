"""A request is one record in its shard's partition of the control topic, and is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from streamer.cli import asking
from streamer.incremental.shard.requests import CancelRebuild, Request, Skip


def test_requests_go_to_their_shards_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[object] = []

    class Producer:
        def send(self, topic: str, value: bytes, name: bytes, partition: int) -> SimpleNamespace:
            happened.append((topic, value, name, partition))
            return SimpleNamespace(get=lambda seconds: happened.append("confirmed"))

    @contextmanager
    def open_producer(bootstrap: str) -> Iterator[Producer]:
        yield Producer()

    monkeypatch.setattr(asking, "open_producer", open_producer)
    requests: list[Request] = [Skip(0, 1234), CancelRebuild(3, "some", 7)]
    asking.ask_shards("broker:9092", "people", "skip", requests)
    assert happened == [
        ("people.control", requests[0].to_json(), b"skip", 0),
        "confirmed",
        ("people.control", requests[1].to_json(), b"skip", 3),
        "confirmed",
    ]
