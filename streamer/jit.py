"""Compiling a function of arrays to machine code, with its types kept.

numba earns its place where a loop over rows cannot be said in whole columns: cuts of a tree, segments along an order.
No `fastmath`, so that sums run in the order they are written in and two computations agree to the last bit.

Machine code is kept on disk, so that a machine compiles once. numba sees by itself when the file of a function changes,
but not when that of a function it calls does: so the code of every state of all these files has a folder of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

PACKAGE = Path(__file__).parent
KEPT_IN = "compiled-"


def compiled(function: F) -> F:
    """The function, compiled when it is first called."""
    return _kept(function)


def inlined(function: F) -> F:
    """The function, compiled into each of its callers: for few lines that are called in innermost loops.

    A call costs more than such lines do: numba counts the references to every array that is handed over.
    """
    return _kept(function, forceinline=True)


def _kept(function: F, **options: bool) -> F:
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, numba.config.CACHE_DIR or folder_for(PACKAGE)
    try:
        return cast(F, numba.njit(cache=True, nogil=True, **options)(function))
    finally:
        numba.config.CACHE_DIR = before  # other people's functions are kept where they were


@cache
def folder_for(package: Path) -> str:
    """Where the machine code of a package in its present state is kept; that of former states is removed.

    "", for numba to choose, where the package cannot be written to.
    """
    digest = blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if b"jit" in source:
            digest.update(source)
    caches = package / "__pycache__"
    folder = caches / f"{KEPT_IN}{digest.hexdigest()}"
    if not folder.is_dir():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return ""
        for former in set(caches.glob(f"{KEPT_IN}*")) - {folder}:
            shutil.rmtree(former, ignore_errors=True)
    return str(folder) if os.access(folder, os.W_OK) else ""
