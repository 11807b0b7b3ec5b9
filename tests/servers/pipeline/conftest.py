"""The fixtures `parts` and `pipeline`. Where the parts cannot be had, the tests are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import Servers
from servers.pipeline.configurations import Shape
from servers.pipeline.pipeline import Laying, Parts, Pipeline
from servers.pipeline.sources import Source
from servers.pipeline.started import started


@pytest.fixture(scope="session")
def parts(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    """Postgres and Kafka Connect, shared by the whole run."""
    with started(lambda: Parts(servers, tmp_path_factory.mktemp("parts"))) as parts:
        yield parts


@pytest.fixture
def lay(parts: Parts, tmp_path: Path) -> Iterator[Laying]:
    """Makes pipelines: `lay(Shape(...), shards=4)`."""
    parts.start()
    made: list[Pipeline] = []

    def laid(shape: Shape, shards: int = 4, origin: Source | None = None) -> Pipeline:
        made.append(Pipeline(parts, tmp_path / f"pipeline-{len(made)}", shape, shards, origin))
        return made[-1]

    yield laid
    for pipeline in made:
        pipeline.end()
