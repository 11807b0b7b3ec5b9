"""What unit tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def save(content: str | bytes) -> Path:
        path = tmp_path / "data"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return save
