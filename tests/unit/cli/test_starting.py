"""What a terminal shows while a command's modules are loaded."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stderr

import pytest

from streamer.cli import starting
from streamer.cli.starting import ERASED, loading


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(starting, "PATIENCE_SECONDS", 0.001)
    monkeypatch.setattr(starting, "MOVES_SECONDS", 0.002)
    return Terminal()


def test_what_takes_longer_than_one_notices_is_said_moves_and_is_gone_at_the_end(terminal: Terminal) -> None:
    with redirect_stderr(terminal), loading("anonymize"):
        while terminal.getvalue().count("loading anonymize") < 3:
            time.sleep(0.001)
    assert terminal.getvalue().endswith(ERASED)
    assert terminal.getvalue().split(ERASED)[1].startswith("loading anonymize  0.")


def test_what_is_quick_says_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PATIENCE_SECONDS", 60)
    with redirect_stderr(terminal), loading("anonymize"):
        pass
    assert terminal.getvalue() == ""


def test_an_error_is_let_through_on_a_line_of_its_own(terminal: Terminal) -> None:
    with pytest.raises(ZeroDivisionError), redirect_stderr(terminal), loading("anonymize"):
        while not terminal.getvalue():
            time.sleep(0.001)
        raise ZeroDivisionError
    assert terminal.getvalue().endswith(ERASED)


def test_into_a_pipe_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(starting, "PATIENCE_SECONDS", 0)
    with redirect_stderr(pipe), loading("anonymize"):
        time.sleep(0.01)
    assert pipe.getvalue() == ""
