"""The folder of a table that is being written: next to OUT, until all its files are there and checked."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamer.engines.pool import emptied, lock_on, not_written
from streamer.errors import ConfigError, UsageError

LOCK = ".lock"
OURS_IN_DRAFT = re.compile(r"(\.[0-9a-f]+-)?part-\d+\.parquet|\.lock")
"""The files that a folder that is being written may hold."""


@contextmanager
def draft_of(out: Path, begun: bool) -> Iterator[Path]:
    """A folder next to OUT that gets its name at the end. Raises UsageError if another job writes one.

    What a killed process has left of it stays if this is the same job (begun), else it is removed.
    """
    draft = out.with_name(f".{out.name}.draft")
    try:
        draft.mkdir(exist_ok=True)
        if not all(map(OURS_IN_DRAFT.fullmatch, (entry.name for entry in draft.iterdir()))):
            raise UsageError(f"{draft}: is needed to write {out}, and holds other files; name another OUT")
        if (lock := lock_on(draft / LOCK)) is None:
            raise UsageError(f"{draft}: another job writes {out}; wait for that one, or name another OUT")
        if not begun:
            emptied(draft)
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from None
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(lock)


def appear(draft: Path, out: Path) -> None:
    """Gives the folder its name. Raises ConfigError if the disk has no room for what waits to be written."""
    try:
        _named(draft, out)
    except OSError as error:
        raise not_written(out, error, ", or name another OUT") from None


def _named(draft: Path, out: Path) -> None:
    for path in draft.iterdir():
        if path.name.startswith("."):  # what a process that was killed has not finished
            path.unlink()
        else:
            _on_disk(path)
    _on_disk(draft)
    if out.exists():
        old = out.with_name(f".{out.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        os.replace(out, old)
        os.replace(draft, out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(draft, out)


def _on_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
