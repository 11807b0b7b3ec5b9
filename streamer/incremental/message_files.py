"""Messages of a file: JSON lines, one message each.

They are passed on as they stand in the file: judging them is the decoder's work, and a malformed line becomes a dead
letter like any other malformed message. But a file whose first line is no JSON object is taken for something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from streamer.errors import ConfigError
from streamer.incremental.shard.input import Message
from streamer.table.files import open_bytes

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_as_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_messages(path: str | Path) -> Iterator[Message]:
    """The messages of a JSONL file ("-": stdin), one per non-empty line; offsets count them from 0.

    A line is the value of a message without a key, or `{"key": ..., "value": ...}` with exactly these two members (a
    value of null is a tombstone). Raises ConfigError for a file that cannot be read.
    """
    with open_bytes(path) as file:
        yield from _messages(file)


def read_messages_of_objects(path: str | Path) -> Iterator[Message]:
    """The same; raises ConfigError at once for a file whose first line is no JSON object: it holds something else."""
    messages = read_messages(path)
    first = next(messages, None)
    if first is None:
        return iter(())
    if first.key is None and first.value is not None and not _is_object(first.value):
        raise ConfigError(
            f"{path}: the first line is no JSON object, so these are no JSON lines; nothing of it is used"
        )
    return chain([first], messages)


def _is_object(line: bytes) -> bool:
    try:
        _as_object.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def _messages(lines: Iterable[bytes]) -> Iterator[Message]:
    filled = (line.removeprefix(BYTE_ORDER_MARK).strip() for line in lines)
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


def count_lines(path: str | Path) -> int:
    """How many messages a file holds. Raises ConfigError for one that cannot be read."""
    with open_bytes(path) as file:
        return sum(1 for line in file if line.strip())
