"""Outcomes of changes: for captured ones also whether their row was there."""

from __future__ import annotations

import json

import pytest

from streamer.incremental.engine.engine import Engine, Outcome
from streamer.incremental.events.decoder import Decoder
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS

TABLE = load_table(PATIENTS)
ANN = {"id": 7, "age": 34, "zip": 12_400, "bmi": 22.5, "sex": "Male", "problem": "flu"}
APPLIED, IGNORED = Outcome(applied=True), Outcome(applied=False)
APPLIED_TO_NOTHING, IGNORED_DELETION = Outcome(True, unknown_key=True), Outcome(False, unknown_key=True)


def captured(op: str, before: object = None, after: object = None) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after}).encode()


def applied(engine: Engine, value: bytes | None) -> Outcome:
    return engine.apply(Decoder(TABLE).decode(b"7", value))


@pytest.fixture
def engine() -> Engine:
    return Engine(TABLE)


def test_creations_and_snapshots_need_no_row(engine: Engine) -> None:
    assert [applied(engine, captured(op, after=ANN)) for op in "cr"] == [APPLIED, APPLIED]


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
    assert [applied(engine, deletion), applied(engine, None)] == [APPLIED, IGNORED]
