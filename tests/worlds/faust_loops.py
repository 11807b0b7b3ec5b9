"""Event loops that Faust makes and never runs: tests close them, else each is a warning at its end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any


def alive(kind: type[Any]) -> list[Any]:
    """All objects of a class. `isinstance` would ask a weak proxy for the class of what it stood for, and raise."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def close_loops() -> None:
    """Closes the loop that Faust makes for a consumer of its own, which is never started."""
    for loop in alive(asyncio.AbstractEventLoop):
        if not loop.is_running() and not loop.is_closed():
            loop.close()
