"""Laws on real data: Adult, 30,162 rows, 8 quasi-identifiers, k = 5, and thousands of random changes, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from streamer.cli.main import main
from streamer.incremental.checks.changelog import laws_of
from streamer.incremental.checks.source import SOURCE_LAWS
from streamer.table.yaml.loading import load_table
from worlds.adult_people import ALL_KINDS, CANARY, SENSITIVE, Changes, read_people, write_people, write_table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVENTS = (600, pytest.param(20_000, marks=pytest.mark.night))
"""So many are enough for every kind of change and every reason to refuse one; the night has thirty times as many."""
K = 5


class Replayed:
    """Adult, the changes to it, and what `streamer replay` wrote of both."""

    def __init__(self, directory: Path, adult: Path, events: int) -> None:
        self.n_events = events
        people = read_people(adult)
        self.table = write_table(directory, adult, "adult", K)
        self.initial, self.events = directory / "initial.csv", directory / "events.jsonl"
        self.source, self.out = directory / "source.csv", directory / "out"
        write_people(self.initial, people.values())
        changes = Changes(people, seed=20_000, kinds=ALL_KINDS)
        self.events.write_bytes(b"".join(value + b"\n" for _, value in changes.more(events)))
        write_people(self.source, changes.people.values())
        one_by_one = ("--initial", self.initial, "--batch", 1, "--out", self.out)
        self.report = run("replay", "--table", self.table, self.events, *one_by_one)

    @property
    def beside(self) -> tuple[object, ...]:
        """What lets `verify` follow the source, release by release."""
        return "--events", self.events, "--initial", self.initial, "--secret", self.out / "secret.txt"

    @property
    def live(self) -> Path:
        return self.out / "live.jsonl"

    @property
    def index(self) -> Path:
        return self.out / "index.csv"


def run(*arguments: object) -> dict[str, Any]:
    """The JSON that a command prints; it must succeed."""
    done = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output or repr(done.exception)
    return msgspec.json.decode(done.stdout)


@pytest.fixture(scope="module", params=EVENTS)
def replayed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, adult: Path) -> Replayed:
    return Replayed(tmp_path_factory.mktemp("adult"), adult, request.param)


def test_every_release_of_many_random_changes_obeys_every_law(replayed: Replayed) -> None:
    verified = run("verify", "--table", replayed.table, replayed.live, *replayed.beside)
    assert verified["laws"] == len(laws_of(load_table(replayed.table))) + len(SOURCE_LAWS)
    assert verified["releases"] > 0.8 * replayed.n_events  # some changes leave the published table as it is
    assert verified["rows"] == replayed.report["rows"]


def test_the_last_release_agrees_with_the_source_table_kept_beside_it(replayed: Replayed) -> None:
    """The source is a plain dict here: nothing of the engine."""
    run("verify", "--table", replayed.table, replayed.live, "--source", replayed.source, "--index", replayed.index)
    n_people = len(replayed.source.read_text().splitlines()) - 1
    assert replayed.report["rows"] == n_people
    assert replayed.report["pending"] == 0


def test_every_message_is_accounted_for_and_only_the_wrong_ones_are_refused(replayed: Replayed) -> None:
    report = replayed.report
    letters = [json.loads(line) for line in (replayed.out / "dead-letters.jsonl").read_text().splitlines()]
    assert report["applied"] + report["ignored"] + report["dead_letters"] == report["events"] == replayed.n_events
    assert report["dead_letters"] == len([letter for letter in letters if letter["kind"] == "refused"])
    reasons = {letter["reason"] for letter in letters}
    assert reasons == {"key-exists", "key-unknown", "unknown-category", "out-of-domain"}
    for file in replayed.out.iterdir():
        assert CANARY not in file.read_text()


def test_a_row_that_is_altered_in_the_changelog_is_found(replayed: Replayed, tmp_path: Path) -> None:
    """What all the others rest on: `verify` sees one wrong sensitive value among all records."""
    lines = replayed.live.read_bytes().splitlines()
    i = next(i for i in range(len(lines) // 2, len(lines)) if b'"<=50K"' in lines[i])
    lines[i] = lines[i].replace(b'"<=50K"', b'">50K"')
    altered = tmp_path / "live.jsonl"
    altered.write_bytes(b"\n".join(lines) + b"\n")
    done = CliRunner().invoke(main, [*map(str, ("verify", "--table", replayed.table, altered, *replayed.beside))])
    assert done.exit_code == 1
    assert "law 'values' is broken" in done.output
    assert f"column {SENSITIVE}" in done.output
