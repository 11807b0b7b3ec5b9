"""All errors of this project, by who has to act.

The class decides the exit code of a command:

* `ConfigError`, `UsageError`: the operator's table.yaml, data file or command line is wrong (exit 2);
* `EventRefused`: one message of the input is wrong. It becomes a dead letter, and the next message is read;
* `LawViolated`: a table to be published, or a changelog to be checked, breaks a law (exit 1);
* `ServerUnreachable`: Kafka, Redis or the schema registry does not answer (exit 3);
* `OutOfMemory`: the system gives no more memory (exit 2). A worker ends by it;
* `Fenced`, `Conflict`: another worker owns the shard now, or this worker's memory is out of date. The worker handles
  them, and logs them;
* `ShardRefused`: Kafka's and Redis' data of a shard do not fit together: to go on could lose or duplicate people.

No message holds a value of a row: columns, offsets and reasons only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from numbers import Integral, Real

EXIT_OK, EXIT_LAW, EXIT_USAGE, EXIT_SERVER = 0, 1, 2, 3


class StreamerError(Exception):
    """Base of all errors of this project."""

    exit_code = EXIT_USAGE
    hint = "the message says what to do"  # for programs, which cannot read the message


class ConfigError(StreamerError):
    """table.yaml, a hierarchy file or a data file is wrong: the message names where, the fault and what is allowed."""

    hint = "correct the file that the message names; `streamer check` tries a table.yaml, and rows by --data"


class RowRefused(ConfigError):
    """A row of a data file cannot be used: the message names its number and the reason."""


class LibraryMissing(ConfigError):
    """A library is not installed: the message names the extra that installs it."""

    hint = "install what the message names, and make the same call again"


class PrivacyWarning(UserWarning):
    """A table that was made tells too much of some people; it is made all the same."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Wraps imports of an extra's libraries. Raises LibraryMissing if one is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "agents", "streamer"):  # our own fault, not the installation's
            raise
        raise LibraryMissing(f"{library} is not installed: `pip install 'streamer[{extra}]'` brings it") from None


class UsageError(StreamerError):
    """The command line asks for something that cannot be done."""

    hint = "the message says what to change; --help lists all options"


class EventRefused(StreamerError):
    """One input message cannot be applied. `reason` is a short stable code, `column` the one at fault, if any."""

    def __init__(self, reason: str, detail: str, column: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.column = column


class OutOfMemory(StreamerError):
    """The system gives this process no more memory, or no further thread: only less work, or a new process, helps."""

    hint = "give the process more memory, or less to do at a time, and make the same call again"


def lacks_memory(error: BaseException) -> bool:
    """True if an error says that memory is short, as Python, the system and libraries do.

    >>> [lacks_memory(error) for error in (MemoryError(), RuntimeError("can't start new thread"), OSError(12, ""))]
    [True, True, True]
    """
    text = str(error) if isinstance(error, RuntimeError | ImportError) else ""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or any(said in text for said in ("can't start new thread", "failed to map segment", "Cannot allocate memory"))
        or type(error).__name__ == "OutOfMemoryException"  # of DuckDB, which may not be installed
    )


def out_of_memory(where: str) -> OutOfMemory:
    """The error of a process, or a part of it, that is short of memory."""
    return OutOfMemory(f"{where}: the system gives no more memory or threads; raise the limit, or have less at a time")


class LawViolated(StreamerError):
    """A law of the published table does not hold."""

    exit_code = EXIT_LAW
    hint = "publish nothing of it; the message names the law and the release or the QI group that breaks it"


class ServerUnreachable(StreamerError):
    """A server does not answer, or refuses the connection."""

    exit_code = EXIT_SERVER
    hint = "make the same call again when the server answers; `streamer config` says which servers are meant"


class RegistryUnreachable(ServerUnreachable):
    """The schema registry does not answer or refuses us: messages cannot be decoded until it does."""


class NotDurable(StreamerError):
    """Redis may lose writes that it confirmed, so that published rows could be lost or duplicated."""

    hint = "set Redis as the message says, and make the same call again"


class GroupTooLarge(LawViolated):
    """A QI group does not fit into one message of the form `groups`. Dead letters quote its text."""


class Fenced(StreamerError):
    """Another worker has taken this shard over: this one must drop it and write nothing more."""

    hint = "the other worker goes on; if it should not, stop it, and make the same call again"


class Conflict(StreamerError):
    """The store is at another commit than this worker's memory, or a topic was recreated. A new take-over helps."""

    hint = "make the same call again"


class ShardRefused(StreamerError):
    """Kafka's and Redis' data of a shard do not fit together; the message says how, and names the remedy."""

    hint = "do what the message says; `streamer status` shows all shards"


# Types of arguments in calls from Python. A refusal names the argument, the wanted type and the given one, no value.

A_TEXT, WHOLE_NUMBER, NUMBER = "a text", "a whole number", "a number"
FLAG, A_PATH = "True or False", "the path of a file"

_TYPES: dict[str, tuple[type, ...]] = {
    A_TEXT: (str,), WHOLE_NUMBER: (Integral,), NUMBER: (Real, Decimal), FLAG: (bool,), A_PATH: (str, os.PathLike)
}  # fmt: skip


def require_type(argument: str, value: object, wanted: str, or_none: bool = False) -> None:
    """Raises UsageError if an argument has another type; True and False are not numbers."""
    if or_none and value is None:
        return
    if not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != FLAG):
        raise UsageError(f"{argument} must be {wanted}{' or None' if or_none else ''}, not {type(value).__name__}")
