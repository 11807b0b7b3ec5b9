"""Writes requirements/: all that is installed, in exact versions with hashes, for every Python and system at once.

Each file adds to the one that it names: `base` has the plain installation and what builds it, `worker` what the image
has, `demo` what the demo needs, `dev` all extras. `mutants`, `pycanon`, `uv` and `zig` go into folders of their own,
without what they share with these. Versions stay while the ranges of pyproject.toml allow them; with --upgrade they are
the newest.
`make lock` calls this.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from backend import ZIG

ROOT = Path(__file__).resolve().parent.parent
FOLDER, UV = ROOT / "requirements", ROOT / ".venv" / "uv" / "bin" / "uv"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OLDEST_PYTHON = PROJECT["project"]["requires-python"].removeprefix(">=")
WORKER = ["stream", "avro"]
EXTRAS = {"base": [], "worker": WORKER, "demo": [*WORKER, "demo"], "dev": ["dev"], "mutants": ["dev"]}
BUILD, MUTATES = PROJECT["build-system"]["requires"], "cosmic-ray>=8.3,<9"
ALONE = {"pycanon": "pycanon>=1.3,<2", "uv": "uv>=0.13,<0.14", "zig": ZIG}
HEADER = "# Written by `make lock`; `pip install --require-hashes -r` reads it.\n"


def compiled(known: Path, asked: list[str], *words: str) -> dict[str, str]:
    """The lines of each distribution by name, as uv resolves them; known: versions to prefer, which it writes anew."""
    command = [UV, "pip", "compile", "-", "--universal", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    options = ["--python", sys.executable, "--python-version", OLDEST_PYTHON, "--output-file", known]
    subprocess.run([*command, *options, *words], cwd=ROOT, input="\n".join(asked), text=True, check=True)
    entries = re.split(r"^(?=[^\s#])", known.read_text(), flags=re.M)
    return {entry.partition("==")[0]: entry for entry in entries if "==" in entry}


def lock(known: Path, *upgrade: str) -> None:
    """Resolves everything once, then finds out for each file what belongs to it."""
    extras = {name: [f"--extra={extra}" for extra in of_it] for name, of_it in EXTRAS.items()}
    beside = {name: [*BUILD, MUTATES] if name == "mutants" else BUILD for name in EXTRAS}
    everything = compiled(known, beside["mutants"], "pyproject.toml", *extras["mutants"], *upgrade)
    written: set[str] = set()
    former = ""
    for name in EXTRAS:
        part = known.with_name(f"{name}.txt")
        found = compiled(part, beside[name], "pyproject.toml", *extras[name], f"--constraint={known}")
        added = [everything[one] for one in sorted(found.keys() - written)]
        (FOLDER / f"{name}.txt").write_text(HEADER + former * (name != "mutants") + "".join(added))
        written, former = written | found.keys(), f"-r {name}.txt\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        together, apart = Path(folder) / "all.txt", Path(folder) / "alone.txt"
        for before in (together, apart):
            texts = [re.sub("^-r.*\n", "", file.read_text(), flags=re.M) for file in FOLDER.glob("*.txt")]
            before.write_text("".join(texts))
        lock(together, *sys.argv[1:])
        alone = compiled(apart, [*ALONE.values()], "--no-deps", *sys.argv[1:])
        for name, asked in ALONE.items():
            (FOLDER / f"{name}.txt").write_text(HEADER + alone[re.split("[^a-z]", asked)[0]])
