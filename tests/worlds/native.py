"""Machine code of functions that only tests call, made when it is needed and kept by what it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from hashlib import blake2b
from typing import Any, Generic, ParamSpec, TypeVar

from streamer.native.build import FLAGS, compile_texts, compiler, texts_of
from streamer.native.library import EntryForm, Library
from streamer.native.program import Program
from streamer.native.types import type_of
from worlds.checkout import ROOT

P = ParamSpec("P")
R = TypeVar("R")

KEPT = ROOT / ".pytest_cache" / "machine-code"
QUICK = ("-O1",)


def made_of(
    calls: Sequence[tuple[Callable[..., Any], Sequence[Any]]], *flags: str
) -> Mapping[str, Sequence[EntryForm]]:
    """The forms of functions for arguments like these, by `module:name`."""
    program = Program("tests")
    for function, arguments in calls:
        program.entry(function, tuple(map(type_of, arguments)))
    texts, command, with_flags = texts_of([program]), compiler(), [*QUICK, *flags]
    asked = repr((sorted(texts.items()), command, FLAGS, with_flags)).encode()
    file = KEPT / f"{blake2b(asked, digest_size=12).hexdigest()}.so"
    if not file.exists():
        compile_texts(texts, command, with_flags, file)
    return Library(file).forms


def called(forms: Sequence[EntryForm], arguments: Sequence[Any]) -> Any:
    """What machine code returns."""
    for form in forms:
        words = form.words_of(arguments)
        if words is not None:
            return form.call(words)
    raise TypeError("compiled for other types")


class CompiledNow(Generic[P, R]):
    """A function that is compiled when it is first called with arguments of some types."""

    def __init__(self, function: Callable[P, R], *flags: str) -> None:
        update_wrapper(self, function)
        self.function, self._flags = function, flags
        self._forms: list[EntryForm] = []

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return called(self._forms, arguments)
        except TypeError:
            (forms,) = made_of([(self.function, arguments)], *self._flags).values()
            self._forms += forms
            return called(forms, arguments)


def compiled_now(function: Callable[P, R]) -> CompiledNow[P, R]:
    """Has machine code made of a function of a test, or of a part of the product that Python does not call."""
    return CompiledNow(function)
