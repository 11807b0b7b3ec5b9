"""What we write for people as files: a published table as CSV, a private index, whole or not at all.

Files that belong together appear together, and an error or a signal leaves what was there. A private file is its
owner's alone before anything stands in it.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from stat import S_IMODE
from typing import IO, Any

import pandas as pd

from streamer.errors import ConfigError
from streamer.table.file_cells import cell_text
from streamer.table.typed_frame import with_iso_texts

OWNER_ONLY = 0o600


@contextmanager
def atomic_writer(path: str | Path, text: bool = False) -> Iterator[Any]:
    """A file to write, bytes or UTF-8 text, that takes its place when the block ends well; on an error nothing is left.

    Raises ConfigError where the file cannot be made.
    """
    with atomic_writers([path], text) as (writer,):
        yield writer


@contextmanager
def atomic_writers(paths: Sequence[str | Path], text: bool = False) -> Iterator[list[Any]]:
    """Several files of which all take their places when the block ends well, or none.

    Every file is on the disk before the first takes its place. A link stays one, to the new file, and a file that was
    there leaves its mode to the new one. Drafts, `.NAME.PROCESS.draft`, are left behind by a process alone that ends on
    the spot (SIGKILL; a command takes SIGTERM). Raises ConfigError where a file cannot be made.
    """
    drafts: list[tuple[Path, Path]] = []
    try:
        with ExitStack() as files:
            writers = []
            for path in map(_place_of, paths):
                drafts.append((_draft_of(path), path))  # before it is there: a signal may come in between
                _make(*drafts[-1])
                file = files.enter_context(open(drafts[-1][0], "wb"))
                writers.append(TextIOWrapper(file, encoding="utf-8", newline="") if text else file)
            yield writers
            for writer in writers:
                writer.flush()
                os.fsync(writer.fileno())
        for draft, path in drafts:
            os.replace(draft, path)
    except BaseException:
        for draft, _ in drafts:
            with suppress(OSError):  # one that could not be made
                draft.unlink()
        raise


def for_owner_alone(file: IO[Any]) -> None:
    """Lets nobody but its owner read or write a file that is private; to be said before anything stands in it."""
    os.fchmod(file.fileno(), OWNER_ONLY)


def _place_of(path: str | Path) -> Path:
    """Where the file lies that a path names: a link leads there. What is no file, as /dev/stdout, stays as it is."""
    named = Path(path)
    return named.resolve() if named.is_symlink() and not (named.exists() and not named.is_file()) else named


def _draft_of(path: Path) -> Path:
    """The name of a file beside `path`, to be moved to its place. Raises ConfigError where there can be none."""
    if path.is_dir():
        raise ConfigError(f"{path}: cannot be written: it is a directory")
    if path.exists() and not path.is_file():  # to take its place would be the end of /dev/null
        raise ConfigError(f"{path}: cannot be written: it is a device or a pipe; name a file")
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


def _make(draft: Path, path: Path) -> None:
    """Begins the draft of a file. Raises ConfigError."""
    try:
        draft.touch()
        if path.exists():
            draft.chmod(S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def table_files(path: Path, names: Sequence[str]) -> list[Path]:
    """The files of a published table: the path itself, or one beside it for each of several tables.

    >>> [file.name for file in table_files(Path("out.csv"), ("qit", "stt"))]
    ['out-qit.csv', 'out-stt.csv']
    """
    return [path] if len(names) == 1 else [path.with_name(f"{path.stem}-{name}{path.suffix}") for name in names]


def write_rows(frame: pd.DataFrame, file: IO[str]) -> None:
    """A published table as CSV, which `read_rows` and table.yaml read back as the same values.

    Numbers stand as shortest decimals, dates and timestamps as the ISO texts that are published, booleans as true and
    false, a null as an empty cell.
    """
    texts = {name: _cell_texts(frame[name]) for name in frame.columns}
    pd.DataFrame(texts, columns=frame.columns).to_csv(file, index=False)


def _cell_texts(column: pd.Series[Any]) -> Any:
    """The texts of a column, each distinct value written once; whole numbers stay as they are."""
    if pd.api.types.is_integer_dtype(column.dtype):
        return column
    column = with_iso_texts(column)
    texts: dict[tuple[type, object], str] = {}  # by type, too: 1 and true are equal
    cells = [(type(value), value) for value in column.to_numpy(dtype=object)]
    for pair in cells:
        if pair not in texts:
            texts[pair] = cell_text(pair[1])
    return [texts[pair] for pair in cells]


def write_index(pairs: Iterable[tuple[str, str]], file: IO[str]) -> None:
    """The private index table, source key and name of the QI group ("" where it has none), by source key."""
    for_owner_alone(file)
    writer = csv.writer(file)
    writer.writerow(["key", "qi_group"])
    writer.writerows(sorted(pairs))
