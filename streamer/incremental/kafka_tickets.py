"""What TLS itself sends to kafka-python's clients, passed over.

Under TLS 1.3 a server sends tickets for later sessions behind the handshake, and the client sees a socket that can be
read though it has asked nothing. kafka-python takes that for a connection that the broker has ended: it closes it,
and the first request fails. So its clients are given a selector that reads such a ticket where no answer is waited
for, and says nothing of it.
"""

from __future__ import annotations

import ssl
from selectors import EVENT_READ, DefaultSelector, SelectorKey


class TicketsPassedOver(DefaultSelector):
    """The selector of a client whose connections (`data` of what is registered) are kafka-python's."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """What is ready; it may be nothing before the time is over, as of any selector."""
        ready = []
        for registered, events in super().select(timeout):
            left = events & ~EVENT_READ if events & EVENT_READ and _brings_nothing(registered) else events
            if left:
                ready.append((registered, left))
        return ready


def _brings_nothing(registered: SelectorKey) -> bool:
    """Whether a socket that can be read has nothing for the client, nor its end.

    Read is only where no answer is waited for: a byte that came there would be one too many, and is the client's to
    complain of.
    """
    connection = registered.data
    socket = getattr(connection, "_sock", None)  # not what is registered, which was a socket before TLS
    if not isinstance(socket, ssl.SSLSocket) or not connection.connected() or connection.in_flight_requests:
        return False
    try:
        socket.recv(1)
    except ssl.SSLWantReadError:
        return True
    except OSError:  # whatever has ended it, the client finds it, too
        return False
    return False
