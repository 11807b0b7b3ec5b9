"""What commands write: files that are what their names say, standard output, and nothing written over unasked."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from streamer.cli.main import COMMANDS
from streamer.cli.support.outputs import require_writable
from streamer.copies import COPIES, Duckdb, copied_before
from streamer.errors import UsageError
from streamer.table.files import table_files
from streamer.table.sources import read_rows
from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS
from worlds.published_groups import FORMS, FollowedTable, followed

ROWS, EVENTS = PATIENTS / "rows.csv", PATIENTS / "events.jsonl"
TABLE = ("--table", PATIENTS)
ANONYMIZE = ("anonymize", *TABLE, ROWS, "--seed", 1)
NO_KAFKA, NO_REDIS = ("--kafka", "127.0.0.1:1"), ("--redis", "redis://127.0.0.1:1/0")

Words = tuple[object, ...]

WRITERS: dict[str, tuple[Words, str, str]] = {
    "the anonymous table": (ANONYMIZE, "-o", "out.csv"),
    "its index": ((*ANONYMIZE, "-o", "/dev/null"), "--index", "index.csv"),
    "its report": ((*ANONYMIZE, "-o", "/dev/null"), "--report", "report.html"),
    "what it left out": ((*ANONYMIZE, "-o", "/dev/null"), "--skip-refused", "list.csv"),
    "a hierarchy": (("hierarchy", ROWS, "--column", "age", "--by", "intervals"), "-o", "age.csv"),
    "a distribution": (("distribution", ROWS, *TABLE, "--column", "problem"), "-o", "problem.yaml"),
    "the comparison": (("compare", *TABLE, ROWS), "--report", "report.html"),
    "the page of an audit": (("audit", *TABLE, "no.jsonl", "--source", EVENTS), "--html", "page.html"),
    "what check left out": (("check", *TABLE, "--data", ROWS, "--no-costs"), "--skip-refused", "list.csv"),
    "what produce left out": (("produce", ROWS, *TABLE, *NO_KAFKA), "--skip-refused", "list.csv"),
    "the live index": (("index", *TABLE, *NO_REDIS), "--out", "index.csv"),
    "the letters": (("dead-letters", *TABLE, *NO_KAFKA), "--export", "letters.jsonl"),
    "the changelog": (("subscribe", *TABLE, *NO_KAFKA), "--live", "live.jsonl"),
    "the published table": (("subscribe", *TABLE, *NO_KAFKA), "--csv", "table.csv"),
    "the published table as Parquet": (("subscribe", *TABLE, *NO_KAFKA), "--parquet", "table.parquet"),
    "a database": (("subscribe", *TABLE, *NO_KAFKA), "--duckdb", "table.duckdb"),
}
"""Calls that write a file: the words before the option, the option, and a name that it takes."""

FOLDERS: dict[str, tuple[Words, str]] = {
    "a draft": (("init", ROWS, "-o"), "table.yaml"),
    "a replay": (("replay", *TABLE, EVENTS, "--out"), "live.jsonl"),
    "a demo": (("demo", "--out"), "anything"),
}
"""Calls that write into a folder, and a file of it that may be there."""


# -- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("name", ["o.xlsx", "o.zip", "o.json", "o.csv.zip", "o.parquet.gz", "o.tsv", "-"])
def test_a_name_that_says_something_else_is_refused_with_the_names_that_are_written(
    what: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, option, fitting = WRITERS[what]
    if name == "-" and what in ("the anonymous table", "a hierarchy", "a distribution", "the live index"):
        return
    monkeypatch.chdir(tmp_path)
    result = streamer(*words, option, name)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert f"{name}: the name must" in result.stderr
    assert Path(fitting).suffix in result.stderr


def test_a_table_named_as_gzip_is_gzip_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    plain, packed, again = (tmp_path / name for name in ("a.csv", "a.csv.gz", "b.CSV.GZ"))
    for out in (plain, packed, again):
        assert streamer(*ANONYMIZE, "-o", out).exit_code == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()


def test_a_table_named_as_parquet_is_parquet_in_the_types_of_the_published_table(tmp_path: Path) -> None:
    for out in ("a.csv", "a.parquet"):
        answer(*ANONYMIZE, "-o", tmp_path / out)
    found = pq.read_table(tmp_path / "a.parquet").to_pandas()
    pd.testing.assert_frame_equal(found, pd.read_csv(tmp_path / "a.csv"), check_dtype=False)
    assert pd.api.types.is_integer_dtype(found["age_lo"].dtype)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_the_two_tables_of_a_lossy_join_keep_the_ending_of_the_name(name: str, tmp_path: Path) -> None:
    assert streamer(*ANONYMIZE, "--form", "lossy-join", "-o", tmp_path / name).exit_code == 0
    for which, column in (("qit", "age_lo"), ("stt", "individual")):
        path = tmp_path / name.replace(".", f"-{which}.", 1)
        frame = pd.read_parquet(path) if name.endswith("parquet") else read_rows(path)
        assert column in frame.columns


# -- standard output ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stdout", ["-", "/dev/stdout"])
def test_standard_output_gets_the_table_alone_and_the_words_go_to_stderr(stdout: str, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert streamer(*ANONYMIZE, "-o", out).exit_code == 0
    piped = streamer("anonymize", *TABLE, "-", "--seed", 1, "-o", stdout, stdin=ROWS.read_text())
    assert (piped.exit_code, piped.stdout_bytes) == (0, out.read_bytes())
    assert "every QI group has" in piped.stderr


def test_what_does_not_fit_into_standard_output_is_refused_and_nothing_is_printed_there() -> None:
    for words, why in (
        (("--form", "lossy-join"), "a lossy join is two tables"),
        (("--json",), "would get the table and --json"),
        (("--formulas", "refuse", "--k", 1000), "are fewer than k"),
    ):
        result = streamer(*ANONYMIZE, "-o", "-", *words)
        assert (result.exit_code, why in result.stderr) == (2, True), result.stderr
        assert result.stdout == "" or words == ("--json",)


def test_a_draft_goes_to_standard_output_if_it_is_one_file(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,age\n" + "".join(f"p{i},{20 + i}\n" for i in range(30)))
    drafted = streamer("init", rows, "-o", tmp_path / "mine")
    piped = streamer("init", rows, "-o", "-")
    assert (drafted.exit_code, piped.exit_code) == (0, 0)
    assert piped.stdout == (tmp_path / "mine" / "table.yaml").read_text()
    assert "age: quasi-identifier" in piped.stderr
    result = streamer("init", ROWS, "-o", "-")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "are files of their own: name a folder" in result.stderr


@pytest.mark.parametrize("what", ["a replay", "a demo"])
def test_a_folder_is_not_standard_output(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = streamer(*FOLDERS[what][0], "-")
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "--out -: the name must be that of a folder" in result.stderr


# -- what is there --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", sorted(WRITERS.keys() - {"a database"}))
def test_a_file_that_exists_is_not_written_over_before_somebody_says_so(what: str, tmp_path: Path) -> None:
    words, option, name = WRITERS[what]
    out = tmp_path / name
    out.write_text("precious")
    result = streamer(*words, option, out)
    assert (result.exit_code, out.read_text(), list(tmp_path.iterdir())) == (2, "precious", [out])
    assert f"{out}: exists already" in result.stderr
    assert "--force" in result.stderr
    if NO_KAFKA[1] not in words:  # else there is nothing to write
        assert "exists already" not in streamer(*words, option, out, "--force").stderr


def test_a_file_that_is_no_database_does_not_become_one(tmp_path: Path) -> None:
    (path := tmp_path / "people.duckdb").write_text("precious")
    with pytest.raises(UsageError, match="cannot be opened as a database"):
        Duckdb(FollowedTable("rows", seed=1).table, path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("what", FOLDERS)
def test_a_folder_with_a_file_of_that_name_is_not_written_over(what: str, tmp_path: Path) -> None:
    words, name = FOLDERS[what]
    (tmp_path / name).write_text("precious")
    result = streamer(*words, tmp_path)
    assert (result.exit_code, [path.read_text() for path in tmp_path.iterdir()]) == (2, ["precious"])
    assert "overwritten; name another" in result.stderr
    if what != "a demo":  # which takes a new folder only
        result = streamer(*words, tmp_path, "--force")
        assert (result.exit_code, (tmp_path / name).read_text() != "precious") == (0, True), result.output


def test_a_second_replay_into_a_folder_takes_force_and_uses_the_secret_again(tmp_path: Path) -> None:
    replay, secret = ("replay", *TABLE, EVENTS, "--out", tmp_path), tmp_path / "secret.txt"
    assert streamer(*replay).exit_code == 0
    told = secret.read_text()
    assert streamer(*replay).exit_code == 2
    assert streamer(*replay, "--force").exit_code == 0
    assert secret.read_text() == told
    for path in tmp_path.iterdir():
        path.unlink() if path != secret else None
    assert streamer(*replay).exit_code == 0  # a secret alone is an input
    assert secret.read_text() == told


def test_a_device_is_not_written_over(tmp_path: Path) -> None:
    assert streamer(*ANONYMIZE, "-o", "/dev/null").exit_code == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_copy_is_continued_where_an_earlier_run_left_it_and_no_other_file(
    form: str, name: str, tmp_path: Path
) -> None:
    world, path = FollowedTable(form, seed=3), tmp_path / name
    files = table_files(path, list(world.frames()))
    assert copied_before(world.table, path) == []
    followed(COPIES["csv"](world.table, path, "keep"), world)
    assert copied_before(world.table, path) == files
    other = replace(world.table, kept=tuple(replace(column, name="other") for column in world.table.kept))
    assert files[-1] not in copied_before(other, path)
    files[0].write_bytes(b"" if name != "t.csv.gz" else gzip.compress(b"precious"))
    assert copied_before(world.table, path) == files[1:]


def test_outputs_are_neither_inputs_nor_one_another_even_by_force(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    require_writable([b, c], True, [a])
    for outputs in ([a], [b, b], [tmp_path / "x" / ".." / "a"]):
        with pytest.raises(UsageError, match="give every output a name of its own"):
            require_writable(outputs, True, [a])


@pytest.mark.parametrize("command", ["check", "produce"])
def test_the_list_of_refused_rows_is_not_written_over_the_rows(tmp_path: Path, command: str) -> None:
    rows = shutil.copy(ROWS, tmp_path / "rows.csv")
    data = ["--data", rows] if command == "check" else [rows, *NO_KAFKA]
    result = streamer(command, *TABLE, *data, "--skip-refused", rows, "--force")
    assert (result.exit_code, "is an input" in result.stderr) == (2, True)
    assert Path(rows).read_bytes() == ROWS.read_bytes()


def test_every_command_that_writes_is_tried_here() -> None:
    tried = {words[0] for words, *_ in (*WRITERS.values(), *FOLDERS.values())}
    options = {name: streamer(name, "--help").stdout for name in COMMANDS}
    writing = {name for name, text in options.items() if "--force" in text}
    assert tried == writing - {"erase"} | {"demo"}, "erase needs servers: tests/servers/test_erase.py"
