"""How the project is built where there is a C compiler, and where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from streamer.native.build import TARGETS
from worlds.checkout import ROOT


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = spec_from_file_location("backend", ROOT / ".ci" / "backend.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(module.build_meta, "get_requires_for_build_wheel", lambda settings: ["setuptools"])
    return module


def asked_for(backend: Any, monkeypatch: pytest.MonkeyPatch, *compilers: str, **settings: str) -> set[str]:
    """The names of what a build asks for, where these compilers are."""
    monkeypatch.setattr(backend.shutil, "which", lambda name: name if name in compilers else None)
    return {one.partition(">")[0] for one in backend.get_requires_for_build_wheel(settings)}


def test_ziglang_is_asked_for_only_where_no_compiler_is(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = {"setuptools", *backend.IMPORTED}
    assert asked_for(backend, monkeypatch, "gcc") == imported
    assert asked_for(backend, monkeypatch) == imported | {"ziglang"}
    assert asked_for(backend, monkeypatch, "gcc", target="aarch64-linux") == imported | {"ziglang"}
    monkeypatch.setattr(backend.platform, "machine", lambda: "riscv64")
    assert asked_for(backend, monkeypatch) == imported
    monkeypatch.setenv("CC", "/opt/cc")
    assert asked_for(backend, monkeypatch) == imported


def test_an_editable_installation_asks_for_nothing_more(backend: Any) -> None:
    assert backend.build_editable is backend.build_meta.build_editable
    assert backend.get_requires_for_build_editable is backend.build_meta.get_requires_for_build_editable


def test_each_system_that_is_compiled_for_has_a_tag(backend: Any) -> None:
    assert backend.TAGS.keys() == TARGETS.keys()
    assert backend.this_system() in TARGETS


@pytest.mark.slow
def test_without_a_compiler_the_wheel_has_no_machine_code_and_the_remedies_are_named(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "streamer", tmp_path / "streamer", ignore=shutil.ignore_patterns("__pycache__", "library"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".ci/backend.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    code = "import sys; sys.path.append('.ci'); import backend; print(backend.build_wheel('.'))"
    environment = {name: value for name, value in os.environ.items() if name != "CC"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].endswith("-py3-none-any.whl")
    assert "apt-get install gcc" in done.stderr and "pip install ziglang" in done.stderr
