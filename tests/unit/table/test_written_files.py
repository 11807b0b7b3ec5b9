"""Files that we write appear whole, together, or not at all."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from stat import S_IMODE

import pandas as pd
import pytest

from streamer.errors import ConfigError
from streamer.table.written_files import atomic_writer, atomic_writers, write_index, write_rows


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


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_table_is_written_as_pandas_writes_texts(rows: int) -> None:
    cells = ["", 'a"b', None, "x,y", "é\n", "", "z"][:rows]
    frame = pd.DataFrame({"text": pd.Series(cells, dtype=object), "number": range(rows)})
    for columns in (["text"], ["text", "number"]):
        expected, written = io.StringIO(), io.StringIO()
        frame[columns].fillna("").to_csv(expected, index=False)
        write_rows(frame[columns], written)
        assert written.getvalue() == expected.getvalue()


def test_a_private_index_is_for_its_owner_alone(tmp_path: Path) -> None:
    with atomic_writer(tmp_path / "index.csv", text=True) as file:
        write_index([("b", "0-1"), ("a", "")], file)
    assert (tmp_path / "index.csv").read_text() == "key,qi_group\na,\nb,0-1\n"
    assert (tmp_path / "index.csv").stat().st_mode & 0o777 == 0o600


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


def test_what_is_no_file_is_refused_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(ConfigError, match="device or a pipe"), atomic_writer(path):
            raise AssertionError("the block must not run")
    assert pipe.is_fifo()


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


def test_a_link_stays_one_and_its_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    target, link = tmp_path / "exports" / "people-1.csv", tmp_path / "people.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("exports/people-1.csv")
    with atomic_writer(link, text=True) as file:
        file.write("new")
    assert link.is_symlink()
    assert (target.read_text(), S_IMODE(target.stat().st_mode)) == ("new", 0o640)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["exports", "people-1.csv", "people.csv"]


def test_a_link_to_nothing_yet_leads_to_the_file_afterwards(tmp_path: Path) -> None:
    (tmp_path / "people.csv").symlink_to(tmp_path / "later.csv")
    with atomic_writer(tmp_path / "people.csv", text=True) as file:
        file.write("new")
    assert (tmp_path / "later.csv").read_text() == "new"
