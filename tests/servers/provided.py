"""Installs and fetches what the tests' servers are made of, ahead of the tests: they would do it while others wait."""

from __future__ import annotations

import os

from servers.broker import containers, processes
from servers.broker.servers import say
from servers.pipeline import avro, connect, postgres, readers


def main() -> None:
    """Raises NoServers at the first thing that cannot be had."""
    if "KAFKA_BOOTSTRAP" not in os.environ and not containers.usable():
        processes.provide()
    for part in (connect, postgres, avro, readers):
        part.provide()
    say("what the tests' servers are made of is there")


if __name__ == "__main__":
    main()
