"""Files in and out: read as they stand, refused where they are broken, written whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.incremental.message_files import read_messages, read_messages_of_objects
from streamer.incremental.shard.input import Message
from streamer.table.files import atomic_writer, atomic_writers, read_rows


@pytest.fixture
def saved(tmp_path: Path):  # type: ignore[no-untyped-def]
    def save(content: str | bytes) -> Path:
        path = tmp_path / "data"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return save


# -- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_found_in_the_header(saved, delimiter: str) -> None:
    frame = read_rows(
        saved(f'a{delimiter}"b,;b"{delimiter}c\n1{delimiter}2,3;4\t5{delimiter}x\n'.replace("2,3;4\t5", '"2,3;4\t5"'))
    )
    assert list(frame.columns) == ["a", "b,;b", "c"]
    assert frame.iloc[0].tolist() == ["1", "2,3;4\t5", "x"]


def test_cells_stay_the_text_they_are(saved) -> None:
    frame = read_rows(saved('\ufeffid,zip,note\r\n007,1e3,NA\r\n1.0,,"say ""hi""\nand go"\r\n\r\n'))
    assert list(frame.columns) == ["id", "zip", "note"]
    assert frame.to_numpy().tolist() == [["007", "1e3", "NA"], ["1.0", "", 'say "hi"\nand go']]


def test_a_header_alone_is_a_table_without_rows(saved) -> None:
    frame = read_rows(saved("id,age\n"))
    assert (list(frame.columns), len(frame)) == (["id", "age"], 0)


def test_a_table_may_have_one_column(saved) -> None:
    assert read_rows(saved("id\n1\n2\n"))["id"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("id,age,id\n", "names the column 'id' twice"),
        ("id,age\n1,2\n3\n", "line 3: has 1 cells; the header has 2"),
        ("id,age\n1,2,secret\n", "line 2: has 3 cells; the header has 2"),
        ('id,age\n1,"secret\n', "line 2: not valid CSV"),
        (b"id\n\xff\n", "not UTF-8"),
    ],
)
def test_a_broken_table_is_refused_without_its_values(saved, content: str | bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_rows(saved(content))
    assert "secret" not in str(caught.value)


def test_a_packed_table_is_read_and_a_broken_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.CSV.gz"
    packed = gzip.compress(b"\xef\xbb\xbfid,age\n1,2\n")
    path.write_bytes(packed)
    assert read_rows(path).to_dict("records") == [{"id": "1", "age": "2"}]
    for broken in (b"id,age\n1,2\n", packed[:-9], packed[:-8] + bytes(8)):
        path.write_bytes(broken)
        with pytest.raises(ConfigError, match="not a whole gzip file"):
            read_rows(path)


def test_a_file_of_tabs_is_cut_at_tabs_whatever_its_header_holds(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("name, first, last\tid\nx\t1\n")
    assert list(read_rows(path).columns) == ["name, first, last", "id"]


def test_a_table_may_come_from_stdin_which_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\n7\n")))
    assert read_rows("-")["id"].tolist() == ["7"]
    assert sys.stdin.read() == ""


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none: cannot be read: No such file"):
        read_rows(tmp_path / "none")


# -- messages -------------------------------------------------------------------------------------------------------


def test_lines_are_messages_with_the_numbers_of_the_lines_that_hold_something(saved) -> None:
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
    saved, line: bytes, key: bytes | None, value: bytes | None
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
def test_a_file_that_does_not_begin_with_an_object_is_none_of_messages(saved, first: str) -> None:
    path = saved(f'\n{first}\n{{"op": "truncate"}}\n')
    with pytest.raises(ConfigError, match="first line is no JSON object"):
        read_messages_of_objects(path)
    assert len(list(read_messages(path))) == 2


def test_what_comes_after_the_first_object_is_passed_on(saved) -> None:
    for lines in (['{"a":1}', "nonsense"], ['{"key": 7, "value": null}', "8"], []):
        assert len(list(read_messages_of_objects(saved("\n".join(lines))))) == len(lines)


def test_a_file_of_messages_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_messages(tmp_path / "none.jsonl"))


# -- writing --------------------------------------------------------------------------------------------------------


def test_a_file_takes_its_place_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with atomic_writer(path) as file:
        file.write(b"new\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == b"new\n"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    with atomic_writer(tmp_path / "out", text=True) as file:
        csv.writer(file, lineterminator="\n").writerow(["é", 'a"b'])
    assert (tmp_path / "out").read_bytes() == 'é,"a""b"\n'.encode()


@pytest.mark.parametrize("text", [False, True])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path, text: bool) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="on the way"), atomic_writer(path, text) as file:
        file.write("half" if text else b"half")
        raise RuntimeError("on the way")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"), atomic_writer(tmp_path / "none" / "out"):
        raise AssertionError("the block must not run")


def test_files_that_belong_together_appear_together(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with atomic_writers([one, two], text=True) as files:
        for file in files:
            file.write("new")
        assert not one.exists()
    assert (one.read_text(), two.read_text()) == ("new", "new")
    with (
        pytest.raises(ConfigError, match="none/three: cannot be written"),
        atomic_writers([one, tmp_path / "none/three"]),
    ):
        raise AssertionError("the block must not run")
    with pytest.raises(RuntimeError), atomic_writers([one, tmp_path / "four"]) as files:
        files[0].write(b"newer")
        raise RuntimeError
    assert one.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
