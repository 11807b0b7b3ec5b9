"""Has the core compiled before anything is measured: uncompiled it is some hundred times slower."""

from __future__ import annotations

import subprocess
import sys

from streamer.incremental.core.layout import FLOAT32, set_of_figures
from streamer.numba_support.cache import is_there, never_compiled


def compiled() -> None:
    """Waits until the machine code of the core is on disk."""
    if not never_compiled() and not is_there(set_of_figures(FLOAT32)):
        command = [sys.executable, "-m", "streamer.cli.main", "warm", "--core", FLOAT32]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
