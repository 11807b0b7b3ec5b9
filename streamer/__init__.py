"""Anonymized tables of people: whole ones, and live ones kept current change by change.

`init` drafts a table for a DataFrame of people, `check` and `compare` try it, `anonymize` makes the published table,
`report` says what that guarantees and costs. `verify` holds it, or a published changelog, to its laws; `audit` says
what several releases give away together. `Subscription` follows a live table. `table` is everywhere a table.yaml, the
directory that holds one, a dict of its settings, or a `Table`. Everything else is reached by its module.
"""

# Nothing is imported until it is asked for: the commands, and whoever reads a published table, need no algorithm.

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamer.audit.releases import audit
    from streamer.checking import check
    from streamer.incremental.verification import verify
    from streamer.reader import Subscription
    from streamer.recoding.comparison import compare
    from streamer.recoding.frame import anonymize
    from streamer.recoding.report.head import report
    from streamer.table.draft.drafting import init

    __version__: str

__all__ = [
    "Subscription", "__version__", "anonymize", "audit", "check", "compare", "init", "report", "verify",
]  # fmt: skip

HOMES = {
    "Subscription": "streamer.reader",
    "anonymize": "streamer.recoding.frame",
    "check": "streamer.checking",
    "compare": "streamer.recoding.comparison",
    "init": "streamer.table.draft.drafting",
    "report": "streamer.recoding.report.head",
    "verify": "streamer.incremental.verification",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("streamer")
    if name == "audit":  # a room of this name is there, too: it can be called
        return import_module("streamer.audit")
    if name not in HOMES:
        raise AttributeError(f"module 'streamer' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
