"""The outlet on a real Kafka: all or nothing, one writer, and a position that is always found."""

from __future__ import annotations

import threading
from contextlib import suppress
from time import sleep

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec.structs import replace

from servers.broker.servers import Servers
from streamer.errors import Conflict, Fenced, ServerUnreachable, ShardRefused
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.kafka import clients
from streamer.kafka import outlet as module
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.reading import FIRST_WINDOW_OFFSETS, WINDOW_GROWTH
from streamer.kafka.shard_input import KafkaInput
from streamer.table.published.rows import RowKey, row_key
from streamer.table.schema import ROW_BYTES_MAX
from worlds.kafka_and_redis import (
    delete_topics,
    fresh_name,
    make_topics,
    make_topics_again,
    read,
    recreate_topics,
    transactional,
    write,
)
from worlds.workers import wait_until

QUEUE_RECORDS = 100_000
"""What the client's queue holds by default."""

CLEANED_EVERY_SECONDS = 10
"""How often the broker looks for transactions that take too long."""

SHARD = 2


def position(commit: int) -> Position:
    return Position(commit=commit, next=10 * commit, release=commit, qi_group_next=7, outside=0, digest=2**64 - 1)


def said(outlet: KafkaOutlet) -> Position | None:
    """The position without what the outlet itself adds."""
    found = outlet.position()
    return found and replace(found, ends={})


def live(text: str) -> Outgoing:
    return Outgoing("live", text.encode(), b"{}", (("release", b"1"), ("part", b"1/1"), ("through", b"10")))


@pytest.fixture
def bootstrap(servers: Servers) -> str:
    return servers.kafka_bootstrap


@pytest.fixture
def table_name(bootstrap: str) -> str:
    name = fresh_name()
    make_topics(bootstrap, name)
    return name


@pytest.fixture
def outlet(bootstrap: str, table_name: str) -> KafkaOutlet:
    outlet = KafkaOutlet(bootstrap, table_name, SHARD)
    outlet.fence()
    return outlet


def keys(bootstrap: str, table_name: str, kind: str = "live") -> list[bytes]:
    return [message.key() for message in read(bootstrap, table_name, kind, SHARD)]


def test_a_shard_that_never_published_has_no_position(outlet: KafkaOutlet) -> None:
    assert outlet.position() is None


def test_records_go_to_the_shards_own_partition_with_headers_and_tombstones(
    outlet: KafkaOutlet, bootstrap: str, table_name: str
) -> None:
    letter = Outgoing("dead-letters", b"k", b"letter", ())
    outlet.publish([live("a"), Outgoing("live", b"b", None, (("part", b"2/2"),)), letter], position(1))
    first, second = read(bootstrap, table_name, "live", SHARD)
    assert (first.key(), first.value(), first.headers()) == (b"a", b"{}", list(live("a").headers))
    assert (second.key(), second.value(), second.headers()) == (b"b", None, [("part", b"2/2")])
    assert keys(bootstrap, table_name, "dead-letters") == [b"k"]
    assert keys(bootstrap, table_name, "positions") == [b"2"]
    assert said(outlet) == position(1)


def test_what_is_said_to_another_shard_lies_in_that_ones_partition(
    outlet: KafkaOutlet, bootstrap: str, table_name: str
) -> None:
    outlet.publish([Outgoing("control", b"0", b"to 0", ()), Outgoing("control", b"3", b"to 3", ())], position(1))
    said = [[message.value() for message in read(bootstrap, table_name, "control", shard)] for shard in range(4)]
    assert said == [[b"to 0"], [], [], [b"to 3"]]


def test_a_commit_without_records_still_moves_the_position(outlet: KafkaOutlet) -> None:
    outlet.publish([], position(1))
    outlet.publish([], position(2))
    assert said(outlet) == position(2)


