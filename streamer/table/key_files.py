"""The keys of pseudonyms and shifted dates, which are files: one for each circle of readers.

The rules of this file
----------------------
* A key is a line of at least 64 hexadecimal digits, as `make_key` draws it: no words, which others could guess.
* Whoever may read a key can find out whose a pseudonym is. So a key that everybody may read is refused.
* Readers of what is published have table.yaml and no key. So a key that is not there is missed only where a value has
  to be published, or compared with what is.
* No key gets into a log, an error or a pickle: another process reads the file itself.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from stat import S_IROTH, S_IWOTH
from typing import Any

from streamer.errors import ConfigError, UsageError

LEAST_BYTES = 32
DIGITS_READ_MAX = 1_000

_NEW = "`streamer pseudonym --make-key` makes one"


@dataclass(frozen=True)
class KeyFile:
    """The key that a file holds; without one, why it is missing."""

    path: Path = field(compare=False)
    secret: bytes = field(repr=False)
    missing: str = field(default="", compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return read_key, (self.path.absolute(),)

    def mac(self, text: bytes) -> bytes:
        """HMAC-SHA-256 of a text: 32 bytes. Raises ConfigError if the key is missing."""
        if not self.secret:
            raise ConfigError(self.missing)
        return hmac.digest(self.secret, text, "sha256")

    @property
    def check(self) -> str:
        """A text that tells this key from others, and nothing of it. Raises ConfigError if the key is missing."""
        return self.mac(b"\0key")[:8].hex()


def read_key(path: Path) -> KeyFile:
    """The key in a file, or that it is missing. Raises ConfigError for one that is no key or that everybody may read.

    The message never has the text.
    """
    try:
        with open(path, encoding="ascii", opener=_at_once) as file:
            is_open = os.fstat(file.fileno()).st_mode & (S_IROTH | S_IWOTH)
            text = file.read(DIGITS_READ_MAX).strip()
            secret = bytes.fromhex(text)
    except (FileNotFoundError, PermissionError) as error:
        why = f"the key, by which columns are published (`publish` in table.yaml), cannot be read: {error.strerror}"
        return KeyFile(path, b"", f"{path}: {why}. Rows cannot be published, or compared with what is, without it")
    except OSError as error:
        raise ConfigError(f"{path}: the key cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path}: is not a key, a line of hexadecimal digits: {_NEW}") from None
    if is_open:
        raise ConfigError(f"{path}: everybody may read or write this key: leave that to its owner (chmod 600)")
    if len(secret) < LEAST_BYTES:
        raise ConfigError(f"{path}: the key is too short: it needs {2 * LEAST_BYTES} hexadecimal digits; {_NEW}")
    return KeyFile(path, secret)


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without waiting for its writer


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def make_key(path: Path) -> None:
    """Writes a new key for its owner alone. Raises UsageError if the file exists or cannot be written."""
    try:
        with open(path, "x", encoding="ascii", opener=_for_its_owner) as file:
            file.write(f"{token_hex(LEAST_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise UsageError(
            f"{path}: exists already and is not overwritten: nobody could make the pseudonyms under a lost key again"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
