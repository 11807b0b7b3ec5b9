"""Files of rows are read as they are, or refused; files that we write appear whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from stat import S_IMODE
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pytest import MonkeyPatch

from streamer.errors import ConfigError
from streamer.table.codes import cell_text
from streamer.table.csv_files import csv_chunks, write_index, write_rows
from streamer.table.files import atomic_writer, atomic_writers
from streamer.table.parquet_files import parquet_parts, read_part
from streamer.table.sources import column_names, read_rows

# -- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "\ufeffsep=;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_first_line_that_says_the_delimiter_is_no_header(
    saved: Callable[[str | bytes], Path], first: str, end: str
) -> None:
    frame = read_rows(saved(end.join((first, "id;a,b,c,d", "1;2", "")).encode()))
    assert (list(frame.columns), frame.iloc[0].tolist()) == (["id", "a,b,c,d"], ["1", "2"])


def test_lines_below_one_that_says_the_delimiter_are_counted_as_in_the_file(
    saved: Callable[[str | bytes], Path],
) -> None:
    with pytest.raises(ConfigError, match="line 4: has 1 cells; the header has 2"):
        read_rows(saved("sep=|\nid|age\n1|2\n3\n"))
    with pytest.raises(ConfigError, match="is empty; expected a header line"):
        read_rows(saved("sep=,\n"))


def test_a_bar_is_the_delimiter_where_the_header_holds_no_other(saved: Callable[[str | bytes], Path]) -> None:
    bars = read_rows(saved('id|"a|b, c"|sex\n1|2,5|x;y\n'))
    assert (list(bars.columns), bars.iloc[0].tolist()) == (["id", "a|b, c", "sex"], ["1", "2,5", "x;y"])
    assert list(read_rows(saved("id,a|b|c|d\n1,2\n")).columns) == ["id", "a|b|c|d"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_found_in_the_header(saved: Callable[[str | bytes], Path], delimiter: str) -> None:
    frame = read_rows(
        saved(f'a{delimiter}"b,;b"{delimiter}c\n1{delimiter}2,3;4\t5{delimiter}x\n'.replace("2,3;4\t5", '"2,3;4\t5"'))
    )
    assert list(frame.columns) == ["a", "b,;b", "c"]
    assert frame.iloc[0].tolist() == ["1", "2,3;4\t5", "x"]


def test_cells_stay_the_text_they_are(saved: Callable[[str | bytes], Path]) -> None:
    frame = read_rows(saved('\ufeffid,zip,note\r\n007,1e3,NA\r\n1.0,,"say ""hi""\nand go"\r\n\r\n'))
    assert list(frame.columns) == ["id", "zip", "note"]
    assert frame.to_numpy().tolist() == [["007", "1e3", "NA"], ["1.0", "", 'say "hi"\nand go']]


@given(
    st.lists(st.lists(st.text('ab ,;\r\n\t"é\0', max_size=4), min_size=1, max_size=3), max_size=5),
    st.sampled_from([",", ";", "\t", ", ", "; "]),
)
@example([["a", "b"], ["c"]], ",")
@example([["  a", "b ", ""], ["", "", ""]], ", ")
@example([["a", "", "b"], [""], ["c", "d", "e"]], ",")
def test_the_fast_way_for_plain_files_reads_them_as_the_other_way_does(rows: list[list[str]], delimiter: str) -> None:
    text = "\n".join(delimiter.join(row) for row in [["x", "y", "z"], *rows])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_bytes(text.encode())
        fast = texts_or_fault(path)
        with MonkeyPatch.context() as without:
            without.setitem(sys.modules, "pyarrow", None)
            assert texts_or_fault(path) == fast


@given(
    st.lists(st.lists(st.text('ab"\n', max_size=3), min_size=3, max_size=3), max_size=9),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_file_in_chunks_is_the_file(rows: list[list[str]], rows_max: int, ragged: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["x", "y", "z"], *rows, *([["1", "2"]] if ragged else [])])
        if ragged:
            with pytest.raises(ConfigError, match="has 2 cells; the header has 3"):
                list(csv_chunks(path, rows_max))
            return
        chunks = list(csv_chunks(path, rows_max))
        assert all(len(chunk) <= rows_max for chunk in chunks)
        assert pd.concat(chunks).to_numpy().tolist() == read_rows(path).to_numpy().tolist()
        assert column_names(path) == ["x", "y", "z"]


def texts_or_fault(path: Path) -> object:
    try:
        frame = read_rows(path)
    except ConfigError as fault:
        return str(fault)
    return list(frame.columns), frame.to_numpy().tolist()


def test_a_header_alone_is_a_table_without_rows(saved: Callable[[str | bytes], Path]) -> None:
    frame = read_rows(saved("id,age\n"))
    assert (list(frame.columns), len(frame)) == (["id", "age"], 0)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("age\n1\n\n2\n", ["1", "", "2"]),
        ("age\r\n\r\n\r\n2", ["", "", "2"]),
        ('age\n1\n""\n', ["1", ""]),
        ("age\n1\n", ["1"]),
        ("a,b\n1,2\n\n3,4\n\n", ["1", "3"]),
        ('"City, country"\nParis\n\n"Rome, Italy"\n', ["Paris", "", "Rome, Italy"]),
    ],
)
def test_a_blank_line_is_a_row_of_one_column_alone(tmp_path: Path, text: str, cells: list[str]) -> None:
    """Before: it was no row, and a person without a value was lost in silence."""
    (tmp_path / "rows.csv").write_bytes(text.encode())
    assert read_rows(tmp_path / "rows.csv").iloc[:, 0].tolist() == cells
    parts = pd.concat(csv_chunks(tmp_path / "rows.csv", 2))
    assert parts.iloc[:, 0].tolist() == cells


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("id,age,id\n", "names the column 'id' twice"),
        ("id,age\n1,2\n3\n", "line 3: has 1 cells; the header has 2"),
        ("Patients\nid,age\n1,2\n", "line 2: has 2 cells; the header has 1; if there are titles above the header"),
        ("Ward\nid;age;ill\n7;secret;flu\n", "line 1: has one cell, and the lines below it have more"),
        ("Ward\n\nid\tage\till\r\n7\tsecret\tflu\n", "line 1: has one cell, and the lines below it have more"),
        ("Ward 7, all\nid,age,ill\n7,secret,flu\n", "line 2: has 3 cells; the header has 2; if there are titles"),
        ('Ward\n"id";"age"\n"7";"secret"\n', "line 2: not valid CSV .a quotation mark out of place, or a title"),
        ('"id,age,sex"\n1,secret,f\n', "line 1: the line is in quotation marks as a whole"),
        ('"id,age,sex"\n"1,secret,f"\n', "line 1: the line is in quotation marks as a whole"),
        ('"id;""the age"";sex"\r\n"1;""secret;x"";f"\r\n', "line 1: the line is in quotation marks as a whole"),
        ('Patients of 2025\n"id,age,sex"\n"1,secret,f"\n', "line 2: the line is in quotation marks as a whole"),
        ('id,age,ill\n1,2,f\n"secret Lee,3,""flu, bad"""\n', "line 3: the line is in quotation marks as a whole"),
        ("age\n1\n\n", "line 3: is blank, and the last one"),
        ("age\r\n1\r\n\r\n\r\n", "line 4: is blank, and the last one"),
        ("id,age\n1,2,secret\n", "line 2: has 3 cells; the header has 2"),
        ('id,age\n1,"secret\n', "line 2: not valid CSV"),
        (b"id\n\xff\n", "not UTF-8"),
        (b"PAR1\x15\x04\xff7\n", "is a Parquet file: rename it"),
        (b"PK\x03\x04\xff7\n", "is a zip file, as .xlsx is: rename it"),
        (b"\x1f\x8b\x08\xff7\n", r"is compressed by gzip: rename it, so that its name ends with \.gz"),
        ('{"id": 7, "age": 8}\n', "is JSON, not CSV"),
        ('{ "id":7}\n', "is JSON, not CSV"),
        ('[{"id":7}]\n', "is JSON, not CSV"),
        ("id\n" + "7" * 131_073 + "\n", "line 2: a cell of more than 131,072 characters"),
    ],
)
def test_a_broken_table_is_refused_without_its_values(
    saved: Callable[[str | bytes], Path], content: str | bytes, complaint: str
) -> None:
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
        with pytest.raises(ConfigError, match="not a complete gzip file"):
            read_rows(path)


