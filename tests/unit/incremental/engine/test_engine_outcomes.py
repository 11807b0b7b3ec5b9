"""Outcomes of changes: for captured ones also whether their row was there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine, Outcome
from streamer.incremental.engine.last_changes import LastChanges
from streamer.incremental.events.decoder import Decoder
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS

TABLE = load_table(PATIENTS)
ANN = {"id": 7, "age": 34, "zip": 12_400, "bmi": 22.5, "sex": "Male", "problem": "flu"}
APPLIED, IGNORED, EXPLAINS = Outcome(applied=True), Outcome(applied=False), Outcome(applied=True, explains=True)
APPLIED_TO_NOTHING, IGNORED_DELETION = Outcome(True, unknown_key=True), Outcome(False, unknown_key=True)


def captured(op: str, before: object = None, after: object = None) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after}).encode()


def applied(engine: Engine, value: bytes | None) -> Outcome:
    return engine.apply(Decoder(TABLE).decode(b"7", value))


@pytest.fixture
def engine() -> Engine:
    return Engine(TABLE)


def test_creations_and_snapshots_need_no_row(engine: Engine) -> None:
    assert [applied(engine, captured(op, after=ANN)) for op in "cr"] == [APPLIED, EXPLAINS]


def test_an_update_of_a_row_that_is_not_there_is_applied_and_reported(engine: Engine) -> None:
    update = captured("u", before={"id": 7}, after=ANN)
    assert [applied(engine, update) for _ in range(2)] == [APPLIED_TO_NOTHING, APPLIED]


def test_an_update_that_finds_the_row_under_its_former_key_has_found_it(engine: Engine) -> None:
    applied(engine, captured("c", after={**ANN, "id": 6}))
    assert applied(engine, captured("u", before={"id": 6}, after=ANN)) == APPLIED


def test_a_deletion_of_a_row_that_is_not_there_is_reported_and_the_tombstone_after_it_is_not(engine: Engine) -> None:
    deletion = captured("d", before={"id": 7})
    assert applied(engine, deletion) == IGNORED_DELETION
    applied(engine, captured("c", after=ANN))
    assert [applied(engine, deletion), applied(engine, None)] == [EXPLAINS, IGNORED]


# Positions tell what comes again from what is missed, however many rows are deleted meanwhile.


def at(position: int, op: str, person: int) -> tuple[bytes, bytes]:
    row = ANN | {"id": person}
    before, after = (None if op == "c" else row), (None if op == "d" else row)
    source = {"connector": "mysql", "file": "binlog.000007", "pos": position, "ts_ms": 1000}
    envelope = {"op": op, "before": before, "after": after, "source": source}
    return str(person).encode(), json.dumps(envelope).encode()


def outcomes(engine: Engine, *messages: tuple[int, str, int]) -> list[Outcome]:
    return [engine.apply(Decoder(TABLE).decode(*at(*message))) for message in messages]


def test_what_is_sent_again_about_a_deleted_row_is_not_missed_and_what_comes_later_is(engine: Engine) -> None:
    """Before: each deletion excused one unknown key, so that a table with many deletions never warned."""
    life = ((10, "c", 7), (20, "u", 7), (30, "d", 7))
    assert outcomes(engine, *life) == [APPLIED, APPLIED, APPLIED]
    assert outcomes(engine, (30, "d", 7)) == [IGNORED]
    assert outcomes(engine, (20, "u", 7), (30, "d", 7)) == [APPLIED, APPLIED], "again, with the update before it"
    assert outcomes(engine, (40, "d", 7)) == [IGNORED_DELETION], "it was there again, and no message said so"


def test_rows_that_a_skipped_snapshot_left_out_are_missed_beside_as_many_deletions(engine: Engine) -> None:
    for person in range(100, 120):
        assert outcomes(engine, (person, "c", person), (person + 500, "d", person)) == [APPLIED, APPLIED]
    assert outcomes(engine, (700, "u", 8), (701, "d", 9)) == [APPLIED_TO_NOTHING, IGNORED_DELETION]
    assert outcomes(engine, (701, "d", 9)) == [IGNORED], "it is counted once"


def test_what_is_forgotten_is_taken_as_sent_again_up_to_the_last_position(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LastChanges, "remembered_max", 2)
    for person in range(100, 105):
        outcomes(engine, (person, "c", person), (person + 500, "d", person))
    assert outcomes(engine, (600, "d", 100), (990, "d", 100)) == [IGNORED, IGNORED_DELETION]


# A key that is not there may be that of a row in another spelling: the first table came from another export.

RESPELT_UPDATE = Outcome(True, unknown_key=True, respelt_key=True)
RESPELT_DELETION = Outcome(False, unknown_key=True, respelt_key=True)


@pytest.mark.parametrize("kept", ["7.0", "007", "7   ", " 7"])
def test_a_key_that_a_row_has_in_another_spelling_is_reported_and_stays_another_key(kept: str, engine: Engine) -> None:
    engine.apply(Decoder(TABLE).decode(None, json.dumps({"op": "insert", "row": {**ANN, "id": kept}}).encode()))
    assert applied(engine, captured("d", before={"id": 7})) == RESPELT_DELETION
    assert applied(engine, captured("d", before={"id": 8})) == IGNORED_DELETION
    assert applied(engine, captured("u", after=ANN)) == RESPELT_UPDATE
    assert engine.n_rows == 2


def test_a_plain_deletion_of_such_a_key_is_refused_with_the_cause(engine: Engine) -> None:
    applied(engine, captured("c", after=ANN))
    for key, said in (("7.0", "with the same key in another spelling"), ("8", "no row with this key$")):
        with pytest.raises(EventRefused, match=said) as refused:
            engine.apply(Decoder(TABLE).decode(None, json.dumps({"op": "delete", "key": key}).encode()))
        assert refused.value.reason == "key-unknown"


def test_of_a_key_of_several_columns_one_may_be_in_another_spelling() -> None:
    visits = replace(TABLE, source_key=("clinic", "id"))
    engine, decoder = Engine(visits), Decoder(visits)
    engine.apply(decoder.decode(None, json.dumps({"op": "insert", "row": {**ANN, "clinic": "north  "}}).encode()))
    key = {"clinic": "north", "id": 7}
    assert engine.apply(decoder.decode(json.dumps(key).encode(), captured("d", before=key))) == RESPELT_DELETION
