"""What a worker on real servers shows over HTTP: its figures, whether it is well, and nothing of anybody's row."""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agents.web.watch import KAFKA_ANSWER_SECONDS_MAX, PROBE_SECONDS
from servers.broker.servers import Servers, free_ports
from streamer.status.verdict import OUTDATED_SECONDS, STILL_SECONDS_MAX
from worlds.kafka_and_redis import transactional
from worlds.patients import CANARY
from worlds.workers import SHARDS, WorkedTable, inserts, wait_until


class Browser:
    """Asks one worker, and waits for no answer longer than a prober would."""

    def __init__(self, world: WorkedTable) -> None:
        (self.port,) = free_ports(1)
        self._world = world
        world.environment |= {"STREAMER_WEB": f"127.0.0.1:{self.port}"}

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Status and body; 0 where no one answers in time."""
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            asked.request(method, path)
            answer = asked.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            asked.close()

    def facts(self) -> dict[str, Any]:
        return json.loads(self.ask("/facts")[1])

    def is_green(self) -> bool:
        return self.ask("/health")[0] == 200

    def shows(self, *parts: str) -> bool:
        """Whether all of them are in the page."""
        status, html = self.ask("/")
        return status == 200 and all(part in html for part in parts)

    def says(self, *words: str) -> bool:
        """Whether /health is red, and says why."""
        status, body = self.ask("/health")
        return status == 503 and all(word in body for word in words)


@pytest.fixture
def browser(world: WorkedTable) -> Browser:
    return Browser(world)


@pytest.fixture
def seen(
    record_property: Callable[[str, object], None], world: WorkedTable
) -> Callable[[str, Callable[[], bool]], None]:
    """Waits until something is seen, and notes how long that took."""

    def seen(what: str, holds: Callable[[], bool]) -> None:
        began = time.monotonic()
        wait_until(holds, 40, lambda: f"{what}: {world.logs()}")
        record_property(what, round(time.monotonic() - began, 1))
        print(f"{what}: {time.monotonic() - began:.1f} s")

    return seen


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its labels but the table's."""
    return {
        tuple(value for label, value in sorted(sample.labels.items()) if label != "table"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_figures_of_a_worker_and_no_value_of_a_row(world: WorkedTable, browser: Browser) -> None:
    world.serve(600)
    wait_until(lambda: all(one["lag"] == 0 and one["ncp"] for one in browser.facts()["shards"]), 20, world.logs)

    shards = browser.facts()["shards"]
    counts = [len(messages) for messages in world.changes.messages]
    assert [shard["messages"] for shard in shards] == counts
    assert [(shard["here"], shard["state"], shard["worker"]) for shard in shards] == [
        (True, "held", browser.facts()["worker"])
    ] * SHARDS
    assert all(shard["ncp"] > 0 and shard["rows"] and shard["qi_groups"] for shard in shards)
    assert browser.ask("/ready")[0] == browser.ask("/health")[0] == 200
    letters = sum(shard["dead_letters"] for shard in shards)
    assert sum(browser.facts()["dead_letters"].values()) == letters > 0

    metrics = browser.ask("/metrics")[1]
    assert sum(values(metrics, "streamer_messages_total").values()) == sum(counts)
    assert values(metrics, "streamer_rows") == {(str(one["shard"]),): one["rows"] for one in shards}
    assert sum(values(metrics, "streamer_dead_letters_total").values()) == letters
    assert all(count > 0 for count in values(metrics, "streamer_commit_duration_seconds_count").values())

    assert browser.ask("/rebuild", "POST")[0] == browser.ask("/events")[0] == 404
    world.must("rebuild", "--shard", "1")
    wait_until(lambda: bool(browser.facts()["shards"][1]["rebuilds"]), 40, world.logs)
    (rebuild,) = browser.facts()["shards"][1]["rebuilds"]
    assert (rebuild["why"], rebuild["ended"]) == ("operator", "done")

    wait_until(lambda: f"Of {SHARDS}: {SHARDS} held." in browser.ask("/")[1], 20, world.logs)
    said = [browser.ask(path)[1] for path in ("/", "/facts", "/metrics", "/health", "/ready")]
    assert not any(CANARY in text for text in said)
    assert not any(world.meta().secret.hex() in text for text in said)


OLD_SECONDS_MAX = 2 * PROBE_SECONDS + KAFKA_ANSWER_SECONDS_MAX + OUTDATED_SECONDS
"""Until what a frozen server said last is shown as old, on a slow machine."""


@pytest.mark.gate("a frozen Kafka", "a frozen Redis")
@pytest.mark.slow
def test_lag_and_state_turn_grey_within_seconds_while_a_server_is_frozen_and_say_since_when(
    world: WorkedTable, browser: Browser, servers: Servers, seen: Callable[[str, Callable[[], bool]], None]
) -> None:
    servers.require_own()
    world.send(inserts(["a", "b", "c"]))
    world.start()
    wait_until(
        lambda: world.reached()[0] == 3 and browser.shows("Everything works", 'class="state green"'), 40, world.logs
    )
    for name, freeze, thaw in (
        ("Kafka", servers.freeze_kafka, servers.thaw_kafka),
        ("Redis", servers.freeze_redis, servers.thaw_redis),
    ):
        freeze()
        frozen_at = time.time()
        try:
            old = (f"{name} has not answered since", 'class="state grey"', 'class="number grey"')
            seen(f"grey while {name} is frozen", partial(browser.shows, *old))
            assert not browser.shows("state green")
            assert time.time() - frozen_at < OLD_SECONDS_MAX
            (said,) = [one for one in browser.facts()["servers"] if one["silent"]]
            assert said["name"] == name
            assert abs(datetime.fromisoformat(said["answered"]).timestamp() - frozen_at) < OLD_SECONDS_MAX
        finally:
            thaw()
        seen(f"of now again with {name}", lambda: browser.shows('class="state green"') and browser.is_green())


@pytest.mark.gate("a frozen worker", "a killed Redis", "a killed Kafka")
@pytest.mark.slow
def test_health_is_red_where_the_worker_is_not_well_and_green_again(
    world: WorkedTable, browser: Browser, servers: Servers, seen: Callable[[str, Callable[[], bool]], None]
) -> None:
    servers.require_own()
    world.send(inserts(["a", "b", "c"]))
    worker = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 3 and browser.is_green(), 40, world.logs)

    world.send(inserts(["poison"]))
    seen("red after a message that breaks the engine", lambda: browser.says("shard 0: a message could not be applied"))

    worker.process.send_signal(signal.SIGSTOP)
    seen("red while the worker is frozen", lambda: browser.ask("/health")[0] == 0)
    worker.process.send_signal(signal.SIGCONT)

    servers.kill_redis()
    seen("red without Redis", lambda: browser.says("Redis has not answered"))
    servers.start_redis()
    seen("green again with Redis, and with the fault long ago", browser.is_green)

    servers.kill_kafka()
    seen("red without Kafka", lambda: browser.says("Kafka has not answered"))
    servers.start_kafka()
    seen("green again with Kafka", browser.is_green)


@pytest.mark.slow
def test_health_stays_green_while_a_transaction_is_open_and_is_red_while_a_shard_is_refused(
    world: WorkedTable, browser: Browser, seen: Callable[[str, Callable[[], bool]], None]
) -> None:
    world.send(inserts(["a", "b", "c"]))
    worker = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 3 and browser.is_green(), 40, world.logs)

    writer = transactional(world.bootstrap, world.name)
    writer.begin_transaction()
    for shard, record_key, value in inserts(["late"], shard=1):
        writer.produce(world.input, value, record_key, shard)
    writer.flush(30)
    time.sleep(STILL_SECONDS_MAX + 5)  # what an open transaction holds back is not the worker's to apply
    assert not browser.says("shard 1")
    writer.commit_transaction(30)
    del writer
    wait_until(lambda: world.reached()[1] > 0, 40, world.logs)  # by this table.yaml

    worker.terminate()
    world.edit_yaml("k: 3", "k: 4")
    refused = world.start("fragile")
    seen("red while a shard is refused, and the worker goes on", lambda: browser.says("table.yaml has changed"))
    refused.terminate()
    assert browser.ask("/health")[0] == 0
    world.edit_yaml("k: 4", "k: 3")
    world.start("fragile")
    seen("green again with a table.yaml that fits", lambda: browser.is_green() and browser.ask("/ready")[0] == 200)
