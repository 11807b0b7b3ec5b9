"""The two decorators of functions that are translated to C, and what happens when Python calls one.

`@compiled`: Python calls the function, and its machine code runs. `@inlined`: it is compiled into each of its callers;
for few lines in innermost loops. A function that these call needs no decorator: it is translated with them.
The subset of Python for such functions: docs/explanation/native.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from streamer.native import library

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])

Instead = Callable[["Compiled[..., Any]", tuple[Any, ...]], Any]

_instead: ContextVar[Instead | None] = ContextVar("instead", default=None)
"""The function that runs instead of machine code; None: machine code runs."""

INLINED: set[Callable[..., object]] = set()


class Compiled(Generic[P, R]):
    """A function that Python calls; `function` is it as it was written."""

    def __init__(self, function: Callable[P, R]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._forms: tuple[library.EntryForm, ...] | None = None

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        if named:
            raise TypeError(f"{self.function.__qualname__} takes its arguments by position")
        instead = _instead.get()
        if instead is not None:
            return instead(self, arguments)  # type: ignore[no-any-return]
        if self._forms is None:
            self._forms = library.forms_of(f"{self.function.__module__}:{self.function.__qualname__}")
        for form in self._forms:
            words = form.words_of(arguments)
            if words is not None:
                return form.call(words)  # type: ignore[no-any-return]
        if library.ready():
            raise library.no_form(self.function, arguments)
        return self.function(*arguments, **named)


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """A function that Python calls, and that runs as machine code."""
    return Compiled(function)


def inlined(function: F) -> F:
    """A function that is compiled into each of its callers, and runs as it is if Python calls it."""
    INLINED.add(function)
    return function


def written(function: Callable[..., object]) -> Callable[..., object]:
    """The Python function that a decorated one was written as."""
    return function.function if isinstance(function, Compiled) else function


@contextmanager
def uncompiled() -> Iterator[None]:
    """Everything runs as it was written, within the block and in this thread."""
    with _running(lambda called, arguments: called.function(*arguments)):
        yield


@contextmanager
def recorded(hear: Callable[[Compiled[..., Any], tuple[Any, ...]], None]) -> Iterator[None]:
    """Everything runs as it was written; `hear` is told each call that Python makes, before it runs."""

    def hearing(called: Compiled[..., Any], arguments: tuple[Any, ...]) -> Any:
        hear(called, arguments)
        with uncompiled():
            return called.function(*arguments)

    with _running(hearing):
        yield


@contextmanager
def _running(instead: Instead) -> Iterator[None]:
    before = _instead.set(instead)
    try:
        yield
    finally:
        _instead.reset(before)
