"""The people of the demo: all of them fit their table, and what is wrong is wrong on purpose."""

from __future__ import annotations

import msgspec
import pytest

from agents.demo.survey import MARRIAGE, Register, people, wrong_messages
from streamer.cli.routing import Router, RowMessage
from streamer.errors import EventRefused
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.groups.engine import Engine
from streamer.table.encode import Encoder
from streamer.table.schema import Table


def test_every_person_of_the_survey_fits_the_table(table: Table) -> None:
    register, everybody = Register(people()), len(people())
    for _ in range(everybody):
        register.insert()
    encoded = Encoder(table).frame(register.frame().astype(str))  # raises where a row does not fit
    assert len(encoded.source_keys) == 6366


def test_no_rating_is_that_of_most() -> None:
    ratings = [person["marriage"] for person in people()]
    assert set(ratings) == set(MARRIAGE.values())
    assert max(ratings.count(rating) for rating in MARRIAGE.values()) < len(ratings) / 2


def test_the_register_is_what_its_events_lead_to(table: Table) -> None:
    register, engine, decoder = Register(people()), Engine(table), Decoder(table)
    router = Router(table)
    for event in (*register.initial(), *register.mixed()):
        for message in router.route(None, msgspec.json.encode(event)):
            assert isinstance(message, RowMessage)
            engine.apply(decoder.decode(message.message_key, message.value))
    held = {int(source_key): record for source_key, record in engine.drain().records.items() if record}
    assert set(held) == set(register.rows)
    assert {key: held[key].row.values for key in held} == {
        key: (msgspec.json.encode(person["marriage"]),) for key, person in register.rows.items()
    }


def test_each_wrong_message_is_refused_for_a_reason_of_its_own(table: Table) -> None:
    engine, decoder, reasons = Engine(table), Decoder(table), []
    for message in wrong_messages():
        with pytest.raises(EventRefused) as refused:
            engine.apply(decoder.decode(None, message))
        reasons.append(refused.value.reason)
    assert reasons == ["malformed-json", "unknown-category", "key-unknown"]
