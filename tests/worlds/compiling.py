"""Scripts about compiling, each in a process of its own, with machine code kept in a folder of the test's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from streamer.numba_support.cache import PACKAGE


def said(folder: Path, script: str, **environment: str) -> Any:
    """What a process says that runs a script after all of `stand_in.py` in the folder."""
    names = {"PYTHONPATH": os.pathsep.join([str(folder), str(PACKAGE.parent)]), "NUMBA_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, "-c", "from stand_in import *\n" + dedent(script)],
        cwd=folder,
        env={**without_settings(os.environ), **names, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("NUMBA_")}
