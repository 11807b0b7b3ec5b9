"""Four real shards, and producers that write keys and values differently: no one is doubled, or lost in silence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from servers.broker.servers import Servers
from streamer.incremental.events.key_form import shard_of
from worlds.connect_json import CONNECT, struct, unscaled_base64, with_schema
from worlds.patients import write_csv
from worlds.shards import Driven
from worlds.workers import WorkedTable

SHARDS, PEOPLE = 4, 1000
KeyOf = Callable[[int], bytes]
SCHEMA = b'{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"name":"shop.patients.Key"}'


def bare(number: int) -> bytes:
    return b"%d" % number


def connect_json(number: int) -> bytes:
    return b'{"id":%d}' % number


def connect_json_with_schema(number: int) -> bytes:
    return b'{"schema":%b,"payload":{"id":%d}}' % (SCHEMA, number)


MONEY = {"type": "bytes", "name": CONNECT + "Decimal", "version": 1, "parameters": {"scale": "2"}}


def connect_decimal(number: int) -> bytes:
    """The key of a table whose primary key is a NUMERIC."""
    return with_schema(struct({"id": MONEY}), {"id": unscaled_base64(Decimal(number), 2)})


def row(number: int, age: int) -> dict[str, object]:
    numbers = {"zip": 10000 + number * 7 % 10000, "bmi": 20.5 + number % 20}
    return {"id": number, "age": age, **numbers, "sex": "Male" if number % 2 else "Female", "problem": "flu"}


def envelope(op: str, number: int, age: int = 40) -> bytes:
    """A message of Debezium's, in Connect's JSON with schema."""
    after = None if op == "d" else row(number, age)
    payload = {"before": {"id": number}, "after": after, "op": op, "ts_ms": 1}
    return json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()


def flattened(number: int) -> bytes:
    """A row as ExtractNewRecordState leaves it with its defaults, decimals as bytes."""
    fields = row(number, number % 90)
    money = {name: unscaled_base64(Decimal(str(fields[name])), 2) for name in ("id", "bmi")}
    texts = {name: {"type": "string"} for name in ("sex", "problem")}
    schema = struct({"id": MONEY, "bmi": MONEY, "age": {"type": "int32"}, "zip": {"type": "int32"}, **texts})
    return with_schema(schema, fields | money)


@dataclass
class Clinic:
    """A table of patients on the servers: its producers, its workers, what was published."""

    served: WorkedTable
    publishers: list[Driven] = field(default_factory=list)

    def produce(self, *messages: object) -> None:
        """Messages through `streamer produce`."""
        self.served.must("produce", "-", stdin="\n".join(map(json.dumps, messages)))

    def produce_rows(self) -> None:
        """All people through `streamer produce`."""
        rows = write_csv(self.served.folder / "people.csv", (row(number, number % 90) for number in range(PEOPLE)))
        self.served.must("produce", rows)

    def connector(self, key_of: KeyOf, values: Iterable[tuple[int, bytes | None]]) -> None:
        """Messages as Kafka Connect sends them: by murmur2 of the serialized key."""
        keyed = ((key_of(number), value) for number, value in values)
        self.served.send((shard_of(message_key, SHARDS), message_key, value) for message_key, value in keyed)

    def work(self) -> None:
        """New workers take every shard over and read to the end."""
        self.publishers = self.served.work()

    @property
    def published(self) -> int:
        return self.served.n_rows()

    @property
    def letters(self) -> list[dict[str, str]]:
        return self.served.letters()

    @property
    def refused(self) -> Counter[str]:
        return Counter(letter["reason"] for letter in self.letters)

    @property
    def told(self) -> int:
        """In how many shards `streamer status` says that too much was refused."""
        return sum(
            "messages of the last minutes were refused" in problem
            for problem in self.served.report("status", code=1)["problems"]
        )

    @property
    def key_forms(self) -> set[str]:
        return {publisher.meta.key_form for publisher in self.publishers}


@pytest.fixture
def clinic(servers: Servers, tmp_path: Path) -> Clinic:
    return Clinic(WorkedTable(servers, tmp_path, SHARDS))


@pytest.mark.parametrize("key_of", [connect_json, connect_json_with_schema])
def test_a_connector_after_produce_doubles_no_one_and_its_messages_are_reported(clinic: Clinic, key_of: KeyOf) -> None:
    clinic.produce_rows()
    clinic.work()
    assert (clinic.published, clinic.key_forms) == (PEOPLE, {"bare"})
    clinic.connector(key_of, [(number, envelope("u", number)) for number in range(PEOPLE)])
    clinic.connector(key_of, [(number, envelope("d", number)) for number in range(0, PEOPLE, 2)])
    clinic.connector(key_of, [(number, None) for number in range(0, PEOPLE, 2)])
    clinic.work()
    assert clinic.published == PEOPLE
    assert clinic.refused == {"message-key-form": 2 * PEOPLE}
    assert clinic.told == SHARDS
    assert all("key.converter" in letter["detail"] for letter in clinic.letters)
    clinic.connector(bare, [(number, b"null") for number in range(0, PEOPLE, 2)])
    clinic.work()
    assert clinic.published == PEOPLE // 2


@pytest.mark.parametrize("key_of", [connect_json, connect_json_with_schema])
def test_produce_after_a_connector_meets_the_rows_it_speaks_of(clinic: Clinic, key_of: KeyOf) -> None:
    clinic.connector(key_of, [(number, envelope("r", number)) for number in range(PEOPLE)])
    clinic.work()
    changed = [{"op": "modify", "key": number, "row": {"age": 50}} for number in range(100)]
    clinic.produce(*changed, *({"op": "delete", "key": number} for number in range(40)), {"key": 99, "value": None})
    clinic.work()
    assert (clinic.published, clinic.letters) == (PEOPLE - 41, [])


def test_a_connectors_converter_that_is_changed_is_reported_and_set_back_loses_nothing(clinic: Clinic) -> None:
    clinic.connector(connect_json, [(number, envelope("r", number)) for number in range(PEOPLE)])
    clinic.connector(connect_json_with_schema, [(number, envelope("d", number)) for number in range(100)])
    clinic.work()
    assert (clinic.published, clinic.refused) == (PEOPLE, {"message-key-form": 100})
    assert clinic.told == SHARDS
    clinic.connector(connect_json, [(number, b"null") for number in range(100)])
    clinic.work()
    assert clinic.published == PEOPLE - 100


def test_an_emptied_table_takes_another_form_of_keys(clinic: Clinic) -> None:
    clinic.produce_rows()
    clinic.served.must("produce", "--truncate")
    clinic.connector(connect_json, [(number, envelope("r", number)) for number in range(PEOPLE)])
    clinic.work()
    assert (clinic.published, clinic.letters, clinic.key_forms) == (PEOPLE, [], {'json:{"id":number}'})


def test_a_table_without_primary_key_and_a_producer_without_murmur2_are_reported(clinic: Clinic) -> None:
    clinic.produce_rows()
    updates = [(number, envelope("u", number)) for number in range(200)]
    clinic.served.send((number % 4, None, said) for number, said in updates)
    librdkafka = Producer({"bootstrap.servers": clinic.served.bootstrap})  # consistent_random: crc32
    for number, said in updates:
        librdkafka.produce(clinic.served.input, said, bare(number))
    assert librdkafka.flush(20) == 0
    clinic.work()
    assert clinic.published == PEOPLE
    refused = clinic.refused
    assert refused["message-key-missing"] == 200
    assert refused.keys() == {"message-key-missing", "wrong-partition"} and 100 < refused["wrong-partition"] < 200
    (detail,) = {letter["detail"] for letter in clinic.letters if letter["reason"] == "wrong-partition"}
    assert "partitioner=murmur2_random" in detail
    assert clinic.told == SHARDS


def test_rows_without_a_mark_under_keys_of_decimals_come_and_go_in_their_shards(clinic: Clinic) -> None:
    clinic.served.edit_yaml("publish:", "input: {form: rows}\npublish:")
    clinic.connector(connect_decimal, [(number, flattened(number)) for number in range(200)])
    clinic.connector(connect_decimal, [(number, None) for number in range(0, 200, 2)])
    clinic.produce(*({"op": "delete", "key": number} for number in range(1, 80, 2)))
    clinic.work()
    assert (clinic.published, clinic.letters) == (60, [])
    (form,) = clinic.key_forms
    assert form.startswith("json-schema:")
    assert sum(publisher.meta.counts.unknown_keys for publisher in clinic.publishers) == 0


def test_decimals_as_bytes_that_look_like_numbers_are_told_and_nobody_is_published_under_them(clinic: Clinic) -> None:
    envelopes = []
    for number in range(200):
        after = row(number, 40) | {"bmi": "1234" if number % 2 else unscaled_base64(Decimal("20.50"), 2)}
        envelopes.append((number, json.dumps({"before": None, "after": after, "op": "c", "ts_ms": 1}).encode()))
    clinic.connector(connect_json, envelopes)
    clinic.work()
    assert clinic.published == 0
    assert clinic.refused == {"ambiguous-decimal": 100, "wrong-type": 100}
    assert all("decimal.handling.mode=string" in letter["detail"] for letter in clinic.letters)
    assert clinic.told == SHARDS
