"""Tables, disks and neighbours that a large table may meet: a sentence, nothing under the final name, no value told."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from worlds.calls import answer, streamer

pytestmark = pytest.mark.slow

TABLE = """
table: people
key: id
individual: person
columns:
  age: {role: quasi-identifier, type: integer, domain: [0, 99], grid: 1}
  town: {role: quasi-identifier, hierarchy: town.csv}
  problem: {role: sensitive, type: text}
privacy: {k: 3, l: 2}
publish: {live: {form: rows}}
"""
ROWS = 3_000
ALGORITHMS = ("ordered", "ola")
VALUES = ("canary-key-", "canary-person-", "canary-flu", "canary-cough", "canary-town")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "table.yaml").write_text(TABLE)
    (tmp_path / "town.csv").write_text("canary-town-a,north,*\ncanary-town-b,north,*\ncanary-town-c,south,*\n")
    return tmp_path


def people(rows: int = ROWS, **changed: object) -> pd.DataFrame:
    """People whose every value would be known again in a log."""
    rng = np.random.default_rng(1)
    columns = {
        "id": [f"canary-key-{i}" for i in range(rows)],
        "person": [f"canary-person-{i}" for i in rng.integers(0, rows, rows)],
        "age": rng.integers(0, 100, rows),
        "town": rng.choice(["canary-town-a", "canary-town-b", "canary-town-c"], rows),
        "problem": rng.choice(["canary-flu", "canary-cough"], rows),
    }
    return pd.DataFrame(columns | changed)


def saved(frame: pd.DataFrame, folder: Path, *ends: int) -> Path:
    """Parquet files of the rows up to each end, and one of the rest."""
    folder.mkdir()
    bounds = [0, *ends, len(frame)]
    for i, (begin, end) in enumerate(pairwise(bounds)):
        frame.iloc[begin:end].to_parquet(folder / f"{i}.parquet", index=False)
    return folder


def asked(world: Path, rows: Path, out: Path, *more: object) -> list[object]:
    return ["anonymize", "--table", world, rows, "-o", out, "--fragment-rows", 1_000, "--workers", 1, *more]


def groups_of(out: Path) -> pd.DataFrame:
    """Rows and distinct values of every published QI group."""
    whole = pd.concat(map(pd.read_parquet, sorted(out.iterdir())))
    return whole.groupby("qi_group").agg(rows=("problem", "size"), values=("problem", "nunique"))


# -- tables -----------------------------------------------------------------------------------------------------------

SHAPES: dict[str, dict[str, Any]] = {
    "all rows alike but for their values": {"age": 40, "town": "canary-town-a"},
    "one category for all, and nine rows in ten of one age": {
        "town": "canary-town-a",
        "age": np.where(np.arange(ROWS) % 10 > 0, 40, np.arange(ROWS) % 100),
    },
    "one person in every fragment": {
        "person": [f"canary-person-{i if i % 3 else 0}" for i in range(ROWS)],
    },
}


@pytest.mark.usefixtures("calls_here")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_crowds_are_published_in_groups_that_hold(world: Path, shape: str, algorithm: str) -> None:
    rows, out = saved(people(**SHAPES[shape]), world / "rows", 1_000, 1_001, 1_001), world / "out"
    facts = answer(*asked(world, rows, out, "--algorithm", algorithm))
    groups = groups_of(out)
    assert (groups["rows"].sum(), groups["rows"].min() >= 3, groups["values"].min() >= 2) == (ROWS, True, True)
    assert facts["measures"]["k_individuals"] >= 3


@pytest.mark.usefixtures("calls_here")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_row_that_is_refused_is_told_by_its_number_alone(world: Path, algorithm: str) -> None:
    frame = people()
    frame["town"] = [*frame["town"][:2_999], "canary-town-nowhere"]
    rows, out = saved(frame, world / "rows", 10), world / "out"
    result = streamer(*asked(world, rows, out, "--algorithm", algorithm))
    must_be_a_sentence(result, "data row 3000: column 'town'", world, out)


# -- disks ------------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system that is soon full; skips the test if this user may not mount one."""
    folder.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(call, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def must_be_a_sentence(result: Result, words: str, world: Path, out: Path) -> None:
    """An error for the caller, which repeats no value; nothing is left, visible or not."""
    said = " ".join(result.stderr.split())
    assert (result.exit_code, words in said) == (2, True), result.output
    assert "Traceback" not in said
    assert not any(value in result.output for value in VALUES)
    assert not out.exists()
    assert [path.name for path in world.rglob(".*")] == []


@pytest.mark.parametrize(("kind", "algorithm"), [("parquet", "ordered"), ("csv", "ordered"), ("parquet", "ola")])
def test_a_full_spill_disk_is_named_with_the_remedy(world: Path, kind: str, algorithm: str) -> None:
    rows, out = saved(people(), world / "rows"), world / "out"
    if kind == "csv":  # which this process copies into the folder itself
        people().to_csv(rows := world / "rows.csv", index=False)
    with small_disk(world / "disk", 64) as disk:
        result = streamer(*asked(world, rows, out, "--spill", disk / "spill", "--algorithm", algorithm))
        must_be_a_sentence(result, "spill: cannot be written: No space left on device; make room, or name", world, out)
        assert list(disk.iterdir()) == []


@pytest.mark.usefixtures("calls_here")
def test_a_full_disk_of_the_published_files_is_named(world: Path) -> None:
    rows = saved(people(), world / "rows")
    with small_disk(world / "disk", 8) as disk:
        result = streamer(*asked(world, rows, disk / "out", "--spill", world / "spill"))
        words = "cannot be written: No space left on device; make room, or name another OUT"
        must_be_a_sentence(result, words, world, disk / "out")
        assert list(disk.iterdir()) == []


# -- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("calls_here")
def test_two_jobs_neither_share_a_private_folder_nor_write_one_table(world: Path) -> None:
    rows, out, spill = saved(people(), world / "rows"), world / "out", world / "spill"
    spill.mkdir(mode=0o700)
    lock = os.open(spill / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    result = streamer(*asked(world, rows, out, "--spill", spill))
    must_be_a_sentence(result, "another process works in it; wait for that one, or name another --spill", world, out)
    os.close(lock)
    draft = world / ".out.draft"
    draft.mkdir()
    lock = os.open(draft / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    result = streamer(*asked(world, rows, out, "--spill", world / "other"))
    assert (result.exit_code, "another job writes" in result.stderr, out.exists()) == (2, True, False)
    os.close(lock)
    (draft / "thesis.txt").touch()
    result = streamer(*asked(world, rows, out, "--spill", world / "other"))
    assert (result.exit_code, "holds other files; name another OUT" in result.stderr, out.exists()) == (2, True, False)
    assert sorted(path.name for path in world.iterdir() if "spill" in path.name or "draft" in path.name) == [
        ".out.draft", "spill",
    ]  # fmt: skip


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_written_through(world: Path, there: bool) -> None:
    rows, elsewhere = saved(people(), world / "rows"), world / "elsewhere"
    if there:
        elsewhere.mkdir()
    (world / "out").symlink_to(elsewhere)
    result = streamer(*asked(world, rows, world / "out", "--force"))
    assert (result.exit_code, "is a link; name the folder itself" in result.stderr) == (2, True), result.output
    assert (world / "out").is_symlink()
    assert not there or list(elsewhere.iterdir()) == []


@pytest.mark.usefixtures("calls_here")
def test_what_a_killed_job_has_left_of_the_table_does_not_stop_another_one(world: Path) -> None:
    """It had another seed; no draft is to be removed by hand."""
    rows, out, draft = saved(people(), world / "rows"), world / "out", world / ".out.draft"
    draft.mkdir()
    (draft / "part-00099.parquet").write_bytes(b"old")
    (draft / ".0123456789abcdef-part-00000.parquet").write_bytes(b"half")
    result = streamer(*asked(world, rows, out, "--seed", 8))
    assert result.exit_code == 0, result.stderr
    assert "part-00099.parquet" not in {path.name for path in out.iterdir()}
    assert not list(world.glob(".*"))


@pytest.mark.usefixtures("calls_here")
@pytest.mark.parametrize("option", ["--index", "--skip-refused", "--report"])
def test_a_full_disk_is_told_of_the_place_that_is_full(world: Path, option: str) -> None:
    rows, full = saved(people(), world / "rows"), world / ("full.html" if option == "--report" else "full.csv")
    full.symlink_to("/dev/full")
    result = streamer(*asked(world, rows, world / "out", option, full, "--force"))
    assert (result.exit_code, "make room" in result.stderr) == (2, True), result.output
    assert str(world / ".out.spill") not in result.stderr
    assert option != "--index" or f"{full}: cannot be written" in "".join(result.stderr.split("\n"))
    assert not list(world.glob(".*"))