def test_a_file_of_tabs_is_cut_at_tabs_whatever_its_header_holds(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("name, first, last\tid\nx\t1\n")
    assert list(read_rows(path).columns) == ["name, first, last", "id"]


def test_a_table_may_come_from_stdin_which_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"id\n7\n")))
    assert read_rows("-")["id"].tolist() == ["7"]
    assert sys.stdin.read() == ""


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("none", "none.parquet"):
        with pytest.raises(ConfigError, match=f"{name}: cannot be read: No such file"):
            read_rows(tmp_path / name)


def test_a_parquet_file_says_the_same_as_a_csv_file_whole_numbers_beside_nulls_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    large = 2**53 + 1
    typed = pd.DataFrame({"id": [1, 2], "n": pd.array([large, None], "Int64"), "x": [0.5, 2.0], "t": ["a", None]})
    typed.to_parquet(tmp_path / "rows.PARQUET")
    read = read_rows(tmp_path / "rows.PARQUET")
    cells = [[cell_text(value) for value in read[name]] for name in read.columns]
    assert cells == [["1", "2"], [str(large), ""], ["0.5", "2"], ["a", ""]]
    (tmp_path / "none.parquet").write_text("id,n\n1,2\n")
    with pytest.raises(ConfigError, match=r"none\.parquet"):
        read_rows(tmp_path / "none.parquet")


