"""A command overwrites nothing that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from streamer.cli.apart import require_apart
from streamer.cli.main import main
from streamer.errors import UsageError
from worlds.checkout import PATIENTS


def test_outputs_are_neither_inputs_nor_one_another(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    require_apart([a], [b, c])
    for outputs in ([a], [b, b], [tmp_path / "x" / ".." / "a"]):
        with pytest.raises(UsageError, match="give every output a name of its own"):
            require_apart([a], outputs)


@pytest.mark.parametrize("command", ["check", "produce"])
def test_the_list_of_refused_rows_is_not_written_over_the_rows(tmp_path: Path, command: str) -> None:
    rows = tmp_path / "rows.csv"
    text = (PATIENTS / "rows.csv").read_text()
    rows.write_text(text)
    data = ["--data", str(rows)] if command == "check" else [str(rows), "--kafka", "127.0.0.1:1"]
    result = CliRunner().invoke(main, [command, "--table", str(PATIENTS), *data, "--skip-refused", str(rows)])
    assert (result.exit_code, "is an input" in result.stderr) == (2, True)
    assert rows.read_text() == text
