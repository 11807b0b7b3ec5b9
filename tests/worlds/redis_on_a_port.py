"""A Redis in this process that commands reach by its address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from fakeredis import TcpFakeServer


@contextmanager
def redis_on_a_port() -> Iterator[str]:
    """The address of an empty Redis that ends with the block."""
    server = TcpFakeServer(("127.0.0.1", 0), server_version=(7,))
    server.RequestHandlerClass.disable_nagle_algorithm = True  # it answers a pipeline in small pieces
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server.shutdown()
        server.server_close()
