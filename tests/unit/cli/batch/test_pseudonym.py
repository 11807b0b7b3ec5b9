"""`streamer pseudonym`, and tables with disguised columns by all commands that publish or check without servers."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.table.key_files import make_key
from worlds.calls import answer, streamer
from worlds.disguised_people import KEY, PROBLEMS, changes, visits, write_events, write_table, write_visits

# -- the command ------------------------------------------------------------------------------------------------------


def test_a_key_is_made_once_and_gives_pseudonyms(tmp_path: Path) -> None:
    key = tmp_path / KEY
    assert answer("pseudonym", "--make-key", key) == {"ok": True, "key_file": str(key)}
    again = streamer("pseudonym", "--make-key", key)
    assert again.exit_code == 2 and "is not overwritten" in again.stderr
    found = streamer("pseudonym", "--key-file", key, "7", "7.0", "Ann", "ANN").stdout.split()
    assert len(found) == 4 and len({*found}) == 2
    assert streamer("pseudonym", "--key-file", key, stdin="7\n007\r\nAnn\nann \n").stdout.split() == found


def test_a_table_tells_capitals_apart(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t", ("k: 3", "k: 3, capitals_count: true"))
    found = streamer("pseudonym", "--key-file", folder / KEY, "--table", folder, "Ann", "ANN").stdout.split()
    assert len({*found}) == 2


@pytest.mark.parametrize("words", [[], ["7"], ["--make-key", "a", "--key-file", "b"], ["--make-key", "a", "7"]])
def test_what_it_cannot_do_is_said(words: list[str]) -> None:
    refused = streamer("pseudonym", *words)
    assert (refused.exit_code, "give --make-key FILE alone" in refused.stderr) == (2, True)


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    refused = streamer("pseudonym", "--key-file", tmp_path / KEY, "7")
    assert refused.exit_code == 2 and "cannot be read: No such file or directory" in refused.stderr


# -- a whole table ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_table(tmp_path_factory.mktemp("visits"))
    write_visits(folder, visits(90))
    return folder


def published(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return [*csv.DictReader(file)]


def test_a_whole_table_links_people_by_pseudonyms_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    said = answer("anonymize", "--table", folder, folder / "rows.csv", "-o", out)
    rows = published(out)
    pseudonyms = [
        dict(zip(keys, answer("pseudonym", "--key-file", folder / KEY, *keys)["pseudonyms"], strict=True))
        for keys in ([str(row["id"]) for row in visits(90)], sorted({str(row["person"]) for row in visits(90)}))
    ]
    by_id = {row["id"]: row for row in rows}
    for row in visits(90):
        seen = by_id[pseudonyms[0][str(row["id"])]]
        assert (seen["problem"], seen["person"]) == (PROBLEMS[str(row["problem"])], pseudonyms[1][str(row["person"])])
    assert len({row["person"] for row in rows}) == len({str(row["person"]).lower().split()[1] for row in visits(90)})
    assert [one for one in said["cautions"] if one.startswith(("id ", "person "))] == [
        f"{name} is published as a pseudonym: readers can link all rows with one value, here, in later releases and in"
        " other tables with the same key, so that k of one table says less"
        for name in ("id", "person")
    ]
    assert any(one.startswith("came is published shifted by up to 30 days") for one in said["to_know"])
    assert "person is published as it is" not in str(said)


@pytest.mark.usefixtures("calls_here")
def test_a_table_in_fragments_publishes_the_same_values(folder: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts"
    rows = visits(2_600)
    source = write_visits(tmp_path, rows)
    answer("anonymize", "--table", folder, source, "-o", whole)
    words = ["--fragment-rows", 1000, "--workers", 2, "--report", tmp_path / "report.html", "--no-costs"]
    answer("anonymize", "--table", folder, source, "-o", parts, *words)
    import pandas as pd

    columns = ["problem", "came", "seen", "id", "person"]
    a, b = pd.read_csv(whole, dtype=str), pd.read_parquet(parts).astype(str)
    for frame in (a, b):
        frame["seen"] = pd.to_datetime(frame["seen"], utc=True, format="ISO8601")
    assert sorted(map(tuple, a[columns].values.tolist())) == sorted(map(tuple, b[columns].values.tolist()))
    page = (tmp_path / "report.html").read_text()
    assert "It is published as a pseudonym" in page and "Neither the key nor the individual leaves" not in page


def test_check_says_what_each_column_gives_readers(folder: Path) -> None:
    said = streamer("check", "--table", folder).output
    assert "problem is published by its ancestor at level 1, which only makes it coarser" in said
    assert "person is published as a pseudonym: readers can link all rows" in said
    columns = {one["name"]: one for one in answer("check", "--table", folder)["columns"]}
    assert (columns["id"]["type"], columns["problem"]["leaves"]) == ("text", 3)


def test_check_says_that_a_key_is_missing_and_what_it_is_missed_for(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t")
    (folder / KEY).unlink()
    warning, *_ = answer("check", "--table", folder)["warnings"]
    assert "cannot be read: No such file or directory. Rows cannot be published" in warning
    refused = streamer("check", "--table", folder, "--data", write_visits(folder, visits(9)))
    assert refused.exit_code == 2 and warning in refused.stderr


def test_check_warns_of_pseudonyms_in_sealed_cohorts(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t", ("live: {form: rows}", "sealed: {epoch: 10m}"))
    *_, warning = answer("check", "--table", folder)["warnings"]
    assert warning.startswith("publish.sealed: whoever is published again with a new value has the same pseudonym (id,")


# -- a stream ---------------------------------------------------------------------------------------------------------


@pytest.fixture(
    params=["form: rows", "form: groups", "form: lossy-join", "form: rows}, sealed: {epoch: 20 events"],
    ids=["rows", "groups", "lossy-join", "sealed"],
)
def replayed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    form = request.param
    l_of_join = [("k: 3", "k: 3, l: 2")] * ("lossy" in form)
    folder = write_table(tmp_path / "t", ("form: rows", form), *l_of_join)
    rows = visits(150)
    write_visits(folder, rows[:60])
    events = write_events(folder, changes(rows[60:]))
    words = ["--initial", folder / "rows.csv", "--batch", 7, "--out", folder / "out"]
    answer("replay", "--table", folder, events, *words)
    return folder


def test_a_stream_publishes_what_its_source_says_in_disguise(replayed: Path) -> None:
    folder, out = replayed, replayed / "out"
    beside = ["--initial", folder / "rows.csv", "--events", folder / "events.jsonl"]
    assert answer("verify", "--table", folder, out / "live.jsonl", *beside)["ok"]
    text = (out / "live.jsonl").read_text()
    for raw in ('"flu"', '"gastritis"', "Ann", "ann "):
        assert raw not in text
    assert "lung" in text and "belly" in text
    audited = streamer("audit", "--table", folder, out / "live.jsonl", "--source", folder / "events.jsonl", *beside[:2])
    assert audited.exit_code == 0, audited.output
    assert "by the pseudonyms in id, person alone, readers can link rows" in audited.output.replace("\n", " ")


def _without_key(folder: Path) -> None:
    (folder / KEY).unlink()


def _with_another_key(folder: Path) -> None:
    _without_key(folder)
    make_key(folder / KEY)


@pytest.mark.parametrize(
    ("happens", "exit_code", "says"),
    [
        (_without_key, 2, "Rows cannot be published, or compared with what is, without it"),
        (_with_another_key, 1, "does not hold the values of its source rows"),
    ],
)
@pytest.mark.parametrize("replayed", ["form: rows"], indirect=True)
def test_verify_compares_with_the_source_by_the_key(
    replayed: Path, happens: Callable[[Path], None], exit_code: int, says: str
) -> None:
    live, source, index = (replayed / name for name in ("out/live.jsonl", "now.csv", "out/index.csv"))
    rows = visits(150)
    there = {line["key"] for line in published(index)}
    events = [json.loads(line) for line in (replayed / "events.jsonl").read_text().splitlines()]
    modified = {str(event["key"]): event["row"] for event in events if event["op"] == "modify"}
    now = [{**row, **modified.get(str(row["id"]), {})} for row in rows if str(row["id"]) in there]
    write_visits(replayed, now).rename(source)
    words = "verify", "--table", replayed, live
    assert answer(*words, "--source", source, "--index", index)["ok"]
    happens(replayed)
    refused = streamer(*words, "--source", source, "--index", index)
    assert refused.exit_code == exit_code, refused.output
    assert says in refused.stderr.replace("\n", " ")
    assert answer(*words)["ok"]


def test_all_dates_of_a_person_are_shifted_alike_over_all_releases(tmp_path: Path) -> None:
    folder = write_table(tmp_path / "t", ("form: rows", "form: groups"))
    rows = visits(150)
    events = write_events(folder, ({"op": "insert", "row": row} for row in rows))
    answer("replay", "--table", folder, events, "--out", folder / "out")
    keys = answer("pseudonym", "--key-file", folder / KEY, *(row["id"] for row in rows))["pseudonyms"]
    raw = dict(zip(keys, rows, strict=True))
    days = defaultdict(set)
    import pandas as pd

    for line in (folder / "out" / "live.jsonl").read_text().splitlines():
        for value in (json.loads(line)["value"] or {"values": []})["values"]:
            was = raw[value["id"]]
            for name in ("came", "seen"):
                shift = pd.Timestamp(value[name]) - pd.Timestamp(str(was[name]))
                days[value["person"]].add(shift)
    assert len(days) > 20 and all(len(shifts) == 1 for shifts in days.values())
