"""The bytes of a shard: they come back as they were, old ones stay readable, foreign ones are refused by name."""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from streamer.errors import ShardRefused
from streamer.incremental.engine.stored_state import Origin, QIGroupState, Record, SimilarityList
from streamer.incremental.events.changes import Counts
from streamer.incremental.events.source_positions import SourcePosition
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import SealedMark, SealedPlace, StoredCohort
from streamer.incremental.store import codec
from streamer.incremental.store.base import Adopted, Meta, Progress, Rebuild
from streamer.incremental.store.codec import check_format, unread
from streamer.table.row import Row
from streamer.table.schema import ENGINE_VERSION

# What is kept says in which format: a newer one than is known is refused, and both numbers are told.


@pytest.mark.parametrize("text", [b"{}", b'{"format":1}', b'{"commit":7,"format":3}'])
def test_what_is_known_or_says_nothing_is_read(text: bytes) -> None:
    check_format(text, 3, "the thing", "mend it")


def test_a_newer_format_is_refused_with_both_numbers_and_the_mend() -> None:
    with pytest.raises(ShardRefused) as refused:
        check_format(b'{"format":4,"who":"canary"}', 3, "the thing", "mend it")
    assert str(refused.value) == (
        "the thing is in format 4, and this streamer reads up to format 3: run the version that wrote it, or mend it"
    )


@pytest.mark.parametrize("text", [b"", b"null", b"[4]", b'{"format":"4"}', b"\xff"])
def test_what_is_no_object_with_a_number_is_none(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        check_format(text, 3, "the thing", "mend it")


def test_an_older_format_that_is_not_read_any_more_is_told_as_such() -> None:
    assert unread(3, 5, "mend it") == (
        "is in format 3, and this streamer reads format 5: run the version that wrote it, or mend it"
    )


INTS = st.integers(-(2**63), 2**63 - 1)
CODES = st.lists(INTS, max_size=4).map(tuple)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
VALUES = st.lists(st.binary(max_size=5), max_size=3).map(tuple)
COUNT = st.integers(0, 2**63 - 1)
COUNTS = st.builds(Counts, COUNT, COUNT, COUNT, COUNT, st.dictionaries(st.text(), COUNT, max_size=2), COUNT)
IDS = st.dictionaries(TEXT, TEXT, max_size=2)
OFFSETS = st.lists(COUNT, max_size=3).map(tuple)

KINDS: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "row of the index table": (codec.encode_record, codec.decode_record),
    "QI group": (codec.encode_qi_group, codec.decode_qi_group),
    "origin of a QI group": (codec.encode_origin, codec.decode_origin),
    "meta": (codec.encode_meta, codec.decode_meta),
    "outbox entry": (lambda entry: codec.encode_outbox(7, [entry])[0], lambda data: codec.decode_outbox(data)[0][1]),
}

DEFLATED = zlib.compress(b"\x91\x93\xa4live\xc4\x02{}\xc0", 1)
"""The entries of the outbox below: how zlib deflates them is its own affair."""

