"""Tests of the core compile entries of their own, around single parts: on a busy machine that takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

COMPILING_SECONDS_MAX = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(COMPILING_SECONDS_MAX))
