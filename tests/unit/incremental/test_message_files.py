"""Messages of a file: one per line that holds something, judged by nobody yet."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.incremental.message_files import read_files, read_live, read_messages, read_messages_of_objects
from streamer.incremental.shard.input import Message
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS


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


def test_a_line_of_key_value_and_timestamp_says_when_the_message_was_sent(saved: Callable[[str | bytes], Path]) -> None:
    (message,) = read_messages(saved('{"key": 7, "value": null, "timestamp": 1795694400000}\n'))
    assert message == Message(0, b"7", None, 1_795_694_400_000)


@pytest.mark.parametrize("time", ['"noon"', "1.5", "-1", "null", "253402300800000", "99999999999999999999"])
def test_a_line_with_a_time_that_is_none_is_passed_on(saved: Callable[[str | bytes], Path], time: str) -> None:
    line = f'{{"key": 7, "value": null, "timestamp": {time}}}'
    assert list(read_messages(saved(line + "\n"))) == [Message(0, None, line.encode())]


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a":1}\n{"b":2}')))
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
    with pytest.raises(ConfigError, match="first line is not a JSON object"):
        read_messages_of_objects(path)
    assert len(list(read_messages(path))) == 2


def test_what_comes_after_the_first_object_is_passed_on(saved: Callable[[str | bytes], Path]) -> None:
    for lines in (['{"a":1}', "nonsense"], ['{"key": 7, "value": null}', "8"], []):
        assert len(list(read_messages_of_objects(saved("\n".join(lines))))) == len(lines)


def test_a_file_of_messages_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_messages(tmp_path / "none.jsonl"))


# A changelog in files: whatever wrote the JSON, shards in any mixture, a line that is no record told by its number.

TABLE = load_table(PATIENTS)


def line(shard: int, slot: int, value: object = None, **more: object) -> str:
    key = {"slot": slot, "qi_group": f"{shard}-1"}  # another order of members than ours
    return json.dumps({"shard": shard, "release": 1, "through": 9, "value": value, "key": key, **more}, indent=None)


def test_records_come_in_the_order_of_the_lines_with_keys_written_our_way(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text("\n".join([line(0, 1, {"a": 1}), "", line(1, 1), line(0, 2, part="2/3")]))
    records = list(read_live(path, TABLE))
    assert [(r.shard, r.release, r.through) for r in records] == [(0, 1, 9), (1, 1, 9), (0, 1, 9)]
    assert records[0].key == b'{"qi_group":"0-1","slot":1}'
    assert [r.value for r in records] == [b'{"a": 1}', None, None]
    assert [r.part for r in records] == [None, None, (2, 3)]


@pytest.mark.parametrize("text", ["{}", "nothing", '{"shard":0}'])
def test_a_line_that_is_not_a_record_is_an_error_with_its_number_and_the_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text(line(0, 1) + "\n" + text)
    with pytest.raises(ConfigError, match=r'live.jsonl, line 2: is not of the form .*"qi_group":"0-17","slot":3'):
        list(read_live(path, TABLE))


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    paths = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for shard, path in enumerate(paths):
        path.write_text("\n".join([line(shard, slot) for slot in range(3)]))
    assert [r.shard for r in read_files(paths, TABLE)] == [0] * 3 + [1] * 3


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing.jsonl: cannot be read"):
        list(read_live(tmp_path / "missing.jsonl", TABLE))
