"""What is published instead of a value, beside the same in plain words."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError, EventRefused
from streamer.table.codes.disguise import Ancestor, Pseudonym, ShiftedDays
from streamer.table.codes.same_text import counted_text
from streamer.table.key_files import KeyFile

SECRET = bytes(range(32))
KEY, OTHER, LOST = (
    KeyFile(Path("a.key"), SECRET),
    KeyFile(Path("b.key"), SECRET[::-1]),
    KeyFile(Path("c.key"), b"", "!"),
)
ANY_CASE = counted_text(capitals_count=False)


def by_hand(text: str, secret: bytes = SECRET) -> str:
    """RFC 2104 over SHA-256, in base32."""
    inner, outer = (bytes(one ^ pad for one in secret.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    whole = hashlib.sha256(outer + hashlib.sha256(inner + text.encode()).digest()).digest()
    return base64.b32encode(whole[:20]).decode().lower()


@given(st.text(), st.binary(min_size=32, max_size=64))
def test_a_pseudonym_is_a_keyed_hash_that_an_address_may_hold(text: str, secret: bytes) -> None:
    found = Pseudonym(KeyFile(Path("a.key"), secret)).text(text)
    assert found == by_hand(text, secret)
    assert len(found) == 32 and found.isalnum() and found.isascii()
    assert ANY_CASE(found) == found  # l and beta count pseudonyms as they are


@pytest.mark.parametrize(
    ("ways", "is_one"),
    [
        ((b"1", b"1.0", b'"1"', b'" 1"', b'"01"'), True),
        ((b'"Anna M\xc3\xbcller"', b'"ANNA  mu\xcc\x88ller "'), True),
        ((b"true", b'"true"'), True),
        ((b'""', b'" "'), True),
        ((b'""', b'"0"', b'"null"', b"null", b'"a"', b'"b"'), False),
    ],
)
def test_spellings_of_one_value_have_one_pseudonym(ways: tuple[bytes, ...], is_one: bool) -> None:
    instead = Pseudonym(KEY).instead("x", lambda value: bytes(value), ANY_CASE)  # type: ignore[call-overload]
    assert len({instead(way) for way in ways}) == (1 if is_one else len(ways))


def test_another_key_gives_other_pseudonyms_and_other_days_and_a_lost_one_none() -> None:
    assert Pseudonym(KEY).text("7") != Pseudonym(OTHER).text("7")
    people = [f"p{number}" for number in range(50)]
    assert [*map(ShiftedDays(9, KEY).days, people)] != [*map(ShiftedDays(9, OTHER).days, people)]
    for needs in (lambda: Pseudonym(LOST).text("7"), lambda: ShiftedDays(9, LOST).days("7")):
        with pytest.raises(ConfigError, match="!"):
            needs()


@pytest.mark.parametrize("most", [1, 2, 30])
def test_days_are_drawn_alike_from_both_sides_and_never_none(most: int) -> None:
    n = 400 * most
    counts = Counter(ShiftedDays(most, KEY).days(str(number)) for number in range(n))
    assert counts.keys() == {*range(-most, 0), *range(1, most + 1)}
    assert max(counts.values()) < 2 * n / (2 * most)


def canonical(value: object) -> bytes:
    return f'"{value}"'.encode()


DAYS = st.dates(date(2, 1, 1), date(9998, 12, 31))


@given(DAYS, DAYS, st.text(max_size=5), st.integers(1, 365))
def test_the_time_between_the_dates_of_a_person_stays(one: date, other: date, whose: str, most: int) -> None:
    shift = ShiftedDays(most, KEY)
    found = [date.fromisoformat(shift.shifted(canonical(day), whose)[1:-1].decode()) for day in (one, other)]
    assert found[0] - found[1] == one - other
    assert 1 <= abs((found[0] - one).days) <= most


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)), st.text(max_size=5))
def test_a_timestamp_keeps_its_time_of_day(moment: datetime, whose: str) -> None:
    shift = ShiftedDays(30, KEY)
    for zone in ("", "Z"):
        found = shift.shifted(canonical(moment.isoformat() + zone), whose)[1:-1].decode()
        days = timedelta(shift.days(whose))
        assert found == (moment + days).isoformat() + zone


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("0001-01-30", True), ("0001-01-31", False), ("9999-12-02", True), ("9999-12-01", False),
        ("9999-12-31T23:59:59Z", True), ("9999-12-01T23:59:59.999999Z", False),
    ],
)  # fmt: skip
def test_near_the_ends_of_the_calendar_no_date_is_shifted_whoever_has_it(text: str, is_refused: bool) -> None:
    shift = ShiftedDays(30, KEY)
    checked = shift.instead("came", canonical, ANY_CASE)
    if is_refused:
        with pytest.raises(EventRefused, match="list it in `na`") as refused:
            checked(text)
        assert refused.value.reason == "out-of-domain"
    else:
        for number in range(200):
            shift.shifted(checked(text), str(number))


def test_a_null_stays_a_null() -> None:
    def null(_: object) -> bytes:
        return b"null"

    for disguise in (Ancestor(1, {}), Pseudonym(KEY), ShiftedDays(3, KEY)):
        assert disguise.instead("x", null, ANY_CASE)(None) == b"null"
    assert ShiftedDays(3, KEY).shifted(b"null", "anybody") == b"null"


def test_clocks_that_change_do_not_change_the_time_between_two_instants() -> None:
    """Over the night of a change to summer time, in UTC."""
    shift, night = ShiftedDays(30, KEY), datetime(2024, 3, 31, 0, 30, tzinfo=UTC)
    texts = [canonical((night + timedelta(hours=h)).isoformat().replace("+00:00", "Z")) for h in (0, 3)]
    found = [datetime.fromisoformat(shift.shifted(text, "Ann")[1:-1].decode()) for text in texts]
    assert found[1] - found[0] == timedelta(hours=3)
