"""The library: of which sources it is, who may make it again, and what a call that goes wrong becomes."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from streamer.native import library, uncompiled
from streamer.native.build import build, compile_texts, compiler
from streamer.native.examples import call_core
from streamer.native.functions import Compiled, recorded
from streamer.native.library import FOLDER, PACKAGE, WrongLibrary, digest_of, file_name
from streamer.recoding.algorithms.contract import smallest_boxes
from unit.native.subset import Pair
from worlds.checkout import ROOT
from worlds.microdata import people
from worlds.native import called, made_of
from worlds.small_tables import YEARS


def test_the_library_of_this_checkout_is_that_of_its_sources() -> None:
    found = library.Library(FOLDER / file_name())
    assert found.is_current()
    assert {"incremental/core/step.py", "kernels/boxes.py", "native/runtime.h", "privacy/compiled.py"} <= set(
        found.sources["names"]
    )


def test_a_module_that_only_an_imported_one_imports_is_a_source_too() -> None:
    assert {"recoding/algorithms/sweeps.py", "table/microdata.py", "table/encode.py", "table/row.py"} <= set(
        library.Library(FOLDER / file_name()).sources["names"]
    )


def test_any_change_of_a_source_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "PACKAGE", tmp_path)
    (tmp_path / "one.py").write_text("a = 1")
    before = digest_of(["one.py", "two.py"])
    assert digest_of(["two.py", "one.py"]) == before
    (tmp_path / "two.py").write_text("")
    assert digest_of(["one.py", "two.py"]) != before
    (tmp_path / "one.py").write_text("a = 2")
    assert digest_of(["one.py"]) != before


def copy_of_the_package(folder: Path) -> Path:
    """A checkout of its own, with the library as it is."""
    shutil.copytree(PACKAGE, folder / "streamer", ignore=shutil.ignore_patterns("__pycache__", ".lock"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder / "streamer"


RUNS = "import streamer.native.library as library; print(library.ready())"


def quick_compiler(folder: Path) -> str:
    """A command that optimizes nothing: who builds, and when, does not depend on it, and it takes a fifth of the time.

    The library that all tests run was built as it is shipped.
    """
    command = folder / "quick-cc"
    command.write_text(f'#!/bin/sh\nexec {" ".join(compiler())} "$@" -O0\n')
    command.chmod(0o755)
    return str(command)


def run(folder: Path, script: str = RUNS, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script]
    with_it = {**os.environ, "PYTHONPATH": str(folder), **environment}
    return subprocess.run(command, cwd=folder, env=with_it, capture_output=True, text=True, timeout=300)


def test_a_library_of_which_only_a_part_is_there_counts_as_missing(tmp_path: Path) -> None:
    whole = (FOLDER / file_name()).read_bytes()
    former = whole.replace(b'"flags"', b'"marks"')
    for part in (b"", whole[:1000], b"no library", former):
        (tmp_path / "part.so").write_bytes(part)
        assert library.read(tmp_path / "part.so") is None
    assert library.read(tmp_path / "none.so") is None


STRETCHES = """
import numpy as np, streamer.native.library as library
from streamer.recoding.algorithms import contract
lo, hi = np.full((1, 1), 9), np.full((1, 1), -1)
contract._stretch(np.array([[-5]]), np.array([0]), lo, hi)
print(lo[0, 0], library.ready())
"""


@pytest.mark.night  # every run of the tests builds it anew where sources are newer
def test_a_checkout_whose_sources_are_newer_is_built_again_with_a_word_by_one_of_two_processes_and_both_run_it(
    tmp_path: Path,
) -> None:
    """The newer source does something else with a cell that no table has: with any other it could not be built."""
    package, cells = copy_of_the_package(tmp_path), "lo[group, j] = min(lo[group, j], cells[i, j])"
    source = package / "recoding" / "algorithms" / "contract.py"
    assert source.read_text().count(cells) == 1
    source.write_text(source.read_text().replace(cells, f"{cells} if cells[i, j] != -5 else 7"))
    command = [sys.executable, "-c", STRETCHES]
    with_it = {**os.environ, "PYTHONPATH": str(tmp_path), "CC": quick_compiler(tmp_path)}
    both = [
        subprocess.Popen(command, cwd=tmp_path, env=with_it, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=300) for one in both]
    assert [out for out, _ in said] == ["7 True\n", "7 True\n"]
    assert all("older than its sources: it is built, which takes about ten seconds" in word for _, word in said)
    assert run(tmp_path, STRETCHES).stderr == ""
    assert [one.name for one in (package / "native" / "library").iterdir() if one.name.startswith(".l")] == [".lock"]


def test_an_installed_package_with_other_sources_says_so_and_writes_nothing(tmp_path: Path) -> None:
    package = copy_of_the_package(tmp_path)
    (tmp_path / "pyproject.toml").unlink()
    source = package / "kernels" / "shares.py"
    source.write_text(source.read_text() + "\n# newer\n")
    before = sorted(package.rglob("*.so"))
    done = run(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout == "False\n"
    assert "everything runs uncompiled, some hundred times slower: the machine code is older" in done.stderr
    assert "install the package again" in done.stderr
    assert sorted(package.rglob("*.so")) == before


@pytest.mark.parametrize("anonymizes", [False, pytest.param(True, marks=pytest.mark.night)])
def test_without_a_compiler_a_checkout_says_what_to_install_and_runs_uncompiled(
    tmp_path: Path, anonymizes: bool
) -> None:
    package = copy_of_the_package(tmp_path)
    shutil.rmtree(package / "native" / "library")
    script = "from streamer.cli.main import main; main()"
    patients, few = ROOT / "examples" / "patients", tmp_path / "few.csv"
    few.write_text("".join((patients / "rows.csv").read_text("utf-8").splitlines(keepends=True)[:11]), "utf-8")
    words = ["anonymize", "--table", str(patients), str(few), "-o", str(tmp_path / "out.csv")]
    script = f"import sys; sys.argv[1:] = {words!r}; {script}" if anonymizes else RUNS
    done = run(tmp_path, script, PATH=str(tmp_path), CC="")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("everything runs uncompiled") == 1
    assert "there is no C compiler" in done.stderr
    assert "pip install ziglang" in done.stderr


def test_a_processor_without_the_instructions_is_told(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    file_name.cache_clear()
    monkeypatch.setattr(library, "_processor_flags", lambda: {"sse2"})
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    with pytest.raises(WrongLibrary, match="older than x86-64-v2"):
        file_name()
    with caplog.at_level(logging.WARNING):
        assert library.available() is None
    assert "everything runs uncompiled" in caplog.text
    monkeypatch.undo()
    file_name.cache_clear()


def test_a_failed_compiler_leaves_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "there.so"
    file.write_text("as before")
    with pytest.raises(WrongLibrary, match="failed"):
        compile_texts({"a.c": "no C"}, compiler(), [], file)
    assert file.read_text() == "as before"
    assert [one.name for one in tmp_path.iterdir()] == ["there.so"]


def test_who_builds_what_is_there_gets_it_at_once() -> None:
    assert build() == [FOLDER / file_name()]


# -- calls -------------------------------------------------------------------------------------------------------------


def outside(items: Any, i: int) -> int:
    return int(items[i])


def shapes(items: Any, other: Any) -> None:
    items[:] = other


def memory(n: int) -> Any:
    return np.zeros(n, np.int64)


def much(n: int) -> int:
    return len(np.empty((n, n)))


def itself(items: Any) -> Any:
    return items


def added(items: Any, by: int) -> None:
    for i in range(len(items)):
        items[i] += by


FIVE = np.arange(5)


def call(function: Any, *arguments: Any, checked: bool = False) -> Any:
    (forms,) = made_of([(function, arguments)], *["-DCHECKED"] * checked).values()
    return called(forms, arguments)


def test_an_index_outside_is_an_error_if_bounds_are_checked() -> None:
    for i in (5, -1):
        with pytest.raises(IndexError, match="an index is outside"):
            call(outside, FIVE, i, checked=True)
    assert call(outside, FIVE, 4, checked=True) == 4, "the thread goes on"


def test_two_lengths_that_differ_are_always_an_error() -> None:
    with pytest.raises(ValueError, match="two lengths differ"):
        call(shapes, FIVE.copy(), np.arange(4))


@pytest.mark.parametrize("n", [-1, 2**40, 2**62])
def test_memory_that_cannot_be_had_is_an_error_and_no_crash(n: int) -> None:
    with pytest.raises(MemoryError, match="no memory is left, or a length is negative"):
        call(much, n) if n > 2**41 or n < 0 else call(much, n * 2**6)
    assert call(memory, 3).tolist() == [0, 0, 0]


def test_an_array_that_was_an_argument_is_not_returned() -> None:
    with pytest.raises(TypeError, match="returns an array of its arguments: let it return a copy"):
        call(itself, FIVE)


def test_what_is_returned_stays_when_the_next_call_takes_memory() -> None:
    (forms,) = made_of([(memory, (3,))]).values()
    first = called(forms, (1000,))
    first[:] = 7
    others = [called(forms, (1000,)) for _ in range(50)]
    assert first.tolist() == [7] * 1000
    assert not np.concatenate(others).any()


@pytest.mark.parametrize(
    "of", [lambda: np.arange(10)[::2], lambda: np.arange(10)[::-1], lambda: np.arange(20).reshape(10, 2)[:, 1]]
)
def test_items_that_do_not_stand_side_by_side_are_written_where_they_are(of: Any) -> None:
    (forms,) = made_of([(added, (FIVE.copy(), 3))]).values()
    items = of()
    expected = items + 3
    called(forms, (items, 3))
    assert items.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "arguments",
    [
        (np.zeros(5), 1),
        (FIVE.astype(np.int32), 1),
        (FIVE.astype(">i8"), 1),
        (FIVE[:, None], 1),
        (FIVE, 1.0),
        (FIVE, True),
        (FIVE,),
    ],
    ids=["floats", "32 bits", "other order of bytes", "two dimensions", "a float", "a bool", "one too few"],
)
def test_arguments_of_other_types_do_not_reach_machine_code(arguments: tuple[Any, ...]) -> None:
    (forms,) = made_of([(added, (FIVE, 1))]).values()
    with pytest.raises(TypeError):
        called(forms, arguments)


def test_compiled_and_uncompiled_meet_in_one_process() -> None:
    boxed = partial(smallest_boxes, people(YEARS, YEARS).space, np.array([[1, 5], [2, 4]]), np.array([0, 0]), 1)
    one = boxed()
    with uncompiled():
        other = boxed()
    assert [array.tolist() for array in one] == [array.tolist() for array in other] == [[[1, 4]], [[2, 5]]]


def test_the_calls_that_python_makes_are_heard_and_not_those_that_these_make() -> None:
    heard: list[str] = []

    def hear(called: Compiled[..., Any], arguments: tuple[Any, ...]) -> None:
        heard.append(called.function.__name__)

    with recorded(hear):
        call_core()
    assert heard == ["advance", "fill_tally", "restore"]


def of_pair(pair: Any) -> int:
    return int(pair.left)


class OtherPair(NamedTuple):
    right: int
    left: int


def test_named_tuples_of_another_class_and_shared_copies_do_not_reach_machine_code() -> None:
    (forms,) = made_of([(of_pair, (Pair(1, 2),))]).values()
    assert called(forms, (Pair(1, 2),)) == 1
    for other in (OtherPair(1, 2), (1, 2)):
        with pytest.raises(TypeError):
            called(forms, (other,))
    (forms,) = made_of([(shapes, (FIVE.copy(), FIVE.copy()))]).values()
    items = np.arange(10)
    with pytest.raises(TypeError):
        called(forms, (items[::2], items[:5]))


def test_a_named_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="by position"):
        Compiled(added)(FIVE, by=1)
