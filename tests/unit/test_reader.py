"""A reader of logs that have lost records; and its client library: the ids that it cannot ask for by itself, and
tickets of TLS that it takes for an end.

That the ids are those which workers see is tested on a real broker (servers/test_topic_ids.py).
"""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import BytesIO
from selectors import EVENT_READ, EVENT_WRITE
from time import time
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from kafka import TopicPartition
from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError

import streamer.reader
from streamer.errors import LawViolated, UsageError
from streamer.incremental.topics import LIVE, QIT, STT, outputs_of, topic_name
from streamer.kafka.python_client import METADATA, METADATA_VERSION, NO_ID, TicketsSkipped, topics_now
from streamer.reader import Subscription
from streamer.table.schema import LOSSY_JOIN, ROWS, Table
from worlds.small_tables import TABLES

ID = bytes(range(16))
WRITTEN = "AAECAwQFBgcICQoLDA0ODw"
"""As the workers write it: base64 without the padding."""


class Admin:
    """An admin client whose broker has some topics; it answers in bytes, as brokers do."""

    def __init__(
        self, topics: dict[str, bytes], newest: int = METADATA_VERSION, cluster: str = "abc", hidden: str = ""
    ) -> None:
        self._client = SimpleNamespace(get_api_versions=lambda: {METADATA: (0, newest)})
        self._topics = topics
        self._cluster = cluster
        self._hidden = hidden
        self.asked: list[str] = []

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"topic": name, "partitions": [{}]} for name in names]

    def send_request(self, request: Any) -> Any:
        read = type(request).decode(BytesIO(request.encode()))
        assert (read.API_KEY, read.API_VERSION) == (METADATA, METADATA_VERSION)
        assert not read.creates, "to ask for a topic must not make it"
        assert {id_ for id_, _, _ in read.topics} == {NO_ID}
        self.asked = [name for _, name, _ in read.topics]
        told = [self._told(name) for name in self.asked]
        answer = read.RESPONSE_TYPE(0, [(1, "localhost", 9092, None, {})], self._cluster, 1, told, {})
        return read.RESPONSE_TYPE.decode(BytesIO(answer.encode()))

    def _told(self, name: str) -> tuple[Any, ...]:
        partition: tuple[Any, ...] = (0, 0, 1, 5, [1], [1], [], {})
        if name == self._hidden:
            return TopicAuthorizationFailedError.errno, name, NO_ID, False, [], 0, {}
        if name in self._topics:
            return 0, name, self._topics[name], False, [partition], 0, {}
        return UnknownTopicOrPartitionError.errno, name, NO_ID, False, [], 0, {}


NAMES = ("people.changes", "people.live")


def test_topics_have_ids_written_as_workers_write_them() -> None:
    admin = Admin({"people.changes": ID, "people.live": ID[::-1]})
    assert topics_now(admin, NAMES) == {"people.changes": (WRITTEN, 1), "people.live": ("Dw4NDAsKCQgHBgUEAwIBAA", 1)}
    assert b64decode(WRITTEN + "==") == ID
    assert admin.asked == list(NAMES)


def test_a_topic_that_does_not_exist_is_not_among_them() -> None:
    assert topics_now(Admin({"people.live": ID}), NAMES) == {"people.live": (WRITTEN, 1)}


def test_a_topic_that_is_kept_from_this_user_is_an_error_that_names_it() -> None:
    with pytest.raises(TopicAuthorizationFailedError, match=r"people\.live"):
        topics_now(Admin({"people.live": ID}, hidden="people.live"), NAMES)


@pytest.mark.parametrize(
    "admin",
    [Admin({"people.live": ID}, newest=METADATA_VERSION - 1), Admin({"people.live": ID}, cluster="mockCluster7")],
)
def test_a_broker_that_gives_no_ids_gives_none(admin: Admin) -> None:
    assert topics_now(admin, ["people.live"]) == {"people.live": ("", 1)}


# -- logs that have lost records ------------------------------------------------------------------------------------

ROWS_OF_PEOPLE = replace(TABLES["one number"], form=ROWS)


