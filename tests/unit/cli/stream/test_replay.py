"""`streamer replay`: events in, a changelog and a table out, what was refused counted, and exit codes for the rest.

After an error, the files of the former run are as they were, and there are no others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from streamer.cli.stream.produce import Router
from streamer.incremental.replay import FILES, SEALED_FILE
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS

ROW = {"name": "x", "age": 30, "zip": 12000, "bmi": 21.5, "sex": "Female", "problem": "flu"}
EVENTS = [{"op": "insert", "row": {"id": i, **ROW, "age": 30 + i}} for i in range(6)]

SOME_EVENTS, ROWS = PATIENTS / "events.jsonl", PATIENTS / "rows.csv"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Six people come, one goes, and one message is wrong."""
    path = tmp_path / "events.jsonl"
    lines = [*EVENTS, {"op": "delete", "key": 0}, {"op": "delete", "key": "canary"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def replay(*arguments: str | Path, text: str | None = None) -> Result:
    return streamer("replay", "--table", PATIENTS, *arguments, stdin=text)


def replayed(*arguments: str | Path) -> dict[str, Any]:
    return answer("replay", "--table", PATIENTS, *arguments)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """The patients' table, with a sealed changelog beside live."""
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    path = tmp_path / "table.yaml"
    path.write_text(text.replace("{form: rows}", "{form: rows}\n  sealed: {epoch: 10 events}"))
    return path


def test_a_sealed_changelog_stands_beside_live_and_is_counted(sealed: Path, tmp_path: Path) -> None:
    arguments = ("replay", "--table", sealed, SOME_EVENTS, "--initial", ROWS)
    report = answer(*arguments, "--out", tmp_path / "out")
    records = [json.loads(line) for line in (tmp_path / "out" / SEALED_FILE).read_text().splitlines()]
    ends = [one["value"] for one in records if one["value"]["record"] == "EPOCH"]
    assert len(ends) == report["sealed_epochs"] > 2
    assert sum(end["adds"] for end in ends) - sum(end["retires"] for end in ends) == report["sealed_cohorts"]
    assert report.keys() - replayed(SOME_EVENTS).keys() == {
        "sealed_epochs", "sealed_cohorts", "sealed_withheld", "sealed_waiting"
    }  # fmt: skip


def test_a_seed_gives_the_same_files_in_any_folder_and_may_replace_a_secret(sealed: Path, tmp_path: Path) -> None:
    arguments = ("replay", "--table", sealed, SOME_EVENTS)
    for name, *options in (("a", "--seed", 3), ("b", "--seed", 3), ("c",), ("c", "--seed", 3, "--force")):
        assert streamer(*arguments, "--out", tmp_path / name, *map(str, options)).exit_code == 0
    for file in ("live.jsonl", SEALED_FILE, "secret.txt"):
        assert len({(tmp_path / name / file).read_bytes() for name in "abc"}) == 1, file


def test_a_warning_about_alpha_is_said_beside_the_report(sealed: Path) -> None:
    sealed.write_text(sealed.read_text().replace("10 events", "10 events, alpha: 0.2"))
    done = streamer("replay", "--table", sealed, SOME_EVENTS, "--initial", ROWS)
    assert done.exit_code == 0
    assert "% of the cohorts will withhold their values" in done.stderr
    assert "warnings" not in done.stdout


def test_every_message_is_accounted_for(events: Path) -> None:
    report = replayed(events)
    assert (report["events"], report["applied"], report["ignored"], report["dead_letters"]) == (8, 7, 0, 1)
    assert (report["rows"], report["pending"]) == (5, 0)


def test_the_directory_holds_what_a_broker_would_and_the_private_index(events: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    report = replayed(events, "--out", out)
    assert {path.name for path in out.iterdir()} == set(FILES)
    assert len((out / "live.jsonl").read_text().splitlines()) == report["published"]
    assert len((out / "table.csv").read_text().splitlines()) == 1 + report["rows"]
    assert len((out / "index.csv").read_text().splitlines()) == 1 + report["rows"]
    (letter,) = map(json.loads, (out / "dead-letters.jsonl").read_text().splitlines())
    assert (letter["reason"], letter["offset"]) == ("key-unknown", 7)


def test_neither_names_nor_keys_nor_what_was_refused_are_published(events: Path, tmp_path: Path) -> None:
    replayed(events, "--out", tmp_path / "out")
    for name in ("live.jsonl", "table.csv", "dead-letters.jsonl"):
        assert "canary" not in (tmp_path / "out" / name).read_text()
    assert "canary" not in replay(events).output


def test_the_groups_do_not_depend_on_how_the_events_were_cut_into_batches(events: Path, tmp_path: Path) -> None:
    for batch in ("1", "3", "100"):
        (tmp_path / batch).mkdir()
        (tmp_path / batch / "secret.txt").write_text("5e" * 32)
        replayed(events, "--batch", batch, "--out", tmp_path / batch)
    tables = {(tmp_path / batch / "table.csv").read_text() for batch in ("1", "3", "100")}
    assert len(tables) == 1


def test_a_table_to_start_with_is_published_before_the_first_event(events: Path, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    report = replayed(tmp_path / "none.jsonl", "--initial", PATIENTS / "rows.csv", "--out", tmp_path / "out")
    assert (report["events"], report["rows"]) == (0, 40)
    first = json.loads((tmp_path / "out" / "live.jsonl").read_text().splitlines()[0])
    assert first["through"] == 0


def test_a_dash_is_stdin(events: Path) -> None:
    result = replay("-", "--json", text=events.read_text())
    assert json.loads(result.stdout)["events"] == 8


def inserted(rows: Path) -> str:
    """The rows of a CSV file of patients, as one insertion each."""
    table = load_table(PATIENTS)
    messages = Router(table).rows(read_rows(rows))
    return "".join((message.value or b"").decode() + "\n" for message in messages)


def releases_in(folder: Path) -> list[int]:
    lines = (folder / "live.jsonl").read_text().splitlines()
    return sorted({json.loads(line)["release"] for line in lines})


@pytest.mark.parametrize("initial", [[], ["--initial", ROWS]], ids=["no initial table", "initial table"])
@pytest.mark.parametrize("out", [True, False], ids=["written", "only counted"])
def test_it_counts_every_release_of_the_changelog(tmp_path: Path, initial: list[str | Path], out: bool) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(SOME_EVENTS.read_text() if initial else inserted(ROWS))
    assert replay(events, *initial, "--batch", "5", "--out", tmp_path).exit_code == 0
    written = releases_in(tmp_path)
    assert written == list(range(0 if initial else 1, len(written) + (not initial)))
    directory: list[str | Path] = ["--out", tmp_path, "--force"] if out else []
    counted = replay(events, *initial, "--batch", "5", *directory, "--json")
    assert json.loads(counted.stdout)["releases"] == len(written) > 1


def test_an_initial_table_that_is_all_pending_is_no_release(tmp_path: Path) -> None:
    rows, events = tmp_path / "rows.csv", tmp_path / "events.jsonl"
    header, *lines = ROWS.read_text().splitlines()
    rows.write_text("\n".join([header, *lines[:2]]) + "\n")
    events.write_text("")
    report = json.loads(replay(events, "--initial", rows, "--out", tmp_path / "out", "--json").stdout)
    assert (report["pending"], report["releases"]) == (2, 0)
    assert releases_in(tmp_path / "out") == []


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_written_where_one_of_them_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    result = replay(SOME_EVENTS, "--initial", ROWS, "--out", tmp_path)
    assert (result.exit_code, [path.name for path in tmp_path.iterdir()]) == (2, [name])
    assert f"{name}: cannot be written: it is a directory" in result.stderr


def test_an_error_on_the_way_leaves_the_files_of_the_run_before(tmp_path: Path) -> None:
    assert replay(SOME_EVENTS, "--initial", ROWS, "--out", tmp_path).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == set(FILES)
    bad = tmp_path.with_name("bad.csv")
    bad.write_text(ROWS.read_text().replace("age", "years"))
    assert replay(SOME_EVENTS, "--initial", bad, "--out", tmp_path).exit_code == 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = replay(SOME_EVENTS, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "file' is a file" in result.stderr


def test_a_table_that_asks_for_more_than_k_keeps_it_at_every_release_and_verify_says_so(tmp_path: Path) -> None:
    """The example's patients with l and a largest share beside k; plain k leaves groups that break both."""
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    (tmp_path / "table.yaml").write_text(text.replace("{k: 3}", "{k: 3, l: 3, beta: 0.6}"))
    broken = {}
    for name, schema in (("plain", PATIENTS), ("asking", tmp_path)):
        command = ["replay", "--table", schema, SOME_EVENTS, "--initial", ROWS, "--out", tmp_path / name]
        result = streamer(*command)
        assert result.exit_code == 0, result.output
        problems = read_rows(tmp_path / name / "table.csv").groupby("qi_group")["problem"]
        shares = problems.agg(lambda column: column.value_counts(normalize=True).max())
        broken[name] = int(((problems.nunique() < 3) | (shares > 0.6)).sum())
    assert broken["plain"] > broken["asking"] == 0
    command = ["verify", "--table", tmp_path, tmp_path / "asking" / "live.jsonl", "--initial", ROWS]
    result = streamer(*command, "--events", SOME_EVENTS)
    assert result.exit_code == 0, result.output
    assert "every law holds" in result.output
    command = ["verify", "--table", tmp_path, tmp_path / "plain" / "live.jsonl"]
    result = streamer(*command)
    assert result.exit_code == 1
    assert "law 'model' is broken" in result.output
