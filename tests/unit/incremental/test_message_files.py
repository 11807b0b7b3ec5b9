"""Messages of a file: one per line that holds something, judged by nobody yet."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.incremental.message_files import read_messages
from streamer.incremental.shard.input import Message


def test_lines_are_messages_with_the_numbers_of_the_lines_that_hold_something(
    saved: Callable[[str | bytes], Path],
) -> None:
    path = saved('{"op": "truncate"}\n\n  \n  {"op":"delete","key":7}\r\n')
    assert list(read_messages(path)) == [
        Message(0, None, b'{"op": "truncate"}'),
        Message(1, None, b'{"op":"delete","key":7}'),
    ]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (b'{"key": {"id": 7}, "value": {"a": 1.50}}', b'{"id": 7}', b'{"a": 1.50}'),
        (b'{"value": null, "key": 7}', b"7", None),
        (b'{"key": null, "value": "x"}', None, b'"x"'),
        (b'{"key": 7, "value": null, "op": "c"}', None, b'{"key": 7, "value": null, "op": "c"}'),
        (b'{"op": "delete", "key": "value"}', None, b'{"op": "delete", "key": "value"}'),
        (b'{"key": 7, "value": ', None, b'{"key": 7, "value":'),
        (b'["key", "value"]', None, b'["key", "value"]'),
        (b"\xff\x00 not even text", None, b"\xff\x00 not even text"),
    ],
)
def test_a_line_of_exactly_key_and_value_is_unwrapped_and_any_other_passed_on(
    saved: Callable[[str | bytes], Path], line: bytes, key: bytes | None, value: bytes | None
) -> None:
    assert list(read_messages(saved(line + b"\n"))) == [Message(0, key, value)]


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"a":1}\n{"b":2}')))
    assert [message.value for message in read_messages("-")] == [b'{"a":1}', b'{"b":2}']


def test_a_file_of_messages_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_messages(tmp_path / "none.jsonl"))
