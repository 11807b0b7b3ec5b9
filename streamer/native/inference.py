"""The types of the subset, and the type of every expression of a function, given the types of its arguments.

The rules of this file
----------------------
* A value is a bool, an int64, a uint64, a float64, nothing (None), an array of numbers or of records, a record (a
  pointer into its array), a named tuple of such values, or a tuple of results.
* A name has one type. What would have two is refused: in Python 1 and 1.0 are different values, and True and 1 as well.
  None beside another type is decided for each call: `x is None` is known when the function is translated.
* Numbers narrower than 64 bits are widened when they are loaded. Constants are read from the module.
* A function is translated once for each tuple of argument types. A pass over its statements is repeated until no type
  changes; what the last pass found is kept for each node of the syntax tree, and only that is read to write C.
* What is not known here is refused, with file, line and what to write instead.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from streamer.errors import StreamerError
from streamer.native.functions import INLINED, written


class NotTranslated(StreamerError):
    """A function says something that is not in the subset."""


class Scalar(NamedTuple):
    name: str
    c: str


BOOL, INT, UINT = Scalar("bool", "int64_t"), Scalar("int", "int64_t"), Scalar("uint", "uint64_t")
FLOAT, NOTHING = Scalar("float", "double"), Scalar("None", "int64_t")


class Element(NamedTuple):
    """What an array holds: a number of this code, or a record of named numbers at these offsets."""

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

    kind: type
    types: tuple[tuple[str, Any], ...]


class Several(NamedTuple):
    """A tuple of results."""

    types: tuple[Any, ...]


Type = Scalar | RecordType | Array | Fields | Several

LOADED = {"i1": INT, "i2": INT, "i4": INT, "i8": INT, "u1": INT, "u8": UINT, "f8": FLOAT, "b1": BOOL}
C_ELEMENT = {"i1": "int8_t", "i2": "int16_t", "i4": "int32_t", "i8": "int64_t", "u1": "uint8_t", "u8": "uint64_t",
             "f8": "double", "b1": "uint8_t"}  # fmt: skip

FILLED: dict[Any, str] = {INT: "i8", FLOAT: "f8", BOOL: "b1", UINT: "u8"}
ALLOCATING = (np.empty, np.zeros, np.ones, np.full, np.arange, np.array)
CONVERTING: dict[object, Scalar] = {
    int: INT, np.int64: INT, np.uint64: UINT, float: FLOAT, np.float64: FLOAT, bool: BOOL, np.bool_: BOOL
}  # fmt: skip
OTHER_THAN_UINT = "uint64 and another type: convert one by np.uint64()"
OF_FLOATS = {math.log: "log", np.nextafter: "nextafter"}


def element_of(dtype: npt.DTypeLike) -> Element:
    """What an array of this dtype holds."""
    dtype = np.dtype(dtype)
    if dtype.names is None:
        code = dtype.str[1:]
        if code not in LOADED or not dtype.isnative:
            raise NotTranslated(f"arrays of {dtype} are not in the subset: use int64, float64 or bool")
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
            raise NotTranslated("an array of no dimension, or a part of records, is not in the subset")
        alone = value.size == 0 or value.shape[-1] == 1  # then the last stride says nothing
        return Array(element_of(value.dtype), value.ndim, alone or value.strides[-1] == value.itemsize)
    if isinstance(value, np.void):
        return RecordType(element_of(value.dtype))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Fields(type(value), tuple((name, type_of(one)) for name, one in zip(value._fields, value, strict=True)))
    raise NotTranslated(f"a {type(value).__name__} is not in the subset")


def same_type(a: Type | None, b: Type | None) -> Type | None:
    """The type of what has both types; one that is not known yet is None. Raises NotTranslated if there is none."""
    if a is None or a == b or b is None:
        return a if b is None else b
    if isinstance(a, Array) and isinstance(b, Array) and a[:2] == b[:2]:
        return Array(a.element, a.n_dims, False)
    if isinstance(a, Several) and isinstance(b, Several) and len(a.types) == len(b.types):
        return Several(tuple(same_type(x, y) for x, y in zip(a.types, b.types, strict=True)))
    raise NotTranslated(f"{said(a)} in one place and {said(b)} in another: it must be one of them everywhere")


def said(of: Type) -> str:
    """A type in words."""
    if isinstance(of, Scalar):
        return of.name
    if isinstance(of, Array):
        return f"an array of {of.n_dims} dimensions of {of.element.code or 'records'}"
    return of.kind.__name__ if isinstance(of, Fields) else "a record" if isinstance(of, RecordType) else "a tuple"


def has_array(of: Type) -> bool:
    """Whether a result of this type may hold memory."""
    if isinstance(of, Several):
        return any(map(has_array, of.types))
    return isinstance(of, Array | Fields)


def is_range(e: ast.expr) -> bool:
    """Whether a loop is over range(...)."""
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "range"


Translate = Callable[[Callable[..., object], tuple[Type, ...]], "Inferred"]
"""Translates a function, unless it is translated already (`streamer.native.program`)."""


class Inferred:
    """A function with the types of its names and expressions, for arguments of some types."""

    def __init__(
        self, translate: Translate, function: Callable[..., object], types: tuple[Type, ...], name: str
    ) -> None:
        self.python, self.name, self.types, self.translate = written(function), name, types, translate
        self.inlined = self.python in INLINED
        self.code = self.python.__code__
        self.tree: Any = ast.parse(textwrap.dedent(inspect.getsource(self.python))).body[0]
        takes, free = cast(ast.FunctionDef, self.tree).args, self.code.co_freevars
        self.parameters = [one.arg for one in takes.args]
        special = (
            takes.defaults or takes.kwonlyargs or takes.vararg or takes.kwarg or len(types) != len(self.parameters)
        )
        self.refuse(
            special or free, self.tree, "every argument is given, by position; names are its own or the module's"
        )
        names = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        self.names: dict[str, Type | None] = {one.id: None for one in names if isinstance(one.ctx, ast.Store)}
        self.names |= dict(zip(self.parameters, types, strict=True))
        self.names.pop("_", None)
        self.type_at: dict[ast.AST, Type | None] = {}
        self.constant_at: dict[ast.AST, Any] = {}
        self.decided: dict[ast.AST, bool] = {}
        self.called_at: dict[ast.AST, Inferred] = {}
        self.held: set[str] = set()  # names that hold a named tuple itself, as something has returned it
        self.result: Type | None = None
        self.allocates = False
        self.done = False

    @property
    def keeps(self) -> bool:
        """Whether memory that it allocates may be in its result."""
        return self.allocates and has_array(self.returned)

    @property
    def returned(self) -> Type:
        return NOTHING if self.result is None else self.result

    def line(self, node: ast.AST) -> int:
        return self.code.co_firstlineno + int(getattr(node, "lineno", 1)) - 1

    def refused(self, node: ast.AST, why: str) -> NotTranslated:
        text = ast.unparse(node).partition("\n")[0][:90]
        return NotTranslated(f"{self.code.co_filename}:{self.line(node)}: `{text}`: {why}")

    def refuse(self, condition: object, node: ast.AST, why: str) -> None:
        if condition:
            raise self.refused(node, why)

    def infer(self) -> Inferred:
        """Finds the types; raises NotTranslated."""
        for _ in range(12):
            before = {**self.names}, self.result, frozenset(self.held)
            self.body(self.tree.body)
            if before == ({**self.names}, self.result, frozenset(self.held)):
                if self.returned != NOTHING and not _ends(self.tree.body):
                    raise self.refused(self.tree, "it returns a value on some ways and none on others")
                self.done = True
                return self
        raise self.refused(self.tree, "its types do not settle")

    # -- statements ----------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for one in statements:
            try:
                self.statement(one)
            except NotTranslated as error:
                raise error if ": `" in str(error) else self.refused(one, str(error)) from None

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, value)
            case ast.AnnAssign(target=ast.Name() as target, value=value):
                if value is not None:
                    self.bind(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                of = self.operated(s, op, self.type(target), self.type(value), target, value)
                self.take(target, of, False)
            case ast.For(target=ast.Name() as target, body=body, orelse=[]):
                self.set(target, self.iterated(s.iter), isinstance(s.iter, ast.Tuple))
                self.body(body)
            case ast.While(test=test, body=body, orelse=[]):
                if self.truth(test) is not False:
                    self.body(body)
            case ast.If(test=test, body=body, orelse=orelse):
                known = self.truth(test)
                if known is not False:
                    self.body(body)
                if known is not True:
                    self.body(orelse)
            case ast.Return(value=value):
                self.result = same_type(self.result, NOTHING if value is None else self.type(value))
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Break() | ast.Continue():
                pass
            case ast.Expr(value=ast.Call() as value):
                self.type(value)
            case _:
                raise self.refused(s, "this statement is not in the subset")

    def set(self, target: ast.Name, of: Type | None, held: bool = False) -> None:
        if target.id == "_" or of is None:
            return
        try:
            self.names[target.id] = same_type(self.names[target.id], of)
        except NotTranslated as error:
            raise self.refused(target, str(error)) from None
        if held and isinstance(of, Fields):
            if target.id in self.parameters:
                raise self.refused(target, "an argument that is a named tuple stays the same: use another name")
            self.held.add(target.id)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            self.refuse(len(target.elts) != len(value.elts), target, "as many names as values")
            for one, of in zip(target.elts, value.elts, strict=True):
                both = isinstance(one, ast.Tuple) and isinstance(of, ast.Tuple)
                self.refuse(both, target, "brackets in brackets: unpack them later")
            for one, of in zip(target.elts, value.elts, strict=True):
                self.bind(one, of)
        else:
            self.take(target, self.type(value), not self.stays(value))

    def take(self, target: ast.expr, of: Type | None, held: bool) -> None:
        """A target gets a value of a type; held: a named tuple that is nobody else's."""
        if isinstance(target, ast.Name):
            self.set(target, of, held)
        elif isinstance(target, ast.Tuple):
            if of is not None:
                for one, part in zip(target.elts, self.parts(target, of), strict=True):
                    self.take(one, part, held)
        else:
            self.written(target, self.type(target), of)

    def written(self, target: ast.expr, into: Type | None, of: Type | None) -> None:
        """Refuses an assignment to an item or a field that C does not do as numpy does."""
        if isinstance(target, ast.Attribute) and not isinstance(self.type(target.value), RecordType | None):
            raise self.refused(target, "only fields of records are set")
        if not isinstance(into, Array):
            if into is not None and not isinstance(into, Scalar):
                raise self.refused(target, "fields of records are set one by one")
            if of is not None and (not isinstance(of, Scalar) or of == NOTHING):
                raise self.refused(target, f"an item is a number, not {said(of)}")
            self.refuse(into == BOOL and of not in (BOOL, None), target, "a bool is set to a bool: write bool()")
            return
        bad = into.element.code == "b1" and isinstance(of, Scalar) and of != BOOL
        self.refuse(bad, target, "a bool array is filled with bools")
        alike = isinstance(of, Array) and of.n_dims == 1 and (of.element.code == "b1") == (into.element.code == "b1")
        if into.n_dims != 1 or not into.element.code or not (of is None or isinstance(of, Scalar) or alike):
            raise self.refused(target, "a row is filled with a number, or with an array of one dimension: write a loop")

    def parts(self, target: ast.Tuple, of: Type) -> Sequence[Type | None]:
        """The types that unpacking gives."""
        n = len(target.elts)
        found: Sequence[Type | None]
        if isinstance(of, Array):
            names = all(isinstance(one, ast.Name) for one in target.elts)
            self.refuse(not names, target, "an array unpacks into names")
            found = [self.item(of)] * n
        else:
            found = (
                [one for _, one in of.types]
                if isinstance(of, Fields)
                else list(of.types)
                if isinstance(of, Several)
                else []
            )
        self.refuse(len(found) != n, target, f"{said(of)} does not unpack into {n} names")
        return found

    def stays(self, e: ast.expr) -> bool:
        """Whether a named tuple is a part of an argument, and so stays as long as the function runs."""
        if isinstance(e, ast.Attribute):
            return self.stays(e.value)
        return isinstance(e, ast.Name) and e.id not in self.held and not isinstance(self.names.get(e.id), Several)

    def iterated(self, e: ast.expr) -> Type | None:
        if is_range(e):
            for one in cast(ast.Call, e).args:
                self.refuse(self.type(one) not in (INT, None), one, "a range is of ints")
            return INT
        if isinstance(e, ast.Tuple):
            found: Type | None = None
            for one in e.elts:
                found = same_type(found, self.type(one))
            return found
        of = self.type(e)
        if of is not None and not isinstance(of, Array):
            raise self.refused(e, "a loop is over range(...), an array, or values in brackets")
        return None if of is None else self.item(of)

    @staticmethod
    def item(of: Array) -> Type:
        """What one index leaves of an array."""
        if of.n_dims > 1:
            return Array(of.element, of.n_dims - 1, of.in_line)
        return LOADED[of.element.code] if of.element.code else RecordType(of.element)

    # -- conditions ----------------------------------------------------------------------------------------------------

    def truth(self, e: ast.expr) -> bool | None:
        """Types a condition; returns whether it is known to be true or false."""
        known: bool | None = None
        match e:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand)
                known = None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                known = self.truth_of_all(e, values, isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                self.refuse(_calls(left), e, "a name is compared with None: name the result first")
                of = self.type(left)
                known = None if of is None else (of == NOTHING) == isinstance(op, ast.Is)
            case ast.Constant(value=bool() as value):
                known = value
            case _:
                of = self.type(e)
                if of is not None and (not isinstance(of, Scalar) or of == NOTHING):
                    raise self.refused(e, f"{said(of)} is no condition")
                return None
        self.type_at[e] = BOOL
        self.decided.pop(e, None)
        if known is not None:
            self.decided[e] = known
        return known

    def truth_of_all(self, e: ast.expr, values: Sequence[ast.expr], ends: bool) -> bool | None:
        """The same of `and` and `or`; ends: the value of a part that decides the whole."""
        all_known = True
        for one in values:
            known = self.truth(one)
            if known is ends:
                self.refuse(not all_known, e, "what is known when it is translated comes first")
                return ends
            all_known = all_known and known is not None
        return not ends if all_known else None

    # -- expressions ---------------------------------------------------------------------------------------------------

    def type(self, e: ast.expr) -> Type | None:
        """The type of an expression; None if a name in it has none yet."""
        found = self.typed(e)
        self.type_at[e] = found
        return found

    def typed(self, e: ast.expr) -> Type | None:
        try:
            self.constant_at[e] = value = self.constant(e)
        except KeyError:
            pass
        else:
            number = type_of(value)
            if not isinstance(number, Scalar):
                raise self.refused(e, "a constant is a number")
            return number
        match e:
            case ast.Name(id=name):
                return self.names[name]
            case ast.Attribute():
                return self.attribute(e)
            case ast.Subscript():
                return self.subscript(e)
            case ast.BinOp(left=left, op=op, right=right):
                return self.operated(e, op, self.type(left), self.type(right), left, right)
            case (
                ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(None)])
            ):
                self.truth(e)
                return BOOL
            case ast.UnaryOp(op=ast.USub() | ast.Invert() as op, operand=operand):
                of = self.type(operand)
                if of not in (INT, FLOAT, None) or (of == FLOAT and isinstance(op, ast.Invert)):
                    raise self.refused(e, "the sign of an int or a float")
                return of
            case ast.BoolOp(values=values):
                if self.truth(e) is None and any(self.type_at.get(one) not in (BOOL, None) for one in values):
                    raise self.refused(e, "as a value, `and` and `or` are of bools")
                return BOOL
            case ast.Compare():
                return self.compared(e)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                known = self.truth(test)
                one = None if known is False else self.type(body)
                return same_type(one, None if known is True else self.type(orelse))
            case ast.Tuple(elts=elts):
                types = tuple(map(self.type, elts))
                return None if None in types else Several(types)
            case ast.Call():
                return self.called(e)
        raise self.refused(e, "this expression is not in the subset")

    def constant(self, e: ast.expr) -> Any:
        """What an expression stands for that is known when the function is translated; raises KeyError."""
        match e:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name not in self.names:
                if name in self.python.__globals__:
                    return self.python.__globals__[name]
                if hasattr(builtins, name):
                    return getattr(builtins, name)
                raise self.refused(e, "this name is neither an argument nor the module's")
            case ast.Attribute(value=value, attr=attr):
                of = self.constant(value)
                if isinstance(of, ModuleType | type | np.iinfo):
                    return getattr(of, attr)
            case ast.Call(func=func, args=[one]) if self.constant(func) is np.iinfo:
                return np.iinfo(self.constant(one))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                of = self.constant(operand)
                if isinstance(of, int | float) and not isinstance(of, bool):
                    return -of
        raise KeyError(e)

    def attribute(self, e: ast.Attribute) -> Type | None:
        of = self.type(e.value)
        if of is None:
            return None
        if isinstance(of, RecordType):
            for name, code, _ in of.element.fields:
                if name == e.attr:
                    return LOADED[code]
        if isinstance(of, Fields):
            for name, found in of.types:
                if name == e.attr:
                    return found  # type: ignore[no-any-return]
        if isinstance(of, Array) and e.attr == "shape":
            self.refuse(_calls(e.value), e, "name the array first")
            return Several((INT,) * of.n_dims)
        raise self.refused(e, f"{said(of)} has no such attribute")

    def subscript(self, e: ast.Subscript) -> Type | None:
        of = self.type(e.value)
        if of is None:
            return None
        if isinstance(of, Several):
            self.type(e.slice)
            at = self.constant_at.get(e.slice)
            if not isinstance(at, int) or not 0 <= at < len(of.types):
                raise self.refused(e, "an item of a tuple is named by a number")
            return of.types[at]  # type: ignore[no-any-return]
        indexes = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        if not isinstance(of, Array) or len(indexes) > of.n_dims:
            raise self.refused(e, f"{said(of)} has no such item")
        self.refuse(sum(map(_calls, indexes)) > 1, e, "name the results of calls first")
        types = [self.index(one) for one in indexes]
        if isinstance(types[0], Array):
            if len(types) > 1 or types[0].n_dims > 1 or of.n_dims > 1 or types[0].element.code == "b1":
                raise self.refused(e, "items are gathered by an array of ints, of one dimension: write a loop")
            self.allocates = True
            return Array(of.element, 1, True)
        kept = [isinstance(one, ast.Slice) for one in indexes] + [True] * (of.n_dims - len(indexes))
        if not any(kept):
            return self.item(Array(of.element, 1, True))
        last = indexes[-1] if len(indexes) == of.n_dims else None
        in_line = of.in_line and kept[-1] and (not isinstance(last, ast.Slice) or last.step is None)
        return Array(of.element, sum(kept), in_line)

    def index(self, e: ast.expr) -> Type | None:
        if isinstance(e, ast.Slice):
            if e.step is not None and (ast.unparse(e.step) != "-1" or e.lower or e.upper):
                raise self.refused(e, "a slice is [a:b] or [::-1]")
            for one in (e.lower, e.upper):
                self.refuse(one is not None and self.type(one) not in (INT, None), e, "the ends of a slice are ints")
            return None
        of = self.type(e)
        if of not in (INT, UINT, None) and not isinstance(of, Array):
            raise self.refused(e, "an index is an int")
        return of

    def operated(
        self, e: ast.AST, op: ast.operator, a: Type | None, b: Type | None, left: ast.expr, right: ast.expr
    ) -> Type | None:
        """The type of `left op right`."""
        if a is None or b is None:
            return None
        if not (isinstance(a, Scalar) and isinstance(b, Scalar)) or NOTHING in (a, b):
            raise self.refused(e, "operators are of numbers: write a loop")
        bits = isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor)
        if a == b == BOOL:
            self.refuse(not bits, e, "two bools: numpy's and Python's differ here; convert them by int()")
            return BOOL
        self.refuse(isinstance(op, ast.Pow | ast.MatMult), e, "this operator is not in the subset")
        if isinstance(op, ast.LShift | ast.RShift) and UINT in (a, b):
            self.refuse(a != UINT or b not in (INT, UINT), e, OTHER_THAN_UINT)
            return UINT
        found = FLOAT if FLOAT in (a, b) or isinstance(op, ast.Div) else UINT if UINT in (a, b) else INT
        if found == FLOAT and (bits or isinstance(op, ast.FloorDiv | ast.Mod | ast.LShift | ast.RShift)):
            raise self.refused(e, "this operator is of ints")
        self.refuse(UINT in (a, b) and isinstance(op, ast.Div), e, "uint64 is not divided")
        for one, of in ((left, a), (right, b)):
            self.refuse(UINT in (a, b) and not self.fits_uint(one, of), e, OTHER_THAN_UINT)
        return found

    def fits_uint(self, e: ast.expr, of: Type) -> bool:
        """Whether something is a uint64, or a constant that could be one."""
        value = self.constant_at.get(e)
        return of == UINT or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)

    def compared(self, e: ast.Compare) -> Type:
        items = [e.left, *e.comparators]
        if isinstance(e.ops[0], ast.In) and len(e.ops) == 1 and isinstance(items[1], ast.Tuple):
            self.refuse(any(map(_calls, items[1].elts)), e, "name the results of calls first")
            items = [e.left, *items[1].elts]
        elif any(isinstance(op, ast.In | ast.NotIn | ast.Is | ast.IsNot) for op in e.ops):
            raise self.refused(e, "`in` is of values in brackets")
        types = [self.type(one) for one in items]
        if any(of is not None and (not isinstance(of, Scalar) or of == NOTHING) for of in types):
            raise self.refused(e, "only numbers are compared: write a loop")
        for one, of in zip(items, types, strict=True):
            self.refuse(UINT in types and of is not None and not self.fits_uint(one, of), e, OTHER_THAN_UINT)
        return BOOL

    # -- calls ---------------------------------------------------------------------------------------------------------

    def called(self, e: ast.Call) -> Type | None:
        if isinstance(e.func, ast.Attribute) and e.func.attr == "copy":
            of = self.type(e.func.value)
            if isinstance(of, Array) and not e.args and of.n_dims == 1:
                self.allocates = True
                return Array(of.element, 1, True)
        try:
            f = self.constant_at[e.func] = self.constant(e.func)
        except KeyError:
            raise self.refused(e, "this method is not in the subset: write a loop") from None
        if f in ALLOCATING:
            self.allocates = True
            return self.allocated(e, f)
        if e.keywords or any(isinstance(one, ast.Starred) for one in e.args):
            raise self.refused(e, "arguments are given by position")
        types = [self.type(one) for one in e.args]
        if f is len and len(types) == 1:
            return INT
        if f in (min, max, abs):
            return self.chosen(e, f, types)
        if f in CONVERTING and len(types) == 1 and isinstance(types[0], Scalar | None):
            return UINT if f is int and types[0] == UINT else CONVERTING[f]
        if f in OF_FLOATS and set(types) <= {FLOAT, None}:
            return FLOAT
        if None in types:
            return None
        known: tuple[Any, ...] = tuple(types)
        if isinstance(f, type) and hasattr(f, "_fields"):
            return Fields(f, tuple(zip(f._fields, known, strict=True)))
        self.refuse(not inspect.isfunction(written(f)), e, "this function is not in the subset: write a loop")
        made = self.called_at[e] = self.translate(f, known)
        self.refuse(not made.done, e, "a function does not call itself: write a loop")
        self.allocates |= made.keeps
        return made.returned

    def chosen(self, e: ast.Call, f: object, types: Sequence[Type | None]) -> Type | None:
        """The type of a min, a max or an abs."""
        found: Type | None = None
        for of in types:
            found = same_type(found, of)
        if found not in (INT, FLOAT, None if f is abs else UINT, None) or len(types) < (1 if f is abs else 2):
            raise self.refused(e, "of two ints or floats or more, all of one type")
        return found

    def allocated(self, e: ast.Call, f: object) -> Type | None:
        """The array that np.empty and its like make."""
        named = {one.arg: one.value for one in e.keywords}
        most = 3 if f is np.full else 1 if f is np.arange else 2
        self.refuse(set(named) - {"dtype"} or not 1 <= len(e.args) <= most, e, "a shape, then its filling or its dtype")
        self.refuse(f is np.full and sum(map(_calls, e.args)) > 1, e, "name the results of calls first")
        shape, n_dims, filled = e.args[0], 1, None
        if f is np.array:
            if not isinstance(shape, ast.Tuple | ast.List) or not shape.elts:
                raise self.refused(e, "np.array is of values in brackets")
            for one in shape.elts:
                filled = same_type(filled, self.type(one))
        else:
            sizes = shape.elts if isinstance(shape, ast.Tuple) else [shape]
            n_dims = len(sizes)
            if any(self.type(one) not in (INT, None) for one in sizes):
                raise self.refused(e, "a shape is an int, or ints in brackets")
            filled = self.type(e.args[1]) if f is np.full else INT if f is np.arange else FLOAT
        at = 2 if f is np.full else 1
        dtype = named.get("dtype", e.args[at] if len(e.args) > at and f is not np.arange else None)
        if filled is None:
            return None
        if dtype is not None:
            element = element_of(self.constant(dtype))
            given = f in (np.full, np.array) and element.code == "b1" and filled != BOOL
            self.refuse(given or not element.code, e, "a bool array is filled with bools, any other with numbers")
            return Array(element, n_dims, True)
        code = FILLED.get(filled)
        if code is None:
            raise self.refused(e, "an array is filled with numbers")
        return Array(Element(code, 1 if code == "b1" else 8), n_dims, True)


def _calls(e: ast.AST) -> bool:
    """Whether an expression has a call in it, which may change something."""
    return any(isinstance(node, ast.Call) for node in ast.walk(e))


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether statements always return."""
    match body[-1]:
        case ast.Return():
            return True
        case ast.If(body=body, orelse=orelse):
            return bool(orelse) and _ends(body) and _ends(orelse)
        case ast.While(test=ast.Constant(value=True), body=body):
            return not any(isinstance(node, ast.Break) for one in body for node in ast.walk(one))
    return False
