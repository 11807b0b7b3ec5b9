"""Source keys in several spellings: they are exact, but two exports of one database may write them differently.

pandas makes 1.0 of 1 if the column ever held a null, Excel drops zeros in front and rounds long numbers, CHAR(n) is
padded with blanks. So a key that no row has is looked for in these ways, and a file's keys are asked whether they are
written so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import normalize

import msgspec

from streamer.table.codes.scalars import shortest_text

KEY_WIDTH_MAX = 40
"""The longest key that is looked for with zeros in front or blanks at the end."""


def other_spellings(key: str) -> Iterator[str]:
    """The ways in which a source may write the same key; the key itself is not among them.

    >>> [text in set(other_spellings("7")) for text in ("7.0", "007", "7  ", "7", "8")]
    [True, True, True, False, False]
    >>> "7" in set(other_spellings(" 007.0")), "AB-1" in set(other_spellings("ab-1"))
    (True, True)
    """
    bare = key.strip()
    plain = shortest_text(bare)
    found = [bare, plain, bare.lower(), bare.upper(), bare.strip("{}"), f"{{{bare}}}", normalize("NFC", bare)]
    found += [normalize("NFD", bare), f" {bare}"]
    if plain.isdigit():
        found += [f"{plain}.0", f"{plain}.", f"{plain}.00", *map(plain.zfill, range(len(plain) + 1, KEY_WIDTH_MAX))]
    found += map(bare.ljust, range(len(bare) + 1, KEY_WIDTH_MAX))
    return (text for text in dict.fromkeys(found) if text != key)


def other_spellings_of_key(source_key: str, parts: int) -> Iterator[str]:
    """The same of a source key of one column, or of several: then of one part, or of all in one way."""
    if parts == 1:
        yield from other_spellings(source_key)
        return
    texts: list[str] = msgspec.json.decode(source_key)
    ways = [list(other_spellings(text)) for text in texts]
    for at, some in enumerate(ways):
        yield from (_joined([*texts[:at], text, *texts[at + 1 :]]) for text in some)
    if all(map(str.isdigit, texts)):
        yield _joined([f"{text}.0" for text in texts])
    yield _joined([shortest_text(text.strip()) for text in texts])
    yield from (_joined([text.ljust(width) for text in texts]) for width in range(1, KEY_WIDTH_MAX))


def _joined(texts: Sequence[str]) -> str:
    return msgspec.json.encode(texts).decode()


POINT, EXPONENT, ZEROS, BLANKS = "point", "exponent", "zeros", "blanks"

_LIKE_ANOTHER = {
    POINT: re.compile(r"[+-]?\d+\.0*", re.ASCII),
    EXPONENT: re.compile(r"\d([.,]\d+)?[eE]\+?\d+", re.ASCII),
    ZEROS: re.compile(r"0+\d+", re.ASCII),
    BLANKS: re.compile(r"\s.*|.*\s", re.DOTALL),
}
NEARLY_ALL = 0.9


def way_of_writing(keys: Sequence[str]) -> str | None:
    """The way in which nearly all keys of a column are written, if another export could write them differently.

    Of keys of one width, one zero in front or one blank at an end is enough: they are padded.

    >>> way_of_writing(["1.0", "2.0"]), way_of_writing(["0071", "1234"]), way_of_writing(["1", "1234"])
    ('point', 'zeros', None)
    """
    for way, form in _LIKE_ANOTHER.items():
        n = sum(form.fullmatch(key) is not None for key in keys)
        if n and n >= NEARLY_ALL * len(keys):
            return way
        of_one_width = n > 0 and len(set(map(len, keys))) == 1
        if of_one_width and (way == BLANKS or (way == ZEROS and all(map(str.isdigit, keys)))):
            return way
    return None
