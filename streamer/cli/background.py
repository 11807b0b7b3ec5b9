"""Compiling in the background: what a command that keeps a table current starts where nothing is compiled yet.

The other process outlives the command. What a machine compiles it compiles once, for a minute or so, and whoever calls
ten short commands would else begin ten times and end none. It is the kindest of processes (nice 10) where nobody says
otherwise, says nothing, and there is one at a time. Where nothing can come of it, whoever wanted it warns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from warnings import warn

from streamer.incremental.core.figures import set_of_figures
from streamer.incremental.core.layout import figures_dtype
from streamer.machine_code import PACKAGE, folder, is_being_made, is_there, never_compiled
from streamer.table.schema import Table

NICENESS = 10
LOOK_AGAIN_SECONDS = 0.2


def warm_in_background(table: Table, niceness: int = NICENESS) -> int | None:
    """Has the core compiled that this table needs, unless that is done or is being done; returns the process's id.

    Warns where nothing can be kept, and, from a thread, where the process ends without having made it.
    """
    figures, name = figures_dtype(table.space).name, _set_for(table)
    if never_compiled() or is_there(name):
        return None
    if not folder():
        _warn("machine code can be kept nowhere; name a folder of your own by NUMBA_CACHE_DIR")
        return None
    if is_being_made(name):
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
    threading.Thread(target=_wait_for, args=(process, name), name="warming", daemon=True).start()
    return process.pid


def _wait_for(process: subprocess.Popen[bytes], name: str) -> None:
    """Else it would stay as a zombie."""
    code = process.wait()
    if code != 0 and not is_there(name):
        _warn(f"the process that compiled the core ended with code {code}; `streamer warm` says why, or makes it")


def _warn(why: str) -> None:
    warn(f"the core runs uncompiled, some hundred times slower: {why}", RuntimeWarning, stacklevel=3)


def is_coming(table: Table, process: int | None) -> bool:
    """Whether the core that this table needs is not there yet, and somebody is at it.

    process: what `warm_in_background` returned; it says so before that process has begun with the core.
    """
    if is_warm(table):
        return False
    return is_being_made(_set_for(table)) or (process is not None and _is_running(process))


def wait_while_coming(table: Table, process: int | None, look_again: Callable[[float], None] = sleep) -> None:
    """Waits until the core that this table needs is there, or nobody is at it any more."""
    while is_coming(table, process):
        look_again(LOOK_AGAIN_SECONDS)


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
