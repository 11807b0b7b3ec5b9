"""The people of the demo: all of them fit their table, and what is wrong is wrong on purpose."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agents.demo.people import MARRIAGE, WRONG_MESSAGES, Register, write_table
from streamer.cli.routing import Router, RowMessage
from streamer.errors import EventRefused
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.groups.engine import Engine
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return load_table(write_table(tmp_path, "survey", embedded=True))


def test_everybody_fits_the_table_and_no_rating_is_that_of_most(table: Table) -> None:
    register = Register()
    count = len(register.initial())
    encoded = Encoder(table).frame(register.frame().astype(str))  # raises if a row does not fit
    ratings = [person["marriage"] for person in register.rows.values()]
    assert len(encoded.source_keys) == len(ratings) == count
    assert set(ratings) == set(MARRIAGE)
    assert max(map(ratings.count, MARRIAGE)) < count / 2


def test_the_register_is_what_its_events_lead_to(table: Table) -> None:
    register, engine, decoder = Register(), Engine(table), Decoder(table)
    router = Router(table)
    for event in (*register.initial(), *register.mixed()):
        for message in router.route(None, msgspec.json.encode(event)):
            assert isinstance(message, RowMessage)
            engine.apply(decoder.decode(message.message_key, message.value))
    held = {int(source_key): record for source_key, record in engine.drain().records.items() if record}
    assert {key: record.row.values for key, record in held.items()} == {
        key: (msgspec.json.encode(person["marriage"]),) for key, person in register.rows.items()
    }


def test_the_people_of_every_run_are_the_same() -> None:
    one, other = Register(), Register()
    assert [*one.initial(), *one.mixed()] == [*other.initial(), *other.mixed()]


def test_each_wrong_message_is_refused_for_a_reason_of_its_own(table: Table) -> None:
    engine, decoder, reasons = Engine(table), Decoder(table), []
    for message in WRONG_MESSAGES:
        with pytest.raises(EventRefused) as refused:
            engine.apply(decoder.decode(None, message))
        reasons.append(refused.value.reason)
    assert reasons == ["malformed-json", "unknown-category", "key-unknown"]
