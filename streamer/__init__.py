"""Anonymized tables of people: `streamer.anonymize` for DataFrames, `streamer.Subscription` for the live table.

Everything else is reached by its module. Nothing is imported until it is asked for: the commands, and whoever reads a
published table, need no algorithm.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamer.incremental.subscribe import Subscription
    from streamer.recoding.frame import anonymize

__all__ = ["Subscription", "anonymize"]

HOMES = {"anonymize": "streamer.recoding.frame", "Subscription": "streamer.incremental.subscribe"}


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'streamer' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
