"""A command on a terminal of a given width, as its operator sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

from worlds.checkout import ROOT

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
