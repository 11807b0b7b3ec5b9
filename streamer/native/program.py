"""A C file: the functions that entries need, the types that these need, and the entries themselves.

Python calls an entry with two arrays of words, of eight bytes each: the arguments, and room for the result. A number is
one word; an array is its address, lengths and strides; a named tuple as an argument the address of its words, in a
result these words. The status that it returns is 0, or says why it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamer.native.inference import (
    C_ELEMENT,
    NOTHING,
    Array,
    Element,
    Fields,
    Inferred,
    NotTranslated,
    RecordType,
    Scalar,
    Several,
    Type,
)
from streamer.native.library import n_words
from streamer.native.statements import CFunction

RUNTIME = Path(__file__).with_name("runtime.h").read_text()

Spec = Any
"""A type as JSON: the library says what its entries take and return (`spec_of`)."""


class Entry(NamedTuple):
    """A function that Python calls with arguments of some types."""

    symbol: str
    inferred: Inferred


class Program:
    """The functions of one C file; prefix: of what all files of a library would define."""

    def __init__(self, prefix: str, lines: bool = False) -> None:
        self.prefix, self.lines = prefix, lines
        self.entries: list[Entry] = []
        self._functions: dict[tuple[Callable[..., object], tuple[Type, ...]], Inferred] = {}
        self._order: list[Inferred] = []
        self._named: dict[object, str] = {}
        self._defined: list[str] = []

    @property
    def functions(self) -> Sequence[Inferred]:
        """All that are translated, each after those that it calls."""
        return self._order

    def translated(self, function: Callable[..., object], types: tuple[Type, ...]) -> Inferred:
        """The function for arguments of these types; raises NotTranslated."""
        key = function, types
        if key not in self._functions:
            name = f"{getattr(function, '__name__', 'f').strip('_')}_{len(self._functions)}"
            self._functions[key] = Inferred(self.translated, function, types, name)
            self._order.append(self._functions[key].infer())
        return self._functions[key]

    def entry(self, function: Callable[..., object], types: tuple[Type, ...]) -> Entry:
        """Has Python call the function with arguments of these types; raises NotTranslated."""
        inferred = self.translated(function, types)
        made = Entry(f"{self.prefix}_{inferred.name}", inferred)
        if made not in self.entries:
            self.entries.append(made)
        return made

    def c(self, of: Type) -> str:
        """C's name of a type; a named tuple is a pointer."""
        if isinstance(of, Fields):
            return f"const {self.held(of)} *"
        return f"{self._element(of.element)} *" if isinstance(of, RecordType) else self.held(of)

    def held(self, of: Type) -> str:
        """C's name of what holds a value of this type itself."""
        if isinstance(of, Scalar):
            return of.c
        if isinstance(of, Array):
            element = self._element(of.element)
            text = f"{{{element} *p; int64_t n[{of.n_dims}], s[{of.n_dims}];}}"
            return self._name((of.element, of.n_dims), f"A{of.n_dims}_{of.element.code or element}", text)
        if isinstance(of, Fields):
            kind, parts = of.kind.__name__.strip("_"), [(f"f_{name}", one) for name, one in of.types]
        elif isinstance(of, Several):
            kind, parts = "T", [(f"f{i}", one) for i, one in enumerate(of.types)]
        else:
            raise NotTranslated("a record is held by its array")
        text = " ".join(f"{self.held(one)} {name};" for name, one in parts)
        return self._name((kind, text), f"{kind}_{len(self._named)}", f"{{{text}}}")

    def _element(self, of: Element) -> str:
        if of.code:
            return C_ELEMENT[of.code]
        if any(at % int(code[1]) for _, code, at in of.fields):
            raise NotTranslated(f"records of {[name for name, _, _ in of.fields]} are not aligned: align=True")
        fields = " ".join(f"{C_ELEMENT[code]} f_{name};" for name, code, _ in sorted(of.fields, key=lambda one: one[2]))
        return self._name(of, f"R{len(self._named)}", f"{{{fields}}}")

    def _name(self, key: object, name: str, text: str) -> str:
        if key not in self._named:
            self._named[key] = name
            self._defined.append(f"typedef struct {text} {name};")
            if isinstance(key, Element):
                checks = [
                    f"sizeof({name}) == {key.size}",
                    *(f"offsetof({name}, f_{one}) == {at}" for one, _, at in key.fields),
                ]
                self._defined.append(f'_Static_assert({" && ".join(checks)}, "{name}");')
        return self._named[key]

    def text(self) -> str:
        """The C file."""
        written = [CFunction(one, self.c, self.held, self.lines) for one in self._order]
        bodies = [one.text() for one in written]
        heads = [f"{one.head()};" for one in written]
        entries = [self._entry(one) for one in self.entries]
        return "\n".join(
            [f"#define PREFIX(name) {self.prefix}_##name", RUNTIME, *self._defined, *heads, *bodies, *entries, ""]
        )

    def _entry(self, entry: Entry) -> str:
        """The function that Python calls."""
        passed, at = [], 0
        for of in entry.inferred.types:
            by_word = isinstance(of, Scalar | Fields)
            passed.append(f"*({self.c(of)}*)(in + {at})")
            at += 1 if by_word else n_words(spec_of(of))
        call = f"{entry.inferred.name}({', '.join(passed)})"
        returned = entry.inferred.returned
        if returned != NOTHING:
            call = f"*({self.held(returned)} *)out = {call}"
        return (
            f"EXPORTED int64_t {entry.symbol}(int64_t *in, int64_t *out) {{\n  jmp_buf here; int64_t status;\n"
            f"  entered = &here;\n  if ((status = _setjmp(here))) {{ release((Mark){{0, 0}}); return status; }}\n"
            f"  {call};\n  return FINE;\n}}"
        )


def spec_of(of: Type) -> Spec:
    """A type as JSON.

    >>> from streamer.native.inference import FLOAT, INT
    >>> spec_of(Several((INT, FLOAT)))
    ['tuple', ['int', 'float']]
    """
    if isinstance(of, Scalar):
        return of.name
    if isinstance(of, Array):
        return ["array", of.element.code or [list(of.element.fields), of.element.size], of.n_dims, of.in_line]
    if isinstance(of, Several):
        return ["tuple", [spec_of(one) for one in of.types]]
    if not isinstance(of, Fields):
        raise NotTranslated("an entry neither takes nor returns a record")
    return ["named", f"{of.kind.__module__}:{of.kind.__qualname__}", [spec_of(one) for _, one in of.types]]
