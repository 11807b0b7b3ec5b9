"""Errors, sorted by whose fault they are.

The class says who has to act, and with it which exit code the command ends with:

* `ConfigError`, `UsageError`: the operator's table.yaml, data file or command line (exit 2);
* `EventRefused`: one message of the input is wrong. It never stops the stream: it becomes one dead letter (section
  "reasons" below) and the next message is read;
* `LawViolated`: the table that was about to leave the house, or a changelog somebody handed in, breaks a law (exit 1);
* `ServerUnreachable`: Kafka, Redis or the schema registry does not answer (exit 3);
* `Fenced`, `Conflict`: another worker owns this shard now, or this worker's memory is out of date. The loop of the
  shard knows what to do; a person sees them only in a log;
* `ShardRefused`: what Kafka and Redis hold of a shard does not fit together, and going on could lose or double people.

No message holds a value of somebody's row: columns, offsets and reasons only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real

EXIT_OK, EXIT_LAW, EXIT_USAGE, EXIT_SERVER = 0, 1, 2, 3


class StreamerError(Exception):
    """Base of all errors of this project."""

    exit_code = EXIT_USAGE
    hint = "what is to be done, the message says"
    """Who has to act and how, for whoever knows the kind of an error and cannot read its message: a program."""


class ConfigError(StreamerError):
    """table.yaml, a hierarchy file or a data file is wrong: the message names place, fault and what is allowed."""

    hint = "correct the file that the message names; `streamer check` tries a table.yaml, and rows by --data"


class LibraryMissing(ConfigError):
    """A library is needed that only some installations have: the message names the extra that brings it."""

    hint = "install what the message names, and make the same call again"


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """For the block that imports libraries of an extra. Raises LibraryMissing if one of them is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "agents", "streamer"):  # a fault of ours, not of the installation
            raise
        raise LibraryMissing(f"{library} is not installed: `pip install 'streamer[{extra}]'` brings it") from None


class UsageError(StreamerError):
    """The command line asks for something that cannot be done."""

    hint = "call the command as the message says; --help names all that it takes"


class EventRefused(StreamerError):
    """One input message cannot be applied: `reason` is a short stable code, `column` the column at fault, if any."""

    def __init__(self, reason: str, detail: str, column: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.column = column


class LawViolated(StreamerError):
    """A law of the published table does not hold."""

    exit_code = EXIT_LAW
    hint = "publish nothing of it; the message names the law and the release or the QI group that breaks it"


class ServerUnreachable(StreamerError):
    """A server does not answer, or refuses the connection."""

    exit_code = EXIT_SERVER
    hint = "make the same call again when the server answers; `streamer config` says which servers are meant"


class RegistryUnreachable(ServerUnreachable):
    """The schema registry does not answer, or refuses us: what its messages say cannot be known before it does."""


class NotDurable(StreamerError):
    """Redis could lose what it confirmed: published rows could then be lost or doubled."""

    hint = "set Redis as the message says, and make the same call again"


class GroupTooLarge(LawViolated):
    """A QI group does not fit into the one message of its form. Its text is for dead letters, too."""


class Fenced(StreamerError):
    """Another worker has taken this shard over: this one must drop it and may write nothing any more."""

    hint = "the other worker goes on; make the same call again where it is not to"


class Conflict(StreamerError):
    """The store is not at the commit this worker's memory was built on, or a topic was recreated since: forget it and
    take the shard over again."""

    hint = "make the same call again"


class ShardRefused(StreamerError):
    """Kafka's and Redis' views of a shard do not fit together; the message says how and names what mends it."""

    hint = "mend the shard as the message says; `streamer status` shows how all of them stand"


# Arguments of whoever calls from Python: of the type that is wanted, or refused in a sentence.
#
# The sentence names the argument, what is wanted, and the type that came. No value is quoted: it may be somebody's.

A_TEXT, WHOLE_NUMBER, NUMBER, FLAG, A_PATH = (
    "a text",
    "a whole number",
    "a number",
    "True or False",
    "the path of a file",
)

_KINDS: dict[str, tuple[type, ...]] = {
    A_TEXT: (str,),
    WHOLE_NUMBER: (Integral,),
    NUMBER: (Real,),
    FLAG: (bool,),
    A_PATH: (str, os.PathLike),
}


def require_type(argument: str, value: object, wanted: str, or_none: bool = False) -> None:
    """Raises UsageError if an argument is not what is wanted, in the words above; True and False are no numbers."""
    if or_none and value is None:
        return
    if not isinstance(value, _KINDS[wanted]) or (isinstance(value, bool) and wanted != FLAG):
        raise UsageError(f"{argument} must be {wanted}{' or None' if or_none else ''}, not {type(value).__name__}")
