"""A request is one record in its shard's partition of the control topic, and is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamer.cli.operate import send_requests
from streamer.incremental.shard.requests import CancelRebuild, Request, Skip


def test_requests_go_to_their_shards_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[object] = []

    class Writer:
        def send(self, value: bytes, name: bytes, partition: int) -> None:
            happened.append((value, name, partition))

        def flush(self) -> None:
            happened.append("confirmed")

    @contextmanager
    def open_writer(bootstrap: str, topic: str) -> Iterator[Writer]:
        happened.append(topic)
        yield Writer()

    monkeypatch.setattr(send_requests, "open_writer", open_writer)
    requests: list[Request] = [Skip(0, 1234), CancelRebuild(3, "some", 7)]
    send_requests.ask_shards("broker:9092", "people", "skip", requests)
    assert happened == [
        "people.control",
        (requests[0].to_json(), b"skip", 0),
        "confirmed",
        (requests[1].to_json(), b"skip", 3),
        "confirmed",
    ]
