"""The sealed changelog that a replay writes: which epochs there are, what batches do not decide, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from streamer.errors import ConfigError
from streamer.incremental.replay import (
    FILES,
    SEALED_FILE,
    SEALED_TABLE_FILE,
    ReplayReport,
    replay_files,
    secret_of_seed,
)
from streamer.incremental.sealed.records import Add, EpochEnd, Live, SealedRecord, decode
from streamer.incremental.shard.input import Message
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.schema import EpochLength, Table
from worlds.sealed_people import InWords, sealed_table

SEALED = sealed_table()
NOON = 1_795_694_400_000


def of_epoch(events: int | None = None, seconds: int | None = None) -> Table:
    if SEALED.sealed is None:
        raise ValueError("no sealed changelog")
    return replace(SEALED, sealed=replace(SEALED.sealed, epoch=EpochLength(seconds, events)))


def message(offset: int, said: dict[str, Any], at: int = 0) -> Message:
    return Message(offset, None, json.dumps(said).encode(), at)


def come(*people: tuple[str, int, str], every: int = 0) -> list[Message]:
    """People come, one every so many milliseconds from noon on."""
    return [
        message(
            i, {"op": "insert", "row": {"id": name, "age": age, "problem": problem}}, (NOON + i * every) * (every > 0)
        )
        for i, (name, age, problem) in enumerate(people)
    ]


FOUR = [("p1", 20, "flu"), ("p2", 22, "cold"), ("p3", 30, "flu"), ("p4", 31, "cold")]


def no_groups(table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
    return []


def replayed(
    table: Table,
    messages: list[Message],
    into: Path | None = None,
    batch: int | None = None,
    initial: pd.DataFrame | None = None,
    seed: int = 1,
) -> ReplayReport:
    first = None if initial is None else initial.copy
    steps = replay_files(table, messages, first, no_groups, batch, into, secret=secret_of_seed(seed))
    *_, report = steps
    assert isinstance(report, ReplayReport)
    return report


def lines_of(folder: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, (folder / SEALED_FILE).read_text().splitlines())


def epochs_in(folder: Path) -> list[list[SealedRecord]]:
    epochs: list[list[SealedRecord]] = [[]]
    for line in (folder / SEALED_FILE).read_bytes().splitlines():
        start, _, rest = line.partition(b',"value":')
        value, _, _ = rest.rpartition(b',"timestamp":')
        epochs[-1].append(decode(json.loads(start + b"}")["key"].encode(), value))
        if isinstance(epochs[-1][-1], EpochEnd):
            epochs.append([])
    assert epochs.pop() == []
    return epochs


def words_in(folder: Path) -> list[list[str]]:
    words = InWords()
    return [words.of(records) for records in epochs_in(folder)]


def test_an_epoch_ends_after_so_many_row_changes_and_what_the_file_does_not_complete_waits(tmp_path: Path) -> None:
    report = replayed(of_epoch(events=2), come(*FOUR, ("p5", 40, "flu")), tmp_path)
    assert words_in(tmp_path) == [["ADD c1 [20, 22] 2 cold,flu"], ["ADD c2 [30, 31] 2 cold,flu"]]
    told = report.sealed_epochs, report.sealed_cohorts, report.sealed_withheld, report.sealed_waiting
    assert told == (2, 2, 0, 1)


def test_lines_have_partition_key_value_and_the_time_of_the_epoch(tmp_path: Path) -> None:
    replayed(of_epoch(events=4), come(*FOUR, every=25_700), tmp_path)
    one, other, end = lines_of(tmp_path)
    assert [*one] == ["partition", "key", "value", "timestamp"]
    assert (one["partition"], one["key"], end["key"]) == (0, one["value"]["cohort"], "epoch-0")
    assert {line["timestamp"] for line in (one, other, end)} == {NOON + 60_000}  # of no message
    assert end["value"]["time"] == "2026-11-26T12:01:00Z"


@pytest.mark.parametrize("length", [{"events": 3}, {"seconds": 60}])
def test_batches_decide_nothing(tmp_path: Path, length: dict[str, int]) -> None:
    """Not even about the time of an epoch."""
    people = [(f"p{i}", i * 7 % 100, "abc"[i % 3]) for i in range(40)]
    events = come(*people, every=17_000)
    events += [message(40 + i, {"op": "delete", "key": f"p{3 * i}"}, NOON + 700_000 + 9_000 * i) for i in range(9)]
    for batch in (1, 2, 7, 100):
        replayed(of_epoch(**length), events, tmp_path / str(batch), batch)
    found = {(tmp_path / str(batch) / SEALED_FILE).read_bytes() for batch in (1, 2, 7, 100)}
    assert len(found) == 1
    assert sum(isinstance(one, Live) for records in epochs_in(tmp_path / "1") for one in records) > 2


def test_batches_decide_nothing_if_an_epoch_ends_within_a_truncation(tmp_path: Path) -> None:
    """The places of rows that have left are given to others when a batch is over."""
    events = come(*((f"p{i}", i * 7 % 100, "abc"[i % 3]) for i in range(20)))
    said: list[dict[str, Any]] = [{"op": "delete", "key": f"p{3 * i}"} for i in range(6)]
    said += [{"op": "insert", "row": {"id": f"q{i}", "age": i * 9, "problem": "abc"[i % 3]}} for i in range(6)]
    said += [{"op": "truncate"}]
    events += [message(20 + i, one) for i, one in enumerate(said)]
    for batch in (1, 2, 7, 100):
        assert replayed(of_epoch(events=7), events, tmp_path / str(batch), batch).rows == 0
    found = {(tmp_path / str(batch) / SEALED_FILE).read_bytes() for batch in (1, 2, 7, 100)}
    assert len(found) == 1


def test_an_epoch_ends_by_the_times_of_messages_at_full_minutes_and_empty_ones_are_said(tmp_path: Path) -> None:
    late = message(4, {"op": "insert", "row": {"id": "p5", "age": 40, "problem": "flu"}}, NOON + 190_000)
    replayed(of_epoch(seconds=60), [*come(*FOUR, every=25_000), late], tmp_path)
    ends = [records[-1] for records in epochs_in(tmp_path)]
    assert [(end.time, end.adds) for end in ends if isinstance(end, EpochEnd)] == [
        ("2026-11-26T12:01:00Z", 1),
        ("2026-11-26T12:02:00Z", 0),
        ("2026-11-26T12:03:00Z", 0),
    ]


def test_the_first_epochs_end_by_times_that_count_from_0_too(tmp_path: Path) -> None:
    """Such as those of a simulation."""
    events = [message(one.offset, json.loads(one.value or b""), 1_000 + one.offset * 40_000) for one in come(*FOUR)]
    replayed(of_epoch(seconds=60), events, tmp_path)
    ends = [records[-1] for records in epochs_in(tmp_path)]
    assert [(end.time, end.adds) for end in ends if isinstance(end, EpochEnd)] == [
        ("1970-01-01T00:01:00Z", 1),
        ("1970-01-01T00:02:00Z", 0),
    ]


def test_messages_without_a_time_are_refused_where_time_counts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="counts time, but a message has none: give one"):
        replayed(of_epoch(seconds=60), come(*FOUR), tmp_path)
    assert not (tmp_path / SEALED_FILE).exists()


def test_a_message_that_is_ages_after_the_others_is_refused_before_the_disk_is_full() -> None:
    wrong = message(4, {"op": "delete", "key": "p1"}, NOON * 1_000)
    with pytest.raises(ConfigError, match="more than 1,000,000 epochs lie between two messages"):
        replayed(of_epoch(seconds=1), [*come(*FOUR, every=1), wrong])


def test_an_initial_table_without_a_time_is_refused_where_time_counts() -> None:
    """Else its epoch would be one of 1970, and all days since then would follow, without a row."""
    initial = pd.DataFrame({"id": list("ab"), "age": [1, 2], "problem": ["x", "y"]})
    events = [Message(0, None, b"torn"), *come(*FOUR, every=25_000)[1:]]
    with pytest.raises(ConfigError, match="a message has none: give one to each message, the first one too"):
        replayed(of_epoch(seconds=86_400), events, initial=initial)


def test_an_initial_table_is_epoch_1(tmp_path: Path) -> None:
    initial = pd.DataFrame({"id": list("ab"), "age": [1, 2], "problem": ["x", "y"]})
    replayed(of_epoch(seconds=60), come(*FOUR, every=60_000), tmp_path, initial=initial)
    first, *_ = epochs_in(tmp_path)
    assert [type(one) for one in first] == [Add, EpochEnd]
    assert words_in(tmp_path)[0] == ["ADD c1 [1, 2] 2 x,y"]
    assert [line["timestamp"] for line in lines_of(tmp_path)][:2] == [NOON, NOON]


def test_an_initial_table_on_which_alpha_cannot_hold_is_refused_or_warned_of() -> None:
    initial = pd.DataFrame({"id": list("abc"), "age": [1, 2, 3], "problem": ["x", "x", "y"]})
    with pytest.raises(ConfigError, match=r"set alpha to 0\.67 or more"):
        replayed(of_epoch(events=2), [], initial=initial)
    (warning,) = replayed(of_epoch(events=2), [], initial=initial.iloc[1:]).warnings
    assert "about 50 % of the cohorts will withhold their values" in warning


def test_without_live_the_directory_holds_no_table_that_is_current(tmp_path: Path) -> None:
    replayed(of_epoch(events=2), come(*FOUR), tmp_path / "alone")
    replayed(replace(of_epoch(events=2), live=True), come(*FOUR), tmp_path / "beside")
    alone, beside = ({path.name for path in (tmp_path / name).iterdir()} for name in ("alone", "beside"))
    assert beside == {*FILES, SEALED_FILE, SEALED_TABLE_FILE}
    assert beside - alone == {"live.jsonl", "table.csv"}


def test_the_table_at_the_end_is_written_beside_the_log(tmp_path: Path) -> None:
    replayed(of_epoch(events=2), come(*FOUR), tmp_path)
    table = pd.read_csv(tmp_path / SEALED_TABLE_FILE)
    assert sorted(table[["age_lo", "age_hi", "problem", "_left"]].itertuples(index=False, name=None)) == [
        (20, 22, "cold", 2),
        (20, 22, "flu", 2),
        (30, 31, "cold", 2),
        (30, 31, "flu", 2),
    ]


def test_a_seed_decides_all_chance_and_nothing_else(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        replayed(of_epoch(events=2), come(*FOUR), tmp_path / name, seed=seed)
    one, again, other = ((tmp_path / name / SEALED_FILE).read_bytes() for name in ("one", "again", "other"))
    assert one == again != other
    assert words_in(tmp_path / "one") == words_in(tmp_path / "other")


def test_a_statement_changes_rows_one_by_one(tmp_path: Path) -> None:
    """Rows that get other values leave their cohort and wait; others that it moves stay where they are."""
    statements: list[dict[str, Any]] = [
        {"op": "modify", "where": "age < 25", "set": {"problem": "'asthma'"}},
        {"op": "modify", "where": "age < 25", "set": {"age": "age + 50"}},
        {"op": "delete", "where": "age = 31"},
    ]
    events = come(*FOUR) + [message(4 + i, said) for i, said in enumerate(statements)]
    report = replayed(of_epoch(events=1), events, tmp_path)
    assert report.dead_letters == 0
    said = [line for epoch in words_in(tmp_path) for line in epoch]
    assert said == [
        "ADD c1 [20, 22] 2 cold,flu", "ADD c2 [30, 31] 2 cold,flu", "LIVE c1 1", "RETIRE c1",
        "ADD c3 [20, 22] 2 null", "LIVE c2 1",
    ]  # fmt: skip
