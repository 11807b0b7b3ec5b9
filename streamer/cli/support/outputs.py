"""What commands write: a file is what its name says, and nothing that exists is written over without --force.

Refused before any work, with one exception: whether `init` needs a folder is known when it has read the rows. Devices
and pipes, such as /dev/null, have no ending, and are not written over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click
import pandas as pd

from streamer.errors import UsageError
from streamer.table.arrow_table import require, to_arrow
from streamer.table.csv_files import KEEP, write_rows
from streamer.table.files import PARQUET, STDIN, STDOUT, is_stream
from streamer.table.schema import Table

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
        if is_parquet(path) and self.endings:
            require("pyarrow.parquet", "parquet")
        return path

    def _fits(self, path: Path) -> bool:
        is_folder = self.folder and (not self.endings or not path.suffix or path.is_dir())
        return is_folder or is_stream(path) or path.name.lower().endswith(self.endings)


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def require_writable(outputs: Sequence[Path], force: bool, inputs: Iterable[Path] = (), as_json: bool = False) -> None:
    """Raises UsageError if an output is an input, is named twice or exists, or if stdout would get JSON as well."""
    taken = {path.resolve() for path in inputs if str(path) != STDIN}
    for path in outputs:
        if path.resolve() in taken:
            raise UsageError(f"{path}: is an input, or is to be written twice; give every output a name of its own")
        taken.add(path.resolve())
        if not force and os.path.isfile(path) and path != STDOUT:
            raise UsageError(f"{path}: exists already and is not overwritten; name another file, or give --force")
    if as_json and STDOUT in outputs:
        raise UsageError("-: standard output would get the table and --json: name a file")


def words_beside(output: Path) -> AbstractContextManager[object]:
    """Sends what is printed to stderr if the output is stdout."""
    return redirect_stdout(sys.stderr) if output == STDOUT else nullcontext()


def is_parquet(path: Path) -> bool:
    """Whether the file's name says so."""
    return path.suffix.lower() == PARQUET


def write_published(table: Table, frame: pd.DataFrame, path: Path, file: Any, formulas: str = KEEP) -> None:
    """Writes a published frame to the opened text file of `path`: Parquet by its name, else CSV."""
    if is_parquet(path):
        write_parquet(to_arrow(table, frame), file)
    else:
        write_rows(frame, file, formulas)


def write_parquet(table: Any, file: Any) -> None:
    """Writes a pyarrow.Table to an opened text file."""
    require("pyarrow.parquet", "parquet").write_table(table, file.buffer)
