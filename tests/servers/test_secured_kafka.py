"""A Kafka with TLS, passwords, client certificates and ACLs: the whole way with least privilege, by the files and the
recipe in examples/security; and every way to be shut out, told with its remedy and without a secret."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as ReaderError
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from agents.input_reader import failure_of, reader_access
from servers.acl_recipe import bindings_of, commands_of
from servers.broker.secured import SecuredKafka
from servers.people import KEY_PASSWORD, PASSWORDS, SECURITY, People
from servers.redis_servers import running
from streamer.cli.main import main
from streamer.errors import ConfigError, StreamerError
from streamer.kafka import reading
from streamer.kafka.clients import KafkaCalls, client_settings, open_consumer
from streamer.kafka.diagnose import require_access
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.settings import CONFIG, VARIABLES, servers_of
from streamer.reader import Subscription
from worlds.checkout import PATIENTS
from worlds.http_servers import Endpoint, unsigned_token
from worlds.kafka_and_redis import write
from worlds.patients import random_values
from worlds.workers import Worker, wait_until

CANARY = "canary-7Q-secret"
SHARDS = 2
SNAPSHOT_ROWS = 40
HELD_ROW = "56"
FIRST_MESSAGE, FROM_TOPIC = ("--shard", "0", "--offset", "0"), ("--from-source", "topic")
CONNECTIONS = 6
"""On how many of them a ticket comes in time is chance; one in three does."""

pytestmark = [pytest.mark.servers]


SECRETS = (*PASSWORDS.values(), KEY_PASSWORD, CANARY)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    secured = SecuredKafka(tmp_path_factory.mktemp("secured"), {**PASSWORDS, "stranger": "of-a-stranger"})
    try:
        secured.start()
        yield secured
    finally:
        secured.stop()


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CONFIG, *VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def people(kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[People]:
    people = People(kafka, tmp_path, monkeypatch)
    people.grant()
    with running(people.redis):
        yield people
    assert not [secret for secret in (*SECRETS, *people.redis.passwords.values()) if secret in people.said]


@contextmanager
def worker_of(people: People, folder: Path) -> Iterator[Worker]:
    """A worker, which is told to end, and has nothing to complain of."""
    worker = Worker(folder / "worker.log", people.environment("worker"))
    try:
        yield worker
        assert worker.terminate()[0] == 0
    finally:
        worker.kill()
        people.said += worker.log.read_text()
    assert not re.search("[Aa]uthori[sz]|NOPERM", worker.log.read_text())


def test_a_doctor_with_the_worker_s_rights_finds_no_fault_and_with_others_names_what_lacks(people: People) -> None:
    people.must("operator", "topics create", "--shards", str(SHARDS))
    said = " ".join(people.must("worker", "doctor").split())
    assert "FAULT" not in said
    assert "settings are not shown to this user: let an operator call `streamer topics check`" in said
    of_operator, of_producer = (people.call(user, "doctor") for user in ("operator", "producer"))
    assert (of_operator.exit_code, of_producer.exit_code) == (1, 1)
    lacking = " ".join(of_operator.stdout.split())
    assert f"FAULT rights: this user may not read {people.name}.control, {people.name}.live; may not write" in lacking
    assert "not authorised: Describe on topic" in of_producer.stdout


@pytest.mark.gate("a secured Kafka")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_way_with_no_more_rights_than_the_recipes_give(people: People, tmp_path: Path) -> None:
    people.must("operator", "topics create", "--shards", str(SHARDS))
    people.must("worker", "load", str(PATIENTS / "rows.csv"))
    people.must("producer", "produce", str(PATIENTS / "events.jsonl"))
    people.must("producer", "produce", "--truncate", "--statement-id", "all")
    people.must("producer", "produce", str(PATIENTS / "events.jsonl"))
    people.must("operator", "skip", *FIRST_MESSAGE)
    with worker_of(people, tmp_path) as worker:
        wait_until(lambda: in_step(people), 60, lambda: worker.log.read_text() + people.said[-2000:])
        people.must("operator", "rebuild", "--wait")
        people.must("operator", "rebuild", "--cancel")
        shown = people.must("operator", "status", "--dead-letters-max", "1")
        assert "fits together" in shown or "no other problem" in shown  # it may know already that nothing was cancelled
        assert "not used of the file in KAFKA_CONFIG: client.id" in shown
        assert "skipped" in people.must("operator", "dead-letters")
        people.must("operator", "dead-letters retry", "--dry-run")
        people.must("operator", "dead-letters retry")
        wait_until(lambda: "refused-again" in people.must("operator", "dead-letters"), 60, worker.log.read_text)
        assert "acknowledged" in people.must("operator", "dead-letters acknowledge")
        people.must("operator", "topics check")
        assert "1 row erased" in people.must("operator", "erase", HELD_ROW, "--count", "--timeout", "300")
    people.must("operator", "rebuild", "--dry-run")
    (a_group, *_) = re.findall(r"\b\d-\d+\b", people.must("operator", "groups"))
    people.must("operator", "groups", "--nearest", a_group)
    people.must("operator", "explain", "--group", a_group)
    before = rows_read(people)
    people.must("reader", "subscribe", "--live", str(tmp_path / "live.jsonl"))
    people.must("operator", "index", "--out", str(tmp_path / "index.csv"))
    people.must("operator", "verify", str(tmp_path / "live.jsonl"))
    people.must("worker", "reload", *FROM_TOPIC)
    assert before == rows_read(people) > 0


def rows_read(people: People) -> int:
    """How many rows a reader finds."""
    return int(json.loads(people.must("reader", "subscribe", "--json"))["rows"])


def in_step(people: People) -> bool:
    """Whether all messages were read; a lag of nothing, and something read."""
    total = json.loads(people.call("operator", "status", "--json").stdout)["total"]
    return bool(total["lag"] == 0 and total["messages"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_snapshot_is_ended_and_read_under_a_lossy_join_with_the_same_rights(
    kafka: SecuredKafka, people: People, tmp_path: Path
) -> None:
    text = people.table.read_text().replace("form: rows", "form: lossy-join").replace("{k: 3}", "{k: 3, l: 2}")
    people.table.write_text(text)
    people.must("operator", "topics create", "--shards", "1")
    write(kafka.plaintext, f"{people.name}.changes", [(0, *snapshot_row(number)) for number in range(SNAPSHOT_ROWS)])
    with worker_of(people, tmp_path) as worker:
        wait_until(lambda: n_held(people) == SNAPSHOT_ROWS, 60, worker.log.read_text)
        people.must("operator", "end-snapshot")
        wait_until(lambda: n_held(people) == 0, 60, worker.log.read_text)
    assert rows_read(people) == SNAPSHOT_ROWS


def snapshot_row(number: int) -> tuple[bytes, bytes]:
    """Key and value of a row that a connector has read, and behind which the snapshot goes on."""
    row = {"id": f"p{number}", **random_values(random.Random(number))}
    source = {"connector": "postgresql", "snapshot": "true" if number else "first", "lsn": 26_713_864}
    said = {"op": "r", "before": None, "after": row, "source": source, "ts_ms": 1_764_000_000_123}
    return json.dumps({"id": row["id"]}).encode(), json.dumps(said).encode()


def n_held(people: People) -> int:
    """How many rows the one shard holds back; -1 before it has begun."""
    (shard,) = json.loads(people.call("operator", "status", "--json").stdout)["shards"]
    snapshot = shard["snapshot"]
    return -1 if snapshot is None else int(snapshot["reads"]) if snapshot["holds_back"] else 0


@pytest.mark.timeout(600)
def test_no_one_does_what_the_recipes_leave_to_others(people: People, tmp_path: Path) -> None:
    name, events, rows = people.name, str(PATIENTS / "events.jsonl"), str(PATIENTS / "rows.csv")
    people.must("operator", "topics create", "--shards", str(SHARDS))
    people.must("producer", "produce", events)
    assert f"{name}.changes" in people.must_not("reader", "produce", events)
    assert f"--operation Read --topic {name}.live`" in people.must_not("producer", "subscribe")
    assert f"--operation Read --topic {name}.dead-letters`" in people.must_not("reader", "dead-letters")
    assert f"--operation Read --topic {name}.dead-letters`" in people.must_not("producer", "dead-letters retry")
    assert f"--operation Read --topic {name}.changes`" in people.must_not("reader", "rebuild")
    assert f"--operation Read --topic {name}.changes`" in people.must_not("reader", "end-snapshot")
    assert f"--operation Read --topic {name}.changes`" in people.must_not("reader", "skip", *FIRST_MESSAGE)
    assert f"--operation Read --topic {name}.positions`" in people.must_not("producer", "skip", *FIRST_MESSAGE)
    assert f"{name}.control" in people.must_not("producer", "rebuild")
    assert "not authorised" in people.must_not("reader", "status")
    assert "not authorised" in people.must_not("reader", "topics check")
    assert "not authorised" in people.must_not("producer", "topics create")
    assert "not authorised" in people.must_not("producer", "load", rows, at_redis="worker")
    assert "not authorised" in people.must_not("operator", "reload", *FROM_TOPIC, at_redis="worker")
    assert "forbids this user the command" in people.must_not_at_redis("worker", "load", rows, at_redis="operator")
    refused = Worker(tmp_path / "worker.log", people.environment("producer", at_redis="worker"))
    assert refused.ended() == 2
    people.said += refused.log.read_text()
    assert "User:producer" in refused.log.read_text()


def test_only_workers_read_the_topic_that_holds_the_secrets_of_shards(tmp_path: Path) -> None:
    commands = commands_of(SECURITY / "acls.sh", "people", tmp_path)
    readers = {
        rule.principal
        for rule in (rule for command in commands for rule in bindings_of(command))
        if rule.operation in (AclOperation.READ, AclOperation.ALL)
        and rule.restype is ResourceType.TOPIC
        and "people.control".startswith(rule.name)
    }
    assert readers == {"User:worker"}


# -- who gets in, by each of the three clients ---------------------------------------------------------------------


def ways_in(kafka: SecuredKafka, folder: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Server and variables, by mechanism."""
    kafka.certificate(folder / "me.pem", "reader", KEY_PASSWORD)
    password = {
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SSL_CAFILE": str(kafka.ca_file),
        "KAFKA_SASL_USERNAME": "worker", "KAFKA_SASL_PASSWORD": PASSWORDS["worker"],
    }  # fmt: skip
    certificate = {
        "KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_CAFILE": str(kafka.ca_file),
        "KAFKA_SSL_KEYSTORE": str(folder / "me.pem"), "KAFKA_SSL_KEY_PASSWORD": KEY_PASSWORD,
    }  # fmt: skip
    return {
        "PLAIN": (kafka.sasl, password | {"KAFKA_SASL_MECHANISM": "PLAIN"}),
        "SCRAM-SHA-512": (kafka.sasl, password | {"KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}),
        "mTLS": (kafka.mtls, certificate),
    }


def by_all_clients(server: str) -> None:
    """One connection of each; raises what the product makes of the first that fails, of its own client."""
    with open_consumer(server):
        pass
    by_the_c_client(server)
    by_the_reader(server)


def by_the_c_client(server: str) -> None:
    with KafkaCalls(server, "mine", 0).failures("asking"):
        AdminClient(client_settings(server)).list_topics(timeout=20)


def by_the_reader(server: str) -> None:
    try:
        asyncio.run(_read(server))
    finally:
        with warnings.catch_warnings():  # the library leaves the end of TLS to the collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


async def _read(server: str) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=server, group_id="streamer-mine", **reader_access())
    try:
        await consumer.start()
    except ReaderError as error:
        raise failure_of(f"Kafka at {server}", error, "mine.changes") from None
    finally:
        await consumer.stop()


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "mTLS"])
def test_every_client_gets_in(kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    server, variables = ways_in(kafka, tmp_path)[way]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    by_all_clients(server)


def test_first_questions_are_answered_though_tickets_of_tls_come_before_some_of_them(
    kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, variables = ways_in(kafka, tmp_path)["mTLS"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(CONNECTIONS):
        with pytest.raises(ConfigError, match=r"Read on topic patients\.live"), Subscription(str(PATIENTS), server):
            pass


def test_every_client_gets_in_by_tokens(kafka: SecuredKafka, people: People, tmp_path: Path) -> None:
    token = unsigned_token("operator")
    with Endpoint(200, json.dumps({"access_token": token, "expires_in": 300}).encode()) as endpoint:
        (tmp_path / "operator.properties").write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={kafka.ca_file}\n"
            f"sasl.oauthbearer.token.endpoint.url={endpoint.url}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \\\n"
            f'  clientId="me" clientSecret="{CANARY}";\n'
        )
        people.must("operator", "topics create", "--shards", "1")
        by_all_clients(kafka.sasl)
        people.must_not("operator", "produce", str(PATIENTS / "events.jsonl"))


SHUT_OUT = {
    "wrong password": ({"KAFKA_SASL_PASSWORD": CANARY}, "authentication failed: user and password"),
    "unknown user": ({"KAFKA_SASL_USERNAME": "somebody", "KAFKA_SASL_PASSWORD": CANARY}, "authentication failed"),
    "other mechanism": ({"KAFKA_SASL_MECHANISM": "SCRAM-SHA-256"}, "does not offer sasl.mechanism=SCRAM-SHA-256"),
    "other authority": ({"KAFKA_SSL_CAFILE": "other.pem"}, "certificate is not trusted"),
    "other name": ({}, "certificate is made for another name"),
    "no TLS": ({"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SSL_CAFILE": ""}, "does this listener speak"),
    "no certificate": ({"KAFKA_SSL_KEYSTORE": ""}, "may want a certificate"),
    "certificate of another authority": ({"KAFKA_SSL_KEYSTORE": "stranger.pem"}, "certificate that it trusts"),
    "wrong password of the key": ({"KAFKA_SSL_KEY_PASSWORD": CANARY}, "KAFKA_SSL_KEYSTORE.*not a key"),
}


@pytest.mark.parametrize("case", SHUT_OUT)
def test_every_client_says_why_it_is_shut_out_and_no_secret(
    kafka: SecuredKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    case: str,
) -> None:
    changed, says = SHUT_OUT[case]
    other = trustme.CA()
    other.cert_pem.write_to_path(str(tmp_path / "other.pem"))
    kafka.certificate(tmp_path / "stranger.pem", "reader", KEY_PASSWORD, other)
    server, variables = ways_in(kafka, tmp_path)["mTLS" if "certificate" in case or "key" in case else "SCRAM-SHA-512"]
    server = kafka.by_address if case == "other name" else server
    for name, value in (variables | changed).items():
        monkeypatch.setenv(name, str(tmp_path / value) if value.endswith(".pem") and "/" not in value else value)
    monkeypatch.setattr(reading, "CALL_SECONDS_MAX", 0.2)  # no one answers, and the cause is asked for then
    told = [refused(lambda: require_access(servers_of(server)), says)]
    told.append(refused(lambda: open_and_close(server), says))
    told.append(refused(lambda: KafkaOutlet(server, "mine", 0).position(), says))
    with pytest.raises(StreamerError) as unexplained:
        by_the_reader(server)
    result = CliRunner().invoke(main, ["topics", "check", "--json", "--table", str(PATIENTS), "--kafka", server])
    assert result.exit_code in (2, 3) and re.search(says, result.output)
    out = [*told, str(unexplained.value), result.output, caplog.text, *capfd.readouterr()]
    assert not [secret for secret in SECRETS for text in out if secret in text]


def open_and_close(server: str) -> None:
    with open_consumer(server):
        pass


def refused(attempt: Callable[[], object], says: str) -> str:
    """What an attempt is refused with, causes and their texts with it."""
    with pytest.raises(StreamerError, match=says) as told:
        attempt()
    return "".join(traceback.format_exception(told.value))


def test_a_worker_that_is_shut_out_ends_with_the_cause_in_its_log(
    kafka: SecuredKafka, people: People, tmp_path: Path
) -> None:
    worker = Worker(tmp_path / "worker.log", people.environment("worker") | {"KAFKA_SASL_PASSWORD": CANARY})
    assert worker.ended() == ConfigError.exit_code
    people.said += worker.log.read_text()
    assert "authentication failed" in worker.log.read_text()
