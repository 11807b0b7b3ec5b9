"""Rebuilds that somebody at the page asks for: the request of `streamer rebuild`, by the same code.

Whoever asks has to know the worker's token: it is no password of a person, and stands in no log.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import msgspec

from agents.worker_settings import WorkerSettings
from streamer.cli.rebuild import ask, shards_to_ask
from streamer.errors import UsageError
from streamer.table.yaml_values import REBUILD_ALGORITHMS

TOKEN_HEADER = "X-Streamer-Token"
TOKEN_BYTES = 16
EXAMPLE = '{"shard": 0, "algorithm": "ordered"}'


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for: of one shard or, None, of all; by the algorithm of table.yaml, or another one."""

    shard: Annotated[int, msgspec.Meta(ge=0)] | None = None
    algorithm: Annotated[str, msgspec.Meta(max_length=64)] | None = None


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def is_token(given: str, token: str) -> bool:
    """Whether it is the one; takes as long for one that is nearly right.

    >>> is_token("abc", "abc"), is_token("ab", "abc"), is_token("", "abc")
    (True, False, False)
    """
    return secrets.compare_digest(*(text.encode("utf-8", "surrogateescape") for text in (given, token)))


def read_wanted(body: bytes) -> Wanted:
    """What the body of a request says. Raises UsageError."""
    try:
        wanted = msgspec.json.decode(body or b"{}", type=Wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{EXAMPLE} is a request; in this one {_place_of(error)}") from None
    if wanted.algorithm is not None and wanted.algorithm not in REBUILD_ALGORITHMS:
        raise UsageError(f"algorithm: is none of {', '.join(REBUILD_ALGORITHMS)}")
    return wanted


def _place_of(error: Any) -> str:
    """The kind of fault; a text may quote what it was given."""
    return "a field is wrong" if isinstance(error, msgspec.ValidationError) else "there is no JSON"


def send(settings: WorkerSettings, wanted: Wanted, cancel: bool) -> None:
    """Asks. Raises UsageError, ServerUnreachable."""
    table = settings.table
    algorithm = None if cancel else wanted.algorithm
    numbers = shards_to_ask(table, settings.kafka, wanted.shard, algorithm)
    ask(settings.kafka, table.name, numbers, algorithm, cancel)
