"""A secret as a file: it comes back as it was, and whatever else stands there is refused without being shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.incremental.secret_file import read_secret, secret_text


def test_a_secret_comes_back_from_its_file(tmp_path: Path) -> None:
    secret = bytes(range(32))
    (tmp_path / "secret.txt").write_bytes(secret_text(secret))
    assert read_secret(tmp_path / "secret.txt") == secret


def test_where_there_is_no_file_there_is_no_secret(tmp_path: Path) -> None:
    assert read_secret(tmp_path / "secret.txt") is None


@pytest.mark.parametrize("text", ["", "\n", "canary", "ca" * 15, "ca" * 65, "ca" * 31 + "c", "ca" * 31 + "\xe9"])
def test_what_is_no_secret_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"secret\.txt: is not a secret as `replay` writes it") as refused:
        read_secret(path)
    assert "ca" * 15 not in str(refused.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_secret(tmp_path)
