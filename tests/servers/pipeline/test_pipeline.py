"""People's changes arrive: Postgres, Debezium, two workers, the JDBC sink, Postgres; nothing mocked."""

from __future__ import annotations

import pytest

from servers.pipeline.configurations import Shape
from servers.pipeline.pipeline import Laying

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS, CHANGES, LOOKS = 2000, 2000, 400


def test_every_change_arrives_and_no_look_sees_less_than_k(lay: Laying) -> None:
    pipeline = lay(Shape())
    pipeline.people.load(ROWS)
    pipeline.start_sink()
    pipeline.start_source()
    pipeline.start_worker()
    pipeline.start_worker()
    metas = pipeline.until_released()
    assert [meta.release for meta in metas] == [0] * pipeline.shards
    pipeline.begin_to_look()
    pipeline.people.change(CHANGES // 2)
    pipeline.people.read_again()
    pipeline.people.add_column()
    pipeline.people.change(CHANGES // 2)
    pipeline.until_arrived()
    seen = pipeline.until_looked(LOOKS)
    assert seen.broken == 0
    assert pipeline.letters() == 0
    assert pipeline.status()["problems"] == []
    pipeline.assert_nobody_was_named()
