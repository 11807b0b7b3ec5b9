"""`anonymize --fragment-rows`: files that were checked, the same from any number of processes; all or none."""

from __future__ import annotations

import csv
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from streamer.engines.local import CHUNK_ROWS
from streamer.engines.pool import ProcessPool
from streamer.recoding.fragments import steps
from worlds.calls import answer, streamer

TABLE = """
table: stays
key: id
individual: person
columns:
  age: {role: quasi-identifier, type: integer, domain: [0, 99], grid: 1}
  zip: {role: quasi-identifier, type: integer, domain: [0, 9999], grid: 100}
  day: {role: quasi-identifier, type: date, domain: [2020-01-01, 2020-12-31], grid: 1 day, null_as: 2020-12-31}
  city: {role: quasi-identifier, hierarchy: city.csv}
  problem: {role: sensitive, type: text}
  cost: {role: keep, type: integer, acknowledge_linkable: true}
privacy: {k: 4, l: 3}
publish: {live: {form: rows}}
"""
CITIES = [[f"{town}{i}", town, "*"] for town in ("north", "south") for i in range(4)]
PROBLEMS = ["flu", "cough", "ulcer", "burn", "cut"]
ROWS, FRAGMENT = 6_000, 1_000
assert ROWS < CHUNK_ROWS  # so the source is cut by its files alone
pytestmark = pytest.mark.slow


