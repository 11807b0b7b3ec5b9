"""Repeatable chance: what decides among rows that are alike in everything that may decide.

The rules of this file
----------------------
* The published bytes are a function of cells, of the partition of rows into individuals, and of published values alone.
  Everything else (which of two rows in one cell goes to which half of a cut QI group, which leaves first) is decided by
  chance: else numbers of QI groups and slots would reveal exact values, source keys or names.
* The *tie hash* of a row is a hash of its source key, keyed with a secret of its shard. Without the secret it is
  random; with it, replays, restarts and batches compute the same hash again.
* A cut does not order rows by their tie hashes as they are: a row with a small hash would stay behind at every cut, and
  nearly always the newest rows would go to the newest number (`tests/laws/test_nothing_but_values_speaks.py`). Each cut
  shuffles the hashes by what is public of it, so that no cut depends on another.
* The secret is drawn once per shard, by its shell, and is as secret as the rows: who has it and knows a source key
  knows on which side of a cut the row fell. An empty secret keys nothing: for tests only.
* Two rows of a shard have the same hash once in 2^64 pairs; nothing is done about that.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from streamer.table.arrays import Ints

TIE_HASH_BYTES = 8

SECRET_BYTES = 32
"""Bytes of a new secret; blake2b takes up to 64."""


def tie_hash(secret: bytes, source_key: str) -> int:
    """The tie hash of one row, a signed 64-bit integer."""
    keyed = blake2b(source_key.encode(), key=secret, digest_size=TIE_HASH_BYTES)
    return int.from_bytes(keyed.digest(), "little", signed=True)


def tie_hashes(secret: bytes, source_keys: Iterable[str]) -> Ints:
    """The tie hashes of n rows, (n,) int64.

    >>> tie_hashes(b"a secret", ["ann", "bob"]).tolist() == [tie_hash(b"a secret", "ann"), tie_hash(b"a secret", "bob")]
    True
    """
    keyed = blake2b(key=secret, digest_size=TIE_HASH_BYTES)  # the key costs as much as all the rest
    digests = []
    for source_key in source_keys:
        one = keyed.copy()
        one.update(source_key.encode())
        digests.append(one.digest())
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def seed(secret: bytes) -> int:
    """A seed for algorithms that need chance, below 2^64: another domain of the hash, so no row's tie hash."""
    return int.from_bytes(blake2b(key=secret, digest_size=TIE_HASH_BYTES, person=b"seed").digest(), "little")
