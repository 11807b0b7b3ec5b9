"""An entry and its parts as one module of LLVM: linked first, then optimised and turned into machine code once.

By default numba makes every function ready to be called: it links everything that the function calls into it, optimises
the whole and generates code, for each function again. For parts that work is thrown away. Here a part is only written
down, and an entry's module gets every part that it calls, directly or not, once. There parts are internal, so LLVM
drops unused arguments and inlines a part that has one caller. The core of `streamer.incremental.core` compiles in 63 s
instead of 186 s of one CPU, and an event takes 24 µs instead of 80 (`benchmarks/cold.py --plain`).

A part is compiled for integers of one width: otherwise it, and everything it calls, would be compiled once for a caller
with a field of 32 bits and once for a caller with a count of 64.

Loaded when something is compiled. It needs names of numba's that are not documented: `is_possible` says whether they
are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numba.core import types
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target
from numba.core.typing.templates import infer, infer_global, make_overload_template

NO_ADDRESS = 0

UNDOCUMENTED = (
    "_codegen", "_final_module", "_finalized", "_get_module_for_linking", "_linking_libraries", "_optimize_functions",
)  # fmt: skip
"""Of a library of numba's, beside what is imported above."""


class _Unoptimised(JITCodeLibrary):  # type: ignore[misc]
    """Functions are not optimised one by one before they are put together."""

    _linking_libraries: list[CodeLibrary]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class PartLibrary(_Unoptimised):
    """A part, as it was written down; never made ready, so it has no address."""

    environment: tuple[str, Any] | None = None
    """The name of the variable that is to point to what numba keeps for the part, and that."""

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return NO_ADDRESS

    @property
    def codegen(self) -> PartLibrary:
        """For numba's `library.codegen.set_env`: there is no variable yet."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        self.environment = name, environment

    def written_down(self) -> Any:
        """The module of LLVM."""
        return self._final_module


class EntryLibrary(_Unoptimised):
    """An entry with all that it reaches."""

    def finalize(self) -> None:
        module = self._final_module
        own = [function for function in module.functions if function.linkage.name == "external"]
        names = {function.name for function in own if not function.is_declaration}
        reached = list(_reached(self._linking_libraries, {}))
        for library in reached:
            is_part = isinstance(library, PartLibrary)
            module.link_in(library.written_down() if is_part else library._get_module_for_linking(), preserve=True)
        for function in module.functions:
            if not function.is_declaration and function.name not in names:
                function.linkage = "internal"
        self._linking_libraries = []
        super().finalize()
        self._set_environments(library for library in reached if isinstance(library, PartLibrary))

    def _set_environments(self, parts: Iterable[PartLibrary]) -> None:
        for part in parts:
            if part.environment and self._codegen._engine.is_symbol_defined(part.environment[0]):
                self._codegen.set_env(*part.environment)


def _reached(libraries: Iterable[CodeLibrary], found: dict[CodeLibrary, None]) -> Iterable[CodeLibrary]:
    """The libraries, and those that parts among them reach, each once."""
    for library in libraries:
        if library not in found:
            found[library] = None
            if isinstance(library, PartLibrary):
                _reached(library._linking_libraries, found)
    return found


class _Compiler(Compiler):  # type: ignore[misc]
    library: type[JITCodeLibrary]

    def _compile_bytecode(self) -> Any:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super()._compile_bytecode()


class PartCompiler(_Compiler):
    """numba's `pipeline_class` of a part."""

    library = PartLibrary


class EntryCompiler(_Compiler):
    """numba's `pipeline_class` of an entry."""

    library = EntryLibrary


UNSEEN = {"_nrt": False, "no_cfunc_wrapper": True}
"""Options of a part or an entry: nothing is allocated, C never calls it."""

ENTRY = {**UNSEEN, "pipeline_class": EntryCompiler}

PART = {**UNSEEN, "no_cpython_wrapper": True, "forceinline": False}
"""Python does not call the machine code of a part; and who calls it from an `inner` does not make it one."""


def is_possible() -> bool:
    """Whether this version of numba has what this module needs. It compiles nothing."""
    codegen = cpu_target.target_context.codegen()
    library = EntryLibrary(codegen, "is_possible")
    needed = [(library, UNDOCUMENTED), (codegen, ["_engine"]), (cpu_target.options, PART)]
    return all(hasattr(owner, name) for owner, names in needed for name in names)


def make_part(function: Callable[..., object], into_its_callers: bool) -> None:
    """Lets compiled functions call this one."""
    options = {**PART, "forceinline": into_its_callers, "pipeline_class": PartCompiler}
    template = make_overload_template(function, lambda *_: function, options, strict=False, inline="never")

    class Part(template):  # type: ignore[misc, valid-type]
        def generic(self, arguments: tuple[Any, ...], names: Mapping[str, Any]) -> Any:
            return super().generic(tuple(map(_widened, arguments)), names)

    infer(Part)
    infer_global(function, types.Function(Part))


def _widened(argument: Any) -> Any:
    """The type for which a part is compiled that is called with this one."""
    return types.int64 if argument in (types.int8, types.int16, types.int32) else argument
