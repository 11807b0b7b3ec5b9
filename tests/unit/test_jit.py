"""Machine code on disk: one folder for every state of the sources, so that no caller runs yesterday's callee."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numba
import pytest

from streamer.jit import PACKAGE, compiled, folder_for


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "callee.py").write_text("from streamer.jit import compiled\n")
    (tmp_path / "caller.py").write_text("from streamer.jit import compiled\n")
    (tmp_path / "other.py").write_text("plain = True\n")
    return tmp_path


def folder_now(package: Path) -> str:
    folder_for.cache_clear()
    return folder_for(package)


def test_a_changed_callee_gets_its_callers_a_new_folder_and_the_former_one_goes(package: Path) -> None:
    before = folder_now(package)
    assert Path(before).is_dir()
    (package / "inner" / "callee.py").write_text("from streamer.jit import compiled\nchanged = True\n")
    after = folder_now(package)
    assert after != before
    assert Path(after).is_dir()
    assert not Path(before).exists()


def test_what_compiles_nothing_may_change(package: Path) -> None:
    before = folder_now(package)
    (package / "other.py").write_text("plain = False\n")
    assert folder_now(package) == before


def test_a_package_that_cannot_be_written_to_leaves_the_choice_to_numba(package: Path) -> None:
    (package / "__pycache__").write_text("a file where the folder should be")
    assert folder_now(package) == ""


def test_other_peoples_compiled_functions_are_kept_where_they_were() -> None:
    before = numba.config.CACHE_DIR

    @compiled
    def twice(x: int) -> int:
        return 2 * x

    assert twice(21) == 42
    assert before == numba.config.CACHE_DIR
    assert Path(folder_for(PACKAGE)).parent.name == "__pycache__"


@pytest.mark.parametrize(
    "module", ["streamer.incremental.subscribe", "streamer.cli.replay", "streamer.cli.verify", "agents.publish"]
)
def test_who_compiles_nothing_does_not_wait_for_the_compiler(module: str) -> None:
    script = f"import sys, {module}; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
