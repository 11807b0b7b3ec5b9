"""The statements of a function, as C.

A name has one type. A name with two is refused: in Python 1 and 1.0 are different values, and True and 1 as well.
None beside another type is decided for each call. A pass over the statements finds the types of the names; a statement
with a name that has none yet waits for the next pass. A type that is found stays, so there is a last pass, which finds
none: what it has written is the function. The value of an assignment comes before the indexes of its target, and
`x op= y` finds x once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, cast

from streamer.native import arrays
from streamer.native.expressions import UNKNOWN, Function, NotYet, Value, is_decided, operation, taken
from streamer.native.functions import INLINED
from streamer.native.types import (
    BOOL,
    INT,
    NOTHING,
    NUMBERS,
    Array,
    Fields,
    NotTranslatedHere,
    Scalar,
    Several,
    Type,
    item_of,
    said,
    same_type,
)


class Translated(Function):
    """A function as C, in `lines`."""

    lines: list[str]
    waits: ast.stmt | None

    def run(self) -> None:
        """Finds the types and writes the C; raises NotTranslated."""
        before: object = None
        while before != (before := self.state()):
            self.lines, self.declared, self.n_temps, self.waits = [], [], 0, None
            self.body(self.tree.body)
        if self.waits:
            self.refused(self.waits, "a name in it is not set before")
        incomplete = self.returned != NOTHING and not ends(self.tree.body)
        self.refuse(incomplete, self.tree, "it returns a value on some ways and none on others")
        self.done = True

    def state(self) -> object:
        return {**self.names}, self.result, frozenset(self.held), self.allocates

    def head(self) -> str:
        arguments = [
            f"{self.c(of)}{'restrict ' if isinstance(of, Fields) else ''} v_{name}"
            for name, of in zip(self.parameters, self.types, strict=True)
        ]
        kind = "static inline __attribute__((always_inline))" if self.python in INLINED else "static"
        return f"{kind} {self.result_type()} {self.name}({', '.join(arguments) or 'void'})"

    def result_type(self) -> str:
        return "void" if self.returned == NOTHING else self.held_c(self.returned)

    def text(self) -> str:
        variables = [
            f"{self.held_c(of) if name in self.held else self.c(of)} v_{name}; memset(&v_{name}, 0, sizeof v_{name});"
            for name, of in self.names.items()
            if name not in self.parameters and of is not None and of != NOTHING
        ]
        marks, ends = (["Mark mark_ = mark();"], ["release(mark_);"]) if self.releases else ([], [])
        ends = ends if self.returned == NOTHING else []
        return "\n".join([self.head() + " {", *marks, *variables, *self.declared, *self.lines, *ends, "}"])

    def emit(self, text: str) -> None:
        self.lines += [text] if text else []

    # -- statements ----------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for one in statements:
            if self.shows_lines:
                self.emit(f'#line {self.line(one)} "{self.code.co_filename}"')
            try:
                self.statement(one)
            except NotYet:
                self.waits = one
            except NotTranslatedHere as error:
                self.refused(one, str(error))

    def block(self, head: str, statements: Iterable[ast.stmt], first: str = "") -> None:
        self.emit(f"{head} {{ {first}")
        self.body(statements)
        self.emit("}")

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=targets, value=value):
                self.assign(targets, value)
            case ast.AnnAssign(target=ast.Name() as target, value=value):
                if value is not None:
                    self.assign([target], value)
            case ast.AugAssign():
                self.change(s)
            case ast.For(target=ast.Name(), orelse=[]):
                self.loop(s)
            case ast.While(test=test, body=body, orelse=[]):
                condition = self.truth(test)
                if condition.known is not False:
                    self.block(f"while ({condition.text})", body)
            case ast.If(test=test, body=body, orelse=orelse):
                condition = self.truth(test)
                if is_decided(condition):
                    self.block("", body if condition.known else orelse)
                else:
                    self.block(f"if ({condition.text})", body)
                    self.block("else", orelse)
            case ast.Return(value=value):
                self.give(None if value is None else self.expr(value))
            case ast.Expr(value=ast.Call() as value):
                self.emit(f"{self.expr(value).text};")
            case ast.Break():
                self.emit("break;")
            case ast.Continue():
                self.emit("continue;")
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                self.refused(s, "this statement is not in the subset")

    def give(self, value: Value | None) -> None:
        self.result = same_type(self.result, NOTHING if value is None else value.type)
        release = "release(mark_); " if self.releases else ""
        if value is None or self.result == NOTHING:
            runs = f"{value.text}; " if value is not None and isinstance(value.node, ast.Call) else ""
            self.emit(f"{{ {runs}{release}return; }}")
        else:
            self.emit(f"{{ {self.result_type()} r_ = {taken(value.text, value.type)}; {release}return r_; }}")

    def loop(self, s: ast.For) -> None:
        i, over, target = self.temp(), self.temp(), cast(ast.Name, s.target)
        if isinstance(s.iter, ast.Call) and isinstance(s.iter.func, ast.Name) and s.iter.func.id == "range":
            ends = [self.expr(one) for one in s.iter.args]
            wrong = not 1 <= len(ends) <= 3 or any(one.type != INT for one in ends)
            self.refuse(wrong, s.iter, "a range is of one to three ints")
            self.block(self.counting(i, ends), s.body, self.named(target, i, INT))
            return
        if isinstance(s.iter, ast.Tuple):
            values, n = [self.expr(one) for one in s.iter.elts], str(len(s.iter.elts))
            of, item = reduce(same_type, [value.type for value in values]), f"{over}[{i}]"
            self.emit(f"{{ {self.c(of)} {over}[{n}];")
            for k, value in enumerate(values):
                self.emit(f"{self.kept(f'{over}_{k}', value)} {over}[{k}] = {over}_{k};")
        else:
            value = self.expr(s.iter)
            wrong = not isinstance(value.type, Array)
            self.refuse(wrong, s.iter, "a loop is over range(...), an array, or values in brackets")
            n = f"{over}.n[0]"
            self.emit(f"{{ {self.kept(over, value)}")
            _, of, item, *_ = self.cut(s.iter, over, value.type, [i])
        first = self.named(target, item, of, held=isinstance(s.iter, ast.Tuple))
        self.block(f"for (int64_t {i} = 0; {i} < {n}; {i}++)", s.body, first)
        self.emit("}")

    def counting(self, i: str, ends: Sequence[Value]) -> str:
        """The head of a loop over a range."""
        begin, end = (ends[0].text, ends[1].text) if len(ends) > 1 else ("0", ends[0].text)
        step = ends[2].known if len(ends) > 2 else 1
        if step is UNKNOWN:
            test = f"{i}s > 0 ? {i} < {i}e : {i} > {i}e"
            return f"for (int64_t {i} = {begin}, {i}e = {end}, {i}s = {ends[2].text}; {test}; {i} += {i}s)"
        return f"for (int64_t {i} = {begin}, {i}e = {end}; {i} {'<' if step > 0 else '>'} {i}e; {i} += {step})"

    # -- assignments ---------------------------------------------------------------------------------------------------

    def assign(self, targets: Sequence[ast.expr], value: ast.expr) -> None:
        pairs = [(target, value) for target in targets]
        if isinstance(targets[0], ast.Tuple) and isinstance(value, ast.Tuple) and len(targets) == 1:
            self.refuse(len(targets[0].elts) != len(value.elts), targets[0], "as many names as values")
            pairs = list(zip(targets[0].elts, value.elts, strict=True))
            nested = any(isinstance(one, ast.Tuple) and isinstance(of, ast.Tuple) for one, of in pairs)
            self.refuse(nested, targets[0], "brackets in brackets: unpack them later")
        values = {one: (self.temp(), self.expr(one)) for _, one in pairs}
        self.emit("{ " + " ".join(self.kept(name, one) for name, one in values.values()))
        for target, one in pairs:
            name, given = values[one]
            self.store(target, given._replace(text=name), held=not self.stays(one))
        self.emit("}")

    def store(self, target: ast.expr, value: Value, held: bool) -> None:
        """Puts a value that is in a variable, or a part of it, into its target; held: it is nobody else's."""
        match target:
            case ast.Name():
                self.emit(self.named(target, value.text, value.type, held))
            case ast.Tuple(elts=elts):
                for one, part in zip(elts, self.parts(target, value), strict=True):
                    self.store(one, part, held)
            case _:
                self.fill(target, value)

    def named(self, target: ast.Name, text: str, of: Type, held: bool = False) -> str:
        """A name gets a value of a type."""
        name = target.id
        if name == "_":
            return ""
        self.names[name] = same_type(self.names[name], of)
        if held and isinstance(of, Fields):
            wrong = name in self.parameters
            self.refuse(wrong, target, "an argument that is a named tuple stays the same: use another name")
            self.held.add(name)
        return "" if of == NOTHING else f"v_{name} = {taken(text, of) if name in self.held else text};"

    def parts(self, target: ast.Tuple, value: Value) -> Sequence[Value]:
        """The values that unpacking gives."""
        of, n = value.type, len(target.elts)
        if isinstance(of, Array):
            names = all(isinstance(one, ast.Name) for one in target.elts)
            self.refuse(not names, target, "an array unpacks into names")
            self.emit(f"if (RARELY({value.text}.n[0] != {n})) fail(SHAPES, __LINE__);")
            return [self.cut(value.node, value.text, of, [str(i)]) for i in range(n)]
        wrong = not isinstance(of, Fields | Several) or len(of.types) != n
        self.refuse(wrong, target, f"{said(of)} does not unpack into {n} names")
        return [self.part(value.node, value.text, of, i) for i in range(n)]

    def fill(self, target: ast.expr, value: Value) -> None:
        """An item or a field gets a number, a row numbers."""
        into, of = self.expr(target), value.type
        is_row = isinstance(into.type, Array) and isinstance(target, ast.Subscript)
        self.refuse(not into.place and not is_row, target, "only fields of records are set, one by one, and items")
        by = target.slice if isinstance(target, ast.Subscript) else None
        named = by is not None and not isinstance(by, ast.Slice | ast.Tuple) and isinstance(self.expr(by).type, Array)
        self.refuse(named, target, "items that an array names are set one by one: write a loop")
        item, given = (item_of(one) if is_row and isinstance(one, Array) else one for one in (into.type, of))
        wrong = not isinstance(item, Scalar) or given not in NUMBERS
        self.refuse(wrong, target, f"numbers are set to numbers, not to {said(of)}: write a loop")
        self.refuse(item == BOOL and given != BOOL, target, "a bool is set to a bool: write bool()")
        if not is_row:
            self.emit(f"{into.place} = {value.text};")
            return
        array = of if isinstance(of, Array) else None
        apart = array and not (array.in_line and into.type.in_line)
        self.refuse(apart, target, "a row is copied into one whose items stand side by side, too: write a loop")
        self.emit(arrays.filled(self.c, into.text, into.type, value.text, array, self.temp))

    def change(self, s: ast.AugAssign) -> None:
        """`x op= y`: x is found once, and read before y is."""
        x, y, at, before, name = self.expr(s.target), self.expr(s.value), self.temp(), self.temp(), self.temp()
        of: Any = self.operated(s, s.op, x, y)
        self.refuse(not x.place, s.target, "only fields of records are set, one by one, and items")
        if isinstance(s.target, ast.Name):
            self.named(s.target, "", of)
        self.refuse(x.type == BOOL != of, s.target, "a bool is set to a bool: write bool()")
        self.emit(f"{{ {x.kind} *{at} = &{x.place}; {self.c(x.type)} {before} = *{at}; {self.kept(name, y)}")
        self.emit(f"*{at} = {operation(s.op, [before, name], (x.type, y.type))}; }}")


def ends(body: Sequence[ast.stmt]) -> bool:
    """True if statements always return."""
    match body[-1]:
        case ast.Return():
            return True
        case ast.If(body=body, orelse=orelse):
            return bool(orelse) and ends(body) and ends(orelse)
        case ast.While(test=ast.Constant(value=True), body=body):
            return not any(isinstance(node, ast.Break) for one in body for node in ast.walk(one))
    return False
