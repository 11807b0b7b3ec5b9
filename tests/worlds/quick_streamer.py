"""The command `streamer` for tests that call it a hundred times: a process that has imported it forks for each.

A call's processor time is mostly imports. Here a small script stands for the command: it hands its arguments, folder,
environment and open files to a server, which forks; what runs then is the command itself, in a process of its own.
`serve` is what the server runs, `call` what the script does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from worlds.checkout import ROOT

REQUEST_BYTES_MAX = 1 << 20

SCRIPT = """#!{python} -IS
import json, os, signal, socket, sys
request = json.dumps({{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
process = int.from_bytes(server.recv(8, socket.MSG_WAITALL), "big")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(process, number))
sys.exit(int.from_bytes(server.recv(8, socket.MSG_WAITALL), "big"))
"""


@contextmanager
def quick_streamer(folder: Path) -> Iterator[Path]:
    """Puts the command `streamer` into a folder, which then belongs on the path; the server ends with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    address = folder / "streamer.socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        run = f"from worlds.quick_streamer import serve; serve({listening.fileno()})"
        server = subprocess.Popen(
            [sys.executable, "-c", run], pass_fds=[listening.fileno()], env=_environment(), stdin=subprocess.DEVNULL
        )
    script = folder / "streamer"
    script.write_text(SCRIPT.format(python=sys.executable, address=str(address)), "utf-8")
    script.chmod(0o755)
    try:
        yield folder
    finally:
        server.terminate()
        server.wait()


def _environment() -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}


def serve(listening: int) -> None:
    """Forks for every call that comes, until it is ended."""
    _import_all()
    with socket.socket(fileno=listening) as server:
        while True:
            caller, _ = server.accept()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass  # those that have ended; their time then counts in the time of the tests
            if os.fork() == 0:
                server.close()
                _answer(caller)
            caller.close()


def _import_all() -> None:
    from streamer.cli.main import COMMANDS, main

    assert main.name
    for command in COMMANDS.values():
        import_module(command.module)


def _answer(caller: socket.socket) -> None:
    """In a fork: runs a call in a fork of its own, and tells the caller its process and how it ended."""
    head, files, _, _ = socket.recv_fds(caller, 8, 3)
    request = json.loads(caller.recv(min(int.from_bytes(head, "big"), REQUEST_BYTES_MAX), socket.MSG_WAITALL))
    process = os.fork()
    if process == 0:
        caller.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
        _run(request)
    for file in files:
        os.close(file)
    with suppress(BrokenPipeError):  # who asked may have been ended
        caller.sendall(process.to_bytes(8, "big"))
        _, status = os.waitpid(process, 0)
        caller.sendall((os.waitstatus_to_exitcode(status) % 256).to_bytes(8, "big"))
    os._exit(0)


def _run(request: Mapping[str, object]) -> None:
    """The command, as in a process that was begun for it."""
    from streamer.cli.main import main

    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = ["streamer", *request["arguments"]]  # type: ignore[misc]
    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
