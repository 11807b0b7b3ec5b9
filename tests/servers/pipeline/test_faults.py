"""The whole way in every shape that a connector may write, while workers, Connect and the broker are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from servers.pipeline.configurations import Shape
from servers.pipeline.pipeline import Laying, Pipeline
from servers.pipeline.readers import of_flink, of_kafka_streams, of_the_console, of_the_sink, provide

pytestmark = [pytest.mark.servers, pytest.mark.drill, pytest.mark.timeout(1500)]

ROWS, CHANGES, LOOKS = 2000, 2000, 400


def kinds() -> list[object]:
    """Shapes by name. Decimals are bytes in `precise`, which only a message with its schema can tell from text."""
    return [
        pytest.param(Shape(), id="schemas"),
        pytest.param(Shape(schemas=False), id="no schemas"),
        pytest.param(Shape(flattening="rewritten"), id="flattened"),
        pytest.param(Shape(schemas=False, flattening="rewritten"), id="flattened, no schemas"),
        pytest.param(Shape(decimals="precise"), id="decimals as bytes"),
        pytest.param(Shape(flattening="bare"), id="bare rows"),
        pytest.param(Shape(schemas=False, flattening="bare"), id="bare rows, no schemas"),
        pytest.param(Shape(decimals="precise", flattening="bare"), id="bare rows, decimals as bytes"),
    ]


@pytest.mark.parametrize("shape", kinds())
def test_every_change_arrives_whoever_is_killed(lay: Laying, shape: Shape) -> None:
    pipeline = lay(shape)
    pipeline.parts.servers.require_own()
    pipeline.people.load(ROWS)
    pipeline.begin_to_look()
    pipeline.start_sink()
    pipeline.start_source()
    pipeline.start_workers()
    if shape.flattening != "bare":  # such rows do not say that a snapshot has read them: they are single changes
        pipeline.until_released()
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
    pipeline.people.load(ROWS)
    pipeline.begin_to_look()
    pipeline.start_sink()
    pipeline.start_source()
    pipeline.start_workers()
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
