"""`make venv` says what it does, and takes pip where it cannot have uv."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from worlds.checkout import ROOT

PYTHON = """#!/bin/sh
case "$*" in
  *uv.txt) echo "pip: $*"; exit 1 ;;
  *install*) echo "pip: $*" ;;
  *native.build*) echo "no compiler"; exit {build} ;;
esac
"""
UV = '#!/bin/sh\ncase "$*" in *install*) echo "uv: $*"; exit {uv} ;; esac\n'
ALL, DEMO = ["uv", "libraries", "all libraries"], ["uv", "libraries", "demo's libraries"]


def made(folder: Path, *words: str, uv: int | None, build: int = 0) -> list[str]:
    """The lines of `.ci/venv`, with a Python and a uv that only note what they were asked for, and fail if told so."""
    programs = {".ci/venv": (ROOT / ".ci" / "venv").read_text(), ".venv/bin/python": PYTHON.format(build=build)}
    if uv is not None:
        programs[".venv/uv/bin/uv"] = UV.format(uv=uv)
    for name, text in programs.items():
        program = folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    done = subprocess.run([folder / ".ci" / "venv", *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def by_whom(lines: list[str]) -> str:
    """Who says each line: p pip, u uv, a dot the script."""
    return "".join(line[0] if line.startswith(("pip: ", "uv: ")) else "." for line in lines)


@pytest.mark.parametrize(
    ("words", "mark", "steps", "took"),
    [([], ".installed", "....uu..uu.", ALL), (["demo"], ".demo", "....uu..u.", DEMO)],
    ids=["all", "demo"],
)
def test_every_step_is_said_before_it_begins(
    tmp_path: Path, words: list[str], mark: str, steps: str, took: list[str]
) -> None:
    lines = made(tmp_path, *words, uv=0)
    assert (tmp_path / ".venv" / mark).exists()
    assert by_whom(lines) == steps, "a line before each step, and at the end"
    assert all(re.match(r"venv( \d/\d)?, \d+ s: ", line) for line in lines if not line.startswith("uv"))
    assert re.findall(r"^venv (\d/\d)", "\n".join(lines), re.M) == [f"{number}/4" for number in range(1, 5)]
    assert re.findall(r"(?:: |, )([a-z' ]+) \d+ s", lines[-1]) == took


def test_every_file_has_a_hash(tmp_path: Path) -> None:
    asked = [line for line in made(tmp_path, uv=0) if " -r " in line]
    assert len(asked) == 3
    assert all("--require-hashes" in line for line in asked)


def test_pip_installs_where_uv_cannot_be_had(tmp_path: Path) -> None:
    lines = made(tmp_path, uv=None)
    assert by_whom(lines) == "...p..pp..pp."
    assert lines[4].endswith("uv cannot be had: pip installs, which takes some times longer")


def test_pip_installs_where_uv_fails(tmp_path: Path) -> None:
    lines = made(tmp_path, "demo", uv=1)
    assert by_whom(lines) == "....u.pu.p..u.p."


def test_an_environment_without_machine_code_is_one_and_says_why(tmp_path: Path) -> None:
    lines = made(tmp_path, uv=0, build=2)
    assert lines[-3].endswith("the machine code was not built, without it everything is slow:")
    assert lines[-2] == "no compiler"
