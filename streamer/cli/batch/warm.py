"""`streamer warm`: compiles ahead what would else be compiled when it is first needed, and says how long each took.

What is compiled is kept in sets (`streamer.numba_support.cache`): the core for figures in float32, which nearly every
table needs, or in float64, the whole-table algorithm by which a table begins, and what it needs beside that where
sensitive values are counted, as every report of `anonymize` does. Each is made by one process of a machine at a time;
this command waits for the one that is at it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import perf_counter

import click
import msgspec

from streamer.cli.support.options import examples, json_option
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import say
from streamer.errors import UsageError
from streamer.incremental.core.layout import FIGURES, FLOAT32, set_of_figures
from streamer.incremental.core.step import warming_calls
from streamer.numba_support.cache import folder, is_there, mark, never_compiled, only_maker
from streamer.numba_support.jit import compile_for

WHOLE_TABLES, SENSITIVE_VALUES = "whole-tables", "sensitive-values"

OBJECTS = 100_000
"""New objects after which Python looks for garbage while it compiles: ten megabytes more."""

Seconds = dict[str, float]


@dataclass(frozen=True)
class CodeSet:
    """A set of machine code; seconds: for each piece of it, empty where it was there."""

    name: str
    was_there: bool
    seconds: Seconds


@click.command(name="warm", epilog=examples("streamer warm", "streamer warm --core float32"))
@click.option(
    "--core",
    "figures",
    type=click.Choice(FIGURES),
    help="Only the code that keeps a table current, for tables whose figures need this type.",
)
@json_option
def command(figures: str | None, as_json: bool) -> None:
    """Compiles what would else be compiled when it is first needed; once for a machine and a version of streamer.

    A worker or a replay that finds nothing compiled starts this in the background, is slow for as long as it takes, and
    publishes the same. The code is kept in the package's folder; where that cannot be written to, in ~/.cache/streamer;
    NUMBA_CACHE_DIR names another place.
    """
    with stages(as_json) as progress:
        sets = [] if never_compiled() else [_shown(progress, name, pieces) for name, pieces in _wanted(figures)]
    if as_json:
        click.echo(msgspec.json.encode({"folder": folder(), "sets": [asdict(one) for one in sets]}))
        return
    if never_compiled():
        say("NUMBA_DISABLE_JIT is set: nothing is ever compiled")
    for one in sets:
        say(f"{one.name}: {'is there' if one.was_there else 'made'}")
        for piece, seconds in one.seconds.items():
            say(f"  {piece:<12} {seconds:8.1f} s")


def _shown(progress: Stages, name: str, pieces: Callable[[], Iterator[str]]) -> CodeSet:
    with progress.stage(name):
        return warm(name, pieces)


def warm(name: str, pieces: Callable[[], Iterator[str]]) -> CodeSet:
    """Makes a set where it is not there, or waits until another process has made it.

    pieces: compiles piece after piece, and yields the name of each. Raises UsageError where nothing can be kept.
    """
    if not folder():
        raise UsageError(
            "machine code can be kept nowhere: neither the package's folder nor ~/.cache can be written to;"
            " name a folder of your own by NUMBA_CACHE_DIR"
        )
    seconds: Seconds = {}
    if not is_there(name):
        with only_maker(name):
            if not is_there(name):
                seconds = _timed(pieces())
                mark(name)
                return CodeSet(name, False, seconds)
    return CodeSet(name, True, seconds)


def _timed(pieces: Iterator[str]) -> Seconds:
    seconds, began = {}, perf_counter()
    with _little_collecting():
        for piece in pieces:
            ended = perf_counter()
            seconds[piece], began = round(ended - began, 3), ended
    return seconds


@contextmanager
def _little_collecting() -> Iterator[None]:
    """A compiler makes many objects that live as long as it does: to look for garbage among them took a twelfth."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _wanted(figures: str | None) -> Iterator[tuple[str, Callable[[], Iterator[str]]]]:
    """The core first: who runs uncompiled waits for it."""
    needed = figures or FLOAT32
    yield set_of_figures(needed), lambda: _core(needed)
    if figures is None:
        yield WHOLE_TABLES, _whole_tables
        yield SENSITIVE_VALUES, _sensitive_values


def _core(figures: str) -> Iterator[str]:
    for entry, arguments in warming_calls(figures):
        compile_for(entry, arguments)
        yield entry.__name__


def _whole_tables() -> Iterator[str]:
    from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM
    from streamer.recoding.algorithms.warming import compile_default

    compile_default()
    yield DEFAULT_ALGORITHM


def _sensitive_values() -> Iterator[str]:
    from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM
    from streamer.recoding.algorithms.warming import compile_counting

    compile_counting()
    yield DEFAULT_ALGORITHM