def stays(seed: int = 0) -> pd.DataFrame:
    """Stays in hospital: some people have many, some rows are alike, some days are missing."""
    rng = np.random.default_rng(seed)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, ROWS), "D")
    frame = pd.DataFrame(
        {
            "id": np.arange(ROWS) + 100_000,
            "age": np.minimum(rng.integers(0, 100, ROWS), 90),
            "zip": rng.choice([1234, 5678, *range(0, 9999, 7)], ROWS),
            "day": days.date,
            "city": rng.choice([name for name, *_ in CITIES], ROWS),
            "person": [f"secret-{i}" for i in np.minimum(rng.integers(0, 4_000, ROWS), 3_500)],
            "problem": rng.choice(PROBLEMS, ROWS, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
            "cost": rng.integers(0, 50, ROWS),
            "name": "nobody's business",
        }
    )
    frame.loc[rng.random(ROWS) < 0.02, "day"] = None
    alike = {"age": 40, "zip": 1234, "day": date(2020, 5, 5), "city": "north0"}
    some = np.arange(ROWS) < 2_000  # more rows than a fragment has
    for column, value in alike.items():
        cells: list[Any] = [value if here else cell for here, cell in zip(some, frame[column], strict=True)]
        frame[column] = cells
    return frame


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table.yaml, and its rows as a folder of Parquet files."""
    folder = tmp_path_factory.mktemp("stays")
    (folder / "table.yaml").write_text(TABLE)
    with open(folder / "city.csv", "w", newline="") as file:
        csv.writer(file).writerows(CITIES)
    saved(stays(), folder / "rows", 4)
    return folder


def saved(frame: pd.DataFrame, folder: Path, files: int) -> Path:
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[part].to_parquet(folder / f"part-{i}.parquet", index=False)
    return folder


def asked(world: Path, rows: Path, out: Path, *more: object) -> list[object]:
    return ["anonymize", "--table", world, rows, "-o", out, "--fragment-rows", FRAGMENT, "--workers", 2, *more]


@pytest.fixture(scope="module")
def published(world: Path) -> Iterator[Path]:
    """What is published of them by seed 5, with its index."""
    facts = answer(*asked(world, world / "rows", world / "out", "--seed", 5, "--index", world / "index.csv"))
    assert facts["details"]["fragments"] > 4
    assert facts["measures"]["rows"] == ROWS
    yield world / "out"


def test_every_group_of_the_files_holds_the_model(world: Path, published: Path) -> None:
    source, index, files = (str(world / name) for name in ("rows/*.parquet", "index.csv", "out/*.parquet"))
    boxes = "age_lo, age_hi, zip_lo, zip_hi, day_lo, day_hi, city"
    groups = duckdb.sql(
        f"SELECT qi_group, count(*) n, count(DISTINCT problem) l, count(DISTINCT ({boxes})) boxes"
        f" FROM read_parquet('{files}') GROUP BY qi_group"
    ).df()
    assert (groups["n"].sum(), groups["n"].min() >= 4, groups["l"].min() >= 3) == (ROWS, True, True)
    assert (groups["boxes"] == 1).all()
    people = duckdb.sql(
        f"SELECT qi_group, count(DISTINCT person) people FROM read_parquet('{source}') s JOIN read_csv('{index}') i"
        " ON s.id = i.key GROUP BY qi_group"
    ).df()
    assert (len(people), people["people"].min() >= 4) == (len(groups), True)


def test_every_row_lies_in_the_box_of_its_group_and_brings_its_values(world: Path, published: Path) -> None:
    source, index, files = (str(world / name) for name in ("rows/*.parquet", "index.csv", "out/*.parquet"))
    outside = duckdb.sql(
        f"WITH box AS (SELECT DISTINCT qi_group, age_lo, age_hi, zip_lo, zip_hi FROM read_parquet('{files}'))"
        f" SELECT count(*) FROM read_parquet('{source}') s JOIN read_csv('{index}') i ON s.id = i.key"
        " JOIN box USING (qi_group) WHERE s.age NOT BETWEEN age_lo AND age_hi OR s.zip NOT BETWEEN zip_lo AND zip_hi"
    ).fetchall()
    assert outside == [(0,)]
    of_source = duckdb.sql(
        f"SELECT qi_group, problem, cost FROM read_parquet('{source}') s JOIN read_csv('{index}') i ON s.id = i.key"
    ).df()
    of_files = duckdb.sql(f"SELECT qi_group, problem, cost FROM read_parquet('{files}')").df()
    columns = ["qi_group", "problem", "cost"]
    one, other = (frame.sort_values(columns).reset_index(drop=True) for frame in (of_source, of_files))
    pd.testing.assert_frame_equal(one, other)


def test_files_are_numbered_by_what_they_publish_and_say_nothing_else(published: Path) -> None:
    names = sorted(path.name for path in published.iterdir())
    assert names == [f"part-{i:05}.parquet" for i in range(len(names))]
    frame = pd.concat([pd.read_parquet(published / name) for name in names], ignore_index=True)
    number = frame["qi_group"].str.removeprefix("0-").astype(int)
    assert number.is_monotonic_increasing
    assert set(number) == set(range(1, number.max() + 1))
    ends = frame.drop_duplicates("qi_group")[["age_lo", "zip_lo"]]
    assert ends["age_lo"].is_monotonic_increasing  # the first column of the order
    assert "secret" not in "".join(path.read_bytes().decode("latin-1") for path in published.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


SHAPES: dict[str, Callable[[Path], tuple[Path, int]]] = {
    "one process": lambda folder: (saved(stays(), folder / "rows", 4), 1),
    "other files in another order": lambda folder: (
        saved(stays().sample(frac=1, random_state=3), folder / "rows", 7),
        2,
    ),
    "CSV": lambda folder: (as_csv(folder / "rows.csv"), 2),
}


def as_csv(path: Path) -> Path:
    stays().to_csv(path, index=False)
    return path


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_and_seed_give_the_same_bytes(
    world: Path, published: Path, tmp_path: Path, shape: str, request: pytest.FixtureRequest
) -> None:
    rows, workers = SHAPES[shape](tmp_path)
    if shape != "one process":
        request.getfixturevalue("calls_here")
    index = tmp_path / "index.csv"
    answer(*asked(world, rows, tmp_path / "out", "--seed", 5, "--workers", workers, "--index", index))
    assert contents(tmp_path / "out") == contents(published)
    if shape != "other files in another order":  # rows that are alike may change places, and only the index shows it
        assert index.read_bytes() == (world / "index.csv").read_bytes()


@pytest.mark.usefixtures("calls_here")
def test_a_table_is_the_same_without_a_seed(world: Path, published: Path, tmp_path: Path) -> None:
    answer(*asked(world, world / "rows", tmp_path / "out"))
    assert contents(tmp_path / "out") == contents(published)


@pytest.mark.usefixtures("calls_here")
@pytest.mark.night
def test_boxes_that_are_kept_apart_are_measured_as_by_one_run_and_only_their_numbers_differ_without_a_seed(
    world: Path, tmp_path: Path
) -> None:
    how = ["--keep-equal-boxes", "--report", tmp_path / "page.html", "--force"]
    kept = answer(*asked(world, world / "rows", tmp_path / "kept", *how))
    again = answer(*asked(world, world / "rows", tmp_path / "again", "--keep-equal-boxes"))
    merged = answer(*asked(world, world / "rows", tmp_path / "merged", "--report", tmp_path / "page.html", "--force"))
    assert kept["measures"]["groups"] > merged["measures"]["groups"]
    for name in ("l", "alpha", "beta", "risk", "prosecutor_max", "prosecutor_mean", "ncp"):
        assert kept["measures"][name] == again["measures"][name] == pytest.approx(merged["measures"][name]), name
    for name in ("after", "inference"):
        assert comparable(kept["report"][name]) == comparable(merged["report"][name]), name

    def groups(folder: Path) -> list[tuple[object, ...]]:
        frame, found = pd.concat(map(pd.read_parquet, sorted(folder.iterdir()))).astype(str), defaultdict(list)
        for number, row in zip(frame.pop("qi_group"), frame.itertuples(index=False, name=None), strict=True):
            found[number].append(row)
        return sorted(map(tuple, found.values()))

    assert groups(tmp_path / "kept") == groups(tmp_path / "again")


@pytest.mark.usefixtures("calls_here")
def test_a_table_that_is_one_fragment_is_published_as_by_one_run(world: Path, tmp_path: Path) -> None:
    plain, folder = tmp_path / "plain.parquet", tmp_path / "out"
    answer("anonymize", "--table", world, world / "rows", "-o", plain, "--seed", 2)
    answer(*asked(world, world / "rows", folder, "--seed", 2, "--fragment-rows", 10_000))
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "part-00000.parquet"), pd.read_parquet(plain))


def test_equal_boxes_are_one_group(published: Path) -> None:
    frame = pd.concat(map(pd.read_parquet, sorted(published.iterdir())))
    boxes = frame.drop(columns=["qi_group", "problem", "cost"]).astype(str).agg("|".join, axis=1)
    assert boxes.nunique() == frame["qi_group"].nunique()


# -- all rows recoded alike -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("calls_here")
@pytest.mark.parametrize(
    ("algorithm", "suppression", "workers", "shape"),
    [("ola", 0.0, 2, "CSV"), ("ola", 0.15, 1, "other files in another order"), ("degree-first", 0.15, 2, "CSV")],
)
def test_a_table_that_is_recoded_alike_is_published_as_by_one_run(
    world: Path, tmp_path: Path, algorithm: str, suppression: float, workers: int, shape: str
) -> None:
    plain, folder = tmp_path / "plain.parquet", tmp_path / "out"
    how = ["--algorithm", algorithm, "--suppression", suppression, "--seed", 2]
    one = answer("anonymize", "--table", world, world / "rows", "-o", plain, *how, "--index", tmp_path / "one.csv")
    rows = SHAPES[shape](tmp_path)[0]
    index = tmp_path / "many.csv"
    many = answer(*asked(world, rows, folder, *how, "--workers", workers, "--index", index))
    for name in ("levels", "details", "options", "warnings"):
        assert many[name] == one[name], name
    assert many["measures"] == pytest.approx(one["measures"])
    assert (many["measures"]["suppressed"] > 0) == (suppression > 0)
    files = sorted(folder.iterdir())
    assert len(files) > 1
    whole = pd.concat(map(pd.read_parquet, files), ignore_index=True)
    pd.testing.assert_frame_equal(whole, pd.read_parquet(plain))
    of_one, of_many = (pd.read_csv(path, dtype=str).sort_values("key").to_numpy().tolist() for path in
                       (tmp_path / "one.csv", index))  # fmt: skip
    assert str(of_many) == str(of_one)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


# -- the report -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("calls_here")
def test_the_report_of_a_table_in_fragments_is_that_of_one_run(world: Path, tmp_path: Path) -> None:
    how = ["--algorithm", "ola", "--suppression", 0.15, "--seed", 2, "--skip-refused", tmp_path / "refused.csv"]
    frame = stays()
    frame["city"] = [*frame["city"][:5_000], "nowhere", *frame["city"][5_001:]]
    rows = saved(frame, tmp_path / "rows", 4)
    pages = [tmp_path / "one.html", tmp_path / "many.html"]
    one = answer("anonymize", "--table", world, rows, "-o", tmp_path / "a.parquet", *how, "--report", pages[0])
    many = answer(*asked(world, rows, tmp_path / "b", *how, "--report", pages[1], "--force"))
    digests = [facts["report"].pop("sha256") for facts in (one, many)]
    assert many["report"]["columns"] == one["report"]["columns"]
    for name, value in one["report"].items():
        assert comparable(many["report"][name]) == comparable(value), name
    assert [digests[1][name] for name in ("input", "settings")] == [digests[0][name] for name in ("input", "settings")]
    assert sorted(digests[1]["output"]) == sorted(path.name for path in (tmp_path / "b").iterdir())
    said = [re.sub(r"[0-9a-f]{64}|20\d\d-\S+ \S+ UTC", "", page.read_text()) for page in pages]
    differ = [line for line in difflib.ndiff(said[0].splitlines(), said[1].splitlines()) if line[0] in "+-"]
    assert all("part-000" in line or "a.parquet" in line or "columns of b" in line or "<code>" in line for line in
               differ), differ  # fmt: skip


def comparable(value: Any) -> Any:
    """With floats as they are printed: sums of sums are rounded elsewhere."""
    return json.loads(json.dumps(value), parse_float=lambda text: f"{float(text):.12g}")


@pytest.mark.night
def test_a_report_of_fragments_says_of_the_input_what_one_run_says(world: Path, tmp_path: Path) -> None:
    how = ["--seed", 2, "--report", tmp_path / "page.html", "--force"]
    one = answer("anonymize", "--table", world, world / "rows", "-o", tmp_path / "a.parquet", *how)["report"]
    many = answer(*asked(world, world / "rows", tmp_path / "b", *how))["report"]
    for name in ("before", "values_of_one", "together_of_one", "as_they_are", "declared", "by_individual"):
        assert comparable(many[name]) == comparable(one[name]), name
    assert many["inference"][0]["usual"] == one["inference"][0]["usual"]
    assert many["after"]["smallest"] >= 4


@pytest.mark.usefixtures("calls_here")
def test_more_different_rows_than_a_process_holds_are_refused_with_a_remedy(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "COUNTS_MIN", 2_500)
    result = streamer(*asked(world, world / "rows", tmp_path / "out", "--algorithm", "ola"))
    assert result.exit_code == 2
    said = r"ola counts different rows .* or more, .* holds 2,500; ask for more --fragment-rows"
    assert re.search(said, " ".join(result.stderr.split()))
    assert list(tmp_path.iterdir()) == []


# -- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("calls_here")
def test_refused_rows_are_left_out_and_listed_over_all_files(world: Path, tmp_path: Path) -> None:
    frame = stays()
    frame["city"] = [*frame["city"][:5_000], "nowhere", *frame["city"][5_001:]]
    frame["id"] = [*frame["id"][:-1], frame["id"][3]]  # a key of another file
    rows, listed = saved(frame, tmp_path / "rows", 4), tmp_path / "list.csv"
    facts = answer(*asked(world, rows, tmp_path / "out", "--skip-refused", listed))
    assert listed.read_text().split() == [
        "data_row,reason,column", "5001,unknown-category,city", "6000,key-exists,id",
    ]  # fmt: skip
    assert (facts["measures"]["rows"], facts["left_out"]["rows"]) == (ROWS - 2, 2)
    for column, words in (
        ("city", "data row 5001: column 'city'"),
        ("id", "data row 6000: an earlier row has"),
    ):
        only = stays()
        only[column] = frame[column]
        result = streamer(*asked(world, saved(only, tmp_path / column, 3), tmp_path / f"no-{column}"))
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
        assert sorted(tmp_path.glob("no-*")) == sorted(tmp_path.glob(".no-*")) == []


@pytest.mark.usefixtures("calls_here")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-o", "file.parquet"], "name a folder"),
        (["--form", "lossy-join"], "is for a table in one run"),
        (["--report", "none/r.html"], "none/r.html: cannot be written"),
        (["--algorithm", "ola", "--k", "7000"], "cannot hold on this data.*6000 rows are fewer than k = 7000"),
        (["--suppression", "0.1"], "leaves rows out of a table in one run only.* take ola or degree-first"),
        (["--k", "7000"], "6000 rows are fewer than k = 7000|fewer than"),
        (["--fragment-rows", "10"], "x>=1000"),
        (["-o", "link"], "is a link"),
        (["-o", "none/out"], "none/out: cannot be written"),
        (["--index", "none/index.csv"], "none/index.csv: cannot be written"),
        (["-o", "full"], "holds other things"),
        (["-o", "there"], "exists already"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_leaves_nothing(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("full", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    (tmp_path / "there" / "part-00000.parquet").touch()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    before = sorted(tmp_path.rglob("*"))
    result = streamer(*asked(world, world / "rows", Path("out"), *more))
    assert result.exit_code == 2
    assert re.search(words, " ".join(result.stderr.split())), result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_rows_are_read_from_a_place_that_lasts_and_written_beside_it(world: Path, tmp_path: Path) -> None:
    rows = saved(stays(), tmp_path / "rows", 1)
    for source, out, words in (
        (rows, rows / "out", "lies in the folder"),
        (Path("-"), tmp_path / "out", "name a file"),
    ):
        result = streamer(*asked(world, source, out), stdin="id\n")
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["part-0.parquet", "rows"]


@pytest.mark.usefixtures("calls_here")
def test_a_folder_that_was_written_here_is_replaced_by_force(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-00099.parquet").write_bytes(b"old")
    answer(*asked(world, world / "rows", out, "--force"))
    assert "part-00099.parquet" not in contents(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("calls_here")
def test_no_step_runs_once_the_folder_is_there(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: what a report counts came later, and executors of Spark, which look for the draft, ended every job."""
    out, steps_seen, original = tmp_path / "out", [], ProcessPool.map

    def watched(self: ProcessPool, stage: str, *more: Any) -> Any:
        steps_seen.append((stage, out.exists()))
        return original(self, stage, *more)

    monkeypatch.setattr(ProcessPool, "map", watched)
    rows = saved(stays(), tmp_path / "rows", 1)
    answer(*asked(world, rows, out, "--index", tmp_path / "index.csv", "--workers", 1))
    assert [stage for stage, there in steps_seen if there] == []
    assert any(stage.startswith("alike") for stage, _ in steps_seen)
    assert out.exists()


@pytest.mark.usefixtures("calls_here")
def test_a_folder_without_rows_is_refused(world: Path, tmp_path: Path) -> None:
    rows = saved(stays().iloc[:0], tmp_path / "rows", 2)
    result = streamer(*asked(world, rows, tmp_path / "out"))
    assert (result.exit_code, "the data has no rows" in result.stderr) == (2, True), result.stderr


# -- killed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "stages"),
    [
        ("ordered", ("write",)),
        pytest.param("ordered", ("fragments", "write"), marks=pytest.mark.night),
        pytest.param("ordered", ("route", "fragments", "vectors-2-mend", "write"), marks=pytest.mark.night),
        pytest.param("ola", ("search", "fragments"), marks=pytest.mark.night),
    ],
)
def test_a_killed_job_goes_on_and_comes_to_the_same_files(
    world: Path, published: Path, tmp_path: Path, algorithm: str, stages: tuple[str, ...]
) -> None:
    expected, out, spill = published, tmp_path / "out", tmp_path / "spill"
    if algorithm != "ordered":
        expected = tmp_path / "expected"
        answer(*asked(world, world / "rows", expected, "--seed", 5, "--algorithm", algorithm))
    words = [*asked(world, world / "rows", out, "--seed", 5, "--spill", spill, "--algorithm", algorithm), "--json"]
    command = [sys.executable, "-m", "streamer.cli.main", *map(str, words)]
    for stage in stages:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not list(spill.glob(f"results/{stage}-*")) and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not out.exists()
        assert spill.stat().st_mode & 0o777 == 0o700
    done = [path.name for path in spill.glob("results/*")]
    assert any(name.startswith("fragments-") for name in done)
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(finished.stdout)["measures"]["rows"] == ROWS
    assert contents(out) == contents(expected)
    assert {path.name for path in tmp_path.iterdir()} - {"expected"} == {"out"}


