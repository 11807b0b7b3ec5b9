"""Machine code, made of Python functions when the package is built."""

from streamer.native.functions import compiled, inlined, uncompiled

__all__ = ["compiled", "inlined", "uncompiled"]