class Logs:
    """A broker and a reader's clients in one: partitions as lists of records, whose first offset may have moved."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.logs = {TopicPartition(topic_name(table.name, kind), 0): list[Any]() for kind in outputs_of(table.form)}
        self.begins = dict.fromkeys(self.logs, 0)
        self.at: dict[TopicPartition, int] = {}
        self.late: set[TopicPartition] = set()
        """Whose records the reader does not get yet."""

    def write(self, release: int, topic: str = LIVE, hours_ago: float = 0.0, n: int = 2, **headers: object) -> None:
        """One release of n rows in a topic; more headers."""
        place = TopicPartition(topic_name(self.table.name, topic), 0)
        for i in range(n):
            key = b'{"qi_group":"0-1","slot":%d}' % i if topic == LIVE else b"%b %d" % (topic.encode(), i)
            said = {"release": release, "through": release, "part": f"{i + 1}/{n}", **headers}
            record = {
                "topic": place.topic, "partition": 0, "offset": len(self.logs[place]), "key": key, "value": b"{}",
                "timestamp": int((time() - hours_ago * 3600) * 1000),
                "headers": [(name, str(value).encode()) for name, value in said.items()],
            }  # fmt: skip
            self.logs[place].append(SimpleNamespace(**record))

    def drop(self, topic: str, release: int) -> None:
        """Takes the records of a release away; the others keep their offsets."""
        place = TopicPartition(topic_name(self.table.name, topic), 0)
        said = ("release", b"%d" % release)
        self.logs[place] = [None if one and said in one.headers else one for one in self.logs[place]]

    def delete_before(self, offset: int) -> None:
        for place, log in self.logs.items():
            self.begins[place] = offset
            log[:offset] = [None] * offset

    # -- what a reader asks of its clients

    def assign(self, places: list[TopicPartition]) -> None:
        self.at = dict.fromkeys(places, 0)

    def seek_to_beginning(self, *places: TopicPartition) -> None:
        self.at = {place: self.begins[place] for place in places}

    def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.begins[place] for place in places}

    def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: len(self.logs[place]) for place in places}

    def position(self, place: TopicPartition, timeout_ms: int) -> int:
        return self.at[place]

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        came = {}
        for place in self.at.keys() - self.late:
            came[place] = [one for one in self.logs[place][self.at[place] :] if one is not None]
            self.at[place] = len(self.logs[place])
        return {place: records for place, records in came.items() if records}

    def close(self) -> None: ...


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    return read_from(Logs(ROWS_OF_PEOPLE), monkeypatch)


@pytest.fixture
def two_logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    return read_from(Logs(replace(ROWS_OF_PEOPLE, form=LOSSY_JOIN)), monkeypatch)


def read_from(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> Logs:
    monkeypatch.setattr(streamer.reader, "_connection", lambda kafka: {})
    monkeypatch.setattr(streamer.reader, "_consumer", lambda connection, **options: logs)
    monkeypatch.setattr(streamer.reader, "KafkaAdminClient", lambda **options: logs)
    monkeypatch.setattr(streamer.reader, "topics_now", lambda admin, names: dict.fromkeys(names, ("id", 1)))
    monkeypatch.setattr(streamer.reader, "SETTLE_SECONDS", 0.0)
    return logs


@pytest.mark.parametrize(
    ("shards", "says"),
    [([-1], "no partition -1"), ([0, 1], "no partition 1"), ([], "a number in shards"), ("0", "a number in shards")],
)
def test_shards_that_are_none_are_not_taken_for_empty_ones(logs: Logs, shards: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says), Subscription(logs.table, "nowhere", shards=shards):
        pass


def read(logs: Logs) -> Subscription:
    people = Subscription(logs.table, "127.0.0.1:1").__enter__()
    people.catch_up()
    return people


def assert_shows_nothing(people: Subscription) -> None:
    for ask in (people.stored, people.frame, people.frames, people.poll):
        with pytest.raises(LawViolated, match="not shown"):
            ask()


def test_what_follows_on_a_lost_release_is_refused_and_no_table_is_shown_any_more(logs: Logs) -> None:
    logs.write(1)
    people = read(logs)
    logs.write(2)
    assert [release.number for release in people.poll()] == [2]
    logs.write(4)
    with pytest.raises(
        LawViolated, match=r"shard 0 of .*: all records of releases 3 to 3 are lost.*restart the workers"
    ):
        people.poll()
    assert_shows_nothing(people)


@pytest.mark.parametrize("hours_ago", [0, 22])
def test_a_hole_that_is_too_young_for_compaction_is_refused_at_the_start(logs: Logs, hours_ago: int) -> None:
    logs.write(1, hours_ago=hours_ago)
    logs.write(3)
    with pytest.raises(LawViolated, match="all records of releases 2 to 2 are lost"):
        read(logs)


def test_what_compaction_may_have_dropped_is_no_loss(logs: Logs) -> None:
    logs.write(1, hours_ago=30)
    logs.write(3, hours_ago=25, n=1, part="2/2")
    logs.write(4)
    assert len(read(logs).stored()) == 2


def test_the_newest_release_may_come_twice(logs: Logs) -> None:
    logs.write(1)
    people = read(logs)
    logs.write(1)
    logs.write(2)
    assert [release.number for release in people.poll()] == [1, 2]


def test_the_whole_table_after_a_hole_is_shown(logs: Logs) -> None:
    logs.write(1)
    logs.write(5, whole=5)
    people = read(logs)
    logs.write(9, whole=9)
    assert [release.number for release in people.poll()] == [9]
    logs.write(11, whole=10)  # and the whole table itself is lost
    with pytest.raises(LawViolated, match="releases 10 to 10 are lost"):
        people.poll()


def test_a_release_of_which_only_the_end_is_left_is_made_good_by_the_whole_table_after_it(logs: Logs) -> None:
    """Before: a new reader stopped at what was left of the release, and never came to the whole table."""
    logs.write(1)
    logs.delete_before(1)
    with pytest.raises(LawViolated, match="1 of the records of release 1 are lost"):
        read(logs)
    logs.write(2, whole=2, begins=2)
    assert len(read(logs).stored()) == 2


def test_a_log_that_has_lost_its_beginning_is_refused_until_the_whole_table_is_published_again(logs: Logs) -> None:
    logs.write(1)
    logs.write(2)
    logs.delete_before(2)
    with pytest.raises(LawViolated, match=r"live, partition 0, begins at offset 2: what lay before was deleted"):
        read(logs)
    logs.write(3, whole=3, begins=2)
    assert len(read(logs).stored()) == 2
    logs.write(4, whole=3, begins=2)
    logs.drop(LIVE, 3)  # by compaction
    logs.drop(LIVE, 2)
    assert len(read(logs).stored()) == 2
    logs.write(5, whole=3, begins=2)
    logs.delete_before(8)
    with pytest.raises(LawViolated, match="begins at offset 8"):
        read(logs)


def test_a_release_of_which_one_of_two_topics_has_lost_its_part_is_refused(two_logs: Logs) -> None:
    for number in (1, 2, 3):
        two_logs.write(number, QIT, beside=2)
        two_logs.write(number, STT, beside=2)
    two_logs.drop(STT, 2)
    with pytest.raises(LawViolated, match=r"qit and .*stt: 2 of the records of release 2 are lost"):
        read(two_logs)


def test_a_release_in_one_of_two_topics_waits_for_the_earlier_one_of_the_other(two_logs: Logs) -> None:
    two_logs.write(1, QIT, beside=2)
    two_logs.write(1, STT, beside=2)
    people = read(two_logs)
    two_logs.late = {place for place in two_logs.logs if place.topic.endswith(STT)}
    two_logs.write(2, STT, beside=0, after=1)
    two_logs.write(3, QIT, beside=0, after=2)
    assert [people.poll(), people.poll(), people.poll()] == [[], [], []]
    two_logs.late = set()
    assert [release.number for release in people.poll()] == [2, 3]


def test_a_release_does_not_wait_for_one_that_compaction_has_removed(two_logs: Logs) -> None:
    two_logs.write(1, QIT, beside=2, hours_ago=40)
    two_logs.write(1, STT, beside=2, hours_ago=40)
    two_logs.write(2, STT, beside=0, after=1, hours_ago=40)
    two_logs.drop(STT, 2)
    people = read(two_logs)
    two_logs.write(3, QIT, beside=0, after=2)
    assert [release.number for release in people.poll() + people.poll()] == [3]


# -- tickets ------------------------------------------------------------------------------------------------------

ARRIVES_SECONDS_MAX = 30.0


@dataclass
class Connection:
    """As much of kafka-python's as counts here."""

    _sock: ssl.SSLSocket | None = None
    is_up: bool = True
    in_flight_requests: dict[int, str] = field(default_factory=dict)

    def connected(self) -> bool:
        return self.is_up


