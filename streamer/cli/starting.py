"""What stands on a terminal while a command's modules are loaded: a second or two on a busy machine.

It is gone before the command says anything; where nobody looks, nothing is written.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TextIO

PATIENCE_SECONDS = 0.4
MOVES_SECONDS = 0.2
ERASED = "\r\x1b[K"


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Says that something is loaded, and for how long, if the block takes longer than a person notices."""
    out = sys.stderr
    if not out.isatty():
        yield
        return
    over = threading.Event()
    saying = threading.Thread(target=_say, args=(what, out, over), name="loading", daemon=True)
    saying.start()
    try:
        yield
    finally:
        over.set()
        saying.join()


def _say(what: str, out: TextIO, over: threading.Event) -> None:
    began, patience = perf_counter(), PATIENCE_SECONDS
    while not over.wait(patience):
        out.write(f"{ERASED}loading {what}  {perf_counter() - began:.1f} s")
        out.flush()
        patience = MOVES_SECONDS
    if patience == MOVES_SECONDS:
        out.write(ERASED)
        out.flush()
