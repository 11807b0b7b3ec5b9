"""The options `--log-format`, `--instance` and `--web HOST:PORT` of a worker."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from streamer.errors import UsageError

WEB = "STREAMER_WEB"
"""The environment variable of `--web`."""

INSTANCE = "STREAMER_INSTANCE"
"""The environment variable of `--instance`."""

TEXT, JSON = "text", "json"
"""Formats of a log."""

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535

_HOST = re.compile(r"(?:\[([^][]+)\]|([^][:]+))(?::[0-9]*)?")


class Address(NamedTuple):
    """An address to listen at. port 0: any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """True if a name, or an address without brackets, is certainly this machine's own.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "10.0.0.1", "example.org", "")]
    [True, True, True, False, False, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_address(text: str) -> Address:
    """Reads HOST:PORT, [IPV6]:PORT, or a port alone, on loopback. Raises UsageError.

    >>> read_address("8080"), read_address("[::1]:80").url
    (Address(host='127.0.0.1', port=8080), 'http://[::1]:80')
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    is_named = bool(host) or not colon
    if not (is_named and port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise UsageError(f"--web {text}: is not HOST:PORT, as 127.0.0.1:8080")
    return Address(host or LOOPBACK, int(port))


def host_in(header: str) -> str:
    """The host in a Host header, without its port; "" if the header is not a host and, perhaps, a port.

    >>> host_in("localhost:8080"), host_in("[::1]:80"), host_in("[::1]"), host_in("10.0.0.1"), host_in("[::1].org")
    ('localhost', '::1', '::1', '10.0.0.1', '')
    """
    match = _HOST.fullmatch(header)
    return (match[1] or match[2]) if match else ""
