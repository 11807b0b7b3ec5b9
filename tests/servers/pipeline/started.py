"""Parts of a pipeline for as long as tests need them: what every fixture that gives some stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from servers.broker.servers import NoServers
from servers.pipeline.pipeline import Parts

P = TypeVar("P", bound=Parts)


@contextmanager
def started(make: Callable[[], P]) -> Iterator[P]:
    """Parts that run, and are stopped in the end. Where they cannot be had, the test is skipped with the reason."""
    try:
        parts = make()
    except NoServers as reason:
        pytest.skip(str(reason))
    try:
        parts.start()
        yield parts
    finally:
        parts.stop()
