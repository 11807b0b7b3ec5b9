"""The same results from other builds: with every check that the compiler has, and by another compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.native.library import file_name
from worlds.checkout import ROOT

pytestmark = pytest.mark.night

CHECKS = "-O1 -fsanitize=undefined,address -fno-sanitize-recover=undefined"
STREAMS = ("tests/laws/test_recorded_streams.py", "tests/laws/test_engine_twin.py")
ALGORITHMS = ("tests/unit/recoding/algorithms", "tests/unit/kernels", "tests/laws/test_algorithms_hold_models.py")
ZIG = ROOT / ".venv" / "zig"


def built(folder: Path, **environment: str) -> str:
    """A library of this checkout in a folder of its own."""
    command = [sys.executable, "-m", "streamer.native.build", "--out", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(folder / file_name())


def passes(tests: tuple[str, ...], library: str, **environment: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not servers and not night", *tests]
    with_it = {**os.environ, "STREAMER_NATIVE": library, **environment}
    done = subprocess.run(command, cwd=ROOT, env=with_it, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]


@pytest.mark.timeout(3600)
def test_nothing_is_undefined_and_no_index_is_outside(tmp_path: Path) -> None:
    library = built(tmp_path, CHECKED="1", CFLAGS=CHECKS)
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    # Python's own memory is not looked at; what is left at the end is the arena's
    passes((*STREAMS, *ALGORITHMS), library, LD_PRELOAD=asan.stdout.strip(), ASAN_OPTIONS="detect_leaks=0")


@pytest.mark.timeout(1800)
def test_another_compiler_gives_the_same_streams_and_groups(tmp_path: Path) -> None:
    if not (ZIG / "ziglang").exists():
        pytest.skip("the wheel ziglang is not here (`make wheels` gets it): another compiler is untested")
    library = built(tmp_path, PYTHONPATH=str(ZIG), CC=f"{sys.executable} -m ziglang cc")
    passes((*STREAMS, *ALGORITHMS, "tests/golden"), library)
