"""The expressions of a function: each one's type and its C, found in one walk; or why it is refused.

The rules of this file
----------------------
* What Python does first, C does first: of operands, arguments and results, all are put into variables in their order if
  one of them is a call.
* An expression of a named tuple is a pointer to it. A name *holds* a named tuple itself if a function has returned it.
* min and max take the first of equals; // and % round down, and by 0 they are 0, as numpy's are.
* Constants are read from the module. `x is None` is known when the function is translated.
* Any other expression is refused, with file, line and what to write instead.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from functools import reduce
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from streamer.native import arrays
from streamer.native.functions import written
from streamer.native.types import (
    BOOL,
    C_ELEMENT,
    FLOAT,
    INT,
    LOADED,
    NOTHING,
    NUMBERS,
    UINT,
    Array,
    CTypes,
    Fields,
    NotTranslated,
    RecordType,
    Scalar,
    Several,
    Type,
    element_of,
    has_array,
    item_of,
    said,
    same_type,
    type_of,
)

SIGNS: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: " && ",
    ast.Or: " || ", ast.USub: "-", ast.Invert: "~",
}  # fmt: skip
ANY, WHOLE, BITS = {INT, UINT, FLOAT}, {INT, UINT}, {INT, UINT, BOOL}
OPERATORS: dict[type, tuple[str, set[Scalar]]] = {
    ast.Add: ("+", ANY), ast.Sub: ("-", ANY), ast.Mult: ("*", ANY), ast.Div: ("/", {FLOAT}),
    ast.FloorDiv: ("div", WHOLE), ast.Mod: ("mod", WHOLE), ast.LShift: ("<<", WHOLE), ast.RShift: (">>", WHOLE),
    ast.BitAnd: ("&", BITS), ast.BitOr: ("|", BITS), ast.BitXor: ("^", BITS),
}  # fmt: skip
"""Each with what it is in C, and the types that it may give."""

ALLOCATING = (np.empty, np.zeros, np.ones, np.full, np.arange, np.array)
CONVERTING: dict[object, Scalar] = {
    int: INT, np.int64: INT, np.uint64: UINT, float: FLOAT, np.float64: FLOAT, bool: BOOL, np.bool_: BOOL
}  # fmt: skip
OF_FLOATS = {math.log: ("log", 1), np.nextafter: ("nextafter", 2)}
OTHER_THAN_UINT = "uint64 and another type: convert one by np.uint64()"
UNKNOWN = object()


class NotYet(Exception):
    """A name has no type yet."""


class Value(NamedTuple):
    """An expression: its type and its C; `known`: what it is, if that is known when the function is translated.

    `place` and `kind`, of what can be set: where it is stored, and as what.
    """

    node: ast.AST
    type: Any
    text: str
    known: Any = UNKNOWN
    place: str = ""
    kind: str = ""

    @property
    def is_simple(self) -> bool:
        """True if it does not matter when it is computed, nor how often."""
        return self.known is not UNKNOWN or isinstance(self.node, ast.Name)


Translate = Callable[[Callable[..., object], tuple[Type, ...]], "Function"]
"""Translates a function, unless it is translated already (`streamer.native.program`)."""


class Function:
    """A function for arguments of some types: its names and what it does with memory, and its expressions as C."""

    def __init__(
        self,
        translate: Translate,
        c_types: CTypes,
        function: Callable[..., object],
        types: tuple[Type, ...],
        name: str,
        shows_lines: bool,
    ) -> None:
        self.python, self.name, self.types, self.translate = written(function), name, types, translate
        self.shows_lines = shows_lines
        self.c, self.held_c = c_types.passed, c_types.held
        self.code = self.python.__code__
        self.tree: Any = ast.parse(textwrap.dedent(inspect.getsource(self.python))).body[0]
        takes: ast.arguments = cast(ast.FunctionDef, self.tree).args
        self.parameters = [one.arg for one in takes.args]
        special = takes.defaults or takes.kwonlyargs or takes.vararg or takes.kwarg or self.code.co_freevars
        wrong = special or len(types) != len(self.parameters)
        self.refuse(wrong, self.tree, "every argument is given, by position; names are its own or the module's")
        stored = [one for one in ast.walk(self.tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        self.names: dict[str, Type | None] = {one.id: None for one in stored if one.id != "_"}
        self.names |= dict(zip(self.parameters, types, strict=True))
        self.held: set[str] = set()  # names that hold a named tuple itself, as something has returned it
        self.result: Type | None = None
        self.allocates = self.done = False
        self.changing: set[ast.AST] = set()  # calls of functions that may change something
        self.declared: list[str] = []
        self.n_temps = 0

    @property
    def returned(self) -> Type:
        return NOTHING if self.result is None else self.result

    @property
    def releases(self) -> bool:
        """True if it gives back the memory that it allocates: none may be in its result."""
        return self.allocates and not has_array(self.returned)

    def line(self, node: ast.AST) -> int:
        return self.code.co_firstlineno + int(getattr(node, "lineno", 1)) - 1

    def refused(self, node: ast.AST, why: str) -> NoReturn:
        text = ast.unparse(node).partition("\n")[0][:90]
        raise NotTranslated(f"{self.code.co_filename}:{self.line(node)}: `{text}`: {why}")

    def refuse(self, condition: object, node: ast.AST, why: str) -> None:
        if condition:
            self.refused(node, why)

    # -- order ---------------------------------------------------------------------------------------------------------

    def temp(self) -> str:
        self.n_temps += 1
        return f"t{self.n_temps}"

    def stays(self, e: ast.AST) -> bool:
        """True if a named tuple is a part of an argument, and so stays as long as the function runs."""
        if isinstance(e, ast.Attribute):
            return self.stays(e.value)
        return isinstance(e, ast.Name) and e.id not in self.held and not isinstance(self.names.get(e.id), Several)

    def kept(self, name: str, value: Value) -> str:
        """Declares a variable that has an expression's value, whatever becomes of the names in it."""
        c = self.c(value.type)
        if isinstance(value.type, Fields) and not self.stays(value.node):
            return f"{self.held_c(value.type)} {name}_ = *{value.text}; {c} {name} = &{name}_;"
        return f"{c} {name} = {value.text};"

    def in_order(self, values: Sequence[Value], make: Callable[[Sequence[str]], str]) -> str:
        """The text that `make` makes of the values' texts; they are computed in their order."""
        changes = any(node in self.changing for value in values for node in ast.walk(value.node))
        later = {value: self.temp() for value in values if not value.is_simple} if changes else {}
        if len(later) < 2:
            return make([value.text for value in values])
        text = make([later.get(value, value.text) for value in values])
        return f"({{ {' '.join(self.kept(name, value) for value, name in later.items())} {text}; }})"

    # -- expressions ---------------------------------------------------------------------------------------------------

    def expr(self, e: ast.expr) -> Value:
        """Raises NotYet if a name in it has no type yet."""
        try:
            known = self.constant(e)
        except KeyError:
            pass
        else:
            self.refuse(not isinstance(type_of(known), Scalar), e, "a constant is a number")
            return decided(e, known)
        match e:
            case ast.Name(id=name):
                named = self.names[name]
                if named is None:
                    raise NotYet
                held = isinstance(named, Fields) and name in self.held
                return Value(e, named, f"(&v_{name})" if held else f"v_{name}", UNKNOWN, f"v_{name}", self.c(named))
            case ast.Attribute():
                return self.attribute(e)
            case ast.Subscript():
                return self.subscript(e)
            case ast.BinOp(left=left, op=how, right=right):
                a, b = self.expr(left), self.expr(right)
                of = self.operated(e, how, a, b)
                return Value(e, of, self.in_order([a, b], lambda texts: operation(how, texts, (a.type, b.type))))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                value = self.truth(operand)
                return decided(e, not value.known) if is_decided(value) else Value(e, BOOL, f"(!{value.text})")
            case ast.UnaryOp(op=ast.USub() | ast.Invert() as op, operand=operand):
                value = self.expr(operand)
                wrong = value.type not in (INT, FLOAT) or (value.type == FLOAT and isinstance(op, ast.Invert))
                self.refuse(wrong, e, "the sign of an int or a float")
                return Value(e, value.type, f"({SIGNS[type(op)]}{value.text})")
            case ast.BoolOp():
                return self.joined(e, is_value=True)
            case ast.Compare():
                return self.compared(e)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                value = self.truth(test)
                if is_decided(value):
                    return self.expr(body if value.known else orelse)
                a, b = self.expr(body), self.expr(orelse)
                return Value(e, same_type(a.type, b.type), f"({value.text} ? {a.text} : {b.text})")
            case ast.Tuple(elts=elts):
                values = [self.expr(one) for one in elts]
                several = Several(tuple(value.type for value in values))
                return Value(e, several, self.in_order(values, lambda texts: self.struct(several, texts)))
            case ast.Call():
                return self.call(e)
        self.refused(e, "this expression is not in the subset")

    def constant(self, e: ast.expr) -> Any:
        """The value of an expression that is known when the function is translated; raises KeyError."""
        match e:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name not in self.names:
                found = self.python.__globals__.get(name, getattr(builtins, name, UNKNOWN))
                self.refuse(found is UNKNOWN, e, "this name is neither an argument nor the module's")
                return found
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

    def struct(self, of: Several | Fields, texts: Sequence[str]) -> str:
        return f"({self.held_c(of)}){{{', '.join(map(taken, texts, of.types))}}}"

    def part(self, e: ast.AST, text: str, of: Any, i: int) -> Value:
        """Part i of a tuple."""
        found = of.types[i]
        text = f"{text}->f_{of.kind._fields[i]}" if isinstance(of, Fields) else f"({text}).f_{i}"
        return Value(e, found, f"(&{text})" if isinstance(found, Fields) else text)

    def attribute(self, e: ast.Attribute) -> Value:
        base = self.expr(e.value)
        of, text = base.type, base.text
        if isinstance(of, RecordType):
            for name, code, _ in of.element.fields:
                if name == e.attr:
                    return self.stored(e, f"{text}->f_{name}", code)
        if isinstance(of, Fields) and e.attr in of.kind._fields:
            return self.part(e, text, of, of.kind._fields.index(e.attr))
        self.refuse(not isinstance(of, Array) or e.attr != "shape", e, f"{said(of)} has no such attribute")
        self.refuse(not is_path(e.value), e, "name the array first")
        shape = Several((INT,) * of.n_dims)
        return Value(e, shape, self.struct(shape, [f"{text}.n[{i}]" for i in range(of.n_dims)]))

    def stored(self, e: ast.AST, place: str, code: str) -> Value:
        """A number of an array or a record."""
        return Value(e, LOADED[code], arrays.widened(place, code), UNKNOWN, place, C_ELEMENT[code])

    def subscript(self, e: ast.Subscript) -> Value:
        base = self.expr(e.value)
        of, text = base.type, base.text
        indexes = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        if isinstance(of, Several):
            at = self.expr(e.slice).known
            wrong = not isinstance(at, int) or not 0 <= at < len(of.types)
            self.refuse(wrong, e, "an item of a tuple is named by a number")
            return self.part(e, text, of, at)
        wrong = not isinstance(of, Array) or len(indexes) > of.n_dims
        self.refuse(wrong, e, f"{said(of)} has no such item")
        self.refuse(not is_path(e.value), e, "name the array first")
        ends = [part for one in indexes for part in ((one.lower, one.upper) if isinstance(one, ast.Slice) else (one,))]
        self.refuse(may_change_another(ends), e, "name the results of calls first")
        by = None if isinstance(indexes[0], ast.Slice) else self.expr(indexes[0])
        if by is not None and isinstance(by.type, Array):
            wrong = (len(indexes), by.type.n_dims, of.n_dims) != (1, 1, 1) or item_of(by.type) != INT
            self.refuse(wrong, e, "items are gathered by an array of ints, of one dimension: write a loop")
            self.allocates = True
            return Value(e, *arrays.copied(self.c, text, of, self.temp, (by.text, by.type)))
        return self.cut(e, text, of, [self.along(one, f"{text}.n[{i}]") for i, one in enumerate(indexes)])

    def cut(self, e: ast.AST, base: str, of: Array, cuts: Sequence[arrays.Cut]) -> Value:
        """The part of an array that an index or a slice along each axis leaves."""
        if len(cuts) < of.n_dims or not all(isinstance(one, str) for one in cuts):
            return Value(e, *arrays.sliced(self.c, base, of, cuts, self.temp))
        place = arrays.place(base, of, cast(Sequence[str], cuts))
        if of.element.code:
            return self.stored(e, place, of.element.code)
        return Value(e, RecordType(of.element), f"(&{place})")

    def along(self, e: ast.expr, n: str) -> arrays.Cut:
        """An index or a slice along an axis of n items."""
        if not isinstance(e, ast.Slice):
            value = self.expr(e)
            self.refuse(value.type not in (INT, UINT), e, "an index is an int")
            from_end = value.known is not UNKNOWN and value.known < 0
            return f"AT({f'{n} - {-value.known}' if from_end else value.text}, {n})"
        if e.step is not None:
            wrong = ast.unparse(e.step) != "-1" or e.lower or e.upper
            self.refuse(wrong, e, "a slice is [a:b] or [::-1]")
            return None
        ends = [None if one is None else self.expr(one) for one in (e.lower, e.upper)]
        self.refuse(any(one and one.type != INT for one in ends), e, "the ends of a slice are ints")
        return ends[0].text if ends[0] else "", ends[1].text if ends[1] else ""

    # -- numbers and conditions ----------------------------------------------------------------------------------------

    def numbers(self, e: ast.AST, values: Sequence[Value]) -> None:
        """Refuses what is not counted with or compared."""
        types = {value.type for value in values}
        self.refuse(not types <= NUMBERS, e, "operators are of numbers: write a loop")
        for one in values:
            could_be = isinstance(one.known, int) and not isinstance(one.known, bool) and one.known >= 0
            wrong = UINT in types and one.type != UINT and not could_be
            self.refuse(wrong, e, OTHER_THAN_UINT)

    def operated(self, e: ast.AST, op: ast.operator, a: Value, b: Value) -> Scalar:
        """The type of `a op b`."""
        types = {a.type, b.type}
        if isinstance(op, ast.LShift | ast.RShift) and UINT in types:
            self.refuse(a.type != UINT or b.type not in WHOLE, e, OTHER_THAN_UINT)
            return UINT
        self.numbers(e, [a, b])
        is_float = FLOAT in types or isinstance(op, ast.Div)
        of = BOOL if types == {BOOL} else UINT if UINT in types else FLOAT if is_float else INT
        _, results = OPERATORS.get(type(op), ("", set[Scalar]()))
        self.refuse(of not in results, e, f"this operator is not of {of.name}: convert by int(), float(), np.uint64()")
        return of

    def truth(self, e: ast.expr) -> Value:
        """A condition."""
        value = self.joined(e, is_value=False) if isinstance(e, ast.BoolOp) else self.expr(e)
        self.refuse(value.type not in NUMBERS, e, f"{said(value.type)} is no condition")
        return value

    def joined(self, e: ast.BoolOp, is_value: bool) -> Value:
        """`and`, or `or`."""
        ends, rest = isinstance(e.op, ast.Or), list[Value]()
        for one in e.values:
            value = self.truth(one)
            self.refuse(is_value and value.type != BOOL, e, "as a value, `and` and `or` are of bools")
            if not is_decided(value):
                rest.append(value)
            elif value.known == ends:
                self.refuse(rest, e, "what is known when it is translated comes first")
                return decided(e, ends)
        text = SIGNS[type(e.op)].join(value.text for value in rest)
        return Value(e, BOOL, f"({text})") if rest else decided(e, not ends)

    def compared(self, e: ast.Compare) -> Value:
        kinds, others = [type(op) for op in e.ops], e.comparators
        if kinds in ([ast.Is], [ast.IsNot]) and isinstance(others[0], ast.Constant) and others[0].value is None:
            self.refuse(calls(e.left), e, "a name is compared with None: name the result first")
            return decided(e, (self.expr(e.left).type == NOTHING) == (kinds == [ast.Is]))
        if kinds == [ast.In] and isinstance(others[0], ast.Tuple):
            others = others[0].elts
            self.refuse(any(map(calls, others)), e, "name the results of calls first")
        else:
            self.refuse(not SIGNS.keys() >= set(kinds), e, "`in` is of values in brackets")
        values = [self.expr(one) for one in (e.left, *others)]
        self.numbers(e, values)
        if kinds == [ast.In]:
            name = self.temp()
            equal = " || ".join(f"{name} == {one.text}" for one in values[1:])
            return Value(e, BOOL, f"({{ {self.kept(name, values[0])} {equal}; }})")
        signs = [SIGNS[kind] for kind in kinds]
        if len(signs) == 1:
            return Value(e, BOOL, self.in_order(values, lambda texts: f"({texts[0]} {signs[0]} {texts[1]})"))
        return Value(e, BOOL, self.chained(values, signs))

    def chained(self, values: Sequence[Value], signs: Sequence[str]) -> str:
        """`a < b < c`: each is computed once, and none after a comparison that fails."""
        names = [value.text if value.is_simple else self.temp() for value in values]
        named = [(name, value) for name, value in zip(names, values, strict=True)]
        sets = ["" if value.is_simple else f"{name} = {value.text}, " for name, value in named]
        first = [f"{self.c(value.type)} {name};" for name, value in named if not value.is_simple]
        sets[1] = sets[0] + sets[1]
        texts = [f"({sets[i + 1]}{names[i]} {sign} {names[i + 1]})" for i, sign in enumerate(signs)]
        return f"({{ {' '.join(first)} {' && '.join(texts)}; }})"

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, e: ast.Call) -> Value:
        if isinstance(e.func, ast.Attribute) and e.func.attr == "copy":
            base = self.expr(e.func.value)
            wrong = not isinstance(base.type, Array) or base.type.n_dims != 1 or e.args or e.keywords
            self.refuse(wrong, e, "an array of one dimension is copied: write a loop")
            self.allocates = True
            return Value(e, *arrays.copied(self.c, base.text, base.type, self.temp))
        try:
            f = self.constant(e.func)
        except KeyError:
            self.refused(e, "this method is not in the subset: write a loop")
        if f in ALLOCATING:
            return self.allocation(e, f)
        special = e.keywords or any(isinstance(one, ast.Starred) for one in e.args)
        self.refuse(special, e, "arguments are given by position")
        values = [self.expr(one) for one in e.args]
        types = tuple(value.type for value in values)
        if isinstance(f, type) and hasattr(f, "_fields"):
            of = Fields(f, types)
            return self.new(e, of, self.in_order(values, lambda texts: self.struct(of, texts)))
        if inspect.isfunction(written(f)):
            return self.call_of_function(e, f, values)
        return self.call_of_builtin(e, f, values)

    def call_of_function(self, e: ast.Call, f: Callable[..., object], values: Sequence[Value]) -> Value:
        made = self.translate(f, tuple(value.type for value in values))
        self.refuse(not made.done, e, "a function does not call itself: write a loop")
        self.changing.add(e)
        self.allocates |= made.allocates and not made.releases
        text = self.in_order(values, lambda texts: f"{made.name}({', '.join(texts)})")
        return self.new(e, made.returned, text) if isinstance(made.returned, Fields) else Value(e, made.returned, text)

    def new(self, e: ast.AST, of: Fields, text: str) -> Value:
        """A named tuple that was just made, as a pointer."""
        name = self.temp()
        self.declared.append(f"{self.held_c(of)} {name};")
        return Value(e, of, f"({name} = {text}, &{name})")

    def call_of_builtin(self, e: ast.Call, f: Any, values: Sequence[Value]) -> Value:
        types, n = [value.type for value in values], len(values)
        if f is len and n == 1 and isinstance(types[0], Array):
            return Value(e, INT, f"({values[0].text}).n[0]")
        if f in (min, max, abs) and (n == 1 if f is abs else n > 1):
            of = reduce(same_type, types)
            wrong = of not in ANY or (of, f) == (UINT, abs)
            self.refuse(wrong, e, "of two ints or floats or more, all of one type")
            name = f"{f.__name__}_{of.code}"
            return Value(e, of, self.in_order(values, lambda texts: nested(name, texts)))
        if f in CONVERTING and n == 1 and types[0] in NUMBERS:
            of, text = UINT if f is int and types[0] == UINT else CONVERTING[f], values[0].text
            return Value(e, of, f"({text} != 0)" if of == BOOL else f"(({self.c(of)}){text})")
        if f in OF_FLOATS and OF_FLOATS[f][1] == n and set(types) == {FLOAT}:
            return Value(e, FLOAT, self.in_order(values, lambda texts: f"{OF_FLOATS[f][0]}({', '.join(texts)})"))
        self.refused(e, "this function is not in the subset: write a loop")

    def allocation(self, e: ast.Call, f: object) -> Value:
        """The array that np.empty and its like make."""
        most = 3 if f is np.full else 1 if f is np.arange else 2
        named = {one.arg: one.value for one in e.keywords}
        wrong = named.keys() - {"dtype"} or not 1 <= len(e.args) <= most or (f is np.full and len(e.args) < 2)
        self.refuse(wrong, e, "a shape, then its filling or its dtype")
        shape = e.args[0].elts if isinstance(e.args[0], ast.Tuple | ast.List) else e.args[:1]
        self.refuse(f is np.full and may_change_another([*shape, e.args[1]]), e, "name the results of calls first")
        first, of_values = e.args[0], f is np.array
        wrong = of_values and not (isinstance(first, ast.Tuple | ast.List) and first.elts)
        self.refuse(wrong, e, "np.array is of values in brackets")
        values = [self.expr(one) for one in (first.elts if isinstance(first, ast.Tuple | ast.List) else [first])]
        self.refuse(not of_values and any(value.type != INT for value in values), e, "a shape is of ints")
        filling = self.expr(e.args[1]) if f is np.full else None
        filled = reduce(same_type, [one.type for one in values]) if of_values else INT if f is np.arange else FLOAT
        filled = filling.type if filling else filled
        dtype = e.args[most - 1] if len(e.args) == most > 1 else named.get("dtype")
        self.refuse(filled not in NUMBERS, e, "an array is filled with numbers")
        element = element_of(filled.code if dtype is None else self.constant(dtype))
        wrong = not element.code or (element.code == "b1" and (filling or of_values) and filled != BOOL)
        self.refuse(wrong, e, "a bool array is filled with bools, any other with numbers")
        self.allocates = True
        of = Array(element, 1 if of_values else len(values), True)
        if of_values:
            return Value(e, of, self.listed(of, values))
        fillings: dict[object, str] = {np.zeros: "0", np.ones: "1", np.full: self.temp()}
        fill = None if f is np.empty else lambda i: fillings.get(f, i)
        text = self.in_order(values, lambda sizes: arrays.made(self.c, of, sizes, self.temp, fill))
        return Value(e, of, f"({{ {self.kept(fillings[f], filling)} {text}; }})" if filling else text)

    def listed(self, of: Array, values: Sequence[Value]) -> str:
        """An array of these values."""
        name, new = self.temp(), arrays.made(self.c, of, [str(len(values))], self.temp)
        stores = " ".join(f"{name}.p[{i}] = {value.text};" for i, value in enumerate(values))
        return f"({{ {self.c(of)} {name} = {new}; {stores} {name}; }})"


