"""The loop over files: which QI groups an initial table has, what a directory holds, and who is in no group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from streamer.errors import ConfigError
from streamer.incremental.replay import (
    FILES,
    NoOutlet,
    Replay,
    ReplayReport,
    encode_initial,
    read_secret,
    replay_files,
    secret_text,
)
from streamer.incremental.shard.input import Message
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import Table
from worlds.small_tables import YEARS, table

# A secret as a file: it comes back as it was, and whatever else stands there is refused without being shown.


def test_a_secret_comes_back_from_its_file(tmp_path: Path) -> None:
    secret = bytes(range(32))
    (tmp_path / "secret.txt").write_bytes(secret_text(secret))
    assert read_secret(tmp_path / "secret.txt") == secret


def test_where_there_is_no_file_there_is_no_secret(tmp_path: Path) -> None:
    assert read_secret(tmp_path / "secret.txt") is None


@pytest.mark.parametrize("text", ["", "\n", "canary", "ca" * 15, "ca" * 65, "ca" * 31 + "c", "ca" * 31 + "\xe9"])
def test_what_is_no_secret_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"secret\.txt: is not a secret as `replay` writes it") as refused:
        read_secret(path)
    assert "ca" * 15 not in str(refused.value)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_secret(tmp_path)


PEOPLE = table(YEARS, k=2)


def messages(*years: int) -> list[Message]:
    rows = [{"id": f"row {i}", "years": year, "problem": "flu"} for i, year in enumerate(years)]
    return [Message(i, None, json.dumps({"op": "insert", "row": row}).encode()) for i, row in enumerate(rows)]


def people(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame({"id": list("abcd"), "years": [1, 2, 8, 9], "problem": ["flu"] * 4, **columns})


def no_groups(table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
    return []


def replayed(
    *years: int, initial: pd.DataFrame | None = None, into: Path | None = None
) -> tuple[list[int], ReplayReport]:
    """Numbers of events per step, and the report."""
    sizes: list[int] = []
    for step in replay_files(
        PEOPLE, messages(*years), None if initial is None else lambda: initial, no_groups, 3, into
    ):
        if isinstance(step, ReplayReport):
            return sizes, step
        sizes.append(step)
    raise AssertionError("a replay ends with its report")


def test_changes_of_keys_that_the_initial_table_writes_otherwise_are_warned_of() -> None:
    before = [{"op": "d", "before": {"id": key}} for key in (1, 2, 77)]
    deletions = [Message(i, None, json.dumps(one).encode()) for i, one in enumerate(before)]
    frame = people(id=["1.0", "002", "3", "4"])
    *_, report = replay_files(PEOPLE, deletions, lambda: frame, no_groups, 3, None)
    assert isinstance(report, ReplayReport)
    assert report.unknown_keys == 3
    (warning,) = report.warnings
    assert warning.startswith("2 captured changes and deletions name keys of its rows in another spelling")


# -- an initial table -------------------------------------------------------------------------------------------------


def test_an_initial_table_has_the_groups_of_its_own_column_by_first_appearance() -> None:
    frame = people(qi_group=["z", "a", "z", "a"])
    _, groups = encode_initial(PEOPLE, frame, lambda *_: pytest.fail("the table has groups of its own"), b"")
    assert [group.tolist() for group in groups] == [[0, 2], [1, 3]]


def test_without_such_a_column_the_caller_makes_them() -> None:
    made: list[EncodedRows] = []
    seeds: list[int] = []

    def make(table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
        made.append(rows)
        seeds.append(seed)
        return []

    for secret in (b"one", b"one", b"another"):
        encoded, groups = encode_initial(PEOPLE, people(), make, secret)
        assert made[-1] is encoded
        assert groups == []
    assert seeds[0] == seeds[1] != seeds[2], "the secret is the seed of their chances"


def test_rows_that_cannot_be_encoded_are_refused_before_anything_is_published() -> None:
    with pytest.raises(ConfigError):
        encode_initial(PEOPLE, people(years=[1, 2, 3, "canary"]), no_groups, b"")


# -- steps and reports ------------------------------------------------------------------------------------------------


def test_events_are_taken_in_steps_and_all_of_them_are_counted() -> None:
    sizes, report = replayed(*range(7))
    assert sizes == [3, 3, 1]
    assert (report.events, report.applied, report.rows, report.dead_letters) == (7, 7, 7, 0)


def test_an_initial_table_is_release_0_and_the_first_change_release_1() -> None:
    _, without = replayed(1, 2)
    _, alone = replayed(initial=people(qi_group=list("xxyy")))
    _, both = replayed(5, initial=people(qi_group=list("xxyy")))
    assert (without.releases, alone.releases, both.releases) == (1, 1, 2)


def test_pending_rows_are_in_no_group_of_the_private_index() -> None:
    replay = Replay(PEOPLE, NoOutlet())
    for _ in replay.run(messages(1)):
        assert list(replay.index_table()) == [("row 0", "")]
    for _ in replay.run([Message(1, None, messages(1, 2)[1].value)]):
        assert dict(replay.index_table()) == {"row 0": "0-1", "row 1": "0-1"}


# -- the directory ----------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> Iterator[dict[str, object]]:
    return map(json.loads, path.read_text().splitlines())


def test_the_directory_holds_records_letters_table_and_index(tmp_path: Path) -> None:
    _, report = replayed(1, 2, 77, into=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)
    live = list(lines_of(tmp_path / "live.jsonl"))
    assert len(live) == report.published == 2
    assert {(line["shard"], line["release"], line["through"]) for line in live} == {(0, 1, 3)}
    assert [(line["reason"], line["offset"]) for line in lines_of(tmp_path / "dead-letters.jsonl")] == [
        ("out-of-domain", 2)
    ]
    assert pd.read_csv(tmp_path / "table.csv")["qi_group"].tolist() == ["0-1", "0-1"]
    assert "row 0" in (tmp_path / "index.csv").read_text()
    assert "row 0" not in (tmp_path / "live.jsonl").read_text() + (tmp_path / "table.csv").read_text()


def test_only_counting_gives_the_same_counts_and_writes_nothing(tmp_path: Path) -> None:
    _, written = replayed(1, 2, 77, into=tmp_path / "out")
    _, counted = replayed(1, 2, 77)
    assert {**written.as_dict(), "seconds": 0} == {**counted.as_dict(), "seconds": 0}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_secret_stands_beside_the_private_index_and_nowhere_else(tmp_path: Path) -> None:
    _, report = replayed(*range(10), *range(10), into=tmp_path)
    assert report.splits > 0
    secret = (tmp_path / "secret.txt").read_text().strip()
    assert len(bytes.fromhex(secret)) >= 16
    assert not any(secret in path.read_text() for path in tmp_path.iterdir() if path.name != "secret.txt")


def test_what_is_private_is_for_its_owner_alone_however_often_it_is_written(tmp_path: Path) -> None:
    for _ in range(2):
        replayed(1, 2, into=tmp_path)
        modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir()}
        assert modes["secret.txt"] == modes["index.csv"] == 0


def test_a_directory_that_has_a_secret_keeps_it_and_comes_to_the_same_files(tmp_path: Path) -> None:
    texts = []
    for _ in range(3):
        replayed(*[4] * 40, into=tmp_path)
        texts.append({path.name: path.read_text() for path in tmp_path.iterdir()})
    assert texts[0] == texts[1] == texts[2]
    (tmp_path / "secret.txt").unlink()
    replayed(*[4] * 40, into=tmp_path)
    assert (tmp_path / "secret.txt").read_text() != texts[0]["secret.txt"]
    assert (tmp_path / "index.csv").read_text() != texts[0]["index.csv"], "other lots, other QI groups"


def test_a_secret_that_is_none_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("canary")
    with pytest.raises(ConfigError, match=r"secret\.txt: is not a secret") as refused:
        replayed(1, 2, into=tmp_path)
    assert "canary" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


# -- how far it is ----------------------------------------------------------------------------------------------------


def test_loading_and_writing_are_named_and_the_files_are_the_same(tmp_path: Path) -> None:
    told: list[str] = []
    into = {name: tmp_path / name for name in ("silent", "told")}
    initial = people(qi_group=list("xxyy"))
    for name, directory in into.items():
        directory.mkdir()
        (directory / "secret.txt").write_bytes(secret_text(b"7" * 32))
        parts = [] if name == "silent" else [told.append]
        assert [*replay_files(PEOPLE, messages(5, 6), lambda: initial, no_groups, 3, directory, *parts)]
    assert told == ["load", "write"]
    for file in FILES:
        assert (into["silent"] / file).read_bytes() == (into["told"] / file).read_bytes()
