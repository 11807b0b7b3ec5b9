"""The library of machine code: which file fits this processor, whether it is that of the sources, calls of its entries.

A library says which sources it was made of, with a digest. In a checkout, one whose sources have changed is made again
by the first command that needs it; in an installed package nothing is ever written. Where there is none, everything
runs as it was written, some hundred times slower, with a word that says so. STREAMER_NATIVE=off asks for that; or it
names a file, which is taken as it is.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import platform
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = Path(__file__).parent.parent
FOLDER = PACKAGE / "native" / "library"
REMEDY = "install a C compiler (Debian: apt-get install gcc) or `pip install ziglang`"
V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
V2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}

SAYS = b'{"entries": '
"""How what a library says of itself begins."""

M_MMAP_THRESHOLD, LARGE = -3, 1 << 20
"""Arrays of LARGE bytes go back to the system when they are freed. By default glibc keeps what is freed for arrays of
the sizes that it has seen: after a table of a million rows that is 300 MB, which nothing uses until the end."""

log = logging.getLogger(__name__)

_BITS, _DOUBLE = struct.Struct("q"), struct.Struct("d")
_lock = threading.RLock()


class WrongLibrary(Exception):
    """There is no machine code that may run; says why, and what to do."""


# -- which file --------------------------------------------------------------------------------------------------------


@cache
def file_name() -> str:
    """The name of the library for this processor; raises WrongLibrary if none is made for it."""
    system, machine = platform.system().lower(), platform.machine().lower().replace("amd64", "x86_64")
    machine = machine.replace("aarch64", "arm64")
    suffix = "dylib" if system == "darwin" else "so"
    if machine == "x86_64" and system == "linux":
        flags = _processor_flags()
        if not flags >= V2:
            raise WrongLibrary("this processor is older than x86-64-v2")
        machine += "-v3" if flags >= V3 | V2 else "-v2"
    return f"{system}-{machine}.{suffix}"


def _processor_flags() -> set[str]:
    with open("/proc/cpuinfo") as lines:
        return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def digest_of(names: Iterable[str]) -> str:
    """A digest of these files of the package."""
    digest = blake2b(digest_size=16)
    for name in sorted(names):
        try:
            with open(f"{PACKAGE}/{name}", "rb", buffering=0) as file:  # every start reads them all
                text = file.read()
        except FileNotFoundError:
            digest.update(f"{name} -1 ".encode())
        else:
            digest.update(f"{name} {len(text)} ".encode())
            digest.update(text)
    return digest.hexdigest()


def is_checkout() -> bool:
    """True if the package lies beside its pyproject.toml, and so may be built in its folder."""
    return (PACKAGE.parent / "pyproject.toml").exists()


# -- loading -----------------------------------------------------------------------------------------------------------


class Library:
    """A file of machine code; `forms`: what its entries are, by the names of their functions.

    What it says of itself is read, not loaded: a file that is loaded once stays what it was, whatever replaces it.
    """

    def __init__(self, file: Path) -> None:
        self.file, text = file, file.read_bytes()
        begin = text.index(SAYS)
        self._says = text[begin : text.index(b"\0", begin)]
        said = json.loads(self._says)
        self.sources: dict[str, Any] = said["sources"]
        self.flags: list[str] = said["flags"]
        self._entries: dict[str, Any] = said["entries"]

    def is_current(self) -> bool:
        """True if it was made of the sources as they are."""
        return bool(digest_of(self.sources["names"]) == self.sources["digest"])

    @cached_property
    def forms(self) -> dict[str, tuple[EntryForm, ...]]:
        """Loads the file."""
        code = ctypes.CDLL(str(self.file))
        if sys.platform == "linux" and (set_limit := getattr(ctypes.CDLL(None), "mallopt", None)):
            set_limit(M_MMAP_THRESHOLD, LARGE)
        if ctypes.c_char_p.in_dll(code, "streamer_says").value != self._says:
            raise OSError(f"{self.file} was replaced while it was loaded: call again")
        return {name: tuple(EntryForm(code, *one) for one in forms) for name, forms in self._entries.items()}


def read(file: Path) -> Library | None:
    """The library in a file; None if there is none, or only a part of it."""
    try:
        return Library(file)
    except (OSError, ValueError, KeyError):  # none, a part of one, or one of a former form
        return None


_loaded: list[Library | None] = []


def ready() -> bool:
    """True if machine code is there; loads it first, and in a checkout makes it if its sources have changed."""
    return _library() is not None


def forms_of(name: str) -> tuple[EntryForm, ...]:
    """The compiled forms of a function, `module:name`; none if nothing is compiled."""
    found = _library()
    return () if found is None else found.forms.get(name, ())


def _library() -> Library | None:
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(available())
    return _loaded[0]


def available() -> Library | None:
    """The library for this process; None, with a word in the log, if everything runs uncompiled."""
    asked = os.environ.get("STREAMER_NATIVE", "")
    if asked == "off":
        return None
    try:
        found = Library(Path(asked)) if asked else current(FOLDER / file_name())
        return found if found.forms else None
    except (WrongLibrary, OSError, ValueError, KeyError) as error:
        log.warning("everything runs uncompiled, some hundred times slower: %s", error)
        return None


def current(file: Path) -> Library:
    """The library in a file, made of the present sources; raises WrongLibrary, OSError."""
    found = read(file)
    if found is not None and found.is_current():
        return found
    state = "missing" if found is None else "older than its sources"
    if not is_checkout():
        raise WrongLibrary(f"the machine code is {state}: {REMEDY}, then install the package again")
    if not os.access(PACKAGE / "native", os.W_OK):
        raise WrongLibrary(f"the machine code is {state}, and this user cannot write into {PACKAGE / 'native'}")
    print(f"streamer: the machine code is {state}: it is built, which takes about ten seconds", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, "-m", "streamer.native.build"], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    if done.returncode != 0 or not file.exists():
        raise WrongLibrary(f"the machine code is {state}, and cannot be built: {done.stderr.strip()[-2000:]}")
    built = read(file)
    if built is None or not built.is_current():
        raise WrongLibrary("its sources changed while the machine code was built; the next command builds it again")
    return built


# -- calls -------------------------------------------------------------------------------------------------------------


class Words(list[int]):
    """The words of a call's arguments; `copies`: arrays whose items do not stand side by side, and copies that do."""

    def __init__(self) -> None:
        self.copies: list[tuple[Any, Any]] = []


