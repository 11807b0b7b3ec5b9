"""Where machine code is kept on disk, what of it is there, and who makes it.

The rules of this file
----------------------
* numba sees by itself when the file of a function changes, but not when that of a function it calls does, or of a
  constant: so the code of every state of all these files has a folder of its own, and in it one for every processor,
  Python, version of numba and settings of numba that it was made for.
* That folder lies in the package; in $NUMBA_CACHE_DIR if that is set; where the package cannot be written to, in the
  user's own cache folder. Machine code is a program: it is never kept where others could write.
* A set of machine code that was made as a whole is marked by an empty file of its name. Whether it is there is one look
  at the disk, without numba.
* One process at a time makes a set. The others wait for it, or go on without: a lock is the kernel's, and goes with the
  process that held it.
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

PACKAGE = Path(__file__).parent.parent
KEPT_IN = "compiled-"

COMPILES = re.compile(
    rb"^from streamer\.numba_support\.jit"
    rb" import [\w\s,(]*\b(compiled|inlined|part|inner|entry|switching|compile_for)\b",
    re.MULTILINE,
)
IMPORTS = re.compile(rb"^ *from streamer\.([\w.]+) import ", re.MULTILINE)

SETTINGS = ("BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
"""Those of numba that change the machine code, and that numba itself does not tell apart on disk."""


class Locator:
    """Where numba keeps one function: by module, line and text, so that a folder copied with its package counts.

    numba makes one by `from_function` and asks the others ($NUMBA_CACHE_LOCATOR_CLASSES in its manual).
    """

    def __init__(self, function: Callable[..., object], file: str) -> None:
        self._path = os.path.join(folder(), function.__module__)
        self._py_file = file  # numba names it in warnings
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
    """Whether numba is told to compile nothing: then everything runs as it stands."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def is_there(name: str) -> bool:
    """Whether the whole set of machine code of that name can be loaded."""
    return bool(folder()) and os.path.exists(os.path.join(folder(), name))


def mark(name: str) -> None:
    """Says that the whole set of that name is there."""
    if folder():
        Path(folder(), name).touch()


def unmark(name: str) -> None:
    """Says that something of the set of that name is missing."""
    with suppress(OSError):  # it cannot be written to any more: then it is said of each call, and nothing stops for it
        Path(folder(), name).unlink(missing_ok=True)


def is_being_made(name: str) -> bool:
    """Whether a process is at it now."""
    with _lock_file(name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def only_maker(name: str) -> Iterator[None]:
    """Waits until no other process makes the set, and lets none begin before the block ends."""
    with _lock_file(name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _lock_file(name: str) -> Iterator[int]:
    """The open file that is to be locked; closing it unlocks it."""
    file = os.open(os.path.join(folder(), f"{name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield file
    finally:
        os.close(file)


@cache
def folder() -> str:
    """Where this package's machine code is kept for this machine; "" if nothing can be kept."""
    return folder_for(PACKAGE)


def folder_for(package: Path) -> str:
    """Where the machine code of a package in its present state is kept; that of its former states is removed."""
    state = f"{KEPT_IN}{_digest(*_sources(package))}"
    for home in _homes(package):
        kept = home / state / _digest(*_made_for())
        try:
            kept.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if not os.access(kept, os.W_OK):  # numba reads only where it can write
            continue
        for former in set(home.glob(f"{KEPT_IN}*")) - {home / state}:
            shutil.rmtree(former, ignore_errors=True)
        return str(kept)
    return ""


def _sources(package: Path) -> Iterator[bytes]:
    """The modules that compile and the compiler's own, and those that they import: constants are compiled in, too."""
    texts = {path.relative_to(package).as_posix(): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    count = {name for name, text in texts.items() if COMPILES.search(text)}
    for name in [*count, *({"numba_support/jit.py"} & texts.keys())]:
        count |= {module.decode().replace(".", "/") + ".py" for module in IMPORTS.findall(texts[name])}
    return (texts[name] for name in sorted(count & texts.keys()))


def _made_for() -> Iterator[bytes]:
    """What else the machine code depends on."""
    yield sys.implementation.cache_tag.encode()
    yield version("numba").encode()
    yield _processor().encode()
    yield from (f"{name}={os.environ.get(f'NUMBA_{name}', '')}".encode() for name in SETTINGS)


def _processor() -> str:
    """Kind and features of the first processor, as Linux tells them."""
    told = [platform.machine()]
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if not line.strip():
                    break
                if line.startswith(("model name", "flags", "Features", "CPU part")):
                    told.append(line)
    return "\n".join(told)


def _homes(package: Path) -> Iterator[Path]:
    """The folders to try, the best first; those that packages share have a folder for each."""
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
