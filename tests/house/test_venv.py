"""`make venv` says what it does: it takes minutes, on a slow machine many."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from worlds.checkout import ROOT


@pytest.mark.parametrize(
    ("words", "mark", "steps"),
    [([], ".installed", "...pp..p.pp."), (["demo"], ".demo", "...pp..p.")],
    ids=["all", "demo"],
)
def test_every_step_that_takes_long_is_said_before_it_begins(
    tmp_path: Path, words: list[str], mark: str, steps: str
) -> None:
    """With a Python that does nothing but note what it was asked for."""
    script, python = tmp_path / ".ci" / "venv", tmp_path / ".venv" / "bin" / "python"
    for folder in (script.parent, python.parent):
        folder.mkdir(parents=True)
    script.write_bytes((ROOT / ".ci" / "venv").read_bytes())
    python.write_text('#!/bin/sh\ncase "$*" in *install*) echo "pip: $*" ;; esac\n')
    for program in (script, python):
        program.chmod(0o755)
    made = subprocess.run([script, *words], capture_output=True, text=True, check=True)
    assert (made.stderr, (tmp_path / ".venv" / mark).exists()) == ("", True)
    lines = made.stdout.splitlines()
    assert not lines[0].startswith("pip")
    said = "".join("p" if line.startswith("pip") else "." for line in lines)
    assert said == steps, "a line before each step, and at the end"
    assert all(re.match(r"venv( \d/\d)?, \d+ s: ", line) for line in lines if not line.startswith("pip"))
    total = 4 - len(words)
    assert re.findall(r"^venv (\d/\d)", made.stdout, re.M) == [f"{number}/{total}" for number in range(1, total + 1)]
    took = re.findall(r"(?:: |, )([a-z' ]+) \d+ s", lines[-1])
    assert took == ["libraries", "workers' libraries", "tests' libraries"][: 3 - len(words)]
