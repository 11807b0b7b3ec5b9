"""The people of the demo: all of them fit their table, and what is wrong is wrong on purpose."""

from __future__ import annotations

from pathlib import Path
from socket import create_server
from time import monotonic, sleep

import msgspec
import pandas as pd
import pytest

from streamer.cli.demo.command import LOG_LINES_SHOWN, MARRIAGE, WRONG_MESSAGES, Register, running, summed, write_table
from streamer.cli.stream.produce import Router, RowMessage
from streamer.errors import EventRefused, StreamerError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.decoder import Decoder
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return load_table(write_table(tmp_path, "survey", embedded=True))


def test_everybody_fits_the_table_and_no_rating_is_that_of_most(table: Table) -> None:
    register = Register()
    count = len(register.initial())
    encoded = Encoder(table).frame(
        pd.DataFrame(list(register.rows.values())).astype(str)
    )  # raises if a row does not fit
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


# -- workers ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_ends_by_itself_ends_the_demo_with_the_end_of_its_log(tmp_path: Path) -> None:
    table = write_table(tmp_path, "survey", embedded=True)
    with running(1, table, "an address without a port", "redis://nowhere/0") as worker:
        until = monotonic() + 30
        with pytest.raises(StreamerError) as ended:
            while monotonic() < until:
                worker.metrics()
                sleep(0.05)
    first, *lines = str(ended.value).splitlines()
    assert "a worker has ended (exit code 2)" in first
    assert 0 < len(lines) <= LOG_LINES_SHOWN
    assert "HOST:PORT" in str(ended.value)


def test_the_metrics_of_all_workers_and_shards_are_summed() -> None:
    def metrics(*values: int) -> str:
        lines = [f'streamer_rows{{shard="{n}",table="a"}} {value}.0' for n, value in enumerate(values)]
        return "\n".join(["# TYPE streamer_rows gauge", *lines, 'streamer_healthy{table="a"} 1.0'])

    assert summed([metrics(3, 4), metrics(5), ""]) == {"rows": 12}


def test_a_worker_has_an_address_once_it_listens(tmp_path: Path) -> None:
    table = write_table(tmp_path, "survey", embedded=True)
    silent = create_server(("127.0.0.1", 0))  # nobody accepts: a worker that is refused would end at once
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    with silent, running(1, table, address, f"redis://{address}/0") as worker:
        until = monotonic() + 60
        while not worker.url and monotonic() < until:
            sleep(0.05)
        assert worker.url.startswith("http://127.0.0.1:")
