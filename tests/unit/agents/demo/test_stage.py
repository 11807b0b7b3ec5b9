"""The stage of the demo: its own table each time, and a worker whose end is not overlooked."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep

import pytest

from agents.demo.stage import LOG_LINES_SHOWN, Worker, real_stage
from streamer.errors import StreamerError


def test_on_servers_that_others_use_too_every_demo_has_a_table_of_its_own(tmp_path: Path) -> None:
    names = set()
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        stage = real_stage(directory, "broker:9092", "redis://nowhere/0")
        assert Path(stage.table_path).is_file()
        names.add(stage.table.name)
    assert len(names) == 2


def test_a_worker_that_ends_by_itself_ends_the_demo_with_its_last_words(tmp_path: Path) -> None:
    worker = Worker(real_stage(tmp_path, "an address without a port", "redis://nowhere/0"), 1)
    until = monotonic() + 30
    try:
        with pytest.raises(StreamerError) as ended:
            while monotonic() < until:
                worker.check()
                sleep(0.05)
    finally:
        worker.end()
    first, *words = str(ended.value).splitlines()
    assert "a worker ended by itself (exit code 2)" in first
    assert 0 < len(words) <= LOG_LINES_SHOWN
    assert "HOST:PORT" in str(ended.value)


def test_a_worker_tells_where_its_page_is_once_it_listens(tmp_path: Path) -> None:
    worker = Worker(real_stage(tmp_path, "127.0.0.1:1", "redis://127.0.0.1:1/0"), 1)
    until = monotonic() + 60
    try:
        while not worker.url and monotonic() < until:
            sleep(0.05)
    finally:
        worker.end()
    assert worker.url.startswith("http://127.0.0.1:")
