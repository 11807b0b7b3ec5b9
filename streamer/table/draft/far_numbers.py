"""Numbers of a column that are answers nobody gave: 99 among ratings of 1 to 5, -1 among ages.

Taken for measured, such a number widens the domain, and is published as if somebody had it. A long tail is nothing of
the kind: asked for are few numbers that are written as codes are, nines above all, and a gap to all others of several
times what these span; or one lone negative code where all others are above 0. Nothing of a number is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import islice, takewhile

from streamer.table.scalars import decimal_text

GAP = 3
"""How many times the span of all others lies between them and a number that is far from them."""
CODES_MAX = 3
"""Different codes for answers that nobody gave, at each end."""
OTHERS_MIN = 3
"""Different numbers above 0 beside which a lone negative one is a code; beside one or two it is a scale around 0."""
_CODE = re.compile(r"-1|-?(9+[78]?|8{2,}|7{2,})")
_NEGATIVE_CODES = frozenset(map(Decimal, (-1, -9, -99, -999, -9999)))


def far_numbers(numbers: Collection[Decimal]) -> set[Decimal]:
    """Those of the numbers that stand apart from all others, and seem to be codes.

    >>> far_numbers([Decimal(number) for number in (1, 2, 3, 4, 5, 99)])
    {Decimal('99')}
    >>> far_numbers([Decimal(number) for number in (18, 35, 90, 99)])
    set()
    """
    different = sorted(set(numbers))
    at_ends = {*_codes_first(different[::-1]), *_codes_first(different)}
    others = [number for number in different if number not in at_ends]
    if len(others) < 2:
        return set()
    first, last = others[0], others[-1]
    enough = GAP * (last - first)
    far = {number for number in at_ends if number - last >= enough or first - number >= enough}
    return far | _lone_negative(different, far)


def hint_of_rows(rows: int) -> str:
    """What to say of so many rows with such numbers.

    >>> hint_of_rows(0), hint_of_rows(2).partition(":")[0]
    ('', '2 rows hold numbers apart from all others, as codes for no answer are')
    """
    if not rows:
        return ""
    hold = "1 row holds a number" if rows == 1 else f"{rows} rows hold numbers"
    return (
        f"{hold} apart from all others, as codes for no answer are: where they are, name them in the column's `na`, say"
        " `null_as`, and let domain and grid be those of the others"
    )


def _codes_first(numbers: Sequence[Decimal]) -> list[Decimal]:
    """The first numbers, as long as they seem to be codes."""
    return [*islice(takewhile(lambda number: _CODE.fullmatch(decimal_text(number)), numbers), CODES_MAX)]


def _lone_negative(different: Sequence[Decimal], far: Collection[Decimal]) -> set[Decimal]:
    """The one code below 0, where 0 itself does not occur; `different` is sorted."""
    code, *others = different
    counted = [number for number in others if number not in far]
    lone = code in _NEGATIVE_CODES and len(counted) >= OTHERS_MIN and counted[0] > 0
    return {code} if lone else set()
