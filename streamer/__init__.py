"""Anonymized tables of people: whole ones, and live ones kept current change by change.

`anonymize` makes the published table of a DataFrame. `Subscription` follows a live table. `verify` holds a published
changelog to its laws. `table` is everywhere a table.yaml, the directory that holds one, a dict of its settings, or a
`Table`; the command `streamer init` writes one from a file of people. Everything else is reached by its module.
"""

# Nothing is imported until it is asked for: the commands, and whoever reads a published table, need no algorithm.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamer.incremental.verification import verify
    from streamer.reader import Subscription
    from streamer.recoding.frame import anonymize

    __version__: str

__all__ = ["Subscription", "__version__", "anonymize", "verify"]

HOMES = {
    "anonymize": "streamer.recoding.frame",
    "Subscription": "streamer.reader",
    "verify": "streamer.incremental.verification",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("streamer")
    if name not in HOMES:
        raise AttributeError(f"module 'streamer' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
