"""What unit tests share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from streamer.engines import pool


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def save(content: str | bytes) -> Path:
        path = tmp_path / "data"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return save


class CallsHere(Executor):
    """Makes each call at once in this process, which knows what a test has changed."""

    _processes = None

    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done = Future[Any]()
        try:
            done.set_result(call(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


@pytest.fixture
def calls_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is written, whoever writes it: to start processes takes longer than what they do."""
    monkeypatch.setattr(pool, "ProcessPoolExecutor", CallsHere)
