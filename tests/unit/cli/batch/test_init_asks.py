"""`streamer init --ask`: column after column, on a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.checkout import ROOT
from worlds.people_files import write

COLUMNS = {
    "id": [str(i) for i in range(40)],
    "age": [str(20 + i) for i in range(40)],
    "income": [str(1_000 * (i % 7)) for i in range(40)],
    "surname": [f"x{i % 4}" for i in range(40)],
}


def asked(data: Path, out: Path, answers: str) -> tuple[int, str, str]:
    """Exit code, what went to standard output, and what the terminal showed."""
    ours, theirs = pty.openpty()
    call = [sys.executable, "-m", "streamer.cli.main", "init", str(data), "-o", str(out), "--ask"]
    with subprocess.Popen(
        call, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "TERM": "dumb"}
    ) as run:
        os.close(theirs)
        os.write(ours, answers.encode())
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the other side is closed
            pass
        printed, _ = run.communicate(timeout=60)
    os.close(ours)
    return run.returncode, printed.decode(), shown.decode()


def test_enter_takes_what_is_proposed_and_five_values_are_shown_on_the_terminal_alone(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.csv", COLUMNS)
    code, printed, shown = asked(data, tmp_path / "out", "\n\n\n")
    assert code == 0, shown
    assert "age: 20, 21, 22, 23, 24" in shown and "taken for a quasi-identifier, of type number" in shown
    assert "what nobody should learn" in shown
    table = load_table(tmp_path / "out")
    assert ([a.name for a in table.attributes], [c.name for c in table.kept]) == (["age"], ["income"])
    assert "x1" not in printed + (tmp_path / "out" / "table.yaml").read_text()


def test_another_role_may_be_chosen(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.csv", COLUMNS)
    code, _, shown = asked(data, tmp_path / "out", "o\nq\ns\n")
    assert code == 0, shown
    table = load_table(tmp_path / "out")
    assert ([a.name for a in table.attributes], [c.name for c in table.kept]) == (["income"], ["surname"])


def test_values_are_not_shown_where_there_is_no_terminal(tmp_path: Path) -> None:
    result = streamer("init", write(tmp_path / "rows.csv", COLUMNS), "-o", tmp_path / "out", "--ask")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--ask: shows values of people, so it needs a terminal" in result.stderr
    assert not (tmp_path / "out").exists()
