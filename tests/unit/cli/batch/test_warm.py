"""`streamer warm`: what it compiles, once, and what it says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from streamer.cli.batch.warm import COMPILERS, CodeSet, warm
from streamer.cli.main import main
from streamer.errors import UsageError
from streamer.numba_support.cache import folder, is_there, only_maker


@pytest.fixture(autouse=True)
def _nothing_is_compiled_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    folder.cache_clear()
    yield
    folder.cache_clear()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pieces that were compiled, or would have been."""
    pieces: list[str] = []

    def compiled(name: str) -> Iterator[str]:
        pieces.append(name)
        yield "run"

    for name in COMPILERS:
        monkeypatch.setitem(COMPILERS, name, partial(compiled, name))
    return pieces


def streamer(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["warm", *arguments])
    assert result.exit_code == 0, result.output
    return result


def test_it_compiles_the_core_and_the_default_algorithm_and_says_how_long_each_took(made: list[str]) -> None:
    said = json.loads(streamer("--json").stdout)
    assert made == ["core-float32", "whole-tables", "sensitive-values"]
    assert said["folder"] == folder()
    assert [(one["name"], one["was_there"], list(one["seconds"])) for one in said["sets"]] == [
        (name, False, ["run"]) for name in made
    ]


def test_once_all_is_there_it_says_so_at_once(made: list[str]) -> None:
    streamer()
    made.clear()
    there = [f"{name}: is there" for name in ("core-float32", "whole-tables", "sensitive-values")]
    assert streamer().stdout.splitlines() == there
    assert [one["was_there"] for one in json.loads(streamer("--json").stdout)["sets"]] == [True, True, True]
    assert made == []


def test_the_core_alone_for_the_figures_that_a_table_needs(made: list[str]) -> None:
    assert streamer("--core", "float64").stdout.splitlines()[0] == "core-float64: made"
    assert made == ["core-float64"]
    assert is_there("core-float64")
    assert not is_there("core-float32")


def test_a_set_that_failed_half_way_is_not_there_and_is_begun_again() -> None:
    def fails() -> Iterator[str]:
        yield "run"
        raise MemoryError

    with pytest.raises(MemoryError):
        warm("core", fails)
    assert not is_there("core")
    assert list(warm("core", lambda: iter(["run"])).seconds) == ["run"]


def test_what_another_process_is_compiling_is_waited_for_and_not_compiled_twice() -> None:
    made: list[CodeSet] = []
    other = Thread(target=lambda: made.append(warm("core", lambda: iter(["run"]))))
    with only_maker("core"):
        other.start()
        other.join(timeout=0.2)
        waited = other.is_alive()
        Path(folder(), "core").touch()  # the one that is at it has ended
    other.join()
    assert waited
    assert made == [CodeSet("core", True, {})]


def test_told_to_compile_nothing_it_says_so(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert streamer().stdout.splitlines() == ["NUMBA_DISABLE_JIT is set: nothing is compiled"]
    assert json.loads(streamer("--json").stdout)["sets"] == []
    assert made == []


def test_where_nothing_can_be_kept_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    folder.cache_clear()
    with pytest.raises(UsageError, match="NUMBA_CACHE_DIR"):
        warm("core", lambda: iter(["run"]))
