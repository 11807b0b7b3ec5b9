"""A Kafka with TLS, passwords, client certificates and ACLs: the whole way with least privilege, by the files and the
recipe in examples/security; and every way to be shut out, told with its mend and without a secret."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as ReaderError
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from agents import kafka_calls
from agents.cli import main
from agents.ingest import _failure
from agents.kafka_calls import KafkaCalls, client_settings
from agents.outlet import KafkaOutlet
from agents.reader_access import reader_access
from servers.broker.secured import SecuredKafka
from servers.broker.servers import Servers
from streamer.errors import ConfigError, StreamerError
from streamer.incremental.kafka_access import read_properties
from streamer.incremental.kafka_clients import open_admin, open_consumer, servers_of
from streamer.incremental.kafka_settings import CONFIG, VARIABLES, settings_of
from streamer.incremental.kafka_shut_out import require_access
from streamer.incremental.topic_ids import topic_ids
from worlds.acl_recipe import commands_of, grant
from worlds.checkout import PATIENTS, ROOT
from worlds.kafka_side import fresh_name
from worlds.patients import write_table
from worlds.token_endpoint import Endpoint, unsigned_token
from worlds.workers import Worker, wait_until

SECURITY = ROOT / "examples" / "security"
BY_PASSWORD = ("worker", "producer", "operator")
CANARY = "canary-7Q-secret"
SHARDS = 2
CONNECTIONS = 6
"""On how many of them a ticket comes in time is chance; one in three does."""

pytestmark = [pytest.mark.servers]


def example(user: str) -> Path:
    return SECURITY / f"{user}.properties"


PASSWORDS = {user: settings_of(read_properties(str(example(user))), {}).password for user in BY_PASSWORD}
KEY_PASSWORD = settings_of(read_properties(str(example("reader"))), {}).key_password
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


class People:
    """Who works with a table on the secured Kafka, each by the file that the examples give him."""

    def __init__(self, kafka: SecuredKafka, redis: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.name = fresh_name()
        self.table = write_table(folder, self.name)
        self._kafka, self._redis, self._folder, self._patch = kafka, redis, folder, patch
        self.said = ""
        for file in SECURITY.glob("*.properties"):
            (folder / file.name).write_text(file.read_text().replace("/etc/streamer/", f"{folder}/"))
        with (folder / "operator.properties").open("a") as of_operator:
            of_operator.write("client.id=of-another-program\n")
        (folder / "ca.pem").write_bytes(kafka.ca_file.read_bytes())
        kafka.certificate(folder / "reader.pem", "reader", KEY_PASSWORD)

    def environment(self, user: str) -> dict[str, str]:
        bootstrap = self._kafka.mtls if user == "reader" else self._kafka.sasl
        return {
            CONFIG: str(self._folder / f"{user}.properties"), "KAFKA_BOOTSTRAP": bootstrap, "REDIS_URL": self._redis,
            "STREAMER_TABLE": str(self.table),
        }  # fmt: skip

    def call(self, user: str, command: str, *words: str) -> Result:
        """Calls a command of streamer as a user."""
        for name, value in self.environment(user).items():
            self._patch.setenv(name, value)
        result = CliRunner().invoke(main, [*command.split(), "--table", str(self.table), *words])
        self.said += result.output
        return result

    def must(self, user: str, command: str, *words: str) -> str:
        result = self.call(user, command, *words)
        assert result.exit_code == 0, f"{user}: {command}: {result.output}\n{result.exception!r}"
        return result.stdout

    def must_not(self, user: str, command: str, *words: str) -> str:
        result = self.call(user, command, *words)
        assert result.exit_code == 2, f"{user}: {command}: {result.output}\n{result.exception!r}"
        assert re.search(f"User:({user}|NAME) ", result.output)  # whom a certificate or a token names, the broker knows
        return result.output


@pytest.fixture
def people(kafka: SecuredKafka, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[People]:
    people = People(kafka, servers.redis_url, tmp_path, monkeypatch)
    yield people
    assert not [secret for secret in SECRETS if secret in people.said]


def granted(kafka: SecuredKafka, people: People, folder: Path) -> None:
    grant(kafka.plaintext, commands_of(SECURITY / "acls.sh", people.name, folder))


@pytest.mark.slow
def test_the_whole_way_with_no_more_rights_than_the_recipe_gives(
    kafka: SecuredKafka, people: People, tmp_path: Path
) -> None:
    granted(kafka, people, tmp_path)
    people.must("operator", "topics create", "--shards", str(SHARDS))
    people.must("worker", "load", str(PATIENTS / "rows.csv"))
    people.must("producer", "produce", str(PATIENTS / "events.jsonl"))
    people.must("producer", "produce", "--truncate", "--statement-id", "all")
    people.must("producer", "produce", str(PATIENTS / "events.jsonl"))
    worker = Worker(tmp_path / "worker.log", people.environment("worker"))
    try:
        wait_until(lambda: in_step(people), 60, lambda: worker.log.read_text() + people.said[-2000:])
        people.must("operator", "rebuild", "--wait")
        shown = people.must("operator", "status", "--dead-letters-max", "1")
        assert "fits together" in shown
        assert "of the file in KAFKA_CONFIG not used: client.id" in shown
        people.must("operator", "dead-letters")
        people.must("operator", "topics check")
        assert worker.terminate()[0] == 0
    finally:
        worker.kill()
    before = rows_read(people)
    people.must("worker", "start-anew", "--from-source", "topic")
    assert before == rows_read(people) > 0
    people.said += worker.log.read_text()
    assert "Authoriz" not in worker.log.read_text() and "authoris" not in worker.log.read_text()


def rows_read(people: People) -> int:
    """How many rows a reader finds."""
    return int(json.loads(people.must("reader", "subscribe", "--json"))["rows"])


def in_step(people: People) -> bool:
    """Whether all messages were read; a lag of nothing, and something read."""
    total = json.loads(people.call("operator", "status", "--json").stdout)["total"]
    return bool(total["lag"] == 0 and total["messages"])


def test_nobody_does_what_the_recipe_leaves_to_others(kafka: SecuredKafka, people: People, tmp_path: Path) -> None:
    granted(kafka, people, tmp_path)
    name, events = people.name, str(PATIENTS / "events.jsonl")
    people.must("operator", "topics create", "--shards", str(SHARDS))
    assert f"{name}.changes" in people.must_not("reader", "produce", events)
    assert f"--operation Write --topic {name}.changes`" in people.must_not("operator", "produce", events)
    assert f"--operation Read --topic {name}.live`" in people.must_not("producer", "subscribe")
    assert f"--operation Read --topic {name}.dead-letters`" in people.must_not("reader", "dead-letters")
    assert f"--operation Read --topic {name}.changes`" in people.must_not("reader", "rebuild")
    assert f"{name}.control" in people.must_not("producer", "rebuild")
    assert "not authorised" in people.must_not("reader", "topics check")
    assert "not authorised" in people.must_not("producer", "topics create")
    assert "not authorised" in people.must_not("producer", "load", str(PATIENTS / "rows.csv"))
    refused = Worker(tmp_path / "worker.log", people.environment("producer"))
    assert refused.process.wait(120) == 2
    people.said += refused.log.read_text()
    assert "User:producer" in refused.log.read_text()


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
        raise _failure(f"Kafka at {server}", error, "mine.changes") from None
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
        with open_admin(server) as admin:
            assert topic_ids(admin, fresh_name()) == {}


def test_every_client_gets_in_by_tokens(kafka: SecuredKafka, people: People, tmp_path: Path) -> None:
    granted(kafka, people, tmp_path)
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
    monkeypatch.setattr(kafka_calls, "CALL_SECONDS_MAX", 2.0)
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
    assert worker.process.wait(120) == ConfigError.exit_code
    people.said += worker.log.read_text()
    assert "authentication failed" in worker.log.read_text()
