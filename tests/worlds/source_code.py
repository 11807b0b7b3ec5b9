"""The source of the project as its rules and figures read it: files, syntax trees, imports, names."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from worlds.checkout import ROOT

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    found = tuple(ast.walk(tree(path)))
    gc.freeze()  # they stay: to look for garbage among them again and again takes as long as to read them
    return found


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, also of those inside functions; relative ones are resolved."""
    package = name_of(path).split("/")[:-1]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *filter(None, [node.module])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


@cache
def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name, packages too."""
    return {module_of(path): path for path in sources("streamer", "agents")}


@cache
def importers() -> dict[str, set[str]]:
    """Module -> the modules that import it or something of it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, path in modules().items():
        for _, name in imports(path):
            imported = name if name in modules() else name.rpartition(".")[0]
            if imported in modules() and imported != module:
                found[imported].add(module)
    return found


def of_one_neighbour() -> dict[str, str]:
    """Modules that one other module imports, which stands in their own folder, with that one."""
    return {
        module: importer
        for module, (importer, *others) in sorted(importers().items())
        if not others
        and modules()[module].name != "__init__.py"
        and modules()[importer].parent == modules()[module].parent
    }


def classes() -> dict[str, list[str]]:
    """The name of a class, private or not, -> the places where one of that name is defined."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sources("streamer", "agents"):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{name_of(path)}:{node.lineno}")
    return found


def constants() -> dict[str, dict[str, list[str]]]:
    """The name of a module's public constant -> its literal values, each with its places."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sources("streamer", "agents"):
        for statement in tree(path).body:
            for name, value in _constants_of(statement):
                found[name][value].append(f"{name_of(path)}:{statement.lineno}")
    return found


def _constants_of(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    pairs: list[tuple[ast.expr, ast.expr | None]]
    if isinstance(statement, ast.AnnAssign):
        pairs = [(statement.target, statement.value)]
    elif isinstance(statement, ast.Assign):
        pairs = [pair for target in statement.targets for pair in _paired(target, statement.value)]
    else:
        return
    for target, value in pairs:
        if isinstance(target, ast.Name) and target.id.isupper() and target.id[0] != "_" and value is not None:
            with suppress(ValueError):
                yield target.id, repr(ast.literal_eval(value))


def _paired(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The targets of `A, B = 1, 2` with their values; those of `A, B = values()` with all of it."""
    if not isinstance(target, ast.Tuple):
        return [(target, value)]
    same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
    values = value.elts if same and isinstance(value, ast.Tuple) else [value] * len(target.elts)
    return list(zip(target.elts, values, strict=True))


def must_be_empty(broken: list[str], rule: str) -> None:
    """Fails with the rule and every place that breaks it."""
    assert not broken, "\n".join([rule, *(f"  {line}" for line in broken)])


def functions(path: Path) -> Iterator[Function]:
    yield from (node for node in nodes(path) if isinstance(node, Function))
