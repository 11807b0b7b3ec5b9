"""Records of a sealed changelog: their bytes, and that nothing else is read as one."""

from __future__ import annotations

import msgspec
import pytest

from streamer.errors import LawViolated
from streamer.incremental.sealed.records import (
    Add,
    EpochEnd,
    Live,
    Retire,
    SealedRecord,
    box_json,
    decode,
    encode,
    ordered_epoch,
    sensitive_texts,
)
from streamer.table.published.rows import box_columns
from worlds.small_tables import TABLES as SMALL_TABLES

ID = "00112233445566778899aabbccddeeff"
BOX = msgspec.Raw(b'{"age_lo":20,"age_hi":22.5,"city":"west"}')
VALUES = sensitive_texts([(b'"flu"', b"null"), (b'"cold"', b"1.50")])

WRITTEN: list[tuple[SealedRecord, bytes, bytes]] = [
    (
        Add(ID, 7, 2, BOX, VALUES),
        ID.encode(),
        b'{"record":"ADD","cohort":"00112233445566778899aabbccddeeff","epoch":7,"n":2,"box":{"age_lo":20,"age_hi":22.5,'
        b'"city":"west"},"sensitive":[["cold",1.50],["flu",null]]}',
    ),
    (
        Add(ID, 7, 2, BOX, None),
        ID.encode(),
        b'{"record":"ADD","cohort":"00112233445566778899aabbccddeeff","epoch":7,"n":2,"box":{"age_lo":20,"age_hi":22.5,'
        b'"city":"west"},"sensitive":null}',
    ),
    (
        Live(ID, 7, 4),
        ID.encode(),
        b'{"record":"LIVE","cohort":"00112233445566778899aabbccddeeff","epoch":7,"live":4}',
    ),
    (
        Retire(ID, 7),
        ID.encode(),
        b'{"record":"RETIRE","cohort":"00112233445566778899aabbccddeeff","epoch":7}',
    ),
    (
        EpochEnd(7, 3, "2026-11-26T10:00:00Z", 3, 1, 2, 5, "0.5", 1),
        b"epoch-3",
        b'{"record":"EPOCH","epoch":7,"shard":3,"time":"2026-11-26T10:00:00Z","adds":3,"retires":1,"lives":2,"k":5,'
        b'"alpha":"0.5","l":1}',
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN)
def test_a_record_has_exactly_these_bytes_and_is_read_back(record: SealedRecord, key: bytes, value: bytes) -> None:
    assert encode(record) == (key, value)
    assert decode(key, value) == record


ADD, _, LIVE, RETIRE, EPOCH = (value for _, _, value in WRITTEN)


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [
        (ADD, b'"ADD"', b'"UPDATE"'),
        (ADD, b'"epoch":7', b'"epoch":0'),
        (ADD, b'"epoch":7', b'"epoch":7.0'),
        (ADD, b'"n":2', b'"n":3'),
        (ADD, b'"n":2', b'"n":2,"shard":0'),
        (ADD, b'"n":2,', b""),
        (ADD, b'"epoch":7,"n":2', b'"n":2,"epoch":7'),
        (ADD, b'"n":2', b'"n": 2'),
        (ADD, b"22.5,", b"22.5, "),
        (ADD, b'{"age_lo":20', b'{"age_lo":19,"age_lo":20'),
        (ADD, bytes(BOX), b"[]"),
        (ADD, b'[["cold",1.50],["flu",null]]', b'[["flu",null],["cold",1.50]]'),
        (ADD, b'["flu",null]', b'["flu"]'),
        (ADD, b'["flu",null]', b'["flu",[1, 2]]'),
        (ADD, b'["flu",null]', b'"flu"'),
        (ADD, b'"cold"', b'"\\u0063old"'),
        (ADD, b'"cold"', b'"co\xffld"'),
        (ADD, b'{"age_lo"', b'{"age\xff"'),
        pytest.param(ADD, b'["flu",null]', b'["flu",' + b"[" * 9_999 + b"]" * 9_999 + b"]", id="deep"),
        (ADD, ID.encode(), ID.upper().encode()),
        (ADD, ID.encode(), ID[1:].encode()),
        (LIVE, b'"live":4', b'"live":0'),
        (LIVE, b'"live":4', b'"live":true'),
        (RETIRE, b"}", b',"why":"gone"}'),
        (EPOCH, b"10:00:00Z", b"10:00:00.5Z"),
        (EPOCH, b"10:00:00Z", b"10:00:00"),
        (EPOCH, b"2026-11-26", b"2026-13-26"),
        (EPOCH, b'"alpha":"0.5"', b'"alpha":"0.50"'),
        (EPOCH, b'"alpha":"0.5"', b'"alpha":"a half"'),
        (EPOCH, b'"shard":3', b'"shard":-3'),
        (EPOCH, b'"k":5', b'"k":0'),
        (EPOCH, b"}", b"} "),
    ],
)
def test_anything_else_is_refused_without_a_value(value: bytes, before: bytes, after: bytes) -> None:
    assert before in value
    key = b"epoch-3" if value is EPOCH else ID.encode()
    with pytest.raises(LawViolated) as caught:
        decode(key, value.replace(before, after))
    assert not any(word in str(caught.value) for word in ("flu", "cold", "west", ID))


@pytest.mark.parametrize("key", [b"epoch-3", b"epoch-4", ID.encode(), b"", b'{"qi_group":"0-17","slot":3}'])
def test_a_record_under_another_key_is_refused(key: bytes) -> None:
    for _, own, value in WRITTEN:
        if key != own:
            with pytest.raises(LawViolated):
                decode(key, value)


def test_a_tombstone_is_refused() -> None:
    with pytest.raises(LawViolated, match="no tombstones"):
        decode(ID.encode(), None)


def test_a_box_is_written_as_live_writes_it() -> None:
    for table in SMALL_TABLES.values():
        lo, hi = [0] * len(table.attributes), [0] * len(table.attributes)
        members = msgspec.json.decode(box_json(table, lo, hi))
        expected = {name: end for a in table.attributes for name, end in box_columns(a, 0, 0).items()}
        assert list(members) == list(expected)
        assert members == {name: end if isinstance(end, str) else float(end) for name, end in expected.items()}


def test_the_end_of_an_epoch_comes_after_its_other_records_which_are_in_the_order_of_their_ids() -> None:
    one, other = Retire("f" * 32, 7), Live("0" * 32, 7, 1)
    end = EpochEnd(7, 0, "2026-11-26T10:00:00Z", 0, 1, 1, 5, "0.5", 1)
    assert ordered_epoch([one, other], end) == [other, one, end]


def test_no_repr_of_a_record_shows_a_value() -> None:
    assert [repr(record) for record, _, _ in WRITTEN] == ["Add()", "Add()", "Live()", "Retire()", "EpochEnd()"]
