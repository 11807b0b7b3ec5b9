"""No file that a command writes is one that it reads, or another one that it writes."""

from __future__ import annotations

from pathlib import Path

from streamer.errors import UsageError


def require_apart(inputs: list[Path], outputs: list[Path]) -> None:
    """Raises UsageError where a file that is written is one that is read, or another one that is written."""
    taken = {path.resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in taken:
            raise UsageError(f"{path}: is an input, or is to be written twice; give every output a name of its own")
        taken.add(path.resolve())
