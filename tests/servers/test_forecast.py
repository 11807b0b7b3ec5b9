"""What a forecast says of servers is what real ones have: the memory of Redis, the disk of Kafka."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from servers.broker.servers import Servers
from streamer.grouping import first_groups
from streamer.incremental.forecast import COMMIT_BYTES, LEAST, MOST, ChangeTally, ShardTrial, entries
from streamer.incremental.store.base import Commit
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import POSITIONS, outputs_of, topic_name
from streamer.kafka.outlet import KafkaOutlet
from streamer.table.codes import Diversity
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.forecasts import PublishedToo, bytes_on_disk, many_patients
from worlds.kafka_and_redis import fresh_name, make_topics

PEOPLE, CHANGES, CHANGES_ALONE = 20_000, 2_000, 200
TABLE = load_table(PATIENTS)


def with_long_keys(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(id=[f"{number:036}" for number in range(len(rows))])


@pytest.mark.parametrize(("k", "rows"), [(3, many_patients(PEOPLE)), (50, with_long_keys(many_patients(PEOPLE)))])
def test_redis_takes_what_is_said(servers: Servers, k: int, rows: pd.DataFrame) -> None:
    trial = ShardTrial(replace(TABLE, k=k), rows, first_groups, None, seed=1)
    trial.together(CHANGES, ChangeTally())
    state = trial.store.load()
    assert state is not None
    kept, origins = state.kept, {number: trial.store.origin(number) for number, _ in state.kept.qi_groups}
    commit = Commit(
        replace(state.meta, commit=1), dict(kept.records), dict(kept.qi_groups), dict(kept.similarity), origins=origins
    )
    taken = []
    with connect(servers.redis_url) as client:
        for _ in range(3):  # what its scripts keep for the next call is there after the first
            before, store = used_memory(servers), RedisStore(client, fresh_name(), 0)
            store.commit(store.take_over(), 0, commit)
            taken.append(used_memory(servers) - before)
    sizes = list(entries(trial.stored))
    added = (max(taken[1:]) - sum(sizes)) / len(sizes)  # the server may give back meanwhile what others have deleted
    assert LEAST.entry <= added <= MOST.entry


def used_memory(servers: Servers) -> int:
    """What Redis uses, without the buffers of clients."""
    with connect(servers.redis_url) as client:
        found = client.info("memory")
    return int(found["used_memory"] - found["mem_clients_normal"])


@pytest.mark.parametrize("form", [ROWS, GROUPS, LOSSY_JOIN])
def test_kafka_has_on_its_disk_what_is_said(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory, form: str
) -> None:
    name, table = fresh_name(), replace(TABLE, form=form, diversity=Diversity(l=2))
    make_topics(servers.kafka_bootstrap, name, 1, form=form)
    outlet = PublishedToo(table, KafkaOutlet(servers.kafka_bootstrap, name, 0, outputs_of(form)))
    trial = ShardTrial(table, many_patients(PEOPLE), first_groups, None, 1, outlet)
    total = trial.together(CHANGES, ChangeTally())
    for one in (trial.first, *trial.one_by_one(CHANGES_ALONE).values()):
        total.add(one)
    for kind in (*outputs_of(form), POSITIONS):
        found = bytes_on_disk(Path(tmp_path_factory.getbasetemp()), topic_name(name, kind))
        if not found:
            pytest.skip(f"the data folder of this Kafka is elsewhere: {servers.origin}")
        least, most = (total.bytes_on(kind, added) for added in (LEAST, MOST))
        assert least - COMMIT_BYTES <= found <= most  # the last marker may not be on the disk yet
