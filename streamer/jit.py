"""Compiling a function of arrays to machine code, with its types kept.

numba earns its place where a loop over rows cannot be said in whole columns: cuts of a tree, segments along an order. A
compiled function is kept on disk and compiled once per machine; no `fastmath`, so that sums run in the order they are
written in and two computations of one figure agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function, compiled when it is first called."""
    return cast(F, njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """The function, compiled into each of its callers: for few lines that are called in innermost loops.

    A call costs more than such lines do: numba counts the references to every array that is handed over.
    """
    return cast(F, njit(cache=True, nogil=True, forceinline=True)(function))
