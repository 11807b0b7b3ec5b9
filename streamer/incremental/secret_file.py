"""The secret of a shard as a file: what a replay drew its lots by, for whoever replays or verifies it again.

One line of hexadecimal digits. It is as private as the index beside it: who has it knows by which chance a row came to
its QI group (`streamer.incremental.groups.lots`).
"""

from __future__ import annotations

from pathlib import Path

from streamer.errors import ConfigError
from streamer.incremental.groups.lots import SECRET_BYTES

NAME = "secret.txt"
"""How the file is called where nobody names it: in the directory of a replay."""

BYTES_MIN = 16


def secret_text(secret: bytes) -> bytes:
    """What stands in the file."""
    return secret.hex().encode() + b"\n"


def read_secret(path: Path) -> bytes | None:
    """The secret in a file, None where there is no such file.

    Raises ConfigError where it cannot be read or holds something else; what it holds is not said.
    """
    try:
        secret = bytes.fromhex(path.read_text("ascii"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        secret = b""
    if not BYTES_MIN <= len(secret) <= 2 * SECRET_BYTES:
        raise ConfigError(
            f"{path}: is not a secret as `replay` writes it (a line of {2 * SECRET_BYTES} hexadecimal digits); restore "
            "it, or let `replay` draw another in an empty directory"
        )
    return secret
