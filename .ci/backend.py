"""Builds the project as pip asks for it (PEP 517): setuptools makes the wheel, this system's machine code goes into it.

What is compiled is found by running the package, so a build needs the libraries that it imports. Where there is no C
compiler it asks for the wheel `ziglang`, which brings one. Where it cannot have that either (`--no-build-isolation`
without both) the wheel has no machine code, and everything runs uncompiled. `-C target=aarch64-linux` builds for
another system, by ziglang. An editable installation builds nothing here: the first command of a checkout does.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None

ZIG = "ziglang>=0.17,<0.18"
IMPORTED = {"msgspec", "numpy", "pandas"}
"""Of the project's libraries those that building imports."""

TAGS = {
    "x86_64-linux": "manylinux_2_28_x86_64",
    "aarch64-linux": "manylinux_2_28_aarch64",
    "x86_64-macos": "macosx_11_0_x86_64",
    "aarch64-macos": "macosx_11_0_arm64",
}
"""The systems that there is machine code for, and what pip calls the oldest of each that ziglang's runs on."""

NO_COMPILER = (
    "There is no C compiler, so the wheel has no machine code, and everything will run some hundred times slower:"
    " install one (Debian: apt-get install gcc libc6-dev) or `pip install ziglang`, then build again."
)


def this_system() -> str:
    """As TAGS names it, if it is there."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    return f"{machine}-{'macos' if sys.platform == 'darwin' else sys.platform}"


def own_tag() -> str:
    """What pip calls this very system: what its own compiler makes may run on no older one."""
    if sys.platform == "darwin":
        return f"macosx_{platform.mac_ver()[0].partition('.')[0]}_0_{platform.machine()}"
    return f"{sys.platform}_{platform.machine()}"


def has_compiler() -> bool:
    """The system's own, or one that is named."""
    return "CC" in os.environ or any(map(shutil.which, ("cc", "gcc", "clang")))


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    wanted = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    needed = [one for one in wanted if re.match(r"[\w-]+", one)[0] in IMPORTED]
    by_zig = "target" in (config_settings or {}) or (this_system() in TAGS and not has_compiler())
    return build_meta.get_requires_for_build_wheel(config_settings) + needed + [ZIG] * by_zig


def build_wheel(folder: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    settings = dict(config_settings or {})
    asked = settings.pop("target", None)
    target = asked or this_system()
    with TemporaryDirectory() as base:
        settings["--global-option"] = ["build", f"--build-base={base}"]  # nothing of an earlier build is in there
        if asked or (target in TAGS and (has_compiler() or find_spec("ziglang"))):
            build_library(Path(base, "lib", "streamer", "native", "library"), target)
            settings["--build-option"] = [f"--plat-name={TAGS[target] if asked else own_tag()}"]
        else:
            print(NO_COMPILER if target in TAGS else f"There is no machine code for {target}.", file=sys.stderr)
        return build_meta.build_wheel(folder, settings, metadata_directory)


def build_library(into: Path, target: str) -> None:
    """Every file of a system: which of them fits a processor is chosen where it is loaded."""
    into.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    with TemporaryDirectory() as made:
        command = [sys.executable, "-m", "streamer.native.build", "--target", target, "--out", made]
        subprocess.run(command, env=environment, check=True)
        for file in Path(made).glob("*-*"):
            shutil.copy(file, into)
