"""Which texts count as the same one: of individuals, and of the values that a privacy model counts.

The rules of this file
----------------------
* A person or a value that is written in several ways counts once. Else one person alone would be a QI group of k, and
  one illness would be l values. What is published stays as the source wrote it, and source keys stay exact.
* Texts are the same if their *counted texts* are equal. For these, compatible characters are one and accents composed
  (NFKC), characters that nobody sees are left out, blanks, dashes and apostrophes are of one kind, blanks at the ends
  are cut, inner ones are one, capitals are small letters, and a number is its shortest text: `7`, `7.0` and `007` are
  one. A number or a boolean of JSON is the same as its text.
* When in doubt, texts are the same. To take two people for one makes a QI group larger; to take one for two breaks k.
  So capitals do not count unless table.yaml says `capitals_count`, for identifiers such as `aB3` and `AB3`.
* A counted text is its own counted text, so stored ones may be counted again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar
from unicodedata import category, decimal, normalize

import msgspec

from streamer.table.codes.scalars import shortest_text

T = TypeVar("T", str, bytes)

CountedText = Callable[[str], str]
"""A text -> its counted text."""

REMEMBERED = 1 << 16
"""Texts whose counted text is remembered, by each of these functions."""

_is_plain = re.compile(r"[a-z][a-z0-9_.:@/-]*|0|[1-9][0-9]{0,17}|[0-9a-z]+(-[0-9a-z]+){2,}").fullmatch
"""Most individuals and many values are their own counted text: names, numbers, UUIDs."""

_APOSTROPHES = "`\u00b4\u02b9\u02bb\u02bc\u2018\u2019\u201b\u2032"
_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2800"
_is_unseen = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"  # fillers, selectors
).match
_i_of_turkish = re.compile("[i\u0131]\u0307*")


class Visible(dict[int, str]):
    """For `str.translate`: a character as it is seen."""

    def __missing__(self, point: int) -> str:
        sign = chr(point)
        kind = category(sign)
        if sign in _BLANKS:
            seen = " "
        elif kind in ("Cc", "Cf") or _is_unseen(sign):
            seen = ""
        elif kind == "Nd":
            seen = str(decimal(sign))
        elif kind == "Pd" or sign == "\u2212":
            seen = "-"
        else:
            seen = "'" if sign in _APOSTROPHES else sign
        return self.setdefault(point, seen)


_VISIBLE = Visible()


@lru_cache(REMEMBERED)
def without_capitals(text: str) -> str:
    """The counted text if capitals do not count.

    >>> [without_capitals(text) for text in ("Anna  M\u00fcller", " anna mu\u0308ller", "O\u2019Neill", "-0", "007")]
    ['anna m\u00fcller', 'anna m\u00fcller', "o'neill", '0', '7']
    """
    return text if _is_plain(text) else shortest_text(_settled(_small, text))


@lru_cache(REMEMBERED)
def with_capitals(text: str) -> str:
    """The counted text if they count."""
    return text if _is_plain(text) else shortest_text(_settled(_composed, text))


def counted_text(capitals_count: bool) -> CountedText:
    """The function that table.yaml asks for."""
    return with_capitals if capitals_count else without_capitals


def counted_value(text: bytes, counted: CountedText) -> str | None:
    """The counted text of a value, given as its JSON text; None for a null.

    >>> [counted_value(text, without_capitals) for text in (b'"HIV "', b"7", b'"7.0"', b"true", b'"TRUE"', b"null")]
    ['hiv', '7', '7', 'true', 'true', None]
    """
    if text == b"null":
        return None
    return counted(msgspec.json.decode(text) if text.startswith(b'"') else text.decode())


def leaf_finder(leaves: Iterable[str], capitals_count: bool) -> Callable[[str], str | None]:
    """The leaf of a hierarchy that is the same text as a category, if it is one only; a number is as it is written.

    Codes such as 250.1 and 250.10 may mean two things: they count as one, but neither is taken for the other.

    >>> find = leaf_finder(["M", "F", "u", "U"], capitals_count=False)
    >>> find("m "), find("u "), find("x")
    ('M', None, None)
    """
    written = partial(_settled, _composed if capitals_count else _small)
    found: dict[str, list[str]] = {}

    def leaf(category: str) -> str | None:
        if not found:  # only once a category is not a leaf
            for one in leaves:
                found.setdefault(written(one), []).append(one)
        same = found.get(written(category), [])
        return same[0] if len(same) == 1 else None

    return leaf


def _settled(once: CountedText, text: str) -> str:
    """The text once nothing changes it any more: one step can make room for another one."""
    while (after := " ".join(once(text.translate(_VISIBLE)).split())) != text:
        text = after
    return text


def _composed(text: str) -> str:
    return text if text.isascii() else normalize("NFKC", text)


def _small(text: str) -> str:
    if text.isascii():
        return text.lower()
    return normalize("NFKC", _i_of_turkish.sub("i", normalize("NFD", normalize("NFKC", text).casefold())))


class Spellings(NamedTuple):
    """Texts of a column that are written in several ways."""

    ways: int  # the different texts, as far as another one counts as the same
    same: int  # what they count as


def spellings(texts: Iterable[T], counted: Callable[[T], str | None]) -> Spellings:
    """How many different texts count as the same as another one.

    >>> spellings(["7", "7.0", " 7", "8", "a", "A"], without_capitals)
    Spellings(ways=5, same=2)
    """
    found = [n for n in Counter(map(counted, set(texts))).values() if n > 1]
    return Spellings(sum(found), len(found))
