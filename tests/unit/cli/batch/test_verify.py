"""`streamer verify`: exit codes, counts and sentences, over files as `replay` writes them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from worlds.calls import streamer
from worlds.checkout import PATIENTS

Record = dict[str, Any]

ROWS, EVENTS = PATIENTS / "rows.csv", PATIENTS / "events.jsonl"


def verify(*arguments: object) -> Result:
    return streamer("verify", "--table", PATIENTS, *arguments)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a replay of the example in batches of 3 wrote."""
    folder = tmp_path_factory.mktemp("replayed")
    result = streamer("replay", "--table", PATIENTS, EVENTS, "--initial", ROWS, "--batch", 3, "--out", folder, "--json")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def empty_source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A replay without an initial table, and the source at its end: what was inserted is all there is."""
    folder = tmp_path_factory.mktemp("inserted")
    with open(ROWS) as file:
        rows = list(csv.DictReader(file))
    lines = [json.dumps({"op": "insert", "row": _typed(row)}) for row in rows]
    (folder / "events.jsonl").write_text("\n".join(lines))
    streamer("replay", "--table", PATIENTS, folder / "events.jsonl", "--batch", 7, "--out", folder)
    return folder, ROWS


def _typed(row: dict[str, str]) -> dict[str, object]:
    return {**row, "age": int(row["age"]), "zip": int(row["zip"])}


def forged(path: Path, forge: Callable[[list[Record]], list[Record]], to: Path) -> Path:
    """The changelog after a forgery, written by another JSON library than ours."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    to.write_text("".join(json.dumps(record) + "\n" for record in forge(records)))
    return to


def with_secret_of(folder: Path) -> list[object]:
    """For a changelog that was copied out of its folder."""
    return ["--secret", folder / "secret.txt"]


def test_the_rows_behind_every_release_can_be_checked(replayed: Path) -> None:
    result = verify(replayed / "live.jsonl", "--initial", ROWS, "--events", EVENTS)
    assert result.exit_code == 0, result.output
    assert "every law holds" in result.output
    assert "15" in result.output


def test_the_source_at_the_last_release_can_be_checked(empty_source: tuple[Path, Path]) -> None:
    folder, rows = empty_source
    result = verify(folder / "live.jsonl", "--source", rows, "--index", folder / "index.csv")
    assert result.exit_code == 0, result.output
    result = verify(folder / "live.jsonl", "--events", folder / "events.jsonl")
    assert result.exit_code == 0, result.output


def test_whoever_wrote_the_json_it_is_read(replayed: Path, tmp_path: Path) -> None:
    copy = forged(replayed / "live.jsonl", lambda records: records, tmp_path / "copy.jsonl")
    assert copy.read_bytes() != (replayed / "live.jsonl").read_bytes()
    assert verify(copy, "--initial", ROWS, "--events", EVENTS, *with_secret_of(replayed)).exit_code == 0


def _lost_release(records: list[Record]) -> list[Record]:
    return [record for record in records if record["release"] != 3]


def _swapped_problem(records: list[Record]) -> list[Record]:
    """One value is replaced by another that is allowed: nothing that a reader could see."""
    first = records[0]["value"]
    first["problem"] = "flu" if first["problem"] != "flu" else "ulcer"
    return records


def _lost_end(records: list[Record]) -> list[Record]:
    """The second half; a last release by itself may do no more than shrink a box, which leaves a true table."""
    return [record for record in records if 2 * record["release"] <= records[-1]["release"]]


def test_a_release_that_did_not_come_from_events_is_not_held_to_them(replayed: Path, tmp_path: Path) -> None:
    """A loaded table may go on at a lower offset, and keeps the laws."""

    def begun_anew(records: list[Record]) -> list[Record]:
        last = records[-1]["release"]
        return [{**r, "through": 0, "outside": True} if r["release"] == last else r for r in records]

    path = forged(replayed / "live.jsonl", begun_anew, tmp_path / "live.jsonl")
    assert verify(path).exit_code == 0
    beside = verify(path, "--events", EVENTS, "--initial", ROWS, *with_secret_of(replayed))
    assert beside.exit_code == 2
    assert "did not come from events" in beside.stderr


@pytest.mark.parametrize(("forge", "laws"), [(_swapped_problem, "values"), (_lost_end, "values|containment")])
def test_what_only_the_source_can_tell_is_found_beside_the_events(
    replayed: Path, tmp_path: Path, forge: Callable[[list[Record]], list[Record]], laws: str
) -> None:
    live = forged(replayed / "live.jsonl", forge, tmp_path / "forged.jsonl")
    assert verify(live).exit_code == 0
    result = verify(live, "--initial", ROWS, "--events", EVENTS, *with_secret_of(replayed))
    assert result.exit_code == 1
    assert re.search(rf"law '({laws})' is broken at", result.output)


