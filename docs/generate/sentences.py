"""The sentences of errors, read off the source: of every place that makes one, as far as the code says its text itself.

What is only known when the error happens is an ellipsis (a shard, an offset, an address). Constants and functions that
give a text are followed by their names; what an operator can do (`incremental.remedies`) is asked for in its own words,
with `<table>` in place of a name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from streamer import errors
from streamer.incremental import remedies

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("streamer", "agents")

LEFT_OPEN = "…"

Names = dict[str, ast.expr]
"""What names stand for."""

MENDS = {name: getattr(remedies, name)(remedies.SOME_TABLE) for name in (
    "reload", "reload_from_file", "reset_redis_and_reload", "publish_again", "start_over", "keep_new_partitions",
    "whole_table_again",
)}  # fmt: skip
"""What an operator can do, by the name of its function."""


ERRORS = frozenset(name for name, kind in vars(errors).items() if isinstance(kind, type))
"""The classes of errors that this project has."""


class Sentence(NamedTuple):
    """What one place in the source says with one class of errors; first: the argument before it, a reason."""

    error: str
    first: str
    text: str
    module: str


@dataclass(frozen=True)
class Sources:
    """The modules of both packages, and what they call by name."""

    trees: dict[str, ast.Module] = field(default_factory=lambda: dict(_trees()))

    @cached_property
    def constants(self) -> Names:
        """What module-level names stand for; of names that several modules use, the first one's."""
        found: dict[str, ast.expr] = {}
        for tree in self.trees.values():
            found = {**_assigned(tree.body), **found}
        return found

    @cached_property
    def functions(self) -> Names:
        """What functions return at their end; of names that several modules use, the first one's."""
        found: Names = {}
        for tree in self.trees.values():
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    last = node.body[-1]
                    if isinstance(last, ast.Return) and last.value is not None:
                        found.setdefault(node.name, last.value)
        return found

    def sentences(self, *classes: str) -> list[Sentence]:
        """Every sentence with which the code makes an error of one of these classes, in the order of the source."""
        return [one for one in self._sentences if one.error in classes]

    @cached_property
    def _sentences(self) -> list[Sentence]:
        found = []
        for module, tree in self.trees.items():
            for name, call, known in _calls(tree):
                if name in ERRORS and call.args:
                    texts = [self._text(argument, known) for argument in call.args[:2]]
                    first = texts[0] if len(texts) > 1 else ""
                    found.append(Sentence(name, first, _tidy(texts[-1]), module))
        return found

    def _text(self, node: ast.expr, own: Names) -> str:
        """What an expression says, as far as it is known before it is run."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part, own) for part in parts)
            case ast.FormattedValue(value=value):
                return self._text(value, own)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left, own) + self._text(right, own)
            case ast.IfExp(body=body, orelse=orelse):
                return " / ".join(filter(None, (self._text(body, own), self._text(orelse, own))))
            case ast.Name(id=name) | ast.Attribute(attr=name):
                known = own.get(name) or (self.constants.get(name) if name.isupper() else None)
                rest = {other: own[other] for other in own if other != name}  # a name that is made of itself ends here
                return LEFT_OPEN if known is None else self._text(known, rest)
            case ast.Subscript(value=ast.Name(id=name)):
                return self._text(own.get(name, node.slice), own)
            case ast.Dict(values=values):
                return " / ".join(dict.fromkeys(self._text(value, own) for value in values))
            case ast.Call():
                return self._said_by(node, own)
        return LEFT_OPEN

    def _said_by(self, call: ast.Call, own: Names) -> str:
        """What a call gives: a mend, a constant that is filled in, another function's text."""
        match call.func:
            case ast.Attribute(value=ast.Name(id="remedies"), attr=name) if name in MENDS:
                return str(MENDS[name])
            case ast.Attribute(value=ast.Name(id="remedies"), attr=name) if name in self.functions:
                return self._text(self.functions[name], own)
            case ast.Attribute(value=ast.Name() as template, attr="format"):
                given = iter([self._text(argument, own) for argument in call.args])
                return re.sub(r"\{[^}]*\}", lambda _: next(given, LEFT_OPEN), self._text(template, own))
            case ast.Name(id=name) if name in self.functions:
                return self._text(self.functions[name], own)
        return LEFT_OPEN


@cache
def sources() -> Sources:
    """Those of this checkout, which are read once: three pages and a test ask for them."""
    return Sources()


def _assigned(body: Iterable[ast.stmt]) -> Names:
    """What names are given by some statements; a tuple's, too, where a tuple is given."""
    found: Names = {}
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=True)
                found |= {name.id: value for name, value in pairs if isinstance(name, ast.Name)}
    return found


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call, Names]]:
    """Every call of a name, in the order of the source, with what names stand for there."""
    names, within = _assigned(tree.body), dict[int, Names]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = list(ast.walk(node))
            known = {**names, **_assigned(one for one in inside if isinstance(one, ast.stmt))}
            within |= {id(one): known for one in inside if isinstance(one, ast.Call)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        if isinstance(call.func, ast.Name):
            yield call.func.id, call, within.get(id(call), names)


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def _tidy(text: str) -> str:
    """With one space for each run of them."""
    return re.sub(r"\s+", " ", text).strip()