@pytest.mark.usefixtures("calls_here")
def test_a_job_that_is_killed_once_its_table_is_there_can_be_made_again(world: Path, tmp_path: Path) -> None:
    """Before: `--force` replaced the table by an empty folder, as the files counted as written."""
    out, spill = tmp_path / "out", tmp_path / "spill"
    words = [*asked(world, world / "rows", out, "--seed", 5, "--spill", spill, "--workers", 1), "--json"]
    process = subprocess.Popen([sys.executable, "-m", "streamer.cli.main", *map(str, words)], stdout=subprocess.DEVNULL)
    while not out.exists() and process.poll() is None:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    first = contents(out)
    assert first
    assert answer(*words, "--force")["measures"]["rows"] == ROWS
    assert contents(out) == first


def test_a_folder_that_no_job_has_begun_is_not_emptied(world: Path, tmp_path: Path) -> None:
    spill = tmp_path / "thesis"
    (spill / "source").mkdir(parents=True)
    (spill / "source" / "thesis.tex").write_text("text")
    spill.chmod(0o700)
    result = streamer(*asked(world, world / "rows", tmp_path / "out", "--spill", spill))
    assert (result.exit_code, "holds other files" in result.stderr) == (2, True), result.stderr
    assert (spill / "source" / "thesis.tex").read_text() == "text"


def test_a_draft_that_is_a_link_is_somebody_elses(world: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / ".out.draft").symlink_to(tmp_path / "precious")
    result = streamer(*asked(world, world / "rows", tmp_path / "out"))
    assert (result.exit_code, "holds other files" in result.stderr) == (2, True), result.stderr


def test_a_terminated_job_leaves_no_rows_behind(world: Path, tmp_path: Path) -> None:
    out, spill = tmp_path / "out", tmp_path / "spill"
    command = [
        sys.executable,
        "-m",
        "streamer.cli.main",
        *map(str, asked(world, world / "rows", out, "--spill", spill)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(spill.glob("results/route-*")) and process.poll() is None:
        time.sleep(0.01)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