def test_a_box_that_keeps_an_edge_of_somebody_who_left_is_found_beside_the_events(
    replayed: Path, tmp_path: Path
) -> None:
    """All rows of the group agree, and each of them is inside: only the source says that nobody is at the edge."""

    def kept_an_edge(records: list[Record]) -> list[Record]:
        first = [record for record in records if record["release"] == 0]
        for record in first:
            if record["key"]["qi_group"] == "0-1":
                record["value"]["age_hi"] += 5
        return first

    live = forged(replayed / "live.jsonl", kept_an_edge, tmp_path / "forged.jsonl")
    assert verify(live).exit_code == 0
    result = verify(live, "--initial", ROWS, "--events", EVENTS, *with_secret_of(replayed))
    assert result.exit_code == 1
    assert (
        "law 'edges' is broken at release 0 of shard 0, QI group 0-1: its box is wider than its source rows in column "
        "age" in result.output
    )


def test_an_index_table_of_other_rows_is_found(empty_source: tuple[Path, Path], tmp_path: Path) -> None:
    folder, rows = empty_source
    lines = (folder / "index.csv").read_text().splitlines()
    (tmp_path / "index.csv").write_text("\n".join(lines[:-1]))
    result = verify(folder / "live.jsonl", "--source", rows, "--index", tmp_path / "index.csv")
    assert (result.exit_code, "source rows that are missing: 1" in result.output) == (1, True)
    first = lines[1].split(",")
    other = next(line.split(",")[1] for line in lines[2:] if line.split(",")[1] != first[1])
    (tmp_path / "moved.csv").write_text("\n".join([lines[0], f"{first[0]},{other}", *lines[2:]]))
    result = verify(folder / "live.jsonl", "--source", rows, "--index", tmp_path / "moved.csv")
    assert (result.exit_code, "law 'values' is broken at the last release" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such-file.jsonl"], "no-such-file.jsonl: cannot be read"),
        (["LIVE", "--source", ROWS], "--source and --index belong together"),
        (["LIVE", "--initial", ROWS], "--initial needs --events"),
        (["LIVE", "--source", ROWS, "--index", ROWS], "the header of an index table is key,qi_group"),
        ([EVENTS], "line 1: is not of the form"),
    ],
)
def test_a_wrong_command_line_or_file_ends_with_2(replayed: Path, arguments: list[object], sentence: str) -> None:
    live = replayed / "live.jsonl"
    result = verify(*(live if argument == "LIVE" else argument for argument in arguments))
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Person 041" not in result.output


def moved_to(shard: int, records: list[Record]) -> list[Record]:
    """The same changelog as another shard would have written it."""
    text = json.dumps(records).replace('"qi_group": "0-', f'"qi_group": "{shard}-')
    moved: list[Record] = json.loads(text.replace('"shard": 0', f'"shard": {shard}'))
    return moved


def of_four_shards(live: Path, folder: Path) -> list[Path]:
    """The changelogs of four shards, a file each."""
    return [forged(live, partial(moved_to, shard), folder / f"live-{shard}.jsonl") for shard in range(4)]


def test_the_changelog_of_four_shards_may_stand_in_a_file_each(replayed: Path, tmp_path: Path) -> None:
    files = of_four_shards(replayed / "live.jsonl", tmp_path)
    one, four = json.loads(verify(files[0], "--json").stdout), verify(*files, "--json")
    assert four.exit_code == 0, four.output
    found = json.loads(four.stdout)
    for name in ("releases", "records", "rows", "qi_groups"):
        assert found[name] == 4 * one[name]


def test_the_changelog_of_four_shards_may_be_interleaved_in_one_file(replayed: Path, tmp_path: Path) -> None:
    lines = [path.read_text().splitlines() for path in of_four_shards(replayed / "live.jsonl", tmp_path)]
    together = tmp_path / "together.jsonl"
    together.write_text("\n".join(line for four in zip(*lines, strict=True) for line in four))
    result = verify(together)
    assert result.exit_code == 0, result.output


def test_a_broken_law_is_found_in_whichever_file_it_is(replayed: Path, tmp_path: Path) -> None:
    files = of_four_shards(replayed / "live.jsonl", tmp_path)
    forged(files[2], _lost_release, files[2])
    result = verify(*files)
    assert result.exit_code == 1
    assert "law 'release order' is broken at release 4 of shard 2" in result.stderr


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_a_record_is_not_called_lawful(tmp_path: Path, content: str) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text(content)
    result = verify(empty)
    assert result.exit_code == 2
    assert "empty.jsonl: there is no record, so there is nothing to verify" in result.stderr
    assert "every law holds" not in result.stdout


def test_a_changelog_of_another_shard_has_no_events_to_run_beside(replayed: Path, tmp_path: Path) -> None:
    live = forged(replayed / "live.jsonl", partial(moved_to, 1), tmp_path / "moved.jsonl")
    assert verify(live).exit_code == 0
    result = verify(live, "--initial", ROWS, "--events", EVENTS, *with_secret_of(replayed))
    assert (result.exit_code, "one shard" in result.output) == (2, True)


