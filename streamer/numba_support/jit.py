"""Decorators that compile functions of arrays with numba.

They are for loops over rows that cannot be written as operations on whole columns: cuts of a tree, segments along an
order. No `fastmath`: sums keep their order, so two computations agree to the last bit.

Machine code is kept on disk, so a machine compiles once (`streamer.numba_support.cache`). `part`, `entry` and
`switching` import numba when machine code is first needed, the others at once. With NUMBA_DISABLE_JIT=1 they leave
functions as they are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from typing import Any, Protocol, TypeVar, cast

from streamer.numba_support.cache import Locator, folder, is_there, never_compiled, unmark

F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type)

log = logging.getLogger(__name__)

_parts: list[tuple[Callable[..., object], bool]] = []
"""Parts that are not registered with numba yet, and whether each is compiled into its callers."""

_shared: list[type] = []
"""Classes of shared tuples that numba does not know yet."""

_lock = threading.RLock()
"""Guards numba's import and registration, and loading from the disk: shards run in threads."""


def compiled(function: F) -> F:
    """Compiles a function when it is first called."""
    return cast(F, _kept(function))


def borrowing(function: F) -> F:
    """Compiles a function that neither allocates an array nor returns one: it borrows those of its arguments.

    So no references are counted. In other functions every use of a field of a tuple counts one up and down, with a
    locked instruction: in a loop that takes several times as long as the loop itself. What it calls must borrow, too.
    """
    return cast(F, _kept(function, **({"_nrt": False} if links() else {})))


def inlined(function: F) -> F:
    """Compiles a borrowing function into each of its callers: for few lines in innermost loops."""
    return cast(F, _kept(function, **({"_nrt": False, "forceinline": True} if links() else {})))


def part(function: F) -> F:
    """A piece of an `entry`: compiled with the entry that calls it, and run uncompiled if Python calls it.

    Neither may allocate: all arrays are arguments. So no references are counted: the machine code is smaller, and
    threads that work on other arrays are not slowed down.
    """
    _parts.append((function, False))
    return function


def inner(function: F) -> F:
    """A `part` that is compiled into the body of each of its callers: for few lines, in innermost loops."""
    _parts.append((function, True))
    return function


def shared(kind: C) -> C:
    """A class of named tuples of arrays, also of nested ones, that entries get and hand on to parts as they are."""
    _shared.append(kind)
    return kind


def entry(function: F) -> F:
    """A function that Python calls and that calls `part`s: compiled when it is first called."""
    return function if never_compiled() else cast(F, Entry(function))


def switching(set_of: Callable[..., str]) -> Callable[[F], F]:
    """An `entry` that runs uncompiled until its machine code is on disk, then switches to it, with the same results.

    set_of: takes the arguments, and returns the name of the set of machine code (`streamer.numba_support.cache`) for
    arguments of these types.
    """

    def decorated(function: F) -> F:
        return function if never_compiled() else cast(F, Switching(function, set_of))

    return decorated


def compile_for(function: Callable[..., object], arguments: Iterable[object]) -> bool:
    """Has the machine code of an entry on disk for arguments of these types; returns whether it was compiled now."""
    if not isinstance(function, Entry):
        return False
    return function.compile_for(arguments)


