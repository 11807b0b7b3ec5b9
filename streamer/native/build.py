"""Builds the library: `python -m streamer.native.build`.

Entries, the functions that Python calls, are found by running them: `examples` call every one, and it is compiled for
the types of their arguments. The functions of the core and those of whole tables are one C file each, compiled side by
side. A system's compiler makes the library for this machine; the compiler in the wheel `ziglang` also makes those for
others. Flags: results must be the same to the last bit everywhere, so no contraction, no reordering; whole numbers
wrap; that arithmetic may trap is what keeps gcc from using vectors.
"""

from __future__ import annotations

import argparse
import ast
import dis
import fcntl
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, NamedTuple

from streamer.native import library
from streamer.native.functions import Compiled, recorded
from streamer.native.library import FOLDER, PACKAGE, REMEDY, WrongLibrary
from streamer.native.program import Program, spec_of
from streamer.native.types import NotTranslated, type_of

FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
         "-fvisibility=hidden", "-w")  # fmt: skip
OF_CORE = "streamer.incremental.core."


class Target(NamedTuple):
    """A processor that libraries are made for, as zig and gcc name it."""

    file: str
    zig: str
    processor: str
    march: str


TARGETS = {
    "x86_64-linux": (
        Target("linux-x86_64-v2.so", "x86_64-linux-gnu.2.28", "x86_64_v2", "x86-64-v2"),
        Target("linux-x86_64-v3.so", "x86_64-linux-gnu.2.28", "x86_64_v3", "x86-64-v3"),
    ),
    "aarch64-linux": (Target("linux-arm64.so", "aarch64-linux-gnu.2.28", "generic", "armv8-a"),),
    "x86_64-macos": (Target("darwin-x86_64.dylib", "x86_64-macos.11.0", "x86_64_v2", "x86-64-v2"),),
    "aarch64-macos": (Target("darwin-arm64.dylib", "aarch64-macos.11.0", "apple_m1", "armv8.4-a"),),
}


def compiler() -> list[str]:
    """The command of this machine's C compiler; raises WrongLibrary."""
    if asked := os.environ.get("CC"):
        return asked.split()
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    return zig()


def zig() -> list[str]:
    """The command of the compiler in the wheel `ziglang`; raises WrongLibrary."""
    if importlib.util.find_spec("ziglang") is None:
        raise WrongLibrary(f"there is no C compiler: {REMEDY}")
    return [sys.executable, "-m", "ziglang", "cc"]


# -- what is compiled --------------------------------------------------------------------------------------------------


def calls_of_examples() -> dict[Compiled[..., Any], set[tuple[Any, ...]]]:
    """Each function that Python calls, with the types of the arguments of every call."""
    from streamer.native.examples import call_all

    found: dict[Compiled[..., Any], set[tuple[Any, ...]]] = {}

    def hear(called: Compiled[..., Any], arguments: tuple[Any, ...]) -> None:
        found.setdefault(called, set()).add(tuple(map(type_of, arguments)))

    with recorded(hear):
        call_all()
    return found


def programs(lines: bool = False) -> list[Program]:
    """The core's functions and those of whole tables; raises NotTranslated."""
    core, tables = Program("core", lines), Program("tables", lines)
    for called, forms in calls_of_examples().items():
        for types in sorted(forms, key=repr):
            (core if called.__module__.startswith(OF_CORE) else tables).entry(called, types)
    refuse_what_is_missing([core, tables])
    return [core, tables]


def refuse_what_is_missing(made: Sequence[Program]) -> None:
    """Raises NotTranslated if Python code calls a function that has no machine code for Python."""
    inside = {one.python for program in made for one in program.functions}
    entries = {one.python for program in made for one in program.entries.values()}
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("streamer.")]
    known = {id(value): value for module in modules for value in vars(module).values() if callable(value)}
    missing = [value for value in known.values() if isinstance(value, Compiled) and value.function not in entries]
    if missing:
        raise NotTranslated(
            f"no example calls {', '.join(sorted(one.function.__qualname__ for one in missing))}: see examples.py"
        )
    for module in modules:
        for function in _functions_of(module):
            if function in inside:
                continue
            for name in sorted({one.argval for one in dis.get_instructions(function) if one.opname == "LOAD_GLOBAL"}):
                named = function.__globals__.get(name)
                if isinstance(named, FunctionType) and named in inside:
                    where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
                    raise NotTranslated(f"{where}: Python calls {name}, which is compiled into others: @compiled")


def _functions_of(module: Any) -> Iterator[FunctionType]:
    for value in list(vars(module).values()):
        parts = [value] if inspect.isfunction(value) else list(vars(value).values()) if inspect.isclass(value) else []
        yield from (one for one in parts if isinstance(one, FunctionType) and one.__module__ == module.__name__)