# What version 7 writes, byte by byte: a change of these lines is a change of the format and raises FORMAT_VERSION.
GOLDEN = {
    "row of the index table": (
        Record(Row((3, 1000), (b'"flu"', b"null"), ("1.50",), "123-45", (1,)), 17),
        b'\x97\x07\x92\x03\xcd\x03\xe8\x92\xc4\x05"flu"\xc4\x04null\x91\xa41.50\xa6123-45\x11\x91\x01',
    ),
    "QI group": (
        QIGroupState((1, 0), (3, 4), ("a", "b"), ((b'"flu"',), (b"1",))),
        b'\x95\x07\x92\x01\x00\x92\x03\x04\x92\xa1a\xa1b\x92\x91\xc4\x05"flu"\x91\xc4\x011',
    ),
    "origin of a QI group": (Origin("cut afresh", 300), b"\x93\x07\xaacut afresh\xcd\x01,"),
    "meta": (
        Meta(5, 50, 4, 18, 2, 2**64 - 1, Counts(7, 8, 9, 2), 4, "print", {"live": "id"}, "bare", (6, 40), b"key"),
        b"\x9e\x07\x052\x04\x12\x02\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x94\x07\x08\t\x02"
        b"\x04\xa5print\x81\xa4live\xa2id\xa4bare\x92\x06(\xc4\x03key",
    ),
    "outbox entry": (OutboxEntry("live", b"{}", None), b"7:\x92\x07\xc4%c%b" % (len(DEFLATED), DEFLATED)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_version_7_do_not_change(kind: str) -> None:
    (encode, decode), (value, data) = KINDS[kind], GOLDEN[kind]
    assert encode(value) == data
    assert decode(data) == value


@given(st.builds(Record, st.builds(Row, CODES, VALUES, TEXTS, st.none() | TEXT, OFFSETS), COUNT))
def test_records_come_back(record: Record) -> None:
    assert codec.decode_record(codec.encode_record(record)) == record


@given(st.builds(QIGroupState, CODES, CODES, TEXTS, st.lists(VALUES, max_size=3).map(tuple)))
def test_qi_groups_come_back(state: QIGroupState) -> None:
    assert codec.decode_qi_group(codec.encode_qi_group(state)) == state


@given(st.builds(Meta, *[COUNT] * 5, st.integers(0, 2**64 - 1), COUNTS, COUNT, TEXT, IDS, TEXT, OFFSETS, st.binary()))
def test_meta_comes_back(meta: Meta) -> None:
    assert codec.decode_meta(codec.encode_meta(meta)) == meta


@pytest.mark.parametrize(
    "counts", [Counts(), Counts(0, 8, 9, 2, explaining=5), Counts(7, 8, 9, 0, {"city": 3}), Counts(old_reads=1)]
)
def test_counts_come_back_whichever_of_them_are_nothing(counts: Counts) -> None:
    assert codec.decode_meta(codec.encode_meta(Meta(counts=counts))) == Meta(counts=counts)


def test_what_a_sealed_changelog_and_last_changes_need_comes_back() -> None:
    place, cohort = SealedPlace(0, since=3, arrival=41), StoredCohort(b"id", rows=5, left=4, touched=True)
    assert codec.decode_place(codec.encode_place(place)) == place
    assert codec.decode_cohort(codec.encode_cohort(cohort)) == cohort
    remembered = (7, SourcePosition("postgresql people clinic lsn", (310,), 1_700_000_000_000))
    assert codec.decode_remembered(codec.encode_remembered(remembered)) == remembered


REBUILDS = st.builds(
    Progress, st.builds(Rebuild, TEXT, TEXT, COUNT, COUNT), COUNT, COUNT, COUNT, COUNT, st.floats(0, 9), st.floats(0, 9)
)


@given(st.none() | REBUILDS, st.lists(REBUILDS, max_size=3).map(tuple))
def test_what_a_shard_knows_of_its_rebuilds_comes_back(rebuild: Progress | None, ended: tuple[Progress, ...]) -> None:
    meta = Meta(5, 50, secret=b"key", rebuild=rebuild, rebuilds=ended)
    assert codec.decode_meta(codec.encode_meta(meta)) == meta


def test_what_a_former_version_kept_of_truncations_is_read_and_dropped() -> None:
    meta = Meta(5, 50, secret=b"key", control_next=7, letters_from=20)
    said = msgspec.msgpack.decode(codec.encode_meta(meta))
    assert said[codec.FORMER_AT + 1 :][:3] == [None, 0, False]
    said[codec.FORMER_AT + 1 : codec.FORMER_AT + 4] = [{"log": "postgresql", "place": [90], "at": 5}, 3, True]
    assert codec.decode_meta(msgspec.msgpack.encode(said)) == meta


@given(COUNT, st.builds(OutboxEntry, TEXT, st.binary(), st.none() | st.binary()))
def test_entries_come_back_with_their_commit(commit: int, entry: OutboxEntry) -> None:
    (data,) = codec.encode_outbox(commit, [entry])
    assert codec.decode_outbox(data) == [(commit, entry)]
    assert codec.commit_of(data) == commit


def with_version(kind: str, version: int) -> bytes:
    """The golden bytes of a kind, written by another version."""
    data = GOLDEN[kind][1]
    at = data.index(b"\x07")
    return data[:at] + bytes([version]) + data[at + 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_a_format_that_is_newer_is_refused_and_both_are_named(kind: str) -> None:
    said = f"a {kind} is in format 8, and this streamer reads up to format 7: run the version that wrote it, or "
    with pytest.raises(ShardRefused, match=said):
        KINDS[kind][1](with_version(kind, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_a_format_that_is_not_read_any_more_is_refused(kind: str) -> None:
    with pytest.raises(ShardRefused, match=f"a {kind} is in format 3, and this streamer reads format 7: run the vers"):
        KINDS[kind][1](with_version(kind, 3))


@pytest.mark.parametrize("version", [4, 5, 6, 7])
def test_what_is_damaged_in_a_format_that_is_read_is_told_with_the_format_and_what_to_do(version: int) -> None:
    """What says where everything else is cannot be written over: its keys have to go first."""
    for kind, mend in (("QI group", "reload <table>"), ("meta", "delete the keys"), ("outbox entry", "delete the key")):
        damaged = msgspec.msgpack.encode([version, "canary"])
        data = b"7:" + damaged if kind == "outbox entry" else damaged
        with pytest.raises(ShardRefused, match=rf"a {kind} is damaged \(format {version}\); {mend}"):
            KINDS[kind][1](data)


@pytest.mark.parametrize("kind", ["QI group", "origin of a QI group", "meta"])
def test_what_formats_4_and_5_said_is_read(kind: str) -> None:
    assert KINDS[kind][1](with_version(kind, 4)) == KINDS[kind][1](with_version(kind, 5)) == GOLDEN[kind][0]


def test_a_row_of_format_4_has_no_nulls_that_are_known() -> None:
    before = b'\x96\x04\x92\x03\xcd\x03\xe8\x92\xc4\x05"flu"\xc4\x04null\x91\xa41.50\xa6123-45\x11'
    record: Any = GOLDEN["row of the index table"][0]
    assert codec.decode_record(before) == Record(replace(record.row, nulls=()), 17)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_value_of_the_outbox_of_a_former_format_is_one_entry(version: int) -> None:
    before = b"7:\x94%c\xa4live\xc4\x02{}\xc0" % version
    assert codec.decode_outbox(before) == [(7, GOLDEN["outbox entry"][0])]


@given(st.lists(st.builds(OutboxEntry, TEXT, st.binary(), st.none() | st.binary()), min_size=1, max_size=5))
def test_a_long_outbox_comes_in_several_values_that_are_read_in_order(entries: list[OutboxEntry]) -> None:
    outbox = entries * codec.ENTRIES_AT_ONCE
    data = codec.encode_outbox(9, outbox)
    assert len(data) == len(entries)
    assert [pair for one in data for pair in codec.decode_outbox(one)] == [(9, entry) for entry in outbox]


def test_what_lossy_joins_and_whole_tables_need_is_kept() -> None:
    meta = Meta(5, 50, secret=b"key", whole=7, begins={"qit": 40}, last_of={"qit": 9, "stt": 7})
    assert codec.decode_meta(codec.encode_meta(meta)) == meta


def test_the_meta_of_a_newer_streamer_is_refused_by_both_versions_and_never_called_damaged() -> None:
    """Before: "a meta is damaged; delete the keys in Redis", of a sound state with one field more."""
    adopted = (Adopted("5", 7, 9),)
    meta = Meta(
        5, 50, secret=b"key", adopted=adopted, fingerprint="engine-version:1000 columns:aa", sealed=SealedMark(3, 60)
    )
    known = msgspec.msgpack.decode(codec.encode_meta(meta))
    assert codec.decode_meta(msgspec.msgpack.encode(known)) == meta
    more = [*known, "canary"]
    other_counts = [*known[:7], [*known[7], {}, "canary"], *known[8:]]
    for newer in (more, other_counts):
        with pytest.raises(ShardRefused) as refused:
            codec.decode_meta(msgspec.msgpack.encode(newer))
        said = str(refused.value)
        assert f"a meta of {len(newer)} fields, kept by engine version 1000, is a newer streamer's" in said
        assert f"this one reads {len(known)} fields, and its engine version is {ENGINE_VERSION}; run the newer" in said
        assert "canary" not in said
    more[known.index(meta.fingerprint)] = 7
    with pytest.raises(ShardRefused, match=r"a meta is damaged \(format 7\)"):
        codec.decode_meta(msgspec.msgpack.encode(more))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_damaged_bytes_are_refused_without_showing_them(kind: str, data: st.DataObject) -> None:
    value, whole = GOLDEN[kind]
    cut = data.draw(st.integers(0, len(whole) - 1))
    for damaged in (whole[:cut], whole + b"\xc1", whole + whole, b"canary"):
        with pytest.raises(ShardRefused) as refused:
            KINDS[kind][1](damaged)
        shown = "".join(traceback.format_exception(refused.value)[-1:])
        assert not any(text in shown for text in ("flu", "123-45", "canary"))
    assert value == KINDS[kind][1](whole)


def test_a_meta_of_our_own_engine_that_has_all_fields_is_damaged_and_no_newer_one() -> None:
    meta = Meta(5, 50, secret=b"key", fingerprint=f"engine-version:{ENGINE_VERSION} columns:aa", sealed=SealedMark(3))
    known = msgspec.msgpack.decode(codec.encode_meta(meta))
    known[1] = "five"
    with pytest.raises(ShardRefused, match=r"a meta is damaged \(format 7\)"):
        codec.decode_meta(msgspec.msgpack.encode(known))


@pytest.mark.parametrize(
    "data", [b"", b"no colon", b":x", b"-1:x", b"seven:x", b"9" * 21 + b":x", b"9" * 5_000 + b":x"]
)
def test_an_entry_without_its_commit_number_is_refused(data: bytes) -> None:
    with pytest.raises(ShardRefused, match="without its commit number"):
        codec.commit_of(data)


@pytest.mark.parametrize("way", ["encode", "decode"])
def test_a_record_is_cheap(way: str) -> None:
    """A budget of 1.5 µs on an idle core, with room for a busy one: a slower shape of the format shows here."""
    record = Record(Row((3, 17, 2, 40, 1, 0, 5, 2), (b'"flu"',)), 1234)
    data = codec.encode_record(record)
    call = (lambda: codec.encode_record(record)) if way == "encode" else (lambda: codec.decode_record(data))
    best_us = min(_us_per_call(call) for _ in range(20))
    assert best_us < 4.5


def _us_per_call(call: Callable[[], object], times: int = 2_000) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times * 1e6


def test_a_similarity_list_is_read_back_and_what_cannot_be_read_is_no_hint() -> None:
    listed = SimilarityList(((30, 1 / 3), (4, 0.25), (9, 0.25)), 17)
    data = codec.encode_similarity(listed)
    assert codec.decode_similarity(data) == listed
    for other in (b"0.1", b"", b"nan", data[:-1], data + b"x"):  # the first is what an older streamer stored
        assert codec.decode_similarity(other) is None


@pytest.mark.parametrize("data", [b"", b"x", b"-1", b"1.5", "²".encode(), b"07", b"9" * 21, b"9" * 5_000])
def test_what_is_no_number_of_a_qi_group_is_refused(data: bytes) -> None:
    with pytest.raises(ShardRefused, match="damaged; reload <table> from its source"):
        codec.decode_number(data)


@pytest.mark.parametrize("number", [0, 7, 10**20 - 1])
def test_a_number_of_up_to_twenty_digits_is_read(number: int) -> None:
    assert codec.decode_number(b"%d" % number) == number
    assert codec.commit_of(b"%d:x" % number) == number
