"""The folder of machine code on disk, which sets of it are complete, and locks of those who compile it.

The rules of this file
----------------------
* numba notices that the file of a function has changed, but not the file of a function that it calls, or of a constant.
  So every state of all these files has a folder of its own, with one folder in it for each processor, Python, version
  of numba and settings of numba.
* The folder is in the package; in $NUMBA_CACHE_DIR if that is set; in the user's cache folder if the package is not
  writable. Machine code is a program: a folder that belongs to another user, or that others can write to, is not used,
  nor one in a folder where anybody could rename it.
  (Who can write to the package's own __pycache__ could change the package as well.)
* An empty file marks a set of machine code that is complete. So one look at the disk finds it, without numba.
* One process at a time compiles a set; the others wait, or go on without it. The kernel releases the lock of a process
  that ends.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from stat import S_ISDIR, S_ISVTX, S_IWGRP, S_IWOTH

PACKAGE = Path(__file__).parent.parent
KEPT_IN = "compiled-"

COMPILES = re.compile(
    rb"^from streamer\.numba_support\.jit"
    rb" import [\w\s,(]*\b(compiled|borrowing|inlined|part|inner|entry|switching|compile_for)\b",
    re.MULTILINE,
)
IMPORTS = re.compile(rb"^ *from streamer\.([\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)

SETTINGS = ("BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
"""numba's settings that change the machine code, and that numba's own cache does not distinguish."""


class Locator:
    """numba's cache locator of one function, by module, line and text, so that a copied package finds its folder.

    numba calls its methods (see $NUMBA_CACHE_LOCATOR_CLASSES in its manual).
    """

    def __init__(self, function: Callable[..., object], file: str) -> None:
        self._path = os.path.join(folder(), function.__module__)
        self._py_file = file  # numba reads the attribute for its warnings
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> Locator:
        return cls(function, file)

    def ensure_cache_path(self) -> None:
        os.makedirs(self._path, exist_ok=True)

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return _digest(Path(self._py_file).read_bytes())

    def get_disambiguator(self) -> str:
        return str(self._line)


def never_compiled() -> bool:
    """Whether NUMBA_DISABLE_JIT turns compiling off."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def is_there(name: str) -> bool:
    """Whether the set of machine code of that name is complete."""
    return bool(folder()) and os.path.exists(os.path.join(folder(), name))


def mark(name: str) -> None:
    """Marks a set as complete."""
    if folder():
        Path(folder(), name).touch()


def unmark(name: str) -> None:
    """Marks a set as incomplete."""
    with suppress(OSError):  # the folder is not writable any more: every call warns, and goes on
        Path(folder(), name).unlink(missing_ok=True)


def is_being_made(name: str) -> bool:
    """Whether a process is compiling the set now."""
    with _lock_file(name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def only_maker(name: str) -> Iterator[None]:
    """Waits until no other process compiles the set, and keeps others waiting until the block ends."""
    with _lock_file(name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _lock_file(name: str) -> Iterator[int]:
    """The open lock file; closing it unlocks it."""
    file = os.open(os.path.join(folder(), f"{name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield file
    finally:
        os.close(file)


@cache
def folder() -> str:
    """The folder of this package's machine code on this machine; "" if none is writable."""
    return folder_for(PACKAGE)


def folder_for(package: Path) -> str:
    """The folder of a package's machine code in its present state; folders of former states are deleted."""
    state = f"{KEPT_IN}{_digest(*_sources(package))}"
    for home in _homes(package):
        kept = home / state / _digest(*_made_for())
        own = [*([home] if home.parent != package else []), home / state, kept]
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            home.mkdir(0o777 if home.parent == package else 0o700, exist_ok=True)
            for place in own:
                place.mkdir(0o700, exist_ok=True)
            is_ours = all(map(_is_ours, own)) and (home.parent == package or not _others_may_rename_in(home.parent))
        except OSError:
            continue
        if not is_ours or not os.access(kept, os.W_OK):  # numba reads only a folder that it can write
            continue
        for former in set(home.glob(f"{KEPT_IN}*")) - {home / state}:
            shutil.rmtree(former, ignore_errors=True)
        return str(kept)
    return ""


def _is_ours(place: Path) -> bool:
    """Whether a place is a folder of this user, and no link, that others cannot write to."""
    found = place.lstat()
    return S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & (S_IWGRP | S_IWOTH)


def _others_may_rename_in(place: Path) -> bool:
    """Whether anybody can put a folder in the place of another's there; the sticky bit of /tmp forbids that."""
    return place.stat().st_mode & (S_IWOTH | S_ISVTX) == S_IWOTH


def _sources(package: Path) -> Iterator[bytes]:
    """The texts of modules that compile, of `jit`, and of modules that these import: constants are compiled in."""
    texts = {path.relative_to(package).as_posix(): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    count = {name for name, text in texts.items() if COMPILES.search(text)}
    for name in [*count, *({"numba_support/jit.py"} & texts.keys())]:
        for module, names in IMPORTS.findall(texts[name]):
            path = module.decode().replace(".", "/")
            count |= {f"{path}.py", *(f"{path}/{one}.py" for one in re.findall(r"\w+", names.decode()))}
    return (texts[name] for name in sorted(count & texts.keys()))


def _made_for() -> Iterator[bytes]:
    """What the machine code depends on besides the sources."""
    yield sys.implementation.cache_tag.encode()
    yield version("numba").encode()
    yield _processor().encode()
    yield from (f"{name}={os.environ.get(f'NUMBA_{name}', '')}".encode() for name in SETTINGS)


def _processor() -> str:
    """Kind and features of the first processor, as Linux reports them."""
    found = [platform.machine()]
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if not line.strip():
                    break
                if line.startswith(("model name", "flags", "Features", "CPU part")):
                    found.append(line)
    return "\n".join(found)


def _homes(package: Path) -> Iterator[Path]:
    """The folders to try, the best first; in shared ones each package has a folder of its own."""
    own = f"streamer-{_digest(str(package.resolve()).encode())}"
    if stated := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(stated, own)
        return
    yield package / "__pycache__"
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(cache_home):
        yield Path(cache_home, "streamer", own)


def _digest(*parts: bytes) -> str:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
