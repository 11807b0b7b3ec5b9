"""The types of the subset, and their names in C.

A value is a bool, an int64, a uint64, a float64, nothing (None), an array of numbers or of records, a record (a pointer
into its array), a named tuple of such values, or a tuple of results. Numbers narrower than 64 bits are widened when
they are loaded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.errors import StreamerError


class NotTranslated(StreamerError):
    """A function says something that is not in the subset."""


class NotTranslatedHere(NotTranslated):
    """The same, without a place in the source, which the caller adds."""


class Scalar(NamedTuple):
    """A number, or nothing: `code` as that of an array of it."""

    name: str
    c: str
    code: str


BOOL, INT, UINT = Scalar("bool", "int64_t", "b1"), Scalar("int", "int64_t", "i8"), Scalar("uint", "uint64_t", "u8")
FLOAT, NOTHING = Scalar("float", "double", "f8"), Scalar("None", "int64_t", "")
NUMBERS = {BOOL, INT, UINT, FLOAT}


class Element(NamedTuple):
    """An item of an array: a number of this code, or a record of named numbers at these offsets."""

    code: str
    size: int
    fields: tuple[tuple[str, str, int], ...] = ()


class RecordType(NamedTuple):
    """A pointer to a record."""

    element: Element


class Array(NamedTuple):
    element: Element
    n_dims: int
    in_line: bool  # items along the last axis stand side by side


class Fields(NamedTuple):
    """A named tuple."""

    kind: Any
    types: tuple[Any, ...]


class Several(NamedTuple):
    """A tuple of results."""

    types: tuple[Any, ...]


Type = Scalar | RecordType | Array | Fields | Several

LOADED = {"i1": INT, "i2": INT, "i4": INT, "i8": INT, "u1": INT, "u8": UINT, "f8": FLOAT, "b1": BOOL}
C_ELEMENT = {"i1": "int8_t", "i2": "int16_t", "i4": "int32_t", "i8": "int64_t", "u1": "uint8_t", "u8": "uint64_t",
             "f8": "double", "b1": "uint8_t"}  # fmt: skip


def element_of(dtype: npt.DTypeLike) -> Element:
    """The items of an array of this dtype."""
    dtype = np.dtype(dtype)
    if dtype.names is None:
        code = dtype.str[1:]
        if code not in LOADED or not dtype.isnative:
            raise NotTranslatedHere(f"arrays of {dtype} are not in the subset: use int64, float64 or bool")
        return Element(code, dtype.itemsize)
    fields = ((name, *dtype.fields[name][:2]) for name in dtype.names) if dtype.fields else ()
    return Element("", dtype.itemsize, tuple((name, element_of(of).code, at) for name, of, at in fields))


def type_of(value: object) -> Type:
    """The type of an argument or a constant."""
    if value is None:
        return NOTHING
    if isinstance(value, bool | np.bool_):
        return BOOL
    if isinstance(value, np.uint64):
        return UINT
    if isinstance(value, int | np.integer) and -(2**63) <= value < 2**64:
        return INT if value < 2**63 else UINT
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, np.ndarray):
        whole = value.ndim > 0 and not any(stride % value.itemsize for stride in value.strides)
        if not whole:
            raise NotTranslatedHere("an array of no dimension, or a part of records, is not in the subset")
        alone = value.size == 0 or value.shape[-1] == 1  # then the last stride says nothing
        return Array(element_of(value.dtype), value.ndim, alone or value.strides[-1] == value.itemsize)
    if isinstance(value, np.void):
        return RecordType(element_of(value.dtype))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Fields(type(value), tuple(map(type_of, value)))
    raise NotTranslatedHere(f"a {type(value).__name__} is not in the subset")


def same_type(a: Type | None, b: Type) -> Type:
    """The type of what has both types; a: None if it had none so far. Raises NotTranslated if there is none."""
    if a not in (None, b):
        raise NotTranslatedHere(f"{said(a)} in one place and {said(b)} in another: it must be one of them everywhere")
    return b


def said(of: Type | None) -> str:
    """A type in words."""
    if isinstance(of, Array):
        order = "side by side" if of.in_line else "apart"
        return f"an array of {of.n_dims} dimensions of {of.element.code or 'records'} that stand {order}"
    if isinstance(of, Scalar | Fields):
        return of.name if isinstance(of, Scalar) else str(of.kind.__name__)
    return "a record" if isinstance(of, RecordType) else "a tuple"


def has_array(of: Type) -> bool:
    """True if a result of this type may hold memory."""
    return any(map(has_array, of.types)) if isinstance(of, Several) else isinstance(of, Array | Fields)


def item_of(of: Array) -> Type:
    """The type that one index leaves of an array."""
    if of.n_dims > 1:
        return of._replace(n_dims=of.n_dims - 1)
    return LOADED[of.element.code] if of.element.code else RecordType(of.element)


class CTypes:
    """C's names of types, and what defines those that C has not."""

    def __init__(self) -> None:
        self.defined: list[str] = []
        self._named: dict[object, str] = {}

    def passed(self, of: Type) -> str:
        """The C type of an expression: of a named tuple or a record a pointer."""
        if isinstance(of, Fields):
            return f"const {self.held(of)} *"
        return f"{self._element(of.element)} *" if isinstance(of, RecordType) else self.held(of)

    def held(self, of: Type) -> str:
        """The C type of a variable that holds a value itself."""
        if isinstance(of, Scalar):
            return of.c
        if isinstance(of, Array):
            element = self._element(of.element)
            text = f"{element} *p; int64_t n[{of.n_dims}], s[{of.n_dims}];"
            return self._name((of.element, of.n_dims), f"A{of.n_dims}_{of.element.code or element}", text)
        if isinstance(of, RecordType):
            raise NotTranslatedHere("a record is held by its array")
        kind = of.kind.__name__.strip("_") if isinstance(of, Fields) else "T"
        names = of.kind._fields if isinstance(of, Fields) else range(len(of.types))
        text = " ".join(f"{self.held(one)} f_{name};" for name, one in zip(names, of.types, strict=True))
        return self._name((kind, text), f"{kind}_{len(self._named)}", text)

    def _element(self, of: Element) -> str:
        if of.code:
            return C_ELEMENT[of.code]
        if any(at % int(code[1]) for _, code, at in of.fields):
            raise NotTranslatedHere(f"records of {[name for name, _, _ in of.fields]} are not aligned: align=True")
        fields = " ".join(f"{C_ELEMENT[code]} f_{name};" for name, code, _ in sorted(of.fields, key=lambda one: one[2]))
        name = f"R{len(self._named)}"
        checks = [f"sizeof({name}) == {of.size}", *(f"offsetof({name}, f_{one}) == {at}" for one, _, at in of.fields)]
        return self._name(of, name, fields, f'\n_Static_assert({" && ".join(checks)}, "{name}");')

    def _name(self, key: object, name: str, text: str, check: str = "") -> str:
        if key not in self._named:
            self._named[key] = name
            self.defined.append(f"typedef struct {{{text}}} {name};{check}")
        return self._named[key]
