"""The sink reads every format that a table is published in, by the configuration that `streamer connect sink` prints.

Avro is written by workers through the registry's interface of Confluent's, and read by Apicurio's converter through its
own: Confluent's converter was not to be had.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from servers.pipeline import avro
from servers.pipeline.configurations import Shape
from servers.pipeline.pipeline import Access, Parts, Pipeline, await_answer
from servers.pipeline.started import started
from streamer.table.schema import AVRO, CONNECT_JSON

pytestmark = [pytest.mark.servers, pytest.mark.drill, pytest.mark.timeout(1500)]

ROWS = CHANGES = 600


class RegisteredParts(Parts):
    """Parts with a schema registry beside them."""

    def __init__(self, servers: Servers, directory: Path) -> None:
        avro.provide()
        self.registry = avro.Registry(directory)
        told = {"SCHEMA_REGISTRY_URL": self.registry.url}
        access = Access(servers.kafka_bootstrap, worker=told, operator=told)
        own = {"SCHEMA_REGISTRY_URL": self.registry.own_url}
        super().__init__(servers, directory, access, [avro.CONVERTERS], own)

    def start(self) -> None:
        self.registry.start()
        await_answer(self.registry.answers, "the registry", self.registry.last_words)
        super().start()

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self.registry.stop()


@pytest.fixture(scope="module")
def parts(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    with started(lambda: RegisteredParts(servers, tmp_path_factory.mktemp("parts"))) as parts:
        yield parts


@pytest.mark.parametrize("live", [CONNECT_JSON, AVRO])
def test_the_sink_ends_with_the_truth_in_every_format(parts: Parts, tmp_path: Path, live: str) -> None:
    pipeline = Pipeline(parts, tmp_path / "pipeline", Shape(live=live))
    try:
        pipeline.begin(ROWS, workers=1, looked_at=False)
        pipeline.until_released()
        pipeline.people.change(CHANGES)
        pipeline.until_arrived()
        pipeline.assert_nobody_was_named()
    finally:
        pipeline.end()