class Entry:
    """A function of arrays, compiled for the types of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._dispatcher: Dispatcher | None = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.dispatcher())(*arguments)

    def dispatcher(self) -> Dispatcher:
        """numba's dispatcher of the function."""
        with _lock:
            if self._dispatcher is None:
                _register_parts()
                self._dispatcher = _kept_entry(self.function)
            return self._dispatcher

    def compile_for(self, arguments: Iterable[object]) -> bool:
        """See `streamer.numba_support.jit.compile_for`."""
        dispatcher = self.dispatcher()
        known = len(dispatcher.stats.cache_misses)
        dispatcher.compile(_types(arguments))
        return len(dispatcher.stats.cache_misses) > known

    def load(self, arguments: Iterable[object]) -> bool:
        """Loads the machine code for arguments of these types from disk; returns whether it is there.

        Damaged files (a power loss, a full disk) count as missing, whatever numba raises: they are deleted.
        """
        with _lock:  # if two threads import a module of numba's, one may find it half imported
            return self._loaded(self.dispatcher(), _types(arguments))

    @staticmethod
    def _loaded(dispatcher: Dispatcher, types: tuple[object, ...]) -> bool:
        from numba.core.event import Listener, install_listener

        class NotOnDisk(Exception):
            pass

        class Refuses(Listener):  # type: ignore[misc]
            def on_start(self, event: Any) -> None:
                if event.data["dispatcher"] is dispatcher:
                    raise NotOnDisk

            def on_end(self, event: Any) -> None: ...

        try:
            with install_listener("numba:compile", Refuses()):
                dispatcher.compile(types)
        except NotOnDisk:
            return False
        except Exception:
            with suppress(OSError, AttributeError):  # AttributeError: numba does not document the name
                dispatcher._cache.flush()
            return False
        return True


class Switching(Entry):
    """An entry that runs uncompiled until its machine code is on disk.

    A call never compiles: that takes minutes on a busy machine, and the worker would seem to hang.
    """

    def __init__(self, function: Callable[..., Any], set_of: Callable[..., str]) -> None:
        super().__init__(function)
        self._set_of = set_of
        self._there: set[str] = set()

    def __call__(self, *arguments: Any) -> Any:
        name = self._set_of(*arguments)
        if name in self._there:
            return super().__call__(*arguments)
        if not is_there(name):
            return self.function(*arguments)
        if not self.load(arguments):
            unmark(name)  # the next command that needs it compiles it again
            log.warning(
                "the machine code of %s is on disk and cannot be loaded: it runs uncompiled, some hundred times slower,"
                " until the next command, or `streamer warm`, has made it again",
                self.function.__name__,
            )
            return self.function(*arguments)
        self._there.add(name)
        return super().__call__(*arguments)


class Dispatcher(Protocol):
    """What we use of numba's dispatcher."""

    stats: Any
    _cache: Any

    def __call__(self, *arguments: Any) -> Any: ...

    def compile(self, types: tuple[object, ...]) -> object: ...


def _types(arguments: Iterable[object]) -> tuple[object, ...]:
    import numba

    return tuple(numba.typeof(argument) for argument in arguments)


@cache
def links() -> bool:
    """Whether this numba can compile an entry and its parts as one module (`streamer.numba_support.linking`).

    If it lacks an undocumented name, each function is compiled by itself, as by default: the same results, but
    compiling and calls take three times as long.
    """
    try:
        from streamer.numba_support.linking import is_possible

        return is_possible()
    except Exception as error:
        log.warning("entries are compiled function by function, which is slower: numba is new here (%s)", error)
        return False


def _register_parts() -> None:
    from numba.extending import overload

    while _shared and links():
        from streamer.numba_support.linking import make_shared

        make_shared(_shared.pop())
    while _parts:
        function, into_its_callers = _parts.pop()
        if links():
            from streamer.numba_support.linking import make_part

            make_part(function, into_its_callers)
        else:
            overload(function, strict=False)(lambda *_, function=function: function)


def _kept_entry(function: Callable[..., object]) -> Dispatcher:
    if not links():
        return _kept(function, error_model="numpy")
    from streamer.numba_support.linking import ENTRY

    return _kept(function, error_model="numpy", **ENTRY)


def _kept(function: Callable[..., object], **options: object) -> Dispatcher:
    import numba

    with _lock, _kept_in_our_folder(numba.config):
        return cast(Dispatcher, numba.njit(cache=bool(folder()), nogil=True, **options)(function))


@contextmanager
def _kept_in_our_folder(config: Any) -> Iterator[None]:
    """Sets numba's cache folder to ours; other code's functions keep theirs."""
    ours = {"CACHE_DIR": folder(), "CACHE_LOCATOR_CLASSES": f"{Locator.__module__}.{Locator.__name__}"}
    before = {name: getattr(config, name, "") for name in ours}
    try:
        for name, value in ours.items():
            setattr(config, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)
