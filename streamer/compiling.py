"""Compiles the core in another process, while a command or worker runs it uncompiled.

That process outlives the command: otherwise ten short commands would start ten compilations and finish none. It runs at
nice 10 by default, prints nothing, and there is one at a time. If it fails, the command that started it warns.
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

from streamer.incremental.core.layout import code_set, float_type
from streamer.numba_support.cache import PACKAGE, folder, is_being_made, is_there, never_compiled
from streamer.table.schema import Table

NICENESS = 10
LOOK_AGAIN_SECONDS = 0.2


def warm_in_background(table: Table, niceness: int = NICENESS) -> int | None:
    """Starts to compile the core for this table, unless that is done or in progress; returns the process' id.

    Warns if machine code cannot be kept; and later, from a thread, if the process fails.
    """
    figures, name = float_type(table.space).name, _set_for(table)
    if never_compiled() or is_there(name):
        return None
    if not folder():
        _warn("machine code can be kept nowhere; name a folder of your own by NUMBA_CACHE_DIR, writable by no one else")
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
    with suppress(ProcessLookupError):  # it may have ended
        os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
    threading.Thread(target=_wait_for, args=(process, name), name="warming", daemon=True).start()
    return process.pid


def _wait_for(process: subprocess.Popen[bytes], name: str) -> None:
    """Waits for the process, which would else stay as a zombie, and warns if it failed."""
    code = process.wait()
    if code != 0 and not is_there(name):
        _warn(f"the process that compiled the core ended with code {code}; `streamer warm` says why, or makes it")


def _warn(why: str) -> None:
    warn(f"the core runs uncompiled, some hundred times slower: {why}", RuntimeWarning, stacklevel=3)


def is_coming(table: Table, process: int | None) -> bool:
    """Whether the core for this table is missing, and a process is compiling it.

    process: the result of `warm_in_background`; it may not have begun with the core yet.
    """
    if is_warm(table):
        return False
    return is_being_made(_set_for(table)) or (process is not None and _is_running(process))


def wait_while_coming(table: Table, process: int | None, look_again: Callable[[float], None] = sleep) -> None:
    """Waits until the core for this table is compiled, or no process is compiling it."""
    while is_coming(table, process):
        look_again(LOOK_AGAIN_SECONDS)


def is_warm(table: Table) -> bool:
    """Whether the core for this table is compiled, or never will be."""
    return never_compiled() or not folder() or is_there(_set_for(table))


def _set_for(table: Table) -> str:
    return code_set(float_type(table.space).name)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
