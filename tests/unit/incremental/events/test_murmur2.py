"""The shard of a message key is the one that Kafka's clients give it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import default as kafka_python

from streamer.incremental.events.murmur2 import murmur2, shard_of

# Of the tests of Kafka's Java client (UtilsTest.testMurmur2), as signed 32-bit numbers.
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("message_key", "java"), JAVA_MURMUR2.items())
@pytest.mark.parametrize("shards", [1, 4, 7, 1000])
def test_the_shard_is_javas_murmur2_without_its_sign_modulo_the_shards(
    message_key: bytes, java: int, shards: int
) -> None:
    assert murmur2(message_key) == java % (1 << 32)
    assert shard_of(message_key, shards) == (java & 0x7FFFFFFF) % shards


@given(st.binary(max_size=400))
def test_it_is_the_murmur2_of_kafka_python(data: bytes) -> None:
    assert murmur2(data) == kafka_python.murmur2(data)
