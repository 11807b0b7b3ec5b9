"""Which shard a message key leads to: murmur2, as Kafka's Java client computes it.

Kafka's own clients, and so Connect and Debezium, place a message by this hash unless they are told otherwise: it is the
one rule that all producers can agree on. A shard checks it for every message about a row.
"""

from __future__ import annotations

import struct

_SEED, _FACTOR, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Java's `Utils.murmur2` as an unsigned number of 32 bits.

    >>> [murmur2(text) - (1 << 32) for text in (b"21", b"foobar", b"a-little-bit-long-string")]
    [-973932308, -790332482, -985981536]
    >>> murmur2(b"abc")
    479470107
    """
    n_words = len(data) // 4
    hashed = _SEED ^ len(data)
    for word in struct.unpack_from(f"<{n_words}I", data):
        word = word * _FACTOR & _MASK
        hashed = (hashed * _FACTOR ^ (word ^ word >> 24) * _FACTOR) & _MASK
    if rest := data[4 * n_words :]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def shard_of(message_key: bytes, shards: int) -> int:
    """The shard of a message key among `shards`: Java's default partitioner.

    >>> [shard_of(b"7", shards) for shards in (1, 4, 7)]
    [0, 3, 1]
    """
    return (murmur2(message_key) & 0x7FFFFFFF) % shards
