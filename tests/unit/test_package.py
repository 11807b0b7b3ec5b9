"""What `import streamer` gives: two names, each loaded when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import streamer


@pytest.mark.parametrize(
    ("name", "home"), [("anonymize", "streamer.recoding.frame"), ("Subscription", "streamer.incremental.subscribe")]
)
def test_a_name_is_what_its_module_has(name: str, home: str) -> None:
    assert getattr(streamer, name).__module__ == home


def test_any_other_name_is_missing_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match="module 'streamer' has no attribute 'nobody'"):
        _ = streamer.nobody


def test_neither_compiler_nor_kafka_is_loaded_before_it_is_asked_for() -> None:
    names = ("numpy", "pandas", "numba", "kafka", "click")
    loaded = f"import streamer, sys; print([name for name in {names} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"