def test_events_of_one_shard_beside_a_changelog_of_two_are_no_broken_law(replayed: Path, tmp_path: Path) -> None:
    """The first shard differs from its events; but the changelog is not theirs alone, so that says nothing."""
    other = forged(replayed / "live.jsonl", partial(moved_to, 1), tmp_path / "moved.jsonl")
    both = tmp_path / "both.jsonl"
    both.write_text((replayed / "live.jsonl").read_text() + other.read_text())
    fewer = tmp_path / "fewer.jsonl"
    fewer.write_text("".join(Path(EVENTS).read_text().splitlines(keepends=True)[1:]))
    result = verify(both, "--initial", ROWS, "--events", fewer, *with_secret_of(replayed))
    assert (result.exit_code, "one shard" in result.output) == (2, True)


def test_without_the_secret_nothing_is_said_of_the_events(replayed: Path, tmp_path: Path) -> None:
    copy = forged(replayed / "live.jsonl", lambda records: records, tmp_path / "copy.jsonl")
    result = verify(copy, "--initial", ROWS, "--events", EVENTS)
    assert result.exit_code == 2
    assert "--events needs the shard's secret, which breaks its ties" in result.stderr
    assert "law" not in result.stderr
    assert verify(copy, "--secret", replayed / "secret.txt").exit_code == 2


def test_another_secret_is_named_where_a_law_seems_broken(replayed: Path, tmp_path: Path) -> None:
    secrets = (tmp_path / f"{number}.txt" for number in range(30))
    sentences = []
    for number, path in enumerate(secrets):
        path.write_text(f"{number:064x}")
        result = verify(replayed / "live.jsonl", "--initial", ROWS, "--events", EVENTS, "--secret", path)
        sentences += [result.output] * (result.exit_code == 1)
    assert sentences, "of 30 secrets none draws other lots"
    assert all("(or the secret is not that of this changelog)" in sentence for sentence in sentences)


BOUNDED = (
    "table: t\nkey: id\ncolumns:\n"
    "  age: {role: quasi-identifier, type: integer, domain: [0, 99], coarsest: 10}\n  problem: {role: sensitive}\n"
    "privacy: {k: 2}\npublish: {live: {form: groups}}\n"
)


def test_what_comes_after_an_initial_table_that_is_withheld_is_release_1(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(BOUNDED)
    (tmp_path / "rows.csv").write_text("id,age,problem\n0,10,flu\n1,90,flu\n")
    events = tmp_path / "events.jsonl"
    lines = [json.dumps({"op": "insert", "row": {"id": i, "age": 91, "problem": "flu"}}) for i in (2, 3, 4, 5)]
    events.write_text("\n".join(lines))
    call = partial(streamer, "replay", "--table", tmp_path, "--initial", tmp_path / "rows.csv", "--json")
    (tmp_path / "nothing.jsonl").write_text("")
    before = json.loads(call(tmp_path / "nothing.jsonl").stdout)
    assert (before["rows"], before["pending"], before["releases"]) == (2, 2, 0)
    assert call(events, "--batch", 4, "--out", tmp_path / "out").exit_code == 0
    releases = [json.loads(line)["release"] for line in (tmp_path / "out/live.jsonl").read_text().splitlines()]
    assert releases[0] == 1


@pytest.mark.parametrize("shrink", ["true", "false"])
def test_a_withheld_group_is_lawful_and_a_narrow_one_that_is_missing_is_found(tmp_path: Path, shrink: str) -> None:
    """Ages 10 and 11 are narrow enough; 50 and 91 are not."""
    (tmp_path / "table.yaml").write_text(f"{BOUNDED}engine: {{shrink: {shrink}}}\n")
    rows = [{"id": i, "age": age, "problem": "flu"} for i, age in enumerate([10, 50, 11, 91, 10, 11])]
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps({"op": "insert", "row": row}) + "\n" for row in rows))
    replayed = streamer("replay", "--table", tmp_path, events, "--batch", 6, "--out", tmp_path / "out", "--json")
    assert json.loads(replayed.stdout)["pending"] == 2
    live, there = tmp_path / "out/live.jsonl", ["--events", events, "--secret", tmp_path / "out/secret.txt"]
    assert live.read_text().count('"age_lo"') >= 1
    call = partial(streamer, "verify", "--table", tmp_path)
    assert call(live, *there).exit_code == 0
    assert streamer("audit", "--table", tmp_path, live, "--source", events).exit_code == 0
    last = json.loads(live.read_text().splitlines()[-1])
    cut = forged(
        live, lambda records: [*records, {**last, "release": last["release"] + 1, "value": None}], tmp_path / "cut"
    )
    broken = call(cut, *there)
    assert broken.exit_code != 0
    assert "source rows, but 0 published rows" in broken.output.replace("\n", " ")