@dataclass
class Wire:
    """The two ends of a connection by TLS 1.3 whose tickets lie unread at the client's."""

    client: ssl.SSLSocket
    server: ssl.SSLSocket
    connection: Connection
    selector: TicketsSkipped

    def told(self) -> list[int]:
        """What the client is told as soon as something has arrived."""
        assert select.select([self.client], [], [], ARRIVES_SECONDS_MAX)[0]
        return [events for _, events in self.selector.select(0)]


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the client, which trusts the server, and of the server."""
    ca, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("broker.example").configure_cert(server)
    client = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    return client, server


@pytest.fixture
def wire(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Wire]:
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as broker, TicketsSkipped() as selector:
        accepted = broker.submit(contexts[1].wrap_socket, theirs, server_side=True)
        selector.register(ours, EVENT_WRITE, Connection())  # as the library does it, before there is TLS
        client = contexts[0].wrap_socket(ours, server_hostname="broker.example")
        client.setblocking(False)
        with client, accepted.result() as server:
            connection = Connection(client)
            selector.modify(client, EVENT_READ, connection)
            yield Wire(client, server, connection, selector)


def test_a_ticket_alone_is_not_told(wire: Wire) -> None:
    assert wire.told() == []
    assert not select.select([wire.client], [], [], 0)[0], "it has been read"


def test_an_answer_behind_the_tickets_is_told_and_left_to_the_client(wire: Wire) -> None:
    wire.connection.in_flight_requests[1] = "a question"
    wire.server.send(b"answer")
    assert wire.told() == [EVENT_READ]
    assert wire.client.recv(10) == b"answer"


def test_the_end_of_a_connection_is_told(wire: Wire) -> None:
    wire.server.close()
    assert wire.told() == [EVENT_READ]


def test_a_connection_that_breaks_is_told(wire: Wire) -> None:
    with socket.socket(fileno=wire.server.detach()) as bare:
        bare.send(b"this is no TLS")
    assert wire.told() == [EVENT_READ]


def test_bytes_that_nobody_asked_for_are_told(wire: Wire) -> None:
    wire.server.send(b"unasked")
    assert wire.told() == [EVENT_READ]


def test_nothing_is_read_before_a_connection_is_made(wire: Wire) -> None:
    wire.connection.is_up = False
    assert wire.told() == [EVENT_READ]
    assert select.select([wire.client], [], [], 0)[0]


def test_what_can_be_written_to_is_told_beside_a_ticket(wire: Wire) -> None:
    wire.selector.modify(wire.client, EVENT_READ | EVENT_WRITE, wire.connection)
    assert wire.told() == [EVENT_WRITE]


def test_a_socket_without_tls_is_told_as_ever() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, TicketsSkipped() as selector:
        selector.register(ours, EVENT_READ, None)
        theirs.send(b"x")
        assert [events for _, events in selector.select(ARRIVES_SECONDS_MAX)] == [EVENT_READ]


# -- without a library in C ---------------------------------------------------------------------------------------


def test_a_reader_needs_no_client_in_c() -> None:
    code = "import sys; sys.modules['confluent_kafka'] = None; import streamer.cli.stream.subscribe"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
