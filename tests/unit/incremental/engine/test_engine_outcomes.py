"""Outcomes of changes: for captured ones also whether their row was there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine, Outcome
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
