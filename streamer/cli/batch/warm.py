"""`streamer warm`: compiles in advance what would be compiled on first use, and says how long each part took.

Machine code is kept in sets (`streamer.numba_support.cache`): the core with float32, which nearly every table needs, or
with float64; the default algorithm for whole tables; and what counts sensitive values, which reports need. Only one
process of a machine compiles a set at a time; this command waits for another one that does.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter

import click
import msgspec

from streamer.cli.support.options import examples, json_option
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import say
from streamer.errors import UsageError
from streamer.incremental.core.layout import FIGURES, FLOAT32, code_set
from streamer.incremental.core.step import warming_calls
from streamer.numba_support.cache import folder, is_there, mark, never_compiled, only_maker
from streamer.numba_support.jit import compile_for

WHOLE_TABLES, SENSITIVE_VALUES = "whole-tables", "sensitive-values"

OBJECTS = 100_000
"""New objects after which Python collects garbage while compiling: costs ten megabytes."""

Seconds = dict[str, float]


@dataclass(frozen=True)
class CodeSet:
    """A set of machine code."""

    name: str
    was_there: bool
    seconds: Seconds  # by piece; empty if it was there


@click.command(name="warm", epilog=examples("streamer warm", "streamer warm --core float32"))
@click.option(
    "--core",
    "figures",
    type=click.Choice(FIGURES),
    help="Only the code that keeps a table current, for tables that need this type of floats.",
)
@json_option
def command(figures: str | None, as_json: bool) -> None:
    """Compiles in advance what would be compiled on first use; once per machine and version of streamer.

    Without it, a worker or a replay compiles in the background and is slow until that is done; what it publishes is the
    same. The code is kept in the package's folder, or in ~/.cache/streamer if that is not writable; NUMBA_CACHE_DIR
    names another folder.
    """
    with stages(as_json) as progress:
        sets = []
        core = code_set(figures or FLOAT32)
        wanted = [core] if figures else [core, WHOLE_TABLES, SENSITIVE_VALUES]
        for name in [] if never_compiled() else wanted:
            with progress.stage(name):
                sets.append(warm(name, COMPILERS[name]))
    if as_json:
        click.echo(msgspec.json.encode({"folder": folder(), "sets": [asdict(one) for one in sets]}))
        return
    if never_compiled():
        say("NUMBA_DISABLE_JIT is set: nothing is compiled")
    for one in sets:
        say(f"{one.name}: {'is there' if one.was_there else 'made'}")
        for piece, seconds in one.seconds.items():
            say(f"  {piece:<12} {seconds:8.1f} s")


def warm(name: str, pieces: Callable[[], Iterator[str]]) -> CodeSet:
    """Compiles a set unless it is there, or waits until another process has. Raises UsageError if none can be kept."""
    if not folder():
        raise UsageError(
            "machine code cannot be kept: neither the package's folder nor ~/.cache is writable, by this user alone;"
            " name a folder of your own by NUMBA_CACHE_DIR, to which others cannot write"
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
    """The compiler makes many objects that live long: looking for garbage among them took a twelfth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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


COMPILERS: dict[str, Callable[[], Iterator[str]]] = {
    **{code_set(figures): partial(_core, figures) for figures in FIGURES},
    WHOLE_TABLES: _whole_tables,
    SENSITIVE_VALUES: _sensitive_values,
}
"""For each set, what compiles it piece by piece and yields the name of each."""