def test_an_index_of_pandas_that_is_not_in_every_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for first in (1, 3):
        index = pd.RangeIndex(first, first + 2, name="id")
        pd.DataFrame({"n": [7, 8]}, index).to_parquet(tmp_path / f"{first}.parquet")
    assert read_rows(tmp_path / "3.parquet")["id"].tolist() == [3, 4]
    for read in (read_rows, partial(parquet_parts, rows_max=3)):
        with pytest.raises(ConfigError, match=r"'id' is an index of pandas.*`reset_index\(\)`"):
            read(tmp_path)


def test_an_index_of_pandas_whose_ends_alone_are_stored_is_a_column_of_every_part(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file = tmp_path / "rows.parquet"
    pd.DataFrame({"n": range(10)}, pd.RangeIndex(5, 25, 2, name="id")).to_parquet(file, row_group_size=4)
    assert column_names(file) == list(read_rows(file).columns) == ["id", "n"]
    frames = [frame for part in parquet_parts(file, 5) for _, frame in read_part(part, 3)]
    assert [len(frame) for frame in frames] == [3, 1, 3, 1, 2]
    assert [number for frame in frames for number in frame["id"]] == list(range(5, 25, 2))


def test_texts_of_every_arrow_type_are_texts(tmp_path: Path) -> None:
    pa, pq = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    texts = pa.array(["a", None, "b", "a"])
    kinds = {"string": texts, "large_string": texts.cast("large_string"), "dictionary": texts.dictionary_encode()}
    if hasattr(pa, "string_view"):
        kinds["string_view"] = texts.cast(pa.string_view())
    pq.write_table(pa.table(kinds), tmp_path / "rows.parquet")
    read = read_rows(tmp_path / "rows.parquet")
    assert list(read.columns) == list(kinds)
    for name in kinds:
        numbers, found = pd.factorize(read[name], use_na_sentinel=False)
        assert (numbers.tolist(), [cell_text(text) for text in found]) == ([0, 1, 2, 0], ["a", "", "b"])


def test_parquet_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    pa, pq = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    ids = pa.array([1])
    pq.write_table(pa.Table.from_arrays([ids, ids], ["id", "id"]), tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match="the header names the column 'id' twice"):
        read_rows(tmp_path / "rows.parquet")


def test_a_folder_without_parquet_is_refused_and_named(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    with pytest.raises(ConfigError, match="is a folder without Parquet files"):
        read_rows(tmp_path)
    for name, typed in (("a", {"id": [1]}), ("b", {"id": [["not a row"]]})):
        pd.DataFrame(typed).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ConfigError, match="is no folder of Parquet files with the same columns and types"):
        read_rows(tmp_path)
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 1


def test_parquet_without_pyarrow_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match="install pyarrow"):
        read_rows(tmp_path / "rows.parquet")


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_blanks_after_every_delimiter_of_the_header_belong_to_no_cell(tmp_path: Path, delimiter: str) -> None:
    lines = ["id, name, age", '1, "Ann, B", 7', "2,  x y , "]
    (tmp_path / "rows.csv").write_text(
        "\n".join(lines).replace(", ", f"{delimiter} ").replace(f"Ann{delimiter}", "Ann,")
    )
    assert read_rows(tmp_path / "rows.csv").values.tolist() == [["1", "Ann, B", "7"], ["2", "x y ", ""]]


def test_a_file_with_blanks_after_its_delimiters_is_read_the_fast_way(tmp_path: Path) -> None:
    (tmp_path / "adult.csv").write_text("age, workclass\n39,  State-gov\n50, ?\n")
    frame = read_rows(tmp_path / "adult.csv")
    assert frame.to_numpy().tolist() == [["39", "State-gov"], ["50", "?"]]
    assert set(map(str, frame.dtypes)) == {"string[pyarrow]"}


