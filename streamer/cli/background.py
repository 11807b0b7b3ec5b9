"""Compiling in the background: what a command that keeps a table current starts where nothing is compiled yet.

The other process outlives the command. What a machine compiles it compiles once, for a minute or so, and whoever calls
ten short commands would else begin ten times and end none. It is the kindest of processes (nice 10) where nobody says
otherwise, says nothing, and there is one at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

from streamer.incremental.core.figures import set_of_figures
from streamer.incremental.core.layout import figures_dtype
from streamer.machine_code import PACKAGE, folder, is_being_made, is_there, never_compiled
from streamer.table.schema import Table

NICENESS = 10


def warm_in_background(table: Table, niceness: int = NICENESS) -> int | None:
    """Has the core compiled that this table needs, unless that is done or is being done; returns the process's id."""
    figures, name = figures_dtype(table.space).name, _set_for(table)
    if never_compiled() or not folder() or is_there(name) or is_being_made(name):
        return None
    process = subprocess.Popen(
        [sys.executable, "-m", "streamer.cli.main", "warm", "--core", figures],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=PACKAGE.parent,
        start_new_session=True,
    )
    with suppress(ProcessLookupError):  # it may have ended by now
        os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
    threading.Thread(target=process.wait, name="warming", daemon=True).start()  # or it would stay as a zombie
    return process.pid


def is_coming(table: Table, process: int | None) -> bool:
    """Whether the core that this table needs is not there yet, and somebody is at it.

    process: what `warm_in_background` returned; it says so before that process has begun with the core.
    """
    if is_warm(table):
        return False
    return is_being_made(_set_for(table)) or (process is not None and _is_running(process))


def is_warm(table: Table) -> bool:
    """Whether nobody compiles the core that this table needs, now or later."""
    return never_compiled() or not folder() or is_there(_set_for(table))


def _set_for(table: Table) -> str:
    return set_of_figures(figures_dtype(table.space).name)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
