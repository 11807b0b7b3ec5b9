"""Messages of a file: one per line that holds something, judged by nobody yet."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.incremental.message_files import read_messages, read_messages_of_objects
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


def test_packed_messages_and_a_mark_of_the_byte_order_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"a":1}\n'))
    assert list(read_messages_of_objects(path)) == [Message(0, None, b'{"a":1}')]


@pytest.mark.parametrize("first", ["id,age", "[1]", "7", '{"op":', '"text"', "[" * 5000, "null"])
def test_a_file_that_does_not_begin_with_an_object_is_none_of_messages(
    saved: Callable[[str | bytes], Path], first: str
) -> None:
    path = saved(f'\n{first}\n{{"op": "truncate"}}\n')
    with pytest.raises(ConfigError, match="first line is no JSON object"):
        read_messages_of_objects(path)
    assert len(list(read_messages(path))) == 2


def test_what_comes_after_the_first_object_is_passed_on(saved: Callable[[str | bytes], Path]) -> None:
    for lines in (['{"a":1}', "nonsense"], ['{"key": 7, "value": null}', "8"], []):
        assert len(list(read_messages_of_objects(saved("\n".join(lines))))) == len(lines)


def test_a_file_of_messages_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_messages(tmp_path / "none.jsonl"))
