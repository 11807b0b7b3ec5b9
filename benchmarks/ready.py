"""The beginning of every benchmark: its options, machine code, and servers of its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from servers.broker import ways
from servers.broker.servers import Servers
from streamer.native import library


def options(text: str | None, quick: str) -> argparse.ArgumentParser:
    """Options that every benchmark has. text: its docstring; quick: what --quick makes of it."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="print the JSON object alone")
    return parser


def compiled() -> None:
    """Has machine code loaded, made first if its sources have changed. Ends the benchmark if there is none."""
    if not library.ready():
        sys.exit("there is no machine code here: nothing that is measured so would be of use")


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
