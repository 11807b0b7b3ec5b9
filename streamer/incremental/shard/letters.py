"""Dead letters: what is said of a message that was not applied, or not to every row.

A letter has a reason and coordinates, and no value of the message: whoever may read the input topic finds it there. Of
kind `refused`: nothing of the message was applied. Of kind `partial`: a statement was, but some rows keep their old
values, because their new ones would have been invalid. Of kinds `retried`, `superseded` and `refused-again`: what
became of a refused message that an operator had tried again (`streamer.incremental.shard.retrying`).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.release.records import Entry
from streamer.incremental.topics import DEAD_LETTERS

REFUSED, RETRIED, SUPERSEDED, REFUSED_AGAIN = "refused", "retried", "superseded", "refused-again"


class Coordinates(NamedTuple):
    """Where a message stands."""

    topic: str
    partition: int
    offset: int


def refused(where: Coordinates, refusal: EventRefused) -> Entry:
    """The letter about a message that was not applied."""
    return _letter(where, REFUSED, refusal.reason, refusal.detail, column=refusal.column)


def partial(where: Coordinates, rows: int) -> Entry:
    """The letter about a statement that left `rows` rows as they were."""
    detail = "rows whose new values would have been invalid keep their old ones"
    return _letter(where, "partial", "rows-left-unchanged", detail, rows=rows)


def retried(where: Coordinates) -> Entry:
    """The letter about a message that was refused, and is applied now."""
    return _letter(where, RETRIED, RETRIED, "it was tried again, and is applied")


def not_retried(where: Coordinates, refusal: EventRefused) -> Entry:
    """The letter about a message that was tried again: superseded, or refused for a reason that may be another one."""
    kind = SUPERSEDED if refusal.reason == SUPERSEDED else REFUSED_AGAIN
    return _letter(where, kind, refusal.reason, refusal.detail, column=refusal.column)


def _letter(where: Coordinates, kind: str, reason: str, detail: str, **more: str | int | None) -> Entry:
    coordinates = where._asdict()
    letter = {"kind": kind, "reason": reason, "detail": detail, **more, **coordinates}
    return Entry(DEAD_LETTERS, msgspec.json.encode(coordinates), msgspec.json.encode(letter))
