"""The files that commands write: each is what its name says, and nothing that exists is written over without --force.

Refused before any work, with one exception: whether `init` needs a folder is known when it has read the rows. Devices
and pipes, such as /dev/null, have no ending, and are not written over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar

import click

from streamer.cli.support.tables import as_json
from streamer.errors import UsageError
from streamer.table.arrow_table import require
from streamer.table.files import PARQUET, STDIN, STDOUT, is_stream

F = TypeVar("F", bound=Callable[..., Any])

CSV = (".csv", ".csv.gz", ".txt")

force_option = click.option("--force", is_flag=True, help="Overwrite files that exist.")


class OutputPath(click.Path):
    """The name of a file that ends with one of these endings; folder: or of a folder; stdout: or "-"."""

    def __init__(self, *endings: str, folder: bool = False, stdout: bool = False) -> None:
        super().__init__(path_type=Path, file_okay=bool(endings))
        self.endings, self.folder, self.stdout = endings, folder, stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path. Raises UsageError if its name says something else, LibraryMissing for Parquet without pyarrow."""
        path = Path(str(super().convert(value, param, ctx)))
        if self.stdout and path in (STDOUT, Path("/dev/stdout")):
            return STDOUT
        if path == STDOUT or not self._fits(path):
            ways = [f"end with {_either(self.endings)}"] if self.endings else []
            ways += ["be that of a folder"] * self.folder + ["be - for standard output"] * self.stdout
            raise UsageError(f"{param.opts[-1] if param else ''} {path}: the name must {', or '.join(ways)}")
        if self.endings and path.name.lower().endswith(PARQUET):
            require("pyarrow.parquet", "parquet")
        return path

    def _fits(self, path: Path) -> bool:
        is_folder = self.folder and (not self.endings or not path.suffix or path.is_dir())
        return is_folder or is_stream(path) or path.name.lower().endswith(self.endings)


def text_option(*endings: str) -> Callable[[F], F]:
    """`-o` of a command that prints a text unless it names a file with one of these endings."""
    how = OutputPath(*endings, stdout=True)
    words = "The file; -: standard output."
    return click.option("-o", "--out", metavar="FILE|-", type=how, default=STDOUT, show_default=True, help=words)


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def require_writable(outputs: Sequence[Path], force: bool, inputs: Iterable[Path] = ()) -> None:
    """Raises UsageError if an output is an input, is named twice or exists, or if stdout would get JSON as well."""
    taken = {path.resolve() for path in inputs if str(path) != STDIN}
    for path in outputs:
        if path.resolve() in taken:
            raise UsageError(f"{path}: is an input, or is to be written twice; give every output a name of its own")
        taken.add(path.resolve())
        if not force and os.path.isfile(path) and path != STDOUT:
            raise UsageError(f"{path}: exists already and is not overwritten; name another file, or give --force")
    if as_json() and STDOUT in outputs:
        raise UsageError("-: standard output would get the table and --json: name a file")


def words_beside(output: Path) -> AbstractContextManager[object]:
    """Sends what is printed to stderr if the output is stdout."""
    return redirect_stdout(sys.stderr) if output == STDOUT else nullcontext()
