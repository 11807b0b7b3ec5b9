"""Messages and published changelogs in files of JSON lines.

Messages are passed on as they are in the file: the decoder judges them, and a malformed line becomes a dead letter like
any malformed message. But a file whose first line is not a JSON object is taken for something else, and refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec

from streamer.errors import ConfigError, LawViolated
from streamer.incremental.checks.as_published import FORMS, Form
from streamer.incremental.checks.changelog import LiveRecord
from streamer.incremental.release.fold import parse_part
from streamer.incremental.shard.input import Message
from streamer.table.files import open_bytes
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_as_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_as_time = msgspec.json.Decoder(Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)])  # the year 10000


def read_messages(path: str | Path) -> Iterator[Message]:
    """The messages of a JSONL file ("-": stdin), one per non-empty line; offsets count them from 0.

    A line is the value of a message without a key, or `{"key": ..., "value": ...}` with exactly these two members (a
    value of null is a tombstone), or with a third one, `timestamp`, in milliseconds since 1970. Raises ConfigError for
    a file that cannot be read.
    """
    with open_bytes(path) as file:
        filled = (line.removeprefix(BYTE_ORDER_MARK).strip() for line in file)
        for offset, line in enumerate(line for line in filled if line):
            yield Message(offset, *_read_line(line))


def read_messages_of_objects(path: str | Path) -> Iterator[Message]:
    """The messages of a JSONL file; raises ConfigError at once if the first line is not a JSON object."""
    messages = read_messages(path)
    first = next(messages, None)
    if first is None:
        return iter(())
    if first.key is None and first.value is not None and not _is_object(first.value):
        raise ConfigError(
            f"{path}: the first line is not a JSON object, so the file is not JSON lines; nothing of it is used"
        )
    return chain([first], messages)


def _is_object(line: bytes) -> bool:
    try:
        _as_object.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


def _read_line(line: bytes) -> tuple[bytes | None, bytes | None, int]:
    """Key, value and timestamp."""
    if b'"key"' not in line or b'"value"' not in line:
        return None, line, 0
    try:
        members = _as_object.decode(line)
        timestamp = _as_time.decode(members.pop("timestamp", b"0"))
    except msgspec.MsgspecError:
        return None, line, 0
    if members.keys() != {"key", "value"}:
        return None, line, 0
    key, value = (None if bytes(text) == b"null" else bytes(text) for text in (members["key"], members["value"]))
    return key, value, timestamp


def count_lines(path: str | Path) -> int:
    """The number of messages in a file. Raises ConfigError if it cannot be read."""
    with open_bytes(path) as file:
        return sum(1 for line in file if line.strip())


# -- a published changelog: one record per line
#
# Any tool may have written it: whitespace and the order of members do not matter. Shards may be mixed, and there may be
# several files: only the order of each shard's own records counts.

KEYS = {
    ROWS: '{"qi_group":"0-17","slot":3}',
    GROUPS: '{"qi_group":"0-17"}',
    LOSSY_JOIN: '{"qi_group":"0-17", cells or values}',
}
"""The look of a record's key in each form."""


class _Line(msgspec.Struct):
    shard: int
    release: int
    through: int
    key: msgspec.Raw
    value: msgspec.Raw
    part: str | None = None
    outside: bool = False
    whole: int = 0


def read_files(paths: Iterable[Path], table: Table, shards: Collection[int] | None = None) -> Iterator[LiveRecord]:
    """The records of several files, one file after the other, of some shards or of all."""
    for path in paths:
        yield from read_live(path, table, shards)


def read_live(path: Path, table: Table, shards: Collection[int] | None = None) -> Iterator[LiveRecord]:
    """The records of a changelog in a file, of some shards or of all.

    Raises ConfigError for a file that cannot be read and a line that is not a record.
    """
    decode, form = msgspec.json.Decoder(_Line).decode, FORMS[table.form](table)
    with open_bytes(path) as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                line = decode(text)
                if shards is None or line.shard in shards:
                    yield _record(line, form)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LawViolated):
                raise ConfigError(
                    f'{path}, line {number}: is not of the form {{"shard":0,"release":1,"through":9,'
                    f'"key":{KEYS[table.form]},"value":{{..}} or null}}'
                ) from None


def _record(line: _Line, form: Form) -> LiveRecord:
    key, text = form.rewritten(bytes(line.key)), bytes(line.value)
    value = None if text == b"null" else text
    part = None if line.part is None else parse_part(line.part.encode())
    where = line.shard, line.release, line.through
    return LiveRecord(*where, key, value, part, form.topic(key), line.outside, line.whole)
