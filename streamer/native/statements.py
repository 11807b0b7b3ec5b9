"""Writes a function whose types are known as C.

The rules of this file
----------------------
* What Python does first, C does first: of operands, arguments and results, all are put into variables in their order if
  one of them is a call. The value of an assignment comes before the indexes of its target. `x op= y` finds x once.
* An expression of a named tuple is a pointer to it, of an array a struct {p, n, s}: first item, lengths, strides.
* min and max take the first of equals, // and % round down, and by 0 they are 0, as numpy's are.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

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
    Record,
    Scalar,
    Several,
    Type,
    has_array,
)

SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=", ast.Not: "!", ast.USub: "-", ast.Invert: "~", ast.And: " && ", ast.Or: " || ",
}  # fmt: skip


class Names(Protocol):
    """Who names C's types (`streamer.native.program`)."""

    def c(self, of: Type) -> str: ...

    def held(self, of: Type) -> str: ...


class Written:
    """The C of one function."""

    def __init__(self, inferred: Inferred, names: Names, lines: bool) -> None:
        self.f, self.names, self.c, self.shows_lines = inferred, names, names.c, lines
        self.lines: list[str] = []
        self.declared: list[str] = []
        self.depth, self.n_temps = 1, 0
        self.releases = inferred.allocates and not has_array(inferred.returned)

    # -- the function --------------------------------------------------------------------------------------------------

    def head(self) -> str:
        arguments = [
            f"{self.c(of)}{'restrict ' if isinstance(of, Fields) else ''} v_{name}"
            for name, of in zip(self.f.parameters, self.f.types, strict=True)
        ]
        kind = "static inline __attribute__((always_inline))" if self.f.inlined else "static"
        return f"{kind} {self.result_type()} {self.f.name}({', '.join(arguments) or 'void'})"

    def result_type(self) -> str:
        of = self.f.returned
        return "void" if of == NOTHING else self.names.held(of)

    def text(self) -> str:
        self.body(self.f.tree.body)
        if self.releases and self.f.returned == NOTHING:
            self.emit("release(mark_);")
        variables = [
            f"  {self.names.held(of) if name in self.f.held else self.c(of)} v_{name} = {self.empty(of, name)};"
            for name, of in self.f.names.items()
            if name not in self.f.parameters and of not in (None, NOTHING)
        ]
        marks = ["  Mark mark_ = mark();"] if self.releases else []
        return "\n".join([self.head() + " {", *marks, *variables, *self.declared, *self.lines, "}"])

    def empty(self, of: Type, name: str) -> str:
        return "0" if isinstance(of, Scalar | Record) or (isinstance(of, Fields) and name not in self.f.held) else "{0}"

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def temp(self) -> str:
        self.n_temps += 1
        return f"t{self.n_temps}"

    def of(self, e: ast.AST) -> Type:
        found = self.f.type_at[e]
        assert found is not None
        return found

    # -- statements ----------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for one in statements:
            if self.shows_lines:
                line = self.f.code.co_firstlineno + one.lineno - 1
                self.lines.append(f'#line {line} "{self.f.code.co_filename}"')
            self.statement(one)

    def block(self, head: str, statements: Iterable[ast.stmt], *first: str) -> None:
        self.emit(head + " {")
        self.depth += 1
        for text in first:
            self.emit(text)
        self.body(statements)
        self.depth -= 1
        self.emit("}")

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, value)
            case ast.Assign(targets=targets, value=value):
                self.emit(f"{{ {self.kept(name := self.temp(), value)}")
                for target in targets:
                    self.store(target, name, self.of(value))
                self.emit("}")
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
                    if orelse:
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
        of, release = self.f.returned, "release(mark_); " if self.releases else ""
        if value is None or of == NOTHING:
            self.emit(f"{{ {release}return; }}")
        else:
            text = self.taken(self.expr(value, of), of)
            self.emit(f"{{ {self.result_type()} r_ = {text}; {release}return r_; }}")

    @staticmethod
    def taken(text: str, of: Type) -> str:
        """What a variable that holds a value itself is set to."""
        return f"*{text}" if isinstance(of, Fields) else text

    def kept(self, name: str, e: ast.expr) -> str:
        """Declares a variable that has an expression's value."""
        return f"{self.c(self.of(e))} {name} = {self.expr(e)};"

    def loop(self, s: ast.For) -> None:
        assert isinstance(s.target, ast.Name)
        i, name = self.temp(), s.target.id
        if isinstance(s.iter, ast.Call) and isinstance(s.iter.func, ast.Name) and s.iter.func.id == "range":
            self.block(self.counting(i, s.iter.args), s.body, *([] if name == "_" else [f"v_{name} = {i};"]))
            return
        self.emit("{")
        over = self.temp()
        if isinstance(s.iter, ast.Tuple):
            of = self.f.names[name]
            assert of is not None
            self.emit(f"{self.c(of)} {over}[{len(s.iter.elts)}];")
            for k, one in enumerate(s.iter.elts):
                self.emit(f"{over}[{k}] = {self.expr(one)};")
            n, item = str(len(s.iter.elts)), f"{over}[{i}]"
        else:
            found = self.of(s.iter)
            assert isinstance(found, Array)
            self.emit(self.kept(over, s.iter))
            n, item = f"{over}.n[0]", arrays.item(self.c, over, found, [i])
        first = [] if name == "_" else [f"v_{name} = {item};"]
        self.block(f"for (int64_t {i} = 0; {i} < {n}; {i}++)", s.body, *first)
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

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Tuple):
            self.store(target, self.expr(value), self.of(value))
            return
        self.emit("{")
        if isinstance(value, ast.Tuple):
            names = [self.temp() for _ in value.elts]
            for name, one in zip(names, value.elts, strict=True):
                if self.of(one) != NOTHING:
                    self.emit(self.kept(name, one))
            for one, name, part in zip(target.elts, names, value.elts, strict=True):
                self.store(one, name, self.of(part))
        else:
            self.emit(self.kept(name := self.temp(), value))
            self.store(target, name, self.of(value))
        self.emit("}")

    def store(self, target: ast.expr, text: str, of: Type) -> None:
        """Puts a value into its target."""
        match target:
            case ast.Name(id=name):
                if name != "_" and of != NOTHING:
                    self.emit(f"v_{name} = {self.taken(text, of) if name in self.f.held else text};")
            case ast.Tuple(elts=elts):
                for i, one in enumerate(elts):
                    self.store(one, *self.part(text, of, i))
            case _ if isinstance(self.of(target), Array):
                self.emit(f"{{ {self.c(of)} {(value := self.temp())} = {text};")
                self.emit(arrays.filled(self.c, self.expr(target), self.of(target), value, of, self.temp) + " }")
            case _:
                text = f"({text} != 0)" if self.element_code(target) == "b1" and of != BOOL else text
                self.emit(f"{{ {self.c(of)} {(value := self.temp())} = {text};")
                self.emit(f"{self.place(target)} = {value}; }}")

    def element_code(self, target: ast.expr) -> str:
        """What the number is in an array or a record."""
        of = self.of(target.value) if isinstance(target, ast.Subscript | ast.Attribute) else NOTHING
        if isinstance(of, Record) and isinstance(target, ast.Attribute):
            return next(code for name, code, _ in of.element.fields if name == target.attr)
        return of.element.code if isinstance(of, Array) else ""

    def part(self, text: str, of: Type, i: int) -> tuple[str, Type]:
        """Part i of what is unpacked."""
        if isinstance(of, Several):
            return (f"&{text}.f{i}" if isinstance(of.types[i], Fields) else f"{text}.f{i}"), of.types[i]
        if isinstance(of, Fields):
            name, found = of.types[i]
            return (f"(&({text})->f_{name})" if isinstance(found, Fields) else f"({text})->f_{name}"), found
        assert isinstance(of, Array)
        return arrays.item(self.c, text, of, [str(i)]), Inferred.item(of)

    def change(self, s: ast.AugAssign) -> None:
        """`x op= y`: x is found once, and read before y is."""
        of = self.of(s.target) if not isinstance(s.target, ast.Name) else self.f.names[s.target.id]
        assert of is not None
        self.emit("{")
        if isinstance(s.target, ast.Name):
            place = f"v_{s.target.id}"
        else:
            self.emit(f"{C_ELEMENT[self.element_code(s.target)]} *{(at := self.temp())} = &{self.place(s.target)};")
            place = f"(*{at})"
        self.emit(f"{self.c(of)} {(before := self.temp())} = {place};")
        self.emit(f"{self.kept(value := self.temp(), s.value)}")
        self.emit(f"{place} = {self.operation(s.op, (before, of), (value, self.of(s.value)))}; }}")

    # -- expressions ---------------------------------------------------------------------------------------------------

    def calls(self, e: ast.expr) -> bool:
        """Whether an expression runs a function that may change something."""
        return any(node in self.f.called_at or (isinstance(node, ast.Call) and self.f.constant_at.get(node.func) in ALLOCATING) for node in ast.walk(e))

    def in_order(self, items: Sequence[ast.expr], make: Callable[[Sequence[str]], str]) -> str:
        """What `make` makes of the items' texts; they are computed in their order."""
        if sum(not self.is_simple(one) for one in items) < 2 or not any(map(self.calls, items)):
            return make([self.expr(one) for one in items])
        names = [one if self.is_simple(one) else self.temp() for one in items]
        first = " ".join(self.kept(name, one) for name, one in zip(names, items, strict=True) if isinstance(name, str))
        return f"({{ {first} {make([one if isinstance(one, str) else self.expr(one) for one in names])}; }})"

    def is_simple(self, e: ast.expr) -> bool:
        """Whether it does not matter when an expression is computed."""
        return e in self.f.constant_at or isinstance(e, ast.Name | ast.Constant)

    def expr(self, e: ast.expr, to: Type | None = None) -> str:
        """An expression in C; to: the type that it is to have, if it is a result."""
        if e in self.f.constant_at:
            return literal(self.f.constant_at[e])
        if e in self.f.decided:
            return str(int(self.f.decided[e]))
        match e:
            case ast.Name(id=name):
                return f"(&v_{name})" if name in self.f.held else f"v_{name}"
            case ast.Attribute(value=value, attr=attr):
                of, text = self.of(value), f"{self.expr(value)}->f_{attr}"
                if isinstance(of, Array):
                    sizes = ", ".join(f"{self.expr(value)}.n[{i}]" for i in range(of.n_dims))
                    return f"({self.c(self.of(e))}){{{sizes}}}"
                return f"(&{text})" if isinstance(self.of(e), Fields) else widened(text, self.element_code(e))
            case ast.Subscript():
                return self.subscript(e)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.of(left), self.of(right)
                return self.in_order([left, right], lambda texts: self.operation(op, (texts[0], a), (texts[1], b)))
            case ast.UnaryOp(op=op, operand=operand):
                return f"({SIGNS[type(op)]}{self.expr(operand)})"
            case ast.BoolOp(op=op, values=values):
                rest = [one for one in values if one not in self.f.decided]
                return f"({SIGNS[type(op)].join(map(self.expr, rest))})"
            case ast.Compare():
                return self.compare(e)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                if test in self.f.decided:
                    return self.expr(body if self.f.decided[test] else orelse, to)
                return f"({self.expr(test)} ? {self.expr(body, to)} : {self.expr(orelse, to)})"
            case ast.Tuple(elts=elts):
                of = to or self.of(e)
                assert isinstance(of, Several)
                return self.in_order(elts, lambda texts: f"({self.c(of)}){{{', '.join(map(self.taken, texts, of.types))}}}")
        assert isinstance(e, ast.Call)
        return self.call(e)

    def compare(self, e: ast.Compare) -> str:
        if isinstance(e.ops[0], ast.In):
            items = e.comparators[0].elts if isinstance(e.comparators[0], ast.Tuple) else []
            name = self.temp()
            same = " || ".join(f"{name} == {self.expr(one)}" for one in items)
            return f"({{ {self.kept(name, e.left)} {same}; }})"
        if len(e.ops) == 1:
            return self.in_order([e.left, e.comparators[0]], lambda texts: f"({texts[0]} {SIGNS[type(e.ops[0])]} {texts[1]})")
        items, named, first = [e.left, *e.comparators], [], ""
        for one in items:
            named.append(self.expr(one) if self.is_simple(one) else self.temp())
            if not self.is_simple(one):
                first += f"{self.c(self.of(one))} {named[-1]}; "
        texts = []
        for i, op in enumerate(e.ops):
            new = [k for k in ((0, 1) if i == 0 else (i + 1,)) if not self.is_simple(items[k])]
            sets = "".join(f"{named[k]} = {self.expr(items[k])}, " for k in new)
            texts.append(f"({sets}{named[i]} {SIGNS[type(op)]} {named[i + 1]})")
        return f"({{ {first}{' && '.join(texts)}; }})"

    def operation(self, op: ast.operator, a: tuple[str, Type], b: tuple[str, Type]) -> str:
        """`a op b`, each a text and its type."""
        left, right = a[0], b[0]
        if FLOAT in (a[1], b[1]) or isinstance(op, ast.Div):
            left, right = (text if of == FLOAT else f"(double){text}" for text, of in (a, b))
        if isinstance(op, ast.FloorDiv | ast.Mod):
            kind = "u" if UINT in (a[1], b[1]) else "i"
            return f"{'div' if isinstance(op, ast.FloorDiv) else 'mod'}_{kind}({left}, {right})"
        return f"({left} {SIGNS[type(op)]} {right})"

    def subscript(self, e: ast.Subscript) -> str:
        of, base = self.of(e.value), self.expr(e.value)
        if isinstance(of, Several):
            if isinstance(e.value, ast.Attribute):
                return f"{self.expr(e.value.value)}.n[{self.expr(e.slice)}]"
            return self.part(base, of, self.f.constant_at[e.slice])[0]
        assert isinstance(of, Array)
        indexes = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        if isinstance(self.f.type_at.get(indexes[0]), Array):
            return arrays.gathered(self.c, base, of, self.expr(indexes[0]), self.of(indexes[0]), self.temp)
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
        if not any(isinstance(one, ast.Slice) for one in indexes):
            return arrays.item(self.c, base, of, [self.index(base, i, one) for i, one in enumerate(indexes)])
        cuts = [
            (("0" if one.lower is None else self.expr(one.lower)), (f"{base}.n[{i}]" if one.upper is None else self.expr(one.upper)), one.step is not None)
            if isinstance(one, ast.Slice)
            else self.index(base, i, one)
            for i, one in enumerate(indexes)
        ]
        return arrays.sliced(self.c, base, of, cuts, self.temp)

    def index(self, base: str, axis: int, e: ast.expr) -> str:
        return f"AT({self.expr(e)}, {base}.n[{axis}])"

    def place(self, target: ast.expr) -> str:
        """Where an assignment writes a number."""
        if isinstance(target, ast.Attribute):
            return f"{self.expr(target.value)}->f_{target.attr}"
        assert isinstance(target, ast.Subscript)
        of, base = self.of(target.value), self.expr(target.value)
        assert isinstance(of, Array)
        indexes = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if not self.is_path(target.value):
            self.emit(self.kept(name := self.temp(), target.value))
            base = name
        return arrays.place(base, of, [self.index(base, i, one) for i, one in enumerate(indexes)])

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, e: ast.Call) -> str:
        of, f = self.of(e), self.f.constant_at.get(e.func)
        if e in self.f.called_at:
            made = self.f.called_at[e]
            text = self.in_order(e.args, lambda texts: f"{made.name}({', '.join(texts)})")
            return self.stored(text, of) if isinstance(of, Fields) else text
        if f is None:
            assert isinstance(e.func, ast.Attribute)
            return arrays.copied(self.c, self.expr(e.func.value), self.of(e.func.value), self.temp)
        if f in ALLOCATING:
            assert isinstance(of, Array)
            return self.allocation(e, f, of)
        if f is len:
            return f"({self.expr(e.args[0])}).n[0]"
        if isinstance(of, Fields):
            types = [found for _, found in of.types]
            text = self.in_order(e.args, lambda texts: f"({self.names.held(of)}){{{', '.join(map(self.taken, texts, types))}}}")
            return self.stored(text, of)
        kind = {INT: "i", FLOAT: "d", UINT: "u", BOOL: "i"}[of]  # type: ignore[index]
        if f in (min, max):
            name = f"{'min' if f is min else 'max'}_{kind}"

            def nested(texts: Sequence[str]) -> str:
                text = texts[0]
                for one in texts[1:]:
                    text = f"{name}({text}, {one})"
                return text

            return self.in_order(e.args, nested)
        if f is abs:
            return f"abs_{kind}({self.expr(e.args[0])})"
        if f in OF_FLOATS:
            return self.in_order(e.args, lambda texts: f"{OF_FLOATS[f]}({', '.join(texts)})")
        text = self.expr(e.args[0])
        return f"({text} != 0)" if CONVERTING[f] == BOOL else f"(({self.c(of)}){text})"

    def stored(self, text: str, of: Fields) -> str:
        """A named tuple that was just made, as a pointer."""
        name = self.temp()
        self.declared.append(f"  {self.names.held(of)} {name};")
        return f"({name} = {text}, &{name})"

    def allocation(self, e: ast.Call, f: object, of: Array) -> str:
        first = e.args[0]
        items = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
        if f is np.array:
            return self.in_order(items, lambda texts: arrays.listed(self.c, of, texts, self.temp))
        value = self.expr(e.args[1]) if f is np.full else "1" if f is np.ones else "0" if f is np.zeros else ""
        return self.in_order(items, lambda texts: arrays.allocated(self.c, of, texts, value, f is np.arange, self.temp))


def widened(text: str, code: str) -> str:
    """A number as it is loaded."""
    return text if code in ("", "i8", "u8", "f8") else f"(int64_t){text}"


def literal(value: object) -> str:
    """A constant in C."""
    if value is None:
        return "0"
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, int | np.integer):
        value = int(value)
        if value == -(2**63):
            return "INT64_MIN"
        return f"UINT64_C({value})" if value >= 2**63 else f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"
    value = float(value)  # type: ignore[arg-type]
    if math.isinf(value) or math.isnan(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({value.hex()})"
