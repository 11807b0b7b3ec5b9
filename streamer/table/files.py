"""Files as bytes: opening them, and writing them whole or not at all.

A file is compressed if its name ends with .gz; "-" is stdin, or stdout.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from io import TextIOWrapper
from pathlib import Path
from shutil import copyfileobj
from stat import S_IMODE
from tempfile import TemporaryFile
from typing import IO, Any, cast

from streamer.errors import ConfigError
from streamer.uninterrupted import uninterrupted

STDIN, STDOUT = "-", Path("-")
PACKED = ".gz"
PARQUET = ".parquet"


def is_named(path: str | Path, *suffixes: str) -> bool:
    """True if a file's name has one of these suffixes, compressed or not, in upper or lower case.

    >>> is_named("rows.CSV.gz", ".csv", ".tsv"), is_named("rows.csv.zip", ".csv")
    (True, False)
    """
    return str(path).lower().removesuffix(PACKED).endswith(suffixes)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A file to read. Raises ConfigError if it cannot be read, also inside the block."""
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
        elif str(path).lower().endswith(PACKED):
            with gzip.open(path, "rb") as unpacked:
                yield unpacked
        else:
            with open(path, "rb") as file:
                yield file
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ConfigError(f"{path}: is not a complete gzip file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def require_header(path: str | Path, header: list[str]) -> None:
    """Raises ConfigError if names are missing or repeated."""
    if not any(header):
        raise ConfigError(f"{path}: is empty; expected a header line with the names of the columns")
    if header.count("") > 1:
        raise ConfigError(f"{path}: {header.count('')} columns have no name in the header; name them, or remove them")
    if repeated := [name for name in header if header.count(name) > 1]:
        raise ConfigError(f"{path}: the header names the column {repeated[0]!r} twice; rename one of them")


# Files that belong together appear together; an error or a signal leaves what was there before.


@contextmanager
def atomic_writer(path: str | Path, text: bool = False) -> Iterator[Any]:
    """A file to write, bytes or UTF-8 text, that appears when the block ends without an error.

    Raises ConfigError if the file cannot be created.
    """
    with atomic_writers([path], text) as (writer,):
        yield writer


@contextmanager
def atomic_writers(paths: Sequence[str | Path], text: bool = False) -> Iterator[list[Any]]:
    """Several files, which all appear when the block ends without an error, or none does.

    Every file is on the disk before the first one appears. A link stays a link, to the new file, and a new file gets
    the mode of the file that it replaces. A file whose name ends with .gz is compressed, equal content to equal bytes.
    "-", which is stdout, a device or a pipe gets its content at the end, just before the files appear. No Ctrl-C or
    SIGTERM comes between two files that appear. Only a process that is killed by SIGKILL leaves drafts,
    `.NAME.PROCESS.draft`. Raises ConfigError if a file cannot be created.
    """
    drafts: list[tuple[Path, Path]] = []
    try:
        with ExitStack() as files:
            opened = [(files.enter_context(_opened(path, drafts)), path) for path in map(_target_of, paths)]
            with ExitStack() as packing:
                writers = [_writer(file, path, text, packing) for file, path in opened]
                yield writers
                for writer in writers:
                    if not writer.closed:  # `sha256_written` ends a compressed one
                        writer.flush()
            for file, _ in opened:
                os.fsync(file.fileno())
            replaced = [path for _, path in drafts]
            for file, path in opened:
                if path not in replaced:
                    _pass_on(file, path)
        with uninterrupted():
            for draft, path in drafts:
                os.replace(draft, path)
    except BaseException:
        for draft, _ in drafts:
            with suppress(OSError):  # one that could not be created
                draft.unlink()
        raise


def is_stream(path: Path) -> bool:
    """True if this is stdout, a device or a pipe: nothing that could be replaced."""
    return path == STDOUT or (path.exists() and not path.is_file() and not path.is_dir())


def _opened(path: Path, drafts: list[tuple[Path, Path]]) -> IO[bytes]:
    """A file without a name for a stream, else a draft beside it, which is added to `drafts`. Raises ConfigError."""
    if is_stream(path):
        return TemporaryFile()
    if path.is_dir():
        raise ConfigError(f"{path}: cannot be written: it is a directory")
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    drafts.append((draft, path))  # before it exists: a signal may come in between
    try:
        draft.touch()
        if path.exists():
            draft.chmod(S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    return open(draft, "w+b")


def _writer(file: IO[bytes], path: Path, text: bool, packing: ExitStack) -> Any:
    """The writer into a file; `packing` ends a compressed one."""
    if path.name.lower().endswith(PACKED):
        file = cast(IO[bytes], packing.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
    return TextIOWrapper(file, encoding="utf-8", newline="") if text else file


def _pass_on(file: IO[bytes], path: Path) -> None:
    file.seek(0)
    with nullcontext(sys.stdout.buffer) if path == STDOUT else open(path, "wb") as stream:
        copyfileobj(file, stream)
        stream.flush()


def sha256_written(writer: Any) -> str:
    """Of all that was written to a text file of `atomic_writers`; nothing may be written to it after that."""
    writer.flush()
    file = writer.buffer
    if isinstance(file, gzip.GzipFile):
        packed, file = file, cast(Any, file.fileobj)
        packed.close()
    file.seek(0)
    return sha256_of(file)


def sha256_of(file: IO[bytes]) -> str:
    """Of the rest of a file."""
    return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


def sha256_by_name(path: Path) -> dict[str, str]:
    """Of a file, or of every file of a folder, by their names; none of a pipe. Raises ConfigError."""
    found = {}
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    for one in filter(Path.is_file, files):
        try:
            with open(one, "rb") as file:
                found[one.name if path.is_file() else str(one.relative_to(path))] = sha256_of(file)
        except OSError as error:
            raise ConfigError(f"{one}: cannot be read: {error.strerror}") from None
    return found


def for_owner_alone(file: IO[Any]) -> None:
    """Lets only its owner read or write a private file; to be called before anything is written."""
    os.fchmod(file.fileno(), 0o600)


def _target_of(path: str | Path) -> Path:
    """The file that a path or link leads to; a path to something else, such as /dev/stdout, stays as it is."""
    named = Path(path)
    return named.resolve() if named.is_symlink() and not (named.exists() and not named.is_file()) else named


def table_files(path: Path, names: Sequence[str]) -> list[Path]:
    """The files of a published table: the path itself, or one next to it for each of several tables.

    >>> [file.name for file in table_files(Path("out.csv"), ("qit", "stt"))]
    ['out-qit.csv', 'out-stt.csv']
    >>> [file.name for file in table_files(Path("my.out.csv.gz"), ("qit", "stt"))]
    ['my.out-qit.csv.gz', 'my.out-stt.csv.gz']
    """
    stem = Path(path.stem).stem if path.suffix.lower() == PACKED else path.stem
    ending = path.name.removeprefix(stem)
    return [path] if len(names) == 1 else [path.with_name(f"{stem}-{name}{ending}") for name in names]
