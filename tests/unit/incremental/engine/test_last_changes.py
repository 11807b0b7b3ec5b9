"""A row that a snapshot has read comes after a change that it does not have yet: it is ignored, and counted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.incremental.engine.engine import APPLIED, OLD_READ, Engine, Outcome
from streamer.incremental.engine.last_changes import LastChanges, Remembered
from streamer.incremental.events.decoder import Decoder
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS

TABLE = load_table(PATIENTS)
ANN = {"id": 7, "age": 34, "zip": 12_400, "bmi": 22.5, "sex": "Male", "problem": "flu"}


def said(op: str, lsn: int | None, key: int = 7, flat: bool = False, **source: object) -> bytes:
    row, source = {**ANN, "id": key}, {"connector": "postgresql", "lsn": lsn, **source}
    if flat:
        marks = {f"__source_{name}": value for name, value in source.items()}
        return json.dumps({**row, **marks, "__op": op, "__deleted": str(op == "d").lower()}).encode()
    before, after = (row, None) if op == "d" else (None, row)
    return json.dumps({"op": op, "before": before, "after": after, "source": source}).encode()


def plain(op: str, **said: object) -> bytes:
    return json.dumps({"op": op, **said}).encode()


def outcomes(engine: Engine, *values: bytes) -> list[Outcome]:
    done = [engine.apply(Decoder(TABLE).decode(b"7", value)) for value in values]
    return [replace(outcome, explains=False) for outcome in done]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("change", ["u", "d"])
def test_a_read_that_is_older_than_the_last_change_is_ignored(change: str, flat: bool) -> None:
    """Before: somebody who was deleted was published again, for ever."""
    engine = Engine(TABLE)
    outcomes(engine, said("c", 200, flat=flat), said(change, 310, flat=flat))
    assert outcomes(engine, said("r", 309, flat=flat), said("r", 310, flat=flat)) == [OLD_READ, APPLIED]


@pytest.mark.parametrize(
    "gone",
    [
        plain("delete", key=7),  # `streamer erase`
        plain("delete", where="age = 34"),
        plain("truncate"),
        plain("modify", where="age = 34", set={"bmi": "bmi + 1"}),
        b'{"op": "t", "source": {"connector": "postgresql", "lsn": 300}}',
        b'{"op": "u", "before": {"id": 7}, "after": %b, "source": {"connector": "postgresql", "lsn": 300}}'
        % json.dumps({**ANN, "id": 8}).encode(),
    ],
    ids=["delete", "delete where", "truncate", "modify where", "captured truncate", "another key"],
)
def test_whatever_takes_a_row_away_or_changes_it_counts(gone: bytes) -> None:
    engine = Engine(TABLE)
    outcomes(engine, said("c", 200, key=9), said("r", 200), gone)
    assert outcomes(engine, said("r", 150), said("r", 300)) == [OLD_READ, APPLIED]


def test_a_row_that_was_changed_before_a_truncation_is_gone_like_all_others() -> None:
    engine = Engine(TABLE)
    outcomes(engine, said("c", 100), b'{"op": "t", "source": {"connector": "postgresql", "lsn": 300}}')
    assert outcomes(engine, said("r", 200), said("r", 200, key=8), said("r", 301)) == [OLD_READ, OLD_READ, APPLIED]


@pytest.mark.parametrize("before", [(), (90,)], ids=["only a snapshot", "a change before it"])
def test_an_erased_row_does_not_come_back_with_the_snapshot_that_brought_it(before: tuple[int, ...]) -> None:
    engine = Engine(TABLE)
    outcomes(engine, *(said("c", lsn, key=8) for lsn in before), said("r", 200), plain("delete", key=7))
    assert outcomes(engine, said("r", 150), said("r", 200), said("r", 201)) == [OLD_READ, OLD_READ, APPLIED]


def test_a_row_that_is_not_there_is_not_taken_if_its_deletion_may_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastChanges, "remembered_max", 2)
    engine = Engine(TABLE)
    outcomes(engine, *(said("c", 100 + key, key) for key in range(3)), said("d", 110, 0), said("d", 111, 1))
    outcomes(engine, said("u", 112, 2))
    assert outcomes(engine, said("r", 105, 0), said("r", 105, 1), said("r", 105, 2)) == [OLD_READ] * 3
    assert outcomes(engine, said("r", 111, 0), said("r", 120, 5)) == [APPLIED, APPLIED]


def test_a_message_without_a_position_is_applied_as_ever_and_nothing_is_kept_of_it() -> None:
    engine = Engine(TABLE)
    values = said("c", None), said("d", None), said("r", None), plain("delete", key=7)
    assert outcomes(engine, *values) == [APPLIED] * 4
    assert engine.drain().last_changes == {}


def test_what_is_kept_says_the_same_of_every_later_read_and_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LastChanges, "remembered_max", 3)
    first, kept = LastChanges(), dict[int, Remembered | None]()
    decoded = [Decoder(TABLE).decode(None, said("d", lsn)).position for lsn in range(20)]  # type: ignore[union-attr]
    for row, at in ((1, 5), (2, 3), (1, 4), (3, 7), (4, 8), (5, 9)):
        first.add(row, decoded[at])
        kept |= first.take_new()
    again = LastChanges()
    again.load((row, remembered) for row, remembered in kept.items() if remembered is not None)
    asked = [(row, at, is_there) for row in range(7) for at in decoded if at for is_there in (True, False)]
    answers = [first.is_older(row, at, is_there=is_there) for row, at, is_there in asked]
    assert answers == [again.is_older(row, at, is_there=is_there) for row, at, is_there in asked]
    assert first.last == again.last
    for one in (first, again):
        one.add(6, decoded[1])
    assert first.take_new() == again.take_new()
