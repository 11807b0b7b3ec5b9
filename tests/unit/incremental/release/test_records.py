"""Records on their way out: what their headers tell a reader, and what their repr tells a log."""

from __future__ import annotations

from hashlib import blake2b

from streamer.incremental.release.records import OUTSIDE, OutboxEntry, Outgoing, PublishedGroup, group_hash, outgoing


def live(key: bytes, value: bytes | None = b"{}") -> OutboxEntry:
    return OutboxEntry("live", key, value)


LETTER = OutboxEntry("dead-letters", b"0-7", b"{}")


def headers_of(records: list[Outgoing]) -> list[dict[str, bytes]]:
    return [dict(record.headers) for record in records]


def test_headers_say_where_a_release_ends_in_each_topic() -> None:
    records = outgoing([live(b"a"), LETTER, live(b"b"), live(b"c", None)], release=4, through=99)
    assert [(record.topic, record.key, record.value) for record in records] == [
        ("live", b"a", b"{}"), ("dead-letters", b"0-7", b"{}"), ("live", b"b", b"{}"), ("live", b"c", None),
    ]  # fmt: skip
    assert [found["part"] for found in headers_of(records)] == [b"1/3", b"1/1", b"2/3", b"3/3"]


def test_every_record_of_a_commit_has_its_release_and_the_first_offset_not_applied() -> None:
    for found in headers_of(outgoing([live(b"a"), LETTER], release=4, through=99)):
        assert (found["release"], found["through"]) == (b"4", b"99")


def test_what_did_not_come_from_the_input_is_announced_and_nothing_else_is() -> None:
    entries = [live(b"a"), LETTER]
    assert all(OUTSIDE in record.headers for record in outgoing(entries, 4, 99, outside=True))
    assert not any("outside" in found for found in headers_of(outgoing(entries, 4, 99)))


def test_records_name_the_last_release_of_the_whole_table_and_where_their_topic_began_then() -> None:
    entries = [OutboxEntry("qit", b"a", b""), OutboxEntry("stt", b"b", b"")]
    cells, values = headers_of(outgoing(entries, 9, 99, whole=7, begins={"qit": 50}))
    assert (cells["whole"], cells["begins"], values["whole"]) == (b"7", b"50", b"7")
    assert "begins" not in values
    assert not any("whole" in found for found in headers_of(outgoing(entries, 9, 99)))


def test_no_entries_are_no_records() -> None:
    assert outgoing([], release=4, through=99) == []


def test_the_repr_shows_no_value_of_a_person() -> None:
    entry = OutboxEntry("live", b"canary", b"canary")
    assert "canary" not in repr([entry, *outgoing([entry], release=1, through=1)])


def test_parts_are_counted_topic_by_topic() -> None:
    entries = [OutboxEntry("qit", b"a", b""), OutboxEntry("stt", b"b", b""), OutboxEntry("qit", b"c", b"")]
    numbers = [dict(sent.headers)["part"] for sent in outgoing(entries, 1, 1)]
    assert numbers == [b"1/2", b"1/1", b"2/2"]
    assert [dict(sent.headers)["beside"] for sent in outgoing(entries, 1, 1)] == [b"1", b"2", b"1"]


def test_a_release_in_one_of_two_topics_names_the_last_one_of_the_other() -> None:
    entries = [OutboxEntry("qit", b"a", b""), OutboxEntry("stt", b"b", b"")]
    found = headers_of([*outgoing(entries[:1], 9, 99, last_of={"qit": 9, "stt": 7}), *outgoing(entries[1:], 9, 99)])
    assert [one.get("after") for one in found] == [b"7", None]  # None: nothing is known of the other topic
    assert not any("after" in one for one in headers_of(outgoing(entries, 9, 99, last_of={"qit": 9, "stt": 9})))


# A QI group's share of the digest: of box, values and slots, the same in every form of publication.

QG1 = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"gastritis"',)))


def test_the_digest_is_the_sum_of_64_bits_of_blake2b_over_msgpack() -> None:
    """It is kept in stores and positions: another one is another format."""
    said = b'\x94\x11\x92\x04\x02\x92\x04\x03\x92\x91\xc4\x05"flu"\x91\xc4\x0b"gastritis"'
    expected = int.from_bytes(blake2b(said, digest_size=8).digest(), "big")
    assert group_hash(17, QG1) == expected
    assert group_hash(17, None) == 0


def test_cells_that_one_form_publishes_are_no_part_of_it() -> None:
    assert group_hash(17, PublishedGroup(QG1.lo, QG1.hi, QG1.slots, ((4, 2), (4, 3)))) == group_hash(17, QG1)
