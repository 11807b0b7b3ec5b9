"""Compiles an entry and its parts as one LLVM module: linked first, then optimised and turned into machine code once.

By default numba makes every function callable by itself: it links in all that the function calls, optimises the whole
and generates code, for each function again. For parts that work is wasted. Here a part stays LLVM text, and an entry's
module gets every part that it calls, directly or not, once. There parts are internal, so LLVM drops unused arguments
and inlines a part that has one caller. By this alone the core of `streamer.incremental.core` compiled in 63 s instead
of 186 s of one CPU, and an event took 24 µs instead of 80.

A part is compiled for integers of one width: otherwise it, and all that it calls, would be compiled once for a caller
with a field of 32 bits and once for a caller with a count of 64.

A `shared` tuple of arrays is handed on as a pointer to its fields. By default numba hands on each number of each array
by itself, some hundred for a shard's table, and takes them apart and together again at every call: that was four in
five of all instructions. With both, the core compiles in 27 s (`benchmarks/cold.py`).

This module is imported when something is compiled. It needs undocumented names of numba's: `is_possible` says whether
they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

from numba.core import cgutils, types
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.datamodel.models import PrimitiveModel
from numba.core.extending import NativeValue, lower_getattr_generic, register_model, typeof_impl, unbox
from numba.core.registry import cpu_target
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate, infer, infer_getattr, infer_global, make_overload_template

NO_ADDRESS = 0

UNDOCUMENTED = (
    "_codegen", "_final_module", "_finalized", "_get_module_for_linking", "_linking_libraries", "_optimize_functions",
)  # fmt: skip
"""Attributes of numba's libraries; the imports above are undocumented, too."""


class _Unoptimised(JITCodeLibrary):  # type: ignore[misc]
    """A library whose functions are not optimised before they are linked."""

    _linking_libraries: list[CodeLibrary]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class PartLibrary(_Unoptimised):
    """A part as LLVM text; it is never made callable, so it has no address."""

    environment: tuple[str, Any] | None = None
    """The part's environment of numba's, and the name of the variable that points to it."""

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return NO_ADDRESS

    @property
    def codegen(self) -> PartLibrary:
        """For numba's `library.codegen.set_env`, as there is no variable yet."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        self.environment = name, environment

    def llvm_module(self) -> Any:
        return self._final_module


class EntryLibrary(_Unoptimised):
    """An entry, linked with all the parts that it reaches."""

    def finalize(self) -> None:
        module = self._final_module
        own = [function for function in module.functions if function.linkage.name == "external"]
        names = {function.name for function in own if not function.is_declaration}
        reached = list(_reached(self._linking_libraries, {}))
        for library in reached:
            is_part = isinstance(library, PartLibrary)
            module.link_in(library.llvm_module() if is_part else library._get_module_for_linking(), preserve=True)
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
    """These libraries and those that parts among them reach, each once."""
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
    """The `pipeline_class` of a part."""

    library = PartLibrary


class EntryCompiler(_Compiler):
    """The `pipeline_class` of an entry."""

    library = EntryLibrary


_OPTIONS = {"_nrt": False, "no_cfunc_wrapper": True}
"""Options of a part or an entry: nothing is allocated, C never calls it."""

ENTRY = {**_OPTIONS, "pipeline_class": EntryCompiler}

PART = {**_OPTIONS, "no_cpython_wrapper": True, "forceinline": False}
"""Options of a part: Python never calls its machine code, and being called by an `inner` does not inline it."""


def is_possible() -> bool:
    """Whether this version of numba has the names that this module needs; compiles nothing."""
    codegen = cpu_target.target_context.codegen()
    library = EntryLibrary(codegen, "is_possible")
    needed = [(library, UNDOCUMENTED), (codegen, ["_engine"]), (cpu_target.options, PART)]
    return all(hasattr(owner, name) for owner, names in needed for name in names)


def make_part(function: Callable[..., object], into_its_callers: bool) -> None:
    """Registers a function with numba, so that compiled functions can call it."""
    options = {**PART, "forceinline": into_its_callers, "pipeline_class": PartCompiler}
    template = make_overload_template(function, lambda *_: function, options, strict=False, inline="never")

    class Part(template):  # type: ignore[misc, valid-type]
        def generic(self, arguments: tuple[Any, ...], names: Mapping[str, Any]) -> Any:
            return super().generic(tuple(map(_widened, arguments)), names)

    infer(Part)
    infer_global(function, types.Function(Part))


def _widened(argument: Any) -> Any:
    """The argument type for which a part is compiled, given the caller's."""
    return types.int64 if argument in (types.int8, types.int16, types.int32) else argument


# -- shared tuples -----------------------------------------------------------------------------------------------------


class SharedTuple(types.Type):
    """A named tuple of arrays, or of such tuples, as a pointer to its fields, which never change."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        digest = blake2b(str(fields).encode(), digest_size=8).hexdigest()  # the name is part of every symbol's
        super().__init__(f"SharedTuple({fields.instance_class.__name__}, {digest})")

    def type_of(self, name: str) -> Any:
        """The type of a field; None if there is none of that name."""
        if name not in self.fields.fields:
            return None
        found = self.fields.types[self.fields.fields.index(name)]
        return SharedTuple(found) if isinstance(found, BaseNamedTuple) else found


@register_model(SharedTuple)
class _SharedTupleModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, of: SharedTuple) -> None:
        super().__init__(manager, of, manager.lookup(of.fields).get_value_type().as_pointer())

    def from_argument(self, builder: Any, value: Any) -> Any:
        value.add_attribute("noalias")  # what arrays hold is elsewhere: a write there changes no field
        return value


@infer_getattr
class _SharedFields(AttributeTemplate):  # type: ignore[misc]
    key = SharedTuple

    def generic_resolve(self, of: SharedTuple, name: str) -> Any:
        return of.type_of(name)


@lower_getattr_generic(SharedTuple)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, of: SharedTuple, pointer: Any, name: str) -> Any:
    place = cgutils.gep_inbounds(builder, pointer, 0, of.fields.fields.index(name))
    return place if isinstance(of.type_of(name), SharedTuple) else builder.load(place)


@unbox(SharedTuple)  # type: ignore[untyped-decorator]
def _from_python(of: SharedTuple, value: Any, wrapper: Any) -> Any:
    fields = wrapper.unbox(of.fields, value)
    place = cgutils.alloca_once_value(wrapper.builder, fields.value)
    return NativeValue(place, is_error=fields.is_error, cleanup=fields.cleanup)


def make_shared(kind: type) -> None:
    """Has compiled functions take named tuples of this class as pointers."""
    tuple_of = typeof_impl.dispatch(tuple)
    typeof_impl.register(kind)(lambda value, purpose: SharedTuple(tuple_of(value, purpose)))