Take = Callable[[Any, Words], bool]
"""Puts the words of an argument; False if its type is another."""


class EntryForm:
    """A function as it is compiled for arguments of some types."""

    def __init__(self, code: ctypes.CDLL, prefix: str, symbol: str, takes: Sequence[Any], gives: Any) -> None:
        self._code, self._prefix, self._symbol, self._gives = code, prefix, symbol, gives
        self._take = [_taking(of) for of in takes]
        self._n_out = n_words(gives)
        self._copies = _has_array(gives)
        self._entry: Any = None

    def words_of(self, arguments: Sequence[Any]) -> Words | None:
        """The arguments as its entry gets them; None if they are of other types."""
        words = Words()
        if len(arguments) != len(self._take):
            return None
        for take, one in zip(self._take, arguments, strict=True):
            if not take(one, words):
                return None
        for original, _ in words.copies:  # what is written there would not be seen by another argument
            if sum(isinstance(one, np.ndarray) and np.may_share_memory(original, one) for one in arguments) > 1:
                return None
        return words

    def call(self, words: Words) -> Any:
        """The function's result. Raises MemoryError; under CHECKED also IndexError, ValueError."""
        entry = self._entry
        if entry is None:
            entry = getattr(self._code, self._symbol)
            entry.argtypes, entry.restype = (ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int64
            self._entry = entry  # last: other threads take it as it is
        given, out = array("q", words), array("q", bytes(8 * self._n_out))
        status = entry(given.buffer_info()[0], out.buffer_info()[0])
        for original, copy in words.copies:
            if original.flags.writeable:
                original[...] = copy
        if status:
            raise self._error(status)
        if not self._copies:
            return _given(self._gives, iter(out), self._owns)
        try:
            return _given(self._gives, iter(out), self._owns)
        finally:
            getattr(self._code, f"{self._prefix}_release")()

    def _error(self, status: int) -> Exception:
        line = getattr(self._code, f"{self._prefix}_line")
        line.restype = ctypes.c_int64
        if status == 1:
            return MemoryError(f"{self._symbol}: no memory is left, or a length is negative")
        kind = IndexError if status == 2 else ValueError
        return kind(f"{self._symbol}: {'an index is outside' if status == 2 else 'two lengths differ'}, line {line()}")

    def _owns(self, address: int) -> None:
        owns = getattr(self._code, f"{self._prefix}_owns")
        owns.argtypes, owns.restype = (ctypes.c_void_p,), ctypes.c_int64
        if not owns(address):
            raise TypeError(f"{self._symbol} returns an array of its arguments: let it return a copy")


def no_form(function: Callable[..., object], arguments: Sequence[Any]) -> TypeError:
    """Machine code is there, but not for arguments of these types."""
    said = ", ".join(
        f"{one.dtype}{list(one.shape)}, strides {one.strides}" if isinstance(one, np.ndarray) else type(one).__name__
        for one in arguments
    )
    where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    return TypeError(
        f"{function.__qualname__} ({where}) has no machine code for arguments ({said}):"
        " add a call like this to streamer/native/examples.py"
    )


def dtype_of(element: Any) -> np.dtype[Any]:
    """The dtype of an array's element, as a library says it."""
    if isinstance(element, str):
        return np.dtype(element)
    fields, size = element
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": size})


def _taking(of: Any, is_inside: bool = False) -> Take:
    """The function that puts the words of an argument of a type; is_inside: it is a part of a named tuple."""
    if isinstance(of, str):
        return {"int": _int, "bool": _bool, "float": _float, "uint": _uint, "None": _none}[of]
    if of[0] == "array":
        return _array_taker(dtype_of(of[1]), of[2], of[3], is_inside)
    return _tuple_taker(of[1], [_taking(one, True) for one in of[2]])


def _bool(value: Any, words: Words) -> bool:
    words.append(bool(value))
    return isinstance(value, bool | np.bool_)


def _int(value: Any, words: Words) -> bool:
    if not isinstance(value, int | np.integer) or isinstance(value, bool | np.uint64):
        return False
    words.append(int(value))
    return True


def _uint(value: Any, words: Words) -> bool:
    if not isinstance(value, np.uint64):
        return False
    words.append(_BITS.unpack(struct.pack("Q", int(value)))[0])
    return True


def _float(value: Any, words: Words) -> bool:
    if not isinstance(value, float):
        return False
    words.append(_BITS.unpack(_DOUBLE.pack(value))[0])
    return True


def _none(value: Any, words: Words) -> bool:
    words.append(0)
    return value is None


def _array_taker(dtype: np.dtype[Any], n_dims: int, in_line: bool, is_inside: bool) -> Take:
    size, known, is_record = dtype.itemsize, [dtype], dtype.names is not None

    def take(value: Any, words: Words) -> bool:
        if not isinstance(value, np.ndarray) or value.ndim != n_dims:
            return False
        if value.dtype is not known[0]:
            if value.dtype != dtype:
                return False
            known[0] = value.dtype
        strides = value.strides
        if any(stride % size for stride in strides):
            return False
        if in_line and strides[-1] != size and value.size and value.shape[-1] > 1:
            if is_inside:  # its words are kept
                return False
            words.copies.append((value, np.ascontiguousarray(value)))
            value = words.copies[-1][1]
            strides = value.strides
        # numpy describes every field of a record array to give its interface
        words.append(value.ctypes.data if is_record else value.__array_interface__["data"][0])
        words.extend(value.shape)
        words.extend(stride // size for stride in strides)
        return True

    return take


def _tuple_taker(name: str, parts: Sequence[Take]) -> Take:
    """Named tuples stay as they are, so the words of the last one in each thread are kept."""
    kept = threading.local()

    def is_one(value: Any) -> bool:
        kind = type(value)
        return isinstance(value, tuple) and f"{kind.__module__}:{kind.__qualname__}" == name

    def take(value: Any, words: Words) -> bool:
        if value is not getattr(kept, "value", None):
            if not is_one(value):
                return False
            found = Words()
            if not all(part(one, found) for part, one in zip(flat, value, strict=True)):
                return False
            kept.value, kept.words = value, array("q", found)
        words.append(kept.words.buffer_info()[0])
        return True

    def inside(value: Any, words: Words) -> bool:
        return is_one(value) and all(part(one, words) for part, one in zip(flat, value, strict=True))

    flat = [getattr(part, "inside", part) for part in parts]
    take.inside = inside  # type: ignore[attr-defined]
    return take


def _given(of: Any, words: Any, owns: Callable[[int], None]) -> Any:
    if isinstance(of, str):
        word = next(words)
        if of == "float":
            return _DOUBLE.unpack(_BITS.pack(word))[0]
        if of == "uint":
            return np.uint64(word % 2**64)
        return None if of == "None" else bool(word) if of == "bool" else word
    if of[0] == "array":
        return _copied(dtype_of(of[1]), [next(words) for _ in range(1 + 2 * of[2])], owns)
    parts = [_given(one, words, owns) for one in of[-1]]
    return tuple(parts) if of[0] == "tuple" else _named_tuple(of[1])(*parts)


@cache
def _named_tuple(name: str) -> Any:
    module, _, kind = name.partition(":")
    return getattr(sys.modules[module], kind)


def _copied(dtype: np.dtype[Any], words: Sequence[int], owns: Callable[[int], None]) -> Any:
    """The array at an address, with lengths and strides, as one of Python's."""
    n_dims = len(words) // 2
    address, shape, strides = words[0], words[1 : 1 + n_dims], [one * dtype.itemsize for one in words[1 + n_dims :]]
    if 0 in shape:
        return np.empty(shape, dtype)
    owns(address)
    lowest = sum(min(0, (n - 1) * stride) for n, stride in zip(shape, strides, strict=True))
    reach = sum(abs((n - 1) * stride) for n, stride in zip(shape, strides, strict=True)) + dtype.itemsize
    memory = (ctypes.c_char * reach).from_address(address + lowest)
    return np.ndarray(shape, dtype, memoryview(memory), -lowest, strides).copy()


def n_words(of: Any) -> int:
    """Words of a result, or of an argument that is no named tuple; of: a type as a library says it."""
    if isinstance(of, str):
        return 1
    return 1 + 2 * of[2] if of[0] == "array" else sum(map(n_words, of[-1]))


def _has_array(of: Any) -> bool:
    return not isinstance(of, str) and (of[0] == "array" or any(map(_has_array, of[-1])))