def test_a_transaction_that_is_given_up_shows_nothing(outlet: KafkaOutlet, bootstrap: str, table_name: str) -> None:
    outlet.publish([live("a")], position(1))
    too_large = Outgoing("live", b"b", b"x" * 2_000_000, ())
    with pytest.raises(ShardRefused, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes"):
        outlet.publish([live("b"), too_large], position(2))
    assert keys(bootstrap, table_name) == [b"a"]
    with pytest.raises(ServerUnreachable, match="fence"):
        outlet.publish([live("b")], position(2))
    outlet.fence()
    assert said(outlet) == position(1)
    outlet.publish([live("c")], position(2))
    assert keys(bootstrap, table_name) == [b"a", b"c"]


@pytest.mark.parametrize("behind", [[], [live("c")]], ids=["the last one", "one in the middle"])
def test_a_record_larger_than_its_topic_allows_is_no_outage(bootstrap: str, behind: list[Outgoing]) -> None:
    """Only the broker knows the topic's limit: without a refusal the shard would try forever."""
    name = fresh_name()
    make_topics(bootstrap, name, config={"live": {"max.message.bytes": "5000"}})
    outlet = KafkaOutlet(bootstrap, name, SHARD)
    outlet.fence()
    with pytest.raises(ShardRefused, match=r"MSG_SIZE_TOO_LARGE.*max\.message\.bytes"):
        outlet.publish([live("a"), Outgoing("live", b"b", b"x" * 9_000, ()), *behind], position(1))
    assert keys(bootstrap, name) == []


def test_rows_of_the_largest_size_go_out_together_and_none_is_lost_on_a_new_topic(bootstrap: str) -> None:
    """Before: with several requests on their way one time in six the first ones were missing, and no one was told."""
    row = row_key(RowKey(10**6, 10**17, 10**17))
    headers = (("release", b"9" * 19), ("part", b"20000000/20000000"), ("through", b"9" * 19))
    rows = [Outgoing("live", row, b"x" * (ROW_BYTES_MAX - len(row)), headers) for _ in range(5)]
    for _ in range(15):
        name = fresh_name()
        make_topics(bootstrap, name)
        outlet = KafkaOutlet(bootstrap, name, SHARD)
        outlet.fence()
        outlet.publish([live("a"), *rows, live("b")], position(1))
        assert keys(bootstrap, name) == [b"a", *[row] * 5, b"b"]


@pytest.mark.slow
def test_a_transaction_that_takes_too_long_is_refused_with_the_mend_and_not_tried_for_ever(
    bootstrap: str, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: `Kafka does not answer (_FATAL)`, again and again, while it answered well."""
    monkeypatch.setattr(module, "TRANSACTION_MS_MAX", 1_000)
    outlet = KafkaOutlet(bootstrap, table_name, SHARD)
    outlet.fence()
    monkeypatch.setattr(module, "flush", lambda _producer, _seconds: sleep(CLEANED_EVERY_SECONDS + 5))
    with pytest.raises(ShardRefused, match=r"publishing took longer than the 1 s .* in several releases: .*reload"):
        outlet.publish([live("a")], position(1))
    assert keys(bootstrap, table_name) == []


def test_a_topic_that_is_missing_is_no_outage(bootstrap: str) -> None:
    name = fresh_name()
    make_topics(bootstrap, name, but={"positions": 0})
    with pytest.raises(ShardRefused, match="does not exist"):
        KafkaInput(bootstrap, name, SHARD).state()


@pytest.mark.gate("a writer that was shut out")
def test_a_new_owner_shuts_the_former_one_out(outlet: KafkaOutlet, bootstrap: str, table_name: str) -> None:
    outlet.publish([live("a")], position(1))
    successor = KafkaOutlet(bootstrap, table_name, SHARD)
    successor.fence()
    with pytest.raises(Fenced):
        outlet.publish([live("zombie")], position(2))
    successor.publish([live("b")], position(2))
    assert keys(bootstrap, table_name) == [b"a", b"b"]
    assert said(successor) == position(2)


def test_a_fatal_error_that_the_client_lost_on_the_way_is_asked_for_again(
    outlet: KafkaOutlet, bootstrap: str, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: SystemError without a cause from `flush`, and no answer about any record."""
    outlet.publish([live("a")], position(1))
    KafkaOutlet(bootstrap, table_name, SHARD).fence()

    def losing(producer: Producer, seconds_max: float) -> None:
        with suppress(KafkaException, SystemError):
            producer.flush(seconds_max)
        raise SystemError("exception <class 'str'> is not a BaseException subclass")

    monkeypatch.setattr(module, "flush", losing)
    monkeypatch.setattr(clients.Confirmations, "check", lambda _: None)
    with pytest.raises(Fenced):
        outlet.publish([live("zombie")], position(2))


def test_a_transaction_left_open_is_resolved_by_the_new_owner(
    outlet: KafkaOutlet, bootstrap: str, table_name: str
) -> None:
    outlet.publish([live("a")], position(1))
    dead = transactional(bootstrap, f"{table_name}-shard-{SHARD}")
    dead.begin_transaction()
    for kind in ("live", "positions"):
        dead.produce(f"{table_name}.{kind}", position(2).to_json(), b"half", partition=SHARD)
    assert dead.flush(20) == 0
    successor = KafkaOutlet(bootstrap, table_name, SHARD)
    successor.fence()
    assert said(successor) == position(1)
    assert len(read(bootstrap, table_name, "live", SHARD, "read_uncommitted")) == 2
    assert keys(bootstrap, table_name) == [b"a"]


def test_the_position_is_found_behind_many_aborted_transactions(
    outlet: KafkaOutlet, bootstrap: str, table_name: str
) -> None:
    """As behind offsets that compaction emptied: so many that the window has to grow more than once."""
    outlet.publish([live("a")], position(1))
    aborted = transactional(bootstrap, f"{table_name}-another")
    for _ in range(3):
        aborted.begin_transaction()
        for _ in range(FIRST_WINDOW_OFFSETS * WINDOW_GROWTH // 2):
            aborted.produce(f"{table_name}.positions", position(9).to_json(), b"2", partition=SHARD)
        assert aborted.flush(20) == 0
        aborted.abort_transaction(20)
    assert said(outlet) == position(1)


@pytest.mark.gate("a lost answer of Kafka")
def test_the_answer_to_a_commit_gets_lost_and_the_position_tells_what_became_of_it(
    outlet: KafkaOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AnswerLost(Producer):
        """Commits, and gets a timeout for an answer."""

        def commit_transaction(self, *limits: float) -> None:
            super().commit_transaction(*limits)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(module, "Producer", AnswerLost)
    outlet.fence()
    with pytest.raises(ServerUnreachable):
        outlet.publish([live("a")], position(1))
    outlet.fence()
    assert said(outlet) == position(1)


def test_more_records_than_the_clients_queue_holds(outlet: KafkaOutlet, bootstrap: str, table_name: str) -> None:
    outlet.publish([live(str(i)) for i in range(QUEUE_RECORDS + 1_000)], position(1))
    assert keys(bootstrap, table_name) == [str(i).encode() for i in range(QUEUE_RECORDS + 1_000)]


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._UNKNOWN_PARTITION]
)
def test_a_topic_whose_leader_is_not_settled_yet_is_asked_again(
    code: int, outlet: KafkaOutlet, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet.fence()
    outlet.publish([], position(1))
    asked: list[TopicPartition] = []
    ask = Consumer.get_watermark_offsets

    class UnsettledConsumer(Consumer):
        def get_watermark_offsets(self, place: TopicPartition, **limits: object) -> tuple[int, int]:
            asked.append(place)
            if len(asked) < 3:
                raise KafkaException(KafkaError(code))
            return ask(self, place, **limits)

    monkeypatch.setattr(clients, "Consumer", UnsettledConsumer)
    assert said(outlet) == position(1)
    assert len(asked) == 3


def test_the_input_state_is_what_the_broker_says(outlet: KafkaOutlet, bootstrap: str, table_name: str) -> None:
    write(bootstrap, f"{table_name}.changes", [(SHARD, b"1", b"x")] * 3)
    state = KafkaInput(bootstrap, table_name, SHARD).state()
    assert state == InputState(state.topic_ids, shards=4, earliest=0, end=3, reach={"live": (0, 0)})
    assert set(state.topic_ids) == {"changes", "live", "positions", "dead-letters", "control"}
    assert len({topic_id for topic_id in state.topic_ids.values() if len(topic_id) > 10}) == 5


@pytest.mark.parametrize(("count", "message"), [(3, "same number of partitions"), (0, "does not exist")])
def test_topics_that_do_not_fit_together_are_refused(bootstrap: str, count: int, message: str) -> None:
    name = fresh_name()
    make_topics(bootstrap, name, but={"live": count})
    with pytest.raises(ShardRefused, match=message):
        KafkaInput(bootstrap, name, SHARD).state()


def test_a_difference_that_a_new_output_takes_is_seen_by_its_offset_and_not_seen(
    bootstrap: str, table_name: str
) -> None:
    """No question is asked: the outlet alone tells, of what it has published itself and of what it found."""
    for before in ([live("first"), live("second")], []):
        outlet = KafkaOutlet(bootstrap, table_name, SHARD)
        outlet.fence()
        if before:
            outlet.publish(before, position(1))
        recreate_topics(bootstrap, table_name, "live")
        wait_until(
            lambda: read(bootstrap, table_name, "live", SHARD) == [], 20, lambda: "the former output is still read"
        )
        with pytest.raises(Conflict, match=r"recreated.*\.live"):
            outlet.publish([live("difference")], position(2))
        assert read(bootstrap, table_name, "live", SHARD) == []
        outlet.fence()
        assert said(outlet) == position(1)
        outlet.publish([live("whole"), live("table")], position(1))


def test_what_is_sent_while_the_output_is_recreated_is_not_seen_in_the_new_one(bootstrap: str, table_name: str) -> None:
    """The client goes on trying while there is no topic, and would succeed with the new one."""
    shard_input, outlet = KafkaInput(bootstrap, table_name, SHARD), KafkaOutlet(bootstrap, table_name, SHARD)
    outlet.fence()
    shard_input.state()
    outlet.publish([live("first")], position(1))
    delete_topics(bootstrap, table_name, "live")
    again = threading.Timer(0.5, make_topics_again, (bootstrap, table_name, "live"))
    again.start()
    with pytest.raises(Conflict):  # by its offset, or because there was no topic for a while
        outlet.publish([live("difference")], position(2))
    again.join()
    assert read(bootstrap, table_name, "live", SHARD) == []
    assert not shard_input.state().live_begun, "what was given up is no record that a reader finds"
    outlet.fence()
    assert said(outlet) == position(1)
    outlet.publish([live("whole")], position(2))
    assert shard_input.state().live_begun
