"""A QI group's share of the digest: of box, values and slots, the same in every form of publication."""

from __future__ import annotations

from hashlib import blake2b

from streamer.incremental.release.published_group import PublishedGroup, group_hash

QG1 = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"gastritis"',)))


def test_the_digest_is_the_sum_of_64_bits_of_blake2b_over_msgpack() -> None:
    """It is kept in stores and positions: another one is another format."""
    said = b'\x94\x11\x92\x04\x02\x92\x04\x03\x92\x91\xc4\x05"flu"\x91\xc4\x0b"gastritis"'
    expected = int.from_bytes(blake2b(said, digest_size=8).digest(), "big")
    assert group_hash(17, QG1) == expected
    assert group_hash(17, None) == 0


def test_cells_that_one_form_publishes_are_no_part_of_it() -> None:
    assert group_hash(17, PublishedGroup(QG1.lo, QG1.hi, QG1.slots, ((4, 2), (4, 3)))) == group_hash(17, QG1)