def calls(e: ast.AST) -> bool:
    """True if an expression has a call in it, which may change something."""
    return any(isinstance(node, ast.Call) for node in ast.walk(e))


def may_change_another(parts: Sequence[ast.expr | None]) -> bool:
    """True if a call in one of several parts could change what another one reads, which C may look at in any order."""
    there = [one for one in parts if one is not None]
    calling = [one for one in there if calls(one)]
    items = (isinstance(node, ast.Subscript) for one in there if one not in calling for node in ast.walk(one))
    return len(calling) > 1 or (len(calling) == 1 and any(items))


def is_path(e: ast.expr) -> bool:
    """True if naming an array twice costs nothing."""
    while isinstance(e, ast.Attribute):
        e = e.value
    return isinstance(e, ast.Name)


def decided(e: ast.AST, known: Any) -> Value:
    """A value that is known when the function is translated."""
    return Value(e, type_of(known), literal(known), known)


def is_decided(condition: Value) -> bool:
    """True for a condition that is known; the branch that it rules out is not looked at."""
    return isinstance(condition.known, bool)


def taken(text: str, of: Type) -> str:
    """The text to which a variable that holds a value itself is set."""
    return f"*{text}" if isinstance(of, Fields) else text


def nested(name: str, texts: Sequence[str]) -> str:
    """An abs, or a min or max of several values."""
    if len(texts) == 1:
        return f"{name}({texts[0]})"
    return reduce(lambda text, one: f"{name}({text}, {one})", texts)


def operation(op: ast.operator, texts: Sequence[str], types: tuple[Type, Type]) -> str:
    """`a op b`."""
    sign, _ = OPERATORS[type(op)]
    if FLOAT in types or sign == "/":
        texts = [text if of == FLOAT else f"(double){text}" for text, of in zip(texts, types, strict=True)]
    if sign in ("div", "mod"):
        return f"{sign}_{UINT.code if UINT in types else INT.code}({texts[0]}, {texts[1]})"
    return f"({texts[0]} {sign} {texts[1]})"


def literal(value: Any) -> str:
    """A constant in C."""
    if value is None or isinstance(value, bool | np.bool_):
        return str(int(bool(value)))
    if isinstance(value, int | np.integer):
        value = int(value)
        if value == -(2**63):
            return "INT64_MIN"
        return f"{'U' * (value >= 2**63)}INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"
    if math.isfinite(value):
        return f"({float(value).hex()})"
    return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "(-INFINITY)"
