"""What a forecast says of servers is what real ones have: the memory of Redis, the disk of Kafka."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from streamer.grouping import first_groups
from streamer.incremental.forecast import ChangeTally, ShardTrial, redis_bytes
from streamer.incremental.store.base import Commit
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import LIVE, POSITIONS, topic_name
from streamer.kafka.outlet import KafkaOutlet
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.forecasts import PublishedToo, bytes_on_disk, many_patients
from worlds.kafka_and_redis import fresh_name, make_topics

ROWS, CHANGES, CHANGES_ALONE = 20_000, 2_000, 200


def test_redis_takes_what_is_said_to_a_fifth(servers: Servers) -> None:
    trial = ShardTrial(load_table(PATIENTS), many_patients(ROWS), first_groups, None, seed=1)
    trial.together(CHANGES, ChangeTally())
    state = trial.store.load()
    assert state is not None
    kept, origins = state.kept, {number: trial.store.origin(number) for number, _ in state.kept.qi_groups}
    commit = Commit(
        replace(state.meta, commit=1), dict(kept.records), dict(kept.qi_groups), dict(kept.similarity), origins=origins
    )
    before = used_memory(servers)
    with connect(servers.redis_url) as client:
        store = RedisStore(client, fresh_name(), 0)
        store.commit(store.take_over(), 0, commit)
    assert redis_bytes(trial.stored) == pytest.approx(used_memory(servers) - before, rel=0.2)


def used_memory(servers: Servers) -> int:
    """What Redis uses, without the buffers of clients."""
    with connect(servers.redis_url) as client:
        found = client.info("memory")
    return int(found["used_memory"] - found["mem_clients_normal"])


def test_kafka_has_on_its_disk_what_is_said(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> None:
    name, table = fresh_name(), load_table(PATIENTS)
    make_topics(servers.kafka_bootstrap, name, 1)
    outlet = PublishedToo(table, KafkaOutlet(servers.kafka_bootstrap, name, 0))
    trial = ShardTrial(table, many_patients(ROWS), first_groups, None, 1, outlet)
    total = trial.together(CHANGES, ChangeTally())
    for one in (trial.first, *trial.one_by_one(CHANGES_ALONE).values()):
        total.add(one)
    for kind in (LIVE, POSITIONS):
        found = bytes_on_disk(Path(tmp_path_factory.getbasetemp()), topic_name(name, kind))
        if not found:
            pytest.skip(f"the data folder of this Kafka is elsewhere: {servers.origin}")
        assert total.bytes[kind] == pytest.approx(found, rel=0.05)
