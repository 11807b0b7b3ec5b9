"""Writes a function whose types are known as C.

The rules of this file
----------------------
* What Python does first, C does first: of operands, arguments and results, all are put into variables in their order if
  one of them is a call. The value of an assignment comes before the indexes of its target. `x op= y` finds x once.
* An expression of a named tuple is a pointer to it. A name *holds* a named tuple itself if a function has returned it.
* min and max take the first of equals; // and % round down, and by 0 they are 0, as numpy's are.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from streamer.native import arrays
from streamer.native.inference import (
    ALLOCATING,
    BOOL,
    C_ELEMENT,
    CONVERTING,
    FLOAT,
    INT,
    NOTHING,
    OF_FLOATS,
    UINT,
    Array,
    Fields,
    Inferred,
    RecordType,
    Several,
    Type,
    has_array,
    is_range,
)

SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=", ast.Not: "!", ast.USub: "-", ast.Invert: "~", ast.And: " && ", ast.Or: " || ",
}  # fmt: skip
KINDS = {INT: "i", UINT: "u", FLOAT: "d"}


CName = Callable[[Type], str]
"""C's name of a type (`streamer.native.program`)."""


class CFunction:
    """The C of one function."""

    def __init__(self, inferred: Inferred, c: CName, held: CName, shows_lines: bool) -> None:
        self.f, self.c, self.held, self.shows_lines = inferred, c, held, shows_lines
        self.lines: list[str] = []
        self.declared: list[str] = []
        self.n_temps = 0
        self.releases = inferred.allocates and not has_array(inferred.returned)

    def head(self) -> str:
        arguments = [
            f"{self.c(of)}{'restrict ' if isinstance(of, Fields) else ''} v_{name}"
            for name, of in zip(self.f.parameters, self.f.types, strict=True)
        ]
        kind = "static inline __attribute__((always_inline))" if self.f.inlined else "static"
        return f"{kind} {self.result_type()} {self.f.name}({', '.join(arguments) or 'void'})"

    def result_type(self) -> str:
        return "void" if self.f.returned == NOTHING else self.held(self.f.returned)

    def text(self) -> str:
        self.body(self.f.tree.body)
        if self.releases and self.f.returned == NOTHING:
            self.emit("release(mark_);")
        variables = [
            f"{self.held(of) if name in self.f.held else self.c(of)} v_{name}; memset(&v_{name}, 0, sizeof v_{name});"
            for name, of in self.f.names.items()
            if name not in self.f.parameters and of is not None and of != NOTHING
        ]
        marks = ["Mark mark_ = mark();"] if self.releases else []
        return "\n".join([self.head() + " {", *marks, *variables, *self.declared, *self.lines, "}"])

    def emit(self, text: str) -> None:
        self.lines.append(text)

    def temp(self) -> str:
        self.n_temps += 1
        return f"t{self.n_temps}"

    def of(self, e: ast.AST) -> Any:
        """The type of an expression."""
        return self.f.type_at[e]

    # -- statements ----------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for one in statements:
            if self.shows_lines:
                self.emit(f'#line {self.f.line(one)} "{self.f.code.co_filename}"')
            self.statement(one)

    def block(self, head: str, statements: Iterable[ast.stmt], first: str = "") -> None:
        self.emit(f"{head} {{ {first}")
        self.body(statements)
        self.emit("}")

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=targets, value=value):
                self.assign(targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign([target], value)
            case ast.AugAssign():
                self.change(s)
            case ast.For():
                self.loop(s)
            case ast.While(test=test, body=body):
                if self.f.decided.get(test) is not False:
                    self.block(f"while ({self.expr(test)})", body)
            case ast.If(test=test, body=body, orelse=orelse):
                known = self.f.decided.get(test)
                if known is None:
                    self.block(f"if ({self.expr(test)})", body)
                    self.block("else", orelse)
                else:
                    self.block("", body if known else orelse)
            case ast.Return(value=value):
                self.give(value)
            case ast.Expr(value=ast.Call() as value):
                self.emit(f"{self.expr(value)};")
            case ast.Break():
                self.emit("break;")
            case ast.Continue():
                self.emit("continue;")

    def give(self, value: ast.expr | None) -> None:
        release = "release(mark_); " if self.releases else ""
        if value is None or self.f.returned == NOTHING:
            runs = f"{self.expr(value)}; " if isinstance(value, ast.Call) else ""
            self.emit(f"{{ {runs}{release}return; }}")
        else:
            text = taken(self.expr(value, self.f.returned), self.f.returned)
            self.emit(f"{{ {self.result_type()} r_ = {text}; {release}return r_; }}")

    def kept(self, name: str, e: ast.expr) -> str:
        """Declares a variable that has an expression's value, whatever becomes of the names in it."""
        of = self.of(e)
        if isinstance(of, Fields) and not self.f.stays(e):
            return f"{self.held(of)} {name}_ = *{self.expr(e)}; {self.c(of)} {name} = &{name}_;"
        return f"{self.c(of)} {name} = {self.expr(e)};"

    def loop(self, s: ast.For) -> None:
        i, over, name = self.temp(), self.temp(), cast(ast.Name, s.target).id
        sets, star = "" if name == "_" else f"v_{name} = ", "*" * (name in self.f.held)
        if is_range(s.iter):
            self.block(self.counting(i, cast(ast.Call, s.iter).args), s.body, sets and f"{sets}{i};")
            return
        if isinstance(s.iter, ast.Tuple):
            n, item = len(s.iter.elts), f"{over}[{i}]"
            self.emit(f"{{ {self.c(self.of(s.iter.elts[0]))} {over}[{n}];")
            for k, one in enumerate(s.iter.elts):
                self.emit(f"{self.kept(f'{over}_{k}', one)} {over}[{k}] = {over}_{k};")
            head = f"for (int64_t {i} = 0; {i} < {n}; {i}++)"
        else:
            self.emit(f"{{ {self.kept(over, s.iter)}")
            head = f"for (int64_t {i} = 0; {i} < {over}.n[0]; {i}++)"
            item = arrays.item(self.c, over, self.of(s.iter), [i])
        self.block(head, s.body, sets and f"{sets}{star}{item};")
        self.emit("}")

    def counting(self, i: str, ends: Sequence[ast.expr]) -> str:
        """The head of a loop over a range."""
        texts = [self.expr(one) for one in ends]
        begin, end = texts[:2] if len(texts) > 1 else ("0", texts[0])
        step = self.f.constant_at.get(ends[2]) if len(texts) > 2 else 1
        if step is None:
            test = f"{i}s > 0 ? {i} < {i}e : {i} > {i}e"
            return f"for (int64_t {i} = {begin}, {i}e = {end}, {i}s = {texts[2]}; {test}; {i} += {i}s)"
        return f"for (int64_t {i} = {begin}, {i}e = {end}; {i} {'<' if step > 0 else '>'} {i}e; {i} += {step})"

    def assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        pairs = [(target, value) for target in targets]
        if len(targets) == 1 and isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(targets[0].elts, value.elts, strict=True))
        names = {one: self.temp() for _, one in pairs}
        self.emit("{ " + " ".join(self.kept(name, one) for one, name in names.items()))
        for target, one in pairs:
            if isinstance(target, ast.Tuple) and isinstance(self.of(one), Array):
                self.emit(f"if (RARELY({names[one]}.n[0] != {len(target.elts)})) fail(SHAPES, __LINE__);")
            self.store(target, names[one], self.of(one))
        self.emit("}")

    def store(self, target: ast.expr, text: str, of: Any) -> None:
        """Puts a value that is in a variable, or a part of it, into its target."""
        match target:
            case ast.Name(id=name):
                if name != "_" and of != NOTHING:
                    self.emit(f"v_{name} = {taken(text, of) if name in self.f.held else text};")
            case ast.Tuple(elts=elts):
                for i, one in enumerate(elts):
                    self.store(one, *self.part(text, of, i))
            case _ if isinstance(self.of(target), Array):
                array = of if isinstance(of, Array) else None
                self.emit(arrays.filled(self.c, self.expr(target), self.of(target), text, array, self.temp))
            case _:
                self.emit(f"{self.place(target)} = {text};")

    def code(self, target: ast.expr) -> str:
        """What kind of number an item or a field is."""
        of = self.of(target.value) if isinstance(target, ast.Subscript | ast.Attribute) else NOTHING
        if isinstance(of, RecordType) and isinstance(target, ast.Attribute):
            return next(code for name, code, _ in of.element.fields if name == target.attr)
        return of.element.code if isinstance(of, Array) else ""

    def part(self, text: str, of: Any, i: int) -> tuple[str, Any]:
        """Part i of what is unpacked."""
        if isinstance(of, Array):
            return arrays.item(self.c, text, of, [str(i)]), Inferred.item(of)
        name, found = (f".f{i}", of.types[i]) if isinstance(of, Several) else (f"->f_{of.types[i][0]}", of.types[i][1])
        return f"(&({text}){name})" if isinstance(found, Fields) else f"({text}){name}", found

    def change(self, s: ast.AugAssign) -> None:
        """`x op= y`: x is found once, and read before y is."""
        of, at, before, value = self.of(s.target), self.temp(), self.temp(), self.temp()
        kind = self.c(of) if isinstance(s.target, ast.Name) else C_ELEMENT[self.code(s.target)]
        place = f"v_{s.target.id}" if isinstance(s.target, ast.Name) else self.place(s.target)
        self.emit(f"{{ {kind} *{at} = &{place}; {self.c(of)} {before} = *{at}; {self.kept(value, s.value)}")
        self.emit(f"*{at} = {operation(s.op, (before, of), (value, self.of(s.value)))}; }}")

    # -- expressions ---------------------------------------------------------------------------------------------------

    def calls(self, e: ast.expr) -> bool:
        """Whether an expression runs a function that may change something."""
        return any(node in self.f.called_at for node in ast.walk(e))

    def is_simple(self, e: ast.expr) -> bool:
        """Whether it does not matter when an expression is computed, nor how often."""
        return e in self.f.constant_at or isinstance(e, ast.Name)

    def in_order(self, items: Sequence[ast.expr], make: Callable[[Sequence[str]], str]) -> str:
        """What `make` makes of the items' texts; they are computed in their order."""
        if sum(not self.is_simple(one) for one in items) < 2 or not any(map(self.calls, items)):
            return make([self.expr(one) for one in items])
        names = [self.expr(one) if self.is_simple(one) else self.temp() for one in items]
        later = [(name, one) for name, one in zip(names, items, strict=True) if not self.is_simple(one)]
        return f"({{ {' '.join(self.kept(name, one) for name, one in later)} {make(names)}; }})"

    def expr(self, e: ast.expr, to: Any = None) -> str:
        """An expression in C; to: the type that it is to have, if it is a result."""
        if e in self.f.constant_at:
            return literal(self.f.constant_at[e])
        if e in self.f.decided:
            return str(int(self.f.decided[e]))
        match e:
            case ast.Name(id=name):
                return f"(&v_{name})" if name in self.f.held else f"v_{name}"
            case ast.Attribute():
                return self.attribute(e)
            case ast.Subscript():
                return self.subscript(e)
            case ast.BinOp(left=left, op=how, right=right):
                a, b = self.of(left), self.of(right)
                return self.in_order([left, right], lambda texts: operation(how, (texts[0], a), (texts[1], b)))
            case ast.UnaryOp(op=op, operand=operand):
                return f"({SIGNS[type(op)]}{self.expr(operand)})"
            case ast.BoolOp(op=op, values=values):
                rest = [self.expr(one) for one in values if one not in self.f.decided]
                return f"({SIGNS[type(op)].join(rest)})"
            case ast.Compare():
                return self.compare(e)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                if test in self.f.decided:
                    return self.expr(body if self.f.decided[test] else orelse, to)
                return f"({self.expr(test)} ? {self.expr(body, to)} : {self.expr(orelse, to)})"
            case ast.Tuple(elts=elts):
                return self.in_order(elts, lambda texts: self.struct(to or self.of(e), texts))
        return self.call(cast(ast.Call, e))

    def struct(self, of: Any, texts: Sequence[str]) -> str:
        types = of.types if isinstance(of, Several) else [found for _, found in of.types]
        return f"({self.held(of)}){{{', '.join(map(taken, texts, types))}}}"

    def attribute(self, e: ast.Attribute) -> str:
        of, text = self.of(e.value), self.expr(e.value)
        if isinstance(of, Array):  # .shape
            return f"({self.c(self.of(e))}){{{', '.join(f'{text}.n[{i}]' for i in range(of.n_dims))}}}"
        text = f"{text}->f_{e.attr}"
        if isinstance(of, RecordType):
            return arrays.widened(text, self.code(e))
        return f"(&{text})" if isinstance(self.of(e), Fields) else text

    def compare(self, e: ast.Compare) -> str:
        if isinstance(e.ops[0], ast.In):
            name, items = self.temp(), cast(ast.Tuple, e.comparators[0]).elts
            return f"({{ {self.kept(name, e.left)} {' || '.join(f'{name} == {self.expr(one)}' for one in items)}; }})"
        items, signs = [e.left, *e.comparators], [SIGNS[type(op)] for op in e.ops]
        if len(signs) == 1:
            return self.in_order(items, lambda texts: f"({texts[0]} {signs[0]} {texts[1]})")
        names = [self.expr(one) if self.is_simple(one) else self.temp() for one in items]
        sets = [
            "" if self.is_simple(one) else f"{name} = {self.expr(one)}, "
            for name, one in zip(names, items, strict=True)
        ]
        first = [
            f"{self.c(self.of(one))} {name};" for name, one in zip(names, items, strict=True) if not self.is_simple(one)
        ]
        sets[1] = sets[0] + sets[1]
        texts = [f"({sets[i + 1]}{names[i]} {sign} {names[i + 1]})" for i, sign in enumerate(signs)]
        return f"({{ {' '.join(first)} {' && '.join(texts)}; }})"

    def subscript(self, e: ast.Subscript) -> str:
        of, base = self.of(e.value), self.expr(e.value)
        if isinstance(of, Several):
            return self.part(base, of, self.f.constant_at[e.slice])[0]
        indexes = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        by = self.f.type_at.get(indexes[0])
        if isinstance(by, Array):
            return arrays.copied(self.c, base, of, self.temp, (self.expr(indexes[0]), by))
        if self.is_path(e.value):
            return self.indexed(base, of, indexes)
        name = self.temp()
        return f"({{ {self.kept(name, e.value)} {self.indexed(name, of, indexes)}; }})"

    @staticmethod
    def is_path(e: ast.expr) -> bool:
        """Whether naming an array twice costs nothing."""
        while isinstance(e, ast.Attribute):
            e = e.value
        return isinstance(e, ast.Name)

    def indexed(self, base: str, of: Array, indexes: Sequence[ast.expr]) -> str:
        cuts = [self.cut(base, i, one) for i, one in enumerate(indexes)]
        whole = [one for one in cuts if isinstance(one, str)]
        if len(whole) == len(cuts):
            return arrays.item(self.c, base, of, whole)
        return arrays.sliced(self.c, base, of, cuts, self.temp)

    def cut(self, base: str, axis: int, e: ast.expr) -> arrays.Cut:
        if not isinstance(e, ast.Slice):
            known = self.f.constant_at.get(e)
            n = f"{base}.n[{axis}]"
            at = f"{n} - {-known}" if isinstance(known, int) and known < 0 else self.expr(e)
            return f"AT({at}, {n})"
        if e.step is not None:
            return None
        return tuple("" if one is None else self.expr(one) for one in (e.lower, e.upper))  # type: ignore[return-value]

    def place(self, target: ast.expr) -> str:
        """Where an assignment writes a number."""
        if isinstance(target, ast.Attribute):
            return f"{self.expr(target.value)}->f_{target.attr}"
        item = cast(ast.Subscript, target)
        base = self.expr(item.value)
        if not self.is_path(item.value):
            self.emit(self.kept(base := self.temp(), item.value))
        indexes = item.slice.elts if isinstance(item.slice, ast.Tuple) else [item.slice]
        cuts = [cast(str, self.cut(base, i, one)) for i, one in enumerate(indexes)]
        return arrays.place(base, self.of(item.value), cuts)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, e: ast.Call) -> str:
        of, f = self.of(e), self.f.constant_at.get(e.func)
        if e in self.f.called_at:
            text = self.in_order(e.args, lambda texts: f"{self.f.called_at[e].name}({', '.join(texts)})")
            return self.stored(text, of) if isinstance(of, Fields) else text
        if f is None:
            value = cast(ast.Attribute, e.func).value
            return arrays.copied(self.c, self.expr(value), self.of(value), self.temp)
        if f in ALLOCATING:
            return self.allocation(e, f, of)
        if f is len:
            return f"({self.expr(e.args[0])}).n[0]"
        if isinstance(of, Fields):
            return self.stored(self.in_order(e.args, lambda texts: self.struct(of, texts)), of)
        if f in (min, max):
            return self.in_order(e.args, lambda texts: nested(f"{'min' if f is min else 'max'}_{KINDS[of]}", texts))
        if f is abs or f in OF_FLOATS:
            name = f"abs_{KINDS[of]}" if f is abs else OF_FLOATS[f]
            return self.in_order(e.args, lambda texts: f"{name}({', '.join(texts)})")
        text = self.expr(e.args[0])
        return f"({text} != 0)" if CONVERTING[f] == BOOL else f"(({self.c(of)}){text})"

    def stored(self, text: str, of: Fields) -> str:
        """A named tuple that was just made, as a pointer."""
        name = self.temp()
        self.declared.append(f"{self.held(of)} {name};")
        return f"({name} = {text}, &{name})"

    def allocation(self, e: ast.Call, f: object, of: Array) -> str:
        first = e.args[0]
        items = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
        if f is np.array:
            name = self.temp()
            new = arrays.made(self.c, of, [str(len(items))], self.temp)
            stores = " ".join(f"{name}.p[{i}] = {self.expr(one)};" for i, one in enumerate(items))
            return f"({{ {self.c(of)} {name} = {new}; {stores} {name}; }})"
        if f is np.empty or f is np.arange:
            counts = (lambda i: i) if f is np.arange else None
            return self.in_order(items, lambda texts: arrays.made(self.c, of, texts, self.temp, counts))
        if f is not np.full:
            return self.in_order(
                items, lambda texts: arrays.made(self.c, of, texts, self.temp, lambda _: str(int(f is np.ones)))
            )
        name, filling = self.temp(), self.kept(value := self.temp(), e.args[1])
        new = self.in_order(items, lambda texts: arrays.made(self.c, of, texts, self.temp, lambda _: value))
        return f"({{ {filling} {self.c(of)} {name} = {new}; {name}; }})"


def taken(text: str, of: Type) -> str:
    """What a variable that holds a value itself is set to."""
    return f"*{text}" if isinstance(of, Fields) else text


def nested(name: str, texts: Sequence[str]) -> str:
    """A min or max of several values."""
    text = texts[0]
    for one in texts[1:]:
        text = f"{name}({text}, {one})"
    return text


def operation(op: ast.operator, a: tuple[str, Type], b: tuple[str, Type]) -> str:
    """`a op b`, each a text and its type."""
    left, right = a[0], b[0]
    if FLOAT in (a[1], b[1]) or isinstance(op, ast.Div):
        left, right = (text if of == FLOAT else f"(double){text}" for text, of in (a, b))
    if isinstance(op, ast.FloorDiv | ast.Mod):
        kind = "u" if UINT in (a[1], b[1]) else "i"
        return f"{'div' if isinstance(op, ast.FloorDiv) else 'mod'}_{kind}({left}, {right})"
    return f"({left} {SIGNS[type(op)]} {right})"


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
