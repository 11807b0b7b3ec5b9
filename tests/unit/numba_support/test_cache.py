"""Machine code on disk: one folder for every state of the sources and every machine, and who makes what lies in it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.numba_support import cache
from streamer.numba_support.cache import folder, folder_for, is_being_made, is_there, mark, only_maker, unmark
from worlds.checkout import ROOT


@pytest.fixture(autouse=True)
def _kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of these tests may touch the machine code of this checkout, or of this user."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "package")
    folder.cache_clear()
    yield
    folder.cache_clear()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "numba_support").mkdir()
    (package / "numba_support" / "jit.py").write_text("compiled = part = entry = print\n")
    (package / "inner" / "callee.py").write_text("from streamer.numba_support.jit import part\n")
    (package / "inner" / "layout.py").write_text("FAN = 16\n")
    (package / "caller.py").write_text(
        "from streamer.inner.callee import callee\n"
        "from streamer.inner.layout import FAN\n"
        "from streamer.numba_support.jit import (\n    compiled,\n    entry,\n)\n"
    )
    (package / "other.py").write_text("from streamer.caller import part\n")
    return package


def state(kept: str) -> Path:
    """The folder of a state of the sources, for every machine."""
    return Path(kept).parent


@pytest.mark.parametrize("changed", ["inner/callee.py", "caller.py", "inner/layout.py", "numba_support/jit.py"])
def test_a_changed_loop_or_constant_gets_a_new_folder_and_the_former_one_goes(package: Path, changed: str) -> None:
    before = folder_for(package)
    assert Path(before).is_dir()
    with open(package / changed, "a") as file:
        file.write("changed = True\n")
    after = folder_for(package)
    assert Path(after).is_dir()
    assert state(after) != state(before)
    assert not state(before).exists()


def test_what_compiles_nothing_may_change(package: Path) -> None:
    before = folder_for(package)
    with open(package / "other.py", "a") as file:
        file.write("changed = True\n")
    assert folder_for(package) == before


@pytest.mark.parametrize(
    ("name", "value"), [("NUMBA_BOUNDSCHECK", "1"), ("NUMBA_OPT", "1"), ("NUMBA_CPU_NAME", "generic")]
)
def test_settings_that_change_the_machine_code_keep_theirs_apart(
    package: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """numba would load what was compiled without them."""
    before = folder_for(package)
    monkeypatch.setenv(name, value)
    assert folder_for(package) != before
    assert Path(before).is_dir()


def test_another_processor_has_machine_code_of_its_own(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder_for(package)
    monkeypatch.setattr(cache, "_processor", lambda: "another one")
    assert folder_for(package) != before


def test_a_package_that_cannot_be_written_to_has_its_machine_code_with_the_user(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").write_text("a file where the folder should be")
    assert Path(folder_for(package)).is_relative_to(tmp_path / "of the user" / "streamer")


def test_where_nothing_can_be_written_nothing_is_kept(package: Path, tmp_path: Path) -> None:
    (package / "__pycache__").write_text("a file where the folder should be")
    (tmp_path / "of the user").write_text("another one")
    assert folder_for(package) == ""
    assert not is_there("a set")
    mark("a set")
    assert not is_there("a set")


def test_a_folder_that_is_named_is_used_and_packages_share_it_without_loss(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a callee in another file numba knows nothing: there, too, each state of the sources needs its own folder."""
    named = tmp_path / "named"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    other = tmp_path / "other package"
    other.mkdir()
    theirs, before = folder_for(other), folder_for(package)
    assert Path(before).is_relative_to(named)
    (package / "inner" / "callee.py").write_text("from streamer.numba_support.jit import part\nchanged = True\n")
    after = folder_for(package)
    assert Path(after).is_relative_to(named)
    assert after != before
    assert Path(theirs).is_dir()


@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("above", [0, 1, 2], ids=["of the machine", "of the state", "of the package"])
def test_a_folder_that_others_can_write_to_is_not_used(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int, mode: int
) -> None:
    """Others could put a program there: machine code is run as it is found."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    kept = Path(folder_for(package))
    assert [one.stat().st_mode & 0o777 for one in (kept, *kept.parents[:2])] == [0o700] * 3
    (kept, *kept.parents)[above].chmod(mode)
    assert folder_for(package) == ""


@pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_folder_that_others_can_put_another_in_the_place_of_is_not_used(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_used: bool
) -> None:
    """They could wait until it was looked at: machine code is read later."""
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(mode)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(shared))
    assert bool(folder_for(package)) == is_used


def test_a_folder_of_another_user_or_a_link_to_one_is_not_used(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    kept = Path(folder_for(package))
    with monkeypatch.context() as others:
        others.setattr("os.geteuid", lambda: kept.stat().st_uid + 1)
        assert folder_for(package) == ""
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert folder_for(package) == ""


@pytest.mark.parametrize("names", ["constants", "other, constants", "(\n    constants,\n)"])
def test_a_module_that_is_imported_by_its_name_counts_its_constants_are_compiled_in(package: Path, names: str) -> None:
    (package / "inner" / "callee.py").write_text(
        f"from streamer.numba_support.jit import part\nfrom streamer.inner import {names}\n"
    )
    (package / "inner" / "constants.py").write_text("LIMIT = 1\n")
    before = folder_for(package)
    (package / "inner" / "constants.py").write_text("LIMIT = 2\n")
    assert folder_for(package) != before


def test_a_set_is_there_once_it_is_marked_until_the_sources_change(package: Path) -> None:
    assert not is_there("a set")
    mark("a set")
    assert is_there("a set")
    assert not is_there("another set")
    (package / "numba_support" / "jit.py").write_text("changed = True\n")
    folder.cache_clear()
    assert not is_there("a set")


def test_a_mark_that_cannot_be_taken_back_stops_nobody(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that could be written to when the process began, and cannot now."""
    mark("a set")

    def refuse(path: Path, missing_ok: bool) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", refuse)
    unmark("a set")
    assert is_there("a set")


def test_one_makes_a_set_and_another_waits(package: Path) -> None:
    order = []

    def make() -> None:
        with only_maker("a set"):
            order.append("the other")

    with only_maker("a set"):
        assert is_being_made("a set")
        assert not is_being_made("another set")
        other = threading.Thread(target=make)
        other.start()
        order.append("the first")
    other.join()
    assert order == ["the first", "the other"]
    assert not is_being_made("a set")


def test_a_maker_that_was_killed_blocks_nobody(package: Path) -> None:
    script = (
        "import pathlib, sys, time; from streamer.numba_support import cache\n"
        f"cache.PACKAGE = pathlib.Path({str(package)!r})\n"
        "with cache.only_maker('a set'):\n"
        "    print('making', flush=True)\n"
        "    time.sleep(60)\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
    assert maker.stdout is not None
    with maker.stdout as said:
        assert said.readline() == b"making\n"
        assert is_being_made("a set")
        maker.kill()
        maker.wait()
    assert not is_being_made("a set")
    with only_maker("a set"):
        pass
