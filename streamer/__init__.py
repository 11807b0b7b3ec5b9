"""Anonymized tables of people: `streamer.anonymize` for DataFrames; everything else by its module.

Nothing is imported until it is asked for: the commands, and whoever reads a published table, need no algorithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamer.recoding.frame import anonymize

__all__ = ["anonymize"]


def __getattr__(name: str) -> object:
    if name == "anonymize":
        from streamer.recoding.frame import anonymize

        return anonymize
    raise AttributeError(f"module 'streamer' has no attribute {name!r}")