def test_blanks_in_cells_stay_if_the_header_has_none_after_its_delimiters(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,the name, age\n 1, x,7\n")
    assert read_rows(tmp_path / "rows.csv").values.tolist() == [[" 1", " x", "7"]]


# Files that we write appear whole, together, or not at all.


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


FORMULAS = ("=1+1", "@SUM(A1)", "+49 30", "-5..-1", "\t=1", "-A1", "＝1+1", "\r=1")
NO_FORMULAS = ("-5", "+3,5", "-1.5e-31", "-", "a=b", "a;-5;b", "'=1", "", "5")


@pytest.mark.parametrize(("formulas", "begins"), [("escape", "'"), ("keep", "")])
def test_a_spreadsheet_runs_no_text_of_a_table_unless_it_is_kept(formulas: str, begins: str) -> None:
    texts = [*FORMULAS, *NO_FORMULAS]
    frame = pd.DataFrame({"note": texts, "n": [-5] * len(texts), "d": [Decimal(-5)] * len(texts)}, dtype=object)
    write_rows(frame.astype({"n": "int64"}), written := io.StringIO(newline=""), formulas)
    lines = list(csv.reader(io.StringIO(written.getvalue(), newline="")))[1:]
    assert [note for note, _, _ in lines] == [*(begins + text for text in FORMULAS), *NO_FORMULAS]
    assert {(n, d) for _, n, d in lines} == {("-5", "-5")}


def test_a_spreadsheet_runs_no_name_of_a_column_and_nothing_after_a_semicolon() -> None:
    frame = pd.DataFrame({"=1+1": ["Ulm;=1+1", "Ulm"]})
    write_rows(frame, written := io.StringIO(newline=""), "escape")
    assert written.getvalue() == "'=1+1\nUlm;'=1+1\nUlm\n"
    write_rows(frame, kept := io.StringIO(newline=""))
    assert kept.getvalue() == "=1+1\nUlm;=1+1\nUlm\n"


@pytest.mark.parametrize("formulas", ["escape", "keep"])
def test_a_line_end_in_a_text_begins_no_row(formulas: str) -> None:
    frame = pd.DataFrame({"note": ["x\r=1+1", "x\n=1+1", "x\r\n=1+1", "x\r"], "n": range(4)})
    write_rows(frame, written := io.StringIO(newline=""), formulas)
    rows = list(csv.reader(io.StringIO(written.getvalue(), newline=""), strict=True))
    assert rows == [["note", "n"], *([note, str(n)] for note, n in zip(frame["note"], range(4), strict=True))]


@pytest.mark.parametrize("text", [*FORMULAS, "Ulm;=1+1"])
def test_a_formula_is_refused_by_its_column_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"column 'note': .* `--formulas keep`") as refused:
        write_rows(pd.DataFrame({"note": ["fine", text]}), io.StringIO(), "refuse")
    assert text not in str(refused.value)


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


def test_a_pipe_gets_the_whole_content_or_nothing_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, link):
        with suppress(KeyError), atomic_writer(path, text=True) as file:
            file.write("half")
            raise KeyError
        with atomic_writer(path, text=True) as file:
            file.write("all")
        assert os.read(reader, 10) == b"all"
    os.close(reader)
    assert (pipe.is_fifo(), sorted(tmp_path.iterdir())) == (True, [link, pipe])


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_two_files_that_appear_leaves_both_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Before: the table was new, and its private index of another run beside it."""
    replace = os.replace

    def interrupted(draft: Path, path: Path) -> None:
        if path == files[1]:
            os.kill(os.getpid(), number)
        replace(draft, path)

    def heard(_number: int, _frame: object) -> None:
        raise InterruptedError

    files = [tmp_path / name for name in ("table.csv", "index.csv")]
    for file in files:
        file.write_text("old")
    monkeypatch.setattr(os, "replace", interrupted)
    former = signal.signal(number, heard)
    try:
        with pytest.raises(InterruptedError), atomic_writers(files, text=True) as opened:
            for one in opened:
                one.write("new")
    finally:
        signal.signal(number, former)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"table.csv": "new", "index.csv": "new"}


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('id,note\n1,ok\n2,"begins here\nand never\nends\n', "line 3: not valid CSV"),
        ('id,note\n1,"two\nlines"\n2,"x"y\n', "line 4: not valid CSV"),
        ('id,note\n1,"two\nlines",3\n2,y\n', "line 2: has 3 cells; the header has 2"),
        (
            "id,note,sex\n1,ok,f\n2,cut o",
            "line 3: has 2 cells; the header has 3; does the file end in the middle of a row",
        ),
        ("id;note;sex\n1;ok;f\n\n44\n", "line 4: has 1 cells; the header has 3; does the file end"),
    ],
)
def test_a_fault_names_the_line_in_which_its_row_begins(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_rows(tmp_path / "rows.csv")
