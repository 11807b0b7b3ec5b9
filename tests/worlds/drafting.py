"""Data files written for `streamer init`, and the tables that it drafts from them."""

from __future__ import annotations

import csv
from pathlib import Path

from click.testing import CliRunner, Result

from streamer.cli.main import main
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table


def init(data: Path, out: Path) -> Result:
    return CliRunner().invoke(main, ["init", str(data), "-o", str(out)])


def write(path: Path, columns: dict[str, list[str]]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def begun(tmp_path: Path, **columns: list[str]) -> tuple[Table, str]:
    """The table that is drafted for these columns and an id, and the text of its table.yaml."""
    n = len(next(iter(columns.values())))
    data = write(tmp_path / "rows.csv", {"id": [str(i) for i in range(n)], **columns})
    result = init(data, tmp_path / "out")
    assert result.exit_code == 0, result.output
    return load_table(tmp_path / "out"), (tmp_path / "out" / "table.yaml").read_text()
