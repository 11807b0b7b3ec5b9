"""What benchmarks begin with: their options, a compiled core, and servers of their own."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from servers.broker import ways
from servers.broker.servers import Servers
from streamer.incremental.core.layout import FLOAT32, code_set
from streamer.numba_support.cache import is_there, never_compiled


def options(text: str | None, quick: str) -> argparse.ArgumentParser:
    """Options that every benchmark has. text: its docstring; quick: what --quick makes of it."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="print the JSON object alone")
    return parser


def compiled() -> None:
    """Waits until the machine code of the core is on disk: uncompiled it is some hundred times slower."""
    if not never_compiled() and not is_there(code_set(FLOAT32)):
        command = [sys.executable, "-m", "streamer.cli.main", "warm", "--core", FLOAT32]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def servers(kafka: bool = True) -> Iterator[tuple[Servers, Path]]:
    """Redis, and Kafka if it is wanted, for the time of a `with`; and a folder beside them."""
    with tempfile.TemporaryDirectory() as directory:
        found = ways.find(Path(directory) / "servers")
        try:
            if kafka:
                found.start()
            found.start_redis()
            yield found, Path(directory)
        finally:
            found.stop()
