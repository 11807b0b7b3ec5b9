"""Workers on real servers, whose input is Avro: keys and values by the schemas of a registry (a stub, for tests)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from servers.broker.servers import Servers
from servers.registry import StubRegistry
from streamer.incremental.events.key_form import shard_of
from worlds.avro_messages import LOGGED, change, envelope, message, money, optional, record, unscaled
from worlds.workers import WorkedTable, wait_until

SHARDS, PEOPLE = 2, range(200)
USER_AND_PASSWORD = "reader:Canary-4711"

KEY = record("Key", {"id": "long"})
OTHER_KEY = {**KEY, "doc": "the same, registered again"}
TEXTS = {"sex": "string", "problem": optional("string"), "name": optional("string")}
ROW = {"id": "long", "age": "int", "zip": optional("long"), "bmi": money(1), **TEXTS}
VALUE, LOGGED_VALUE = envelope(ROW), envelope(ROW, LOGGED)


class AvroTable:
    """A table of patients that a connector writes in Avro."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.registry = StubRegistry(USER_AND_PASSWORD)
        self.key, self.value, self.logged = (self.registry.add(said) for said in (KEY, VALUE, LOGGED_VALUE))
        self.served = WorkedTable(servers, folder, SHARDS)
        self.served.environment |= {
            "SCHEMA_REGISTRY_URL": self.registry.url,
            "SCHEMA_REGISTRY_BASIC_AUTH": USER_AND_PASSWORD,
        }
        self.sent = [0] * SHARDS

    def send(self, number: int, said: Any, key_id: int | None = None, value_id: int | None = None) -> None:
        value = None if said is None else message(value_id or self.value, VALUE, said)
        self._write([(*self.place_of(number, key_id), value)])

    def send_people(self) -> None:
        values = ((number, message(self.value, VALUE, change("c", person(number)))) for number in PEOPLE)
        self._write([(*self.place_of(number), value) for number, value in values])

    def send_logged(self, numbers: Iterable[int], lsn: int) -> None:
        """Rows with their places in PostgreSQL's log."""
        logged = ((number, self._logged(change("c", person(number)), lsn + number)) for number in numbers)
        self._write([(*self.place_of(number), value) for number, value in logged])

    def send_truncation(self, shard: int, lsn: int) -> None:
        """It has no key, and lies in any one partition."""
        self._write([(shard, None, self._logged({**change("t", {}), "after": None}, lsn))])

    def place_of(self, number: int, key_id: int | None = None) -> tuple[int, bytes]:
        """Shard and message key of a person."""
        message_key = message(key_id or self.key, KEY, {"id": number})
        return shard_of(message_key, SHARDS), message_key

    def _logged(self, said: Any, lsn: int) -> bytes:
        return message(self.logged, LOGGED_VALUE, {**said, "source": {**said["source"], "lsn": lsn, "ts_ms": 9}})

    def _write(self, records: Sequence[tuple[int, bytes | None, bytes | None]]) -> None:
        for shard, _, _ in records:
            self.sent[shard] += 1
        self.served.send(records)

    def wait(self) -> None:
        self.served.wait_until_published(30, self.sent)

    def problems(self) -> str:
        return " ".join(self.served.status()["problems"])

    def until_a_problem(self, says: str) -> None:
        wait_until(lambda: says in self.problems(), 20, lambda: self.problems() + self.served.logs())

    def refused(self) -> Counter[str]:
        return Counter(letter["reason"] for letter in self.served.letters())


def person(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "age": number % 90,
        "zip": None if number == 7 else 10000 + number * 7 % 10000,
        "bmi": unscaled(Decimal(205 + number % 200) / 10, 1),
        "sex": "Male" if number % 2 else "Female",
        "problem": "flu",
        "name": f"Canary-{number}",
    }


@pytest.fixture
def people(servers: Servers, tmp_path: Path) -> Iterator[AvroTable]:
    table = AvroTable(servers, tmp_path)
    yield table
    table.served.kill()
    table.registry.shut()


@pytest.mark.gate("Avro")
def test_avro_keys_and_values_in_two_shards(people: AvroTable) -> None:
    people.registry.open()
    people.send_people()
    other = people.registry.add(OTHER_KEY)
    people.send(1, change("d", person(1)), key_id=other)
    people.send(2, change("u", person(2)), value_id=999)
    people.send(3, change("d", person(3)))
    people.send(3, None)
    people.served.start()
    people.wait()
    assert people.served.n_rows() == len(PEOPLE) - 2  # one has no zip, one was deleted
    assert people.refused() == {"null-not-allowed": 1, "message-key-form": 1, "unknown-schema": 1}
    assert {meta.key_form for meta in people.served.metas()} == {f"avro:{people.key}"}
    # what `produce` writes comes under the connector's key: else it would be refused
    said = people.served.report("produce", "-", stdin=json.dumps({"op": "delete", "key": 4}))
    assert said["key_form"] == f"avro:{people.key}"
    people.sent[people.place_of(4)[0]] += 1
    people.wait()
    assert people.served.n_rows() == len(PEOPLE) - 3
    assert "Canary" not in people.served.logs()


def test_a_truncation_in_avro_is_a_dead_letter_of_its_own_reason(people: AvroTable) -> None:
    people.registry.open()
    people.send_logged(range(8, 48), lsn=1_000)
    people.send_truncation(shard=1, lsn=2_000)
    people.served.start()
    people.wait()
    assert (people.served.n_rows(), people.refused()) == (40, {"truncate-one-shard": 1})


def test_a_registry_that_is_down_is_waited_for_and_status_says_so(people: AvroTable) -> None:
    people.send_people()
    people.served.start()
    people.until_a_problem("does not answer")
    assert people.registry.url in people.problems()
    assert people.served.reached() == [0] * SHARDS
    people.registry.open()
    people.wait()
    assert people.served.n_rows() == len(PEOPLE) - 1
    assert people.refused() == {"null-not-allowed": 1}
    wait_until(lambda: "schema registry" not in people.problems(), 10, people.problems)


def test_a_wrong_password_is_said_and_nowhere_printed(people: AvroTable) -> None:
    people.registry.open()
    people.send(8, change("c", person(8)))
    people.served.environment["SCHEMA_REGISTRY_BASIC_AUTH"] = "reader:Canary-wrong"
    people.served.start()
    people.until_a_problem("refuses us (401)")
    assert people.served.reached() == [0] * SHARDS
    assert "Canary" not in people.served.logs() + people.problems()
