"""A tuple of arrays that is handed from function to function by reference: one word, not several for every array.

numba hands every array of a named tuple over by itself. The core's shard has some fifty of them, of about eight words;
writing that down for every call, and optimising it away, was half of what remained of compiling. Here Python's tuple is
unpacked once, into the frame of the function that Python calls, and all others get a `Reference` to that. A field that
is a named tuple is a reference, too; any other is read when it is asked for.

Nothing in the tuple changes while an entry runs, and LLVM is told so (`invariant.load`): what was read once need not be
read again after an array was written to. That holds as long as the entry is not taken into the function that unpacks
the tuple, which `streamer.one_module` sees to.

Loaded when something is compiled: it needs numba.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.types.abstract import Type
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import _typeof_tuple, typeof_impl
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox


class Reference(Type):
    """A pointer to a named tuple."""

    def __init__(self, to: BaseNamedTuple) -> None:
        self.to = to
        super().__init__(name=f"Reference({to.name})")


def hand_over_by_reference(kind: type) -> None:
    """From now on numba takes named tuples of this class by reference."""
    typeof_impl.register(kind, lambda value, context: Reference(_typeof_tuple(value, context)))


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, reference: Reference) -> None:
        super().__init__(manager, reference, manager.lookup(reference.to).get_value_type().as_pointer())


@infer_getattr
class _FieldType(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Type | None:
        if name not in reference.to.fields:
            return None
        field = reference.to[reference.to.fields.index(name)]
        return Reference(field) if isinstance(field, BaseNamedTuple) else field


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _field(_context: Any, builder: ir.IRBuilder, reference: Reference, pointer: ir.Value, name: str) -> ir.Value:
    place = reference.to.fields.index(name)
    at = cgutils.gep_inbounds(builder, pointer, 0, place)
    if isinstance(reference.to[place], BaseNamedTuple):
        return at
    return builder.call(_reader(builder.module, at.type.pointee), [at])


@unbox(Reference)  # type: ignore[untyped-decorator]
def _unpacked(reference: Reference, value: Any, context: Any) -> NativeValue:
    native = context.unbox(reference.to, value)
    at = cgutils.alloca_once_value(context.builder, native.value)
    return NativeValue(at, is_error=native.is_error, cleanup=native.cleanup)


def _reader(module: ir.Module, kind: ir.Type) -> ir.Function:
    """A function that reads a field of this type: written down once in a module, and taken into its callers by LLVM."""
    digest = blake2b(str(kind).encode(), digest_size=8).hexdigest()
    reader = cgutils.get_or_insert_function(
        module, ir.FunctionType(kind, [kind.as_pointer()]), f"streamer.read.{digest}"
    )
    if reader.is_declaration:
        reader.linkage = "linkonce_odr"
        reader.attributes.add("alwaysinline")
        builder = ir.IRBuilder(reader.append_basic_block())
        builder.ret(_read(builder, reader.args[0]))
    return reader


def _read(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Word by word: LLVM forgets of whole structures what it is told of their loads."""
    kind = pointer.type.pointee
    if isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
        value = ir.Constant(kind, ir.Undefined)
        for i in range(len(kind)):
            value = builder.insert_value(value, _read(builder, cgutils.gep_inbounds(builder, pointer, 0, i)), i)
        return value
    word = builder.load(pointer)
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
