"""The shards' secrets as records of the control topic, encrypted where the operator gives a key.

The rules of this file
----------------------
* Workers, `load` and `reload` read the control topic, and nobody else may (examples/security/acls.sh).
* STREAMER_SECRET_KEY, or the file that STREAMER_SECRET_KEY_FILE names, holds one or more keys of Fernet. The first one
  encrypts, every one decrypts. Both are read for each record, and not kept.
* The first record that can be read counts: what was written later says the same. If none has the secret as it would be
  written now (by the first key; as it is, if there is no key), it is written once more. So a key is replaced by giving
  the new one before the old one, until every shard was taken over.
* No record goes away before the topic does: one that was written as it is, or by a key that others know, is got rid of
  by recreating the topic.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from streamer.errors import ConfigError, ShardRefused, needs_extra
from streamer.incremental import remedies
from streamer.incremental.shard.input import KeptSecret
from streamer.incremental.shard.requests import Secret
from streamer.kafka import SECRET_KEY, SECRET_KEY_FILE

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


def secret_keys(environment: Mapping[str, str] = os.environ) -> list[Fernet]:
    """The operator's keys, the one that encrypts first; none if none is given. Raises ConfigError, without a key."""
    said, path = environment.get(SECRET_KEY, ""), environment.get(SECRET_KEY_FILE, "")
    if said and path:
        raise ConfigError(f"{SECRET_KEY} and {SECRET_KEY_FILE} are both set: which one is meant?")
    if path:
        try:
            said = Path(path).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{SECRET_KEY_FILE}: cannot be read ({type(error).__name__})") from None
    keys = [key for key in re.split(r"[,\s]+", said) if key]
    if not (keys or path):
        return []
    with needs_extra("encryption"):
        from cryptography.fernet import Fernet
    try:
        fernets = [Fernet(key) for key in keys]
    except ValueError:
        fernets = []
    if not fernets:
        raise ConfigError(
            f"{SECRET_KEY_FILE if path else SECRET_KEY}: expected 32 bytes in URL-safe base64, or several such keys "
            "with commas between them; `python -c 'from cryptography.fernet import Fernet; "
            "print(Fernet.generate_key().decode())'` makes one"
        )
    return fernets


def record_of(shard: int, secret: bytes, keys: Sequence[Fernet]) -> Secret:
    """The record that keeps a secret.

    >>> record_of(0, b"abc", []).to_json()
    b'{"command":"secret","shard":0,"plain":"YWJj"}'
    """
    if not keys:
        return Secret(shard, plain=secret)
    return Secret(shard, encrypted=keys[0].encrypt(secret).decode())


def kept_in(records: Sequence[Secret], keys: Sequence[Fernet], table_name: str, shard: int) -> KeptSecret:
    """The secret in a shard's records. Raises ShardRefused if there are some, and none can be read."""
    opened = [found for record in records if (found := _opened(record, keys)) is not None]
    if records and not opened:
        why = f"by another key than {SECRET_KEY} has" if keys else f"and {SECRET_KEY} is not set"
        raise ShardRefused(
            f"shard {shard} of {table_name}: its secret in the control topic is encrypted, {why}: set it to the key by "
            f"which it was written; if that is lost, {remedies.recreate_control(table_name)}"
        )
    return KeptSecret(opened[0].secret, any(one.is_current for one in opened)) if opened else KeptSecret()


def _opened(record: Secret, keys: Sequence[Fernet]) -> KeptSecret | None:
    """A record's secret; None if no key decrypts it."""
    if not record.encrypted:
        return KeptSecret(record.plain, is_current=not keys)
    if not keys:
        return None
    from cryptography.fernet import InvalidToken

    for key in keys:
        with suppress(InvalidToken):
            return KeptSecret(key.decrypt(record.encrypted), is_current=key is keys[0])
    return None
