"""Connections to a worker over HTTP: how many there may be, how long a silent one lasts, what is logged of a bad one.

The rules of this file
----------------------
* Whoever reaches the port may take only so many of the process' files: the shards need theirs for Kafka and Redis.
* What a client sent wrongly is answered to it. The log gets one line without its text, which may hold a token, and only
  so many of them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from aiohttp import web

from agents.kafka_log import AtMost
from streamer.cli.web_address import Address

CONNECTIONS_MAX = 128

SILENT_SECONDS_MAX = 15.0
"""How long a connection may be open without a whole request: behind the last one, or before the first."""

END_SECONDS_MAX = 1.0

SERVER_LOG = "aiohttp.server"


class TextLeftOut(logging.Filter):
    """Leaves of an error its class, and no word of what was sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            of = record.exc_info[0]
            record.msg, record.args = f"{record.getMessage()}: {of.__name__ if of else 'an error'}", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def runner_of(app: web.Application) -> web.AppRunner:
    """What answers on every connection; `listen` is where they come from."""
    _limit_log()
    return web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS_MAX, keepalive_timeout=SILENT_SECONDS_MAX)


async def listen(runner: web.AppRunner, address: Address) -> asyncio.Server:
    """Listens, once the runner is set up. Raises OSError, or UnicodeError where the host is no name."""
    answering = cast(web.Server, runner.server)  # there is one behind its setup

    def connected() -> asyncio.Protocol:
        return answering() if len(answering.connections) < CONNECTIONS_MAX else TurnedAway()

    return await asyncio.get_running_loop().create_server(connected, address.host, address.port)


class TurnedAway(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def _limit_log() -> None:
    logger = logging.getLogger(SERVER_LOG)
    if not logger.filters:
        logger.addFilter(TextLeftOut())
        logger.addFilter(AtMost())
