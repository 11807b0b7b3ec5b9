"""Arguments of whoever calls from Python: of the type that is wanted, or refused in a sentence.

The sentence names the argument, what is wanted, and the type that came. No value is quoted: it may be somebody's.
"""

from __future__ import annotations

import os
from numbers import Integral, Real

from streamer.errors import UsageError

TEXT, WHOLE_NUMBER, NUMBER, FLAG, PATH = "a text", "a whole number", "a number", "True or False", "the path of a file"

_KINDS: dict[str, tuple[type, ...]] = {
    TEXT: (str,),
    WHOLE_NUMBER: (Integral,),
    NUMBER: (Real,),
    FLAG: (bool,),
    PATH: (str, os.PathLike),
}


def require_type(argument: str, value: object, wanted: str, or_none: bool = False) -> None:
    """Raises UsageError where an argument is not what is wanted, in the words above; True and False are no numbers."""
    if or_none and value is None:
        return
    if not isinstance(value, _KINDS[wanted]) or (isinstance(value, bool) and wanted != FLAG):
        raise UsageError(f"{argument} must be {wanted}{' or None' if or_none else ''}, not {type(value).__name__}")
