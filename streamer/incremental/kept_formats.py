"""The numbers of the formats in which things are kept, and what is said of one that this streamer does not read.

Whatever is kept longer than a process runs (the values in Redis, positions and requests in Kafka) carries the number of
its format. A streamer that meets a higher one than it knows stops: what it would pass over may be what counts.
"""

from __future__ import annotations

import msgspec

from streamer.errors import ShardRefused


class _Numbered(msgspec.Struct):
    """A JSON object with the number of its format; 1 where it says none."""

    format: int = 1


_numbered = msgspec.json.Decoder(_Numbered).decode


def unread(found: int, known: int, mend: str) -> str:
    """What is said of a thing in a format that is not read; known: the newest one that is; mend: what else to do.

    >>> unread(7, 5, "begin anew")
    'is in format 7, and this streamer reads up to format 5: run the version that wrote it, or, begin anew'
    """
    reads = f"up to format {known}" if found > known else f"format {known}"
    return f"is in format {found}, and this streamer reads {reads}: run the version that wrote it, or, {mend}"


def check_format(json: bytes, known: int, what: str, mend: str) -> None:
    """Raises ShardRefused where a JSON object says that its format is newer than `known`; DecodeError for no object."""
    found = _numbered(json).format
    if found > known:
        raise ShardRefused(f"{what} {unread(found, known, mend)}")
