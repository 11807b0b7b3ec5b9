"""A published changelog in files: one record in each line, as JSON.

It may come from any tool that writes JSON: whitespace and the order of members do not matter. It may interleave shards,
and stand in several files: only the order of a shard's own records counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from streamer.errors import ConfigError, LawViolated
from streamer.incremental.checks.as_published import FORMS
from streamer.incremental.checks.changelog import LiveRecord
from streamer.incremental.checks.contract import Form
from streamer.incremental.release.fold import parse_part
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table

KEYS = {
    ROWS: '{"qi_group":"0-17","slot":3}',
    GROUPS: '{"qi_group":"0-17"}',
    LOSSY_JOIN: '{"qi_group":"0-17", cells or values}',
}
"""How a record's key looks in each form."""


class _Line(msgspec.Struct):
    shard: int
    release: int
    through: int
    key: msgspec.Raw
    value: msgspec.Raw
    part: str | None = None
    outside: bool = False


def read_files(paths: Iterable[Path], table: Table) -> Iterator[LiveRecord]:
    """The records of several files, one file after the other."""
    for path in paths:
        yield from read_live(path, table)


def read_live(path: Path, table: Table) -> Iterator[LiveRecord]:
    """The records of a changelog in a file.

    Raises ConfigError for a file that cannot be read or a line that is no record.
    """
    decode, form = msgspec.json.Decoder(_Line).decode, FORMS[table.form](table)
    try:
        with open(path, "rb") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    yield _record(decode(text), form)
                except (msgspec.DecodeError, LawViolated):
                    raise ConfigError(
                        f'{path}, line {number}: is not of the form {{"shard":0,"release":1,"through":9,'
                        f'"key":{KEYS[table.form]},"value":{{..}} or null}}'
                    ) from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _record(line: _Line, form: Form) -> LiveRecord:
    key = form.rewritten(bytes(line.key))
    said = bytes(line.value)
    value = None if said == b"null" else said
    part = None if line.part is None else parse_part(line.part.encode())
    return LiveRecord(line.shard, line.release, line.through, key, value, part, form.topic(key), line.outside)