def sources_of(made: Iterable[Program]) -> list[str]:
    """The files that machine code depends on: those of its functions, all that these import, and the translator's."""
    found: set[Path] = set()
    waiting = [Path(inspect.getfile(one.python)) for program in made for one in program.functions]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported_by(file)
    found.update((PACKAGE / "native").glob("*.[ph]*"))
    return sorted(file.relative_to(PACKAGE).as_posix() for file in found)


def _imported_by(file: Path) -> list[Path]:
    """The files of the package that a file imports."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            modules += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += [f"{node.module}", *(f"{node.module}.{one.name}" for one in node.names)]
    paths = [PACKAGE.parent.joinpath(*one.split(".")) for one in modules if one.startswith(f"{PACKAGE.name}.")]
    return [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()]


def says(made: Sequence[Program], flags: Sequence[str]) -> str:
    """The description of a library by itself, as JSON."""
    entries: dict[str, list[Any]] = {}
    for program in made:
        for symbol, one in program.entries.items():
            name = f"{one.python.__module__}:{one.python.__qualname__}"
            form = [program.prefix, symbol, [spec_of(of) for of in one.types], spec_of(one.returned)]
            entries.setdefault(name, []).append(form)
    names = sources_of(made) if any(program.prefix == "core" for program in made) else []
    sources = {"names": names, "digest": library.digest_of(names)}
    return json.dumps({"entries": entries, "sources": sources, "flags": list(flags)})


# -- compiling ---------------------------------------------------------------------------------------------------------


def texts_of(made: Sequence[Program], flags: Sequence[str] = ()) -> dict[str, str]:
    """The C files, by name; flags: those that the library says it was made with."""
    quoted = json.dumps(says(made, flags)).replace("\\u", "?")
    head = f'__attribute__((visibility("default"))) const char *const streamer_says = {quoted};\n'
    return {"says.c": head, **{f"{program.prefix}.c": program.text() for program in made}}


def compile_texts(texts: dict[str, str], command: Sequence[str], flags: Sequence[str], file: Path) -> None:
    """Compiles C files side by side into one library, which appears when it is whole; raises WrongLibrary."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        for name, text in texts.items():
            Path(folder, name).write_text(text)
        every = [[*command, *FLAGS, *flags, "-c", name, "-o", f"{name}.o"] for name in texts]
        list(pool.map(lambda one: _run(one, folder), every))
        _run([*command, *flags, "-shared", "-fPIC", *(f"{name}.o" for name in texts), "-lm", "-o", "made"], folder)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        shutil.copyfile(Path(folder, "made"), draft)
        os.replace(draft, file)


def _run(command: Sequence[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise WrongLibrary(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")


def build(out: Path = FOLDER, targets: Sequence[str] | None = None) -> list[Path]:
    """Makes the library of this machine, or those of some TARGETS, and returns the files.

    CHECKED=1 checks every index, LINES=1 has perf and gdb show lines of Python, CFLAGS are the compiler's. Raises
    NotTranslated for a function outside the subset, WrongLibrary if there is no compiler.
    """
    out.mkdir(parents=True, exist_ok=True)
    checked, lines = (os.environ.get(name) == "1" for name in ("CHECKED", "LINES"))
    asked = ["-DCHECKED"] * checked + ["-g"] * (checked or lines) + os.environ.get("CFLAGS", "").split()
    made, found = None, []
    with open(out / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = _every_source()
        for target in _wanted(targets):
            path = out / target.file
            there = None if targets else library.read(path)
            if there is not None and there.is_current() and there.flags == asked:
                found.append(path)
                continue
            command, flags = _command(target, targets is not None)  # before the translation, which takes longer
            made = made or texts_of(programs(lines), asked)
            if _every_source() != before:
                raise WrongLibrary("a source changed while the machine code was built: build it again")
            compile_texts(made, command, [*flags, *(asked or ["-s"] * (not path.name.endswith(".dylib")))], path)
            found.append(path)
    return found


def _every_source() -> str:
    return library.digest_of(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def _wanted(targets: Sequence[str] | None) -> list[Target]:
    if targets:
        return [one for name in targets for one in TARGETS[name]]
    name = library.file_name()
    found = [one for several in TARGETS.values() for one in several if one.file == name]
    if not found:
        raise WrongLibrary(f"there is no machine code for this system, {name.rpartition('.')[0]}")
    return found


def _command(target: Target, is_named: bool) -> tuple[list[str], list[str]]:
    """The compiler for a target, and its flags for the processor."""
    command = zig() if is_named and importlib.util.find_spec("ziglang") else compiler()
    if "ziglang" in command:
        return command, ["-target", target.zig, f"-mcpu={target.processor}"]
    return command, [f"-march={target.march}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m streamer.native.build", description="Builds the machine code.")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="another system than this machine")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the files")
    given = parser.parse_args()
    try:
        for file in build(given.out, given.target):
            print(file)
    except (NotTranslated, WrongLibrary) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
