"""A command as someone meets it: on a terminal of 80 columns, or with its two outputs in pipes.

It runs in this process, on streams of its own. What a terminal gets goes through an emulator, so that bars and cursor
moves come to what is on the screen at the end.
"""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, NamedTuple

import click
import pyte

from worlds.checkout import ROOT

COLUMNS, LINES_MAX = 80, 400
WIDE = 1_000
"""Columns of a terminal on which no line that a command prints is ever folded by the terminal."""

Style = str
"""What a run of characters looks like beside plain text: `bold`, `red`, `bold red` and so on."""


class Screen(NamedTuple):
    """What stands on a terminal at the end. runs: what is styled, in its order; too_wide: lines it had to fold."""

    exit_code: int
    lines: list[str]
    runs: list[tuple[Style, str]]
    too_wide: list[str]


class Piped(NamedTuple):
    """What came out of the two pipes."""

    exit_code: int
    stdout: str
    stderr: str


def on_a_screen(main: click.Command | None, words: list[str], environment: Mapping[str, str]) -> Screen:
    """A call on a terminal; main: None for a process of its own; environment: what is set beside ours, TERM for one."""
    with _environment({"COLUMNS": str(COLUMNS), **environment}), _terminal() as (stream, read):
        exit_code = _call(main, words, stream, stream)
        stream.close()
        written = read()
    shown, wide = _emulated(written, COLUMNS), _emulated(written, WIDE)
    too_wide = [line for line in _lines(wide) if len(line) > COLUMNS]
    return Screen(exit_code, _lines(shown), list(_runs(shown)), too_wide)


def in_pipes(main: click.Command | None, words: list[str], environment: Mapping[str, str]) -> Piped:
    """The same call with stdout and stderr in a pipe each."""
    with _environment(environment), TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+") as err:
        exit_code = _call(main, words, out, err)
        for stream in (out, err):
            stream.seek(0)
        return Piped(exit_code, out.read(), err.read())


def _call(main: click.Command | None, words: list[str], out: IO[str], err: IO[str]) -> int:
    """The exit code of a call whose outputs are these."""
    if main is None:
        command = [sys.executable, "-m", "streamer.cli.main", *words]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment).returncode
    before = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull, encoding="utf-8") as nothing, _process_as_it_was():
        sys.stdin, sys.stdout, sys.stderr = nothing, out, err
        try:
            main.main(words, prog_name="streamer")
        except SystemExit as ended:
            return int(ended.code or 0)
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
    raise AssertionError("a command ends by an exit code")


@contextmanager
def _process_as_it_was() -> Iterator[None]:
    """What a command sets for the whole process, which is its own else, is set back."""
    log, handlers, garbage = logging.getLogger(), list(logging.getLogger().handlers), gc.get_threshold()
    levels = {name: logging.getLogger(name).level for name in ("", "agents", "streamer", "mode")}
    terminating = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        log.handlers[:] = handlers
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        gc.set_threshold(*garbage)
        signal.signal(signal.SIGTERM, terminating)


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """Nothing that a person may have set reaches the command, but what is said here."""
    before = dict(os.environ)
    ours = (
        "STREAMER_",
        "KAFKA_",
        "REDIS_",
        "SCHEMA_",
        "CONNECT_",
        "FORCE_COLOR",
        "NO_COLOR",
        "COLUMNS",
        "LINES",
        "TERM",
    )
    for name in before:
        if name.startswith(ours):
            del os.environ[name]
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _terminal() -> Iterator[tuple[IO[str], Reading]]:
    """A stream to a terminal, and what waits for all that was written, to be called when the stream is closed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    reading = Reading(ours)
    with open(theirs, "w", encoding="utf-8", buffering=1) as stream:
        yield stream, reading
    os.close(ours)


class Reading:
    """Reads a terminal beside what is written to it, which would else stop when its buffer is full."""

    def __init__(self, terminal: int) -> None:
        self._terminal, self._written = terminal, b""
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def __call__(self) -> bytes:
        """All that was written, when the other end is closed."""
        self._thread.join()
        return self._written

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._terminal, 65_536)
            except OSError:  # how Linux says that the other end is closed
                return
            self._written += chunk


def _emulated(written: bytes, columns: int) -> pyte.Screen:
    screen = pyte.Screen(columns, LINES_MAX)
    pyte.ByteStream(screen).feed(written)
    assert screen.cursor.y < LINES_MAX - 1, f"more than {LINES_MAX} lines: the first are gone"
    _trim(screen)
    return screen


def _trim(screen: pyte.Screen) -> None:
    """Nobody looks below the last line, or to the right of the longest: that took ten times as long as the command."""
    written = {y: max(row) for y, row in screen.buffer.items() if row}
    screen.lines = max(written, default=-1) + 1
    screen.columns = max(written.values(), default=-1) + 1


def _lines(screen: pyte.Screen) -> list[str]:
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _runs(screen: pyte.Screen) -> Iterator[tuple[Style, str]]:
    """What is styled, line by line."""
    for y in range(screen.lines):
        style, text = "", ""
        for x in range(screen.columns + 1):
            cell = screen.buffer[y][x] if x < screen.columns else None
            now = "" if cell is None else _style(cell)
            if now != style and text.strip() and style:
                yield style, " ".join(text.split())
            if now != style:
                style, text = now, ""
            text += "" if cell is None else cell.data


def _style(cell: pyte.screens.Char) -> Style:
    said = [name for name in ("bold", "italics", "underscore", "blink", "reverse") if getattr(cell, name)]
    said += [] if cell.fg == "default" else [cell.fg]
    return " ".join([*said, *([] if cell.bg == "default" else [f"on {cell.bg}"])])


SECONDS_MAX = 240
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


def on_a_terminal(*arguments: str, columns: int = 80, errors_too: bool = False) -> list[str]:
    """The lines that `streamer` prints to stdout there, without colours; errors_too: all that is seen, as it comes.

    A line that is written over comes as often as it is written.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = subprocess.Popen(
        [sys.executable, "-m", "streamer.cli.main", *arguments],
        stdout=theirs, stderr=theirs if errors_too else subprocess.PIPE, stdin=theirs,
        cwd=ROOT, env={**environment, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while chunk := _read(ours):
            shown += chunk
    finally:
        os.close(ours)
        command.communicate(timeout=SECONDS_MAX)
    return [line.rstrip() for line in CONTROL.sub(b"", shown).decode().splitlines()]


def _read(terminal: int) -> bytes:
    """What comes next; nothing where the other end is closed, which Linux tells by an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""
