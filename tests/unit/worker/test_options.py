"""Where a worker listens, as somebody writes it, and which hosts are this machine's own."""

from __future__ import annotations

import pytest

from streamer.errors import UsageError
from streamer.worker.options import Address, host_in, read_address


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        ("8080", ("127.0.0.1", 8080), True),
        ("127.0.0.1:8080", ("127.0.0.1", 8080), True),
        ("localhost:0", ("localhost", 0), True),
        ("[::1]:80", ("::1", 80), True),
        ("0.0.0.0:8080", ("0.0.0.0", 8080), False),
        ("[::]:8080", ("::", 8080), False),
        ("worker:8080", ("worker", 8080), False),
    ],
)
def test_an_address_is_read_and_is_this_machines_own_unless_told_otherwise(
    text: str, address: tuple[str, int], is_loopback: bool
) -> None:
    found = read_address(text)
    assert (found, found.is_loopback) == (Address(*address), is_loopback)


@pytest.mark.parametrize("text", ["", "here", "here:", ":8080", "here:http", "here:70000", "here:-1", "[::1]", "1:2:x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        read_address(text)


@pytest.mark.parametrize(
    "header", ["[::1].evil.com", "[::1]evil.com:80", "[::1", "[::1]:80.evil.com", "localhost:evil.com"]
)
def test_what_only_begins_as_a_host_of_this_machine_names_none(header: str) -> None:
    """Before: `[::1].evil.com` was taken for `::1`."""
    assert not Address(host_in(header), 1).is_loopback


@pytest.mark.parametrize("header", ["127.0.0.1:80", "localhost", "[::1]:80", "localhost:", "[::1]:"])
def test_a_host_header_names_a_host_with_or_without_a_port(header: str) -> None:
    assert Address(host_in(header), 1).is_loopback
