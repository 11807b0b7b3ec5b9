"""The workers of the demo: one whose end is not overlooked, and the figures that they tell of themselves."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep

import pytest

from agents.demo.people import write_table
from agents.demo.workers import LOG_LINES_SHOWN, figures, running
from streamer.errors import StreamerError


def test_a_worker_that_ends_by_itself_ends_the_demo_with_its_last_words(tmp_path: Path) -> None:
    table = write_table(tmp_path, "survey", embedded=True)
    with running(1, table, "an address without a port", "redis://nowhere/0") as worker:
        until = monotonic() + 30
        with pytest.raises(StreamerError) as ended:
            while monotonic() < until:
                figures([worker])
                sleep(0.05)
    first, *words = str(ended.value).splitlines()
    assert "a worker ended by itself (exit code 2)" in first
    assert 0 < len(words) <= LOG_LINES_SHOWN
    assert "HOST:PORT" in str(ended.value)


def test_the_figures_of_all_workers_and_shards_are_summed() -> None:
    class Told:
        def __init__(self, *values: int) -> None:
            self._values = values

        def metrics(self) -> str:
            lines = [f'streamer_rows{{shard="{n}",table="a"}} {value}.0' for n, value in enumerate(self._values)]
            return "\n".join(["# TYPE streamer_rows gauge", *lines, 'streamer_healthy{table="a"} 1.0'])

    assert figures([Told(3, 4), Told(5), Told()]) == {"rows": 12}


def test_a_worker_tells_where_it_answers_once_it_listens(tmp_path: Path) -> None:
    table = write_table(tmp_path, "survey", embedded=True)
    with running(1, table, "127.0.0.1:1", "redis://127.0.0.1:1/0") as worker:
        until = monotonic() + 60
        while not worker.url and monotonic() < until:
            sleep(0.05)
        assert worker.url.startswith("http://127.0.0.1:")
