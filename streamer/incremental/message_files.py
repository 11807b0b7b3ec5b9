"""Messages of a file: JSON lines, one message each.

They are passed on as they stand in the file: judging them is the decoder's work, and a malformed line becomes a dead
letter like any other malformed message.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from streamer.errors import ConfigError
from streamer.incremental.shard.input import Message

STDIN = "-"

_as_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_messages(path: str | Path) -> Iterator[Message]:
    """The messages of a JSONL file ("-": stdin), one per non-empty line; offsets count them from 0.

    A line is the value of a message without a key, or `{"key": ..., "value": ...}` with exactly these two members (a
    value of null is a tombstone). Raises ConfigError for a file that cannot be read.
    """
    if str(path) == STDIN:
        yield from _messages(sys.stdin.buffer)
        return
    try:
        with open(path, "rb") as file:
            yield from _messages(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _messages(lines: Iterable[bytes]) -> Iterator[Message]:
    filled = (line.strip() for line in lines)
    for offset, line in enumerate(line for line in filled if line):
        yield Message(offset, *_key_and_value(line))


def _key_and_value(line: bytes) -> tuple[bytes | None, bytes | None]:
    if b'"key"' not in line or b'"value"' not in line:
        return None, line
    try:
        members = _as_object.decode(line)
    except msgspec.DecodeError:
        return None, line
    if members.keys() != {"key", "value"}:
        return None, line
    return _unless_null(members["key"]), _unless_null(members["value"])


def _unless_null(text: msgspec.Raw) -> bytes | None:
    return None if bytes(text) == b"null" else bytes(text)
