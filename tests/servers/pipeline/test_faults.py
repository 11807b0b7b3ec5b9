"""The whole way in every shape that a connector may write, while workers, Connect and the broker are killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from servers.pipeline.configurations import Shape
from servers.pipeline.pipeline import Laying, Pipeline
from servers.pipeline.readers import of_flink, of_kafka_streams, of_the_console, of_the_sink, provide
from servers.pipeline.secured_parts import SecuredParts
from servers.pipeline.started import started

pytestmark = [pytest.mark.servers, pytest.mark.drill, pytest.mark.timeout(1500)]

ROWS, CHANGES, LOOKS = 2000, 2000, 400


# Every two of: schemas or none, decimals as text or bytes, rows as they are, flattened or bare, JSON or Avro, an open
# broker or a secured one; but bytes without a schema, which are refused. Decimals are bytes in `precise`.
OPEN = [
    pytest.param(Shape(flattening="rewritten"), id="flattened"),
    pytest.param(Shape(decimals="precise"), id="decimals as bytes"),
    pytest.param(Shape(decimals="precise", flattening="bare"), id="bare rows, decimals as bytes"),
    pytest.param(Shape(schemas=False), id="no schemas"),
    pytest.param(Shape(schemas=False, flattening="rewritten"), id="flattened, no schemas"),
    pytest.param(Shape(schemas=False, flattening="bare"), id="bare rows, no schemas"),
]
SECURED = [
    pytest.param(Shape(), False, id="schemas"),
    pytest.param(Shape(schemas=False, flattening="rewritten"), False, id="flattened, no schemas"),
    pytest.param(Shape(decimals="precise"), True, id="Avro, decimals as bytes"),
    pytest.param(Shape(decimals="precise", flattening="rewritten"), True, id="Avro, flattened, decimals as bytes"),
    pytest.param(Shape(flattening="bare"), True, id="Avro, bare rows"),
]


@pytest.mark.parametrize("shape", OPEN)
def test_every_change_arrives_whoever_is_killed(lay: Laying, shape: Shape) -> None:
    pipeline = lay(shape)
    pipeline.parts.servers.require_own()
    _changes_arrive(pipeline)


@pytest.fixture(scope="module")
def secured(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredParts]:
    with started(lambda: SecuredParts(servers, tmp_path_factory.mktemp("secured-parts"))) as parts:
        yield parts


@pytest.mark.parametrize(("shape", "avro"), SECURED)
def test_every_change_arrives_by_a_secured_broker_whoever_is_killed(
    secured: SecuredParts, tmp_path: Path, shape: Shape, avro: bool
) -> None:
    secured.start()
    written = replace(shape, more=secured.registry.converters()) if avro else shape
    pipeline = Pipeline(secured, tmp_path / "pipeline", written)
    try:
        _changes_arrive(pipeline)
    finally:
        pipeline.end()


def _changes_arrive(pipeline: Pipeline) -> None:
    pipeline.begin(ROWS)
    if pipeline.shape.flattening != "bare":  # such rows do not say that a snapshot has read them
        pipeline.until_released()
    pipeline.until_source_reads()
    for fault in (_kill_a_worker, _kill_connect, _kill_the_broker):
        pipeline.people.change(CHANGES // 4)
        fault(pipeline)
    pipeline.people.read_again()
    pipeline.people.add_column()
    pipeline.people.change(CHANGES // 4)
    pipeline.until_arrived()
    assert pipeline.until_looked(LOOKS).broken == 0
    assert pipeline.status()["problems"] == []
    pipeline.assert_nobody_was_named()


def test_other_readers_fold_the_same_table(lay: Laying, tmp_path: Path) -> None:
    """Kafka Streams, Flink and the console consumer end with the rows of the sink."""
    provide()
    pipeline = lay(Shape())
    pipeline.begin(ROWS)
    pipeline.until_released()
    pipeline.people.change(CHANGES)
    pipeline.until_arrived()
    rows = of_the_sink(pipeline.database, pipeline.table)
    assert of_the_console(pipeline.bootstrap, pipeline.table, pipeline.shards) == rows
    assert of_kafka_streams(pipeline.bootstrap, pipeline.table, tmp_path / "state") == rows
    assert of_flink(pipeline.bootstrap, pipeline.table, tmp_path) == rows


def _kill_a_worker(pipeline: Pipeline) -> None:
    assert pipeline.crew is not None
    pipeline.crew.kill_one(random.Random(1))


def _kill_connect(pipeline: Pipeline) -> None:
    pipeline.parts.connect.kill()
    pipeline.parts.start()
    pipeline.until_connected()


def _kill_the_broker(pipeline: Pipeline) -> None:
    pipeline.parts.servers.kill_kafka()
    pipeline.parts.servers.start_kafka()
