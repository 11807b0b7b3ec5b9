"""The wheel: it holds every file that the code reads, asks for every library, and works away from the checkout."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.installed import megabytes, needed_by
from streamer.native.library import file_name
from worlds.checkout import PATIENTS, ROOT

pytestmark = pytest.mark.night

PACKAGES = ("streamer", "agents")
LEFT_BESIDE = {"__pycache__", "library"}
"""Folders that running the code leaves beside it: of Python, and of the checkout's machine code."""


def ran(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """What a command says; fails with all of it where the command does."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean["STREAMER_NOBODY_KNOWS"] = "1"  # a variable that may be misspelt must not need the libraries of servers
    result = subprocess.run(
        list(map(str, command)), cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of an sdist, which is built from a copy: a build leaves its own files behind."""
    folder = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*LEFT_BESIDE))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", ".ci/backend.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    sdist = "import sys; sys.path.append('.ci'); import backend; backend.build_sdist('built')"
    ran([sys.executable, "-c", sdist], folder)
    (source,) = (folder / "built").glob("*.tar.gz")
    ran([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "built", source], folder)
    (built,) = (folder / "built").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def streamer(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(wheel, tmp_path_factory.mktemp("elsewhere") / "venv")


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, without the libraries that only extras bring: no one there can import them."""
    commands = environment(wheel, tmp_path_factory.mktemp("base") / "venv")
    (site,) = commands.parent.glob("lib/python*/site-packages")
    brought = needed_by("streamer")
    missing = [
        name for name, homes in packages_distributions().items() if not brought & set(map(canonicalize_name, homes))
    ]
    (site / "sitecustomize.py").write_text(BASE_ONLY.format(missing=missing))
    return commands


BASE_ONLY = """
import sys

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Missing)
"""


def environment(wheel: Path, folder: Path) -> Path:
    """The folder of commands of an environment that has the wheel, and the libraries of ours, but not the checkout."""
    ran([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    commands = folder / "bin"
    (site,) = folder.glob("lib/python*/site-packages")
    ran([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel], folder)
    (site / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # of which no .pth is read, ours neither
    return commands


def test_every_file_beside_the_code_is_in_it(wheel: Path) -> None:
    inside = set(ZipFile(wheel).namelist())
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file()]
    assert {str(path.relative_to(ROOT)) for path in files if not LEFT_BESIDE & set(path.parts)} <= inside


def test_it_has_this_system_s_machine_code_for_each_of_its_processors_and_says_so(wheel: Path) -> None:
    code = {Path(name).name for name in ZipFile(wheel).namelist() if "/native/library/" in name}
    assert {file_name(), file_name().replace("-v3", "-v2")} <= code
    assert re.search(r"-py3-none-(linux|macosx)_\w+\.whl", wheel.name)


def test_every_library_that_is_imported_is_asked_for() -> None:
    """Or is one of those that a library of ours is built on and asks for itself."""
    ours = asked_for("streamer")
    brought = ours.union(*map(asked_for, ours))
    homes = packages_distributions()
    for path in (path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        for library in imported(path) - sys.stdlib_module_names - set(PACKAGES):
            assert {canonicalize_name(home) for home in homes.get(library, [library])} & brought, (path, library)


def asked_for(library: str) -> set[str]:
    """The names of what an installed library asks for; none of one that is not installed."""
    try:
        return {str(canonicalize_name(Requirement(line).name)) for line in requires(library) or ()}
    except PackageNotFoundError:
        return set()


def imported(path: Path) -> set[str]:
    """The top names of what a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


NATIVE = (
    "from streamer.native.library import FOLDER, Library, file_name; assert Library(FOLDER / file_name()).is_current()"
)


def test_from_a_file_to_a_report_in_a_folder_that_knows_nothing_of_the_checkout(streamer: Path, tmp_path: Path) -> None:
    """By machine code: nothing says that it runs uncompiled."""
    shutil.copy(PATIENTS / "rows.csv", tmp_path)
    ran([streamer / "python", "-m", "streamer.cli.main", "init", "rows.csv", "-o", "mine"], tmp_path)
    ran(
        [
            streamer / "python",
            "-m",
            "streamer.cli.main",
            "anonymize",
            "--table",
            PATIENTS,
            "rows.csv",
            "-o",
            "out.csv",
            "--report",
            "out.html",
        ],
        tmp_path,
    )
    assert "at least 3 rows" in (tmp_path / "out.html").read_text()
    ran([streamer / "python", "-c", NATIVE], tmp_path)
    assert (tmp_path / "mine" / "table.yaml").is_file()


DISTRIBUTIONS_MAX, MB_MAX = 21, 200
"""Of the base installation. Two of its libraries have most of it: numpy and pandas."""


def test_the_base_installation_is_small() -> None:
    names = needed_by("streamer")
    assert len(names) <= DISTRIBUTIONS_MAX
    assert sum(map(megabytes, names - {"streamer"})) <= MB_MAX


def test_whole_tables_and_files_of_changes_need_no_extra(base: Path, tmp_path: Path) -> None:
    shutil.copy(PATIENTS / "rows.csv", tmp_path)
    shutil.copy(PATIENTS / "events.jsonl", tmp_path)
    table = ["--table", PATIENTS]
    for words in (
        ["init", "rows.csv", "-o", "mine"],
        ["check", *table, "--data", "rows.csv"],
        ["anonymize", *table, "rows.csv", "-o", "out.csv"],
        ["compare", *table, "rows.csv"],
        ["replay", *table, "--initial", "rows.csv", "events.jsonl", "--out", "replayed"],
        ["verify", *table, "replayed/live.jsonl"],
        ["subscribe", "--help"],
    ):
        ran([base / "python", "-m", "streamer.cli.main", *words], tmp_path)


@pytest.mark.parametrize(("words", "extra"), [("worker", "stream"), ("status", "stream"), ("demo", "demo")])
def test_a_command_that_needs_an_extra_names_it(base: Path, tmp_path: Path, words: str, extra: str) -> None:
    command = [base / "python", "-m", "streamer.cli.main", words, "--table", PATIENTS]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(
        rf"streamer: \w+ is not installed: `pip install 'streamer\[{extra}\]'` brings it\n", done.stderr
    )


@pytest.mark.parametrize("command", ["worker", "subscribe", "demo"])
def test_every_large_part_is_there(streamer: Path, tmp_path: Path, command: str) -> None:
    assert "Usage: " in ran([streamer / "python", "-m", "streamer.cli.main", command, "--help"], tmp_path)


def test_python_finds_it_where_it_was_installed(streamer: Path, tmp_path: Path) -> None:
    shown = ran(
        [streamer / "python", "-c", "import streamer, agents.app; print(streamer.__file__, streamer.__version__)"],
        tmp_path,
    )
    file, version = shown.split()
    assert Path(file).is_relative_to(streamer.parent)
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
