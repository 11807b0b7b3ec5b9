"""A C file: the functions that entries need, the types that these need, and the entries themselves.

Python calls an entry with two arrays of words, of eight bytes each: the arguments, and room for the result. A number is
one word; an array is its address, lengths and strides; a named tuple as an argument the address of its words, in a
result these words. The status that it returns is 0, or says why it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from streamer.native.library import n_words
from streamer.native.statements import Translated
from streamer.native.types import NOTHING, Array, CTypes, Fields, NotTranslatedHere, Scalar, Several, Type

RUNTIME = Path(__file__).with_name("runtime.h").read_text()

Spec = Any
"""A type as JSON: the library says what its entries take and return (`spec_of`)."""


class Program:
    """The functions of one C file; prefix: of what all files of a library would define."""

    def __init__(self, prefix: str, lines: bool = False) -> None:
        self.prefix, self.lines = prefix, lines
        self.entries: dict[str, Translated] = {}
        """The functions that Python calls, by C's names of their entries."""
        self._functions: dict[tuple[Callable[..., object], tuple[Type, ...]], Translated] = {}
        self._types = CTypes()

    @property
    def functions(self) -> Iterable[Translated]:
        """All that are translated, each after those that it calls."""
        return self._functions.values()

    def translated(self, function: Callable[..., object], types: tuple[Type, ...]) -> Translated:
        """The function for arguments of these types; raises NotTranslated."""
        key = function, types
        if key not in self._functions:
            name = f"{getattr(function, '__name__', 'f').strip('_')}_{len(self._functions)}"
            self._functions[key] = made = Translated(self.translated, self._types, function, types, name, self.lines)
            made.run()
            self._functions[key] = self._functions.pop(key)
        return self._functions[key]

    def entry(self, function: Callable[..., object], types: tuple[Type, ...]) -> None:
        """Has Python call the function with arguments of these types; raises NotTranslated."""
        made = self.translated(function, types)
        self.entries[f"{self.prefix}_{made.name}"] = made

    def text(self) -> str:
        """The C file."""
        heads, bodies = [f"{one.head()};" for one in self.functions], [one.text() for one in self.functions]
        entries = [self._entry(symbol, one) for symbol, one in self.entries.items()]
        define = f"#define PREFIX(name) {self.prefix}_##name"
        return "\n".join([define, RUNTIME, *self._types.defined, *heads, *bodies, *entries, ""])

    def _entry(self, symbol: str, called: Translated) -> str:
        """The function that Python calls."""
        passed, at = [], 0
        for of in called.types:
            passed.append(f"*({self._types.passed(of)}*)(in + {at})")
            at += 1 if isinstance(of, Fields) else n_words(spec_of(of))
        call = f"{called.name}({', '.join(passed)})"
        if called.returned != NOTHING:
            call = f"*({called.result_type()} *)out = {call}"
        return (
            f"EXPORTED int64_t {symbol}(int64_t *in, int64_t *out) {{\n  jmp_buf here; int64_t status;\n"
            f"  entered = &here;\n  if ((status = _setjmp(here))) {{ release((Mark){{0, 0}}); return status; }}\n"
            f"  {call};\n  return FINE;\n}}"
        )


def spec_of(of: Type) -> Spec:
    """A type as JSON.

    >>> from streamer.native.types import FLOAT, INT
    >>> spec_of(Several((INT, FLOAT)))
    ['tuple', ['int', 'float']]
    """
    if isinstance(of, Scalar):
        return of.name
    if isinstance(of, Array):
        return ["array", of.element.code or [list(of.element.fields), of.element.size], of.n_dims, of.in_line]
    if isinstance(of, Several):
        return ["tuple", list(map(spec_of, of.types))]
    if not isinstance(of, Fields):
        raise NotTranslatedHere("an entry neither takes nor returns a record")
    return ["named", f"{of.kind.__module__}:{of.kind.__qualname__}", list(map(spec_of, of.types))]
