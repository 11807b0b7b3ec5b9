"""One function for each construct of the subset, with the arguments that are drawn for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from streamer.native import inlined

LEAST, HALF = -7, 0.5
RECORD = np.dtype([("number", "i8"), ("share", "f8"), ("small", "i4"), ("flag", "i1")], align=True)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}

ints = st.integers(-(2**31), 2**31)
few = st.integers(0, 12)
floats = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, math.inf, -math.inf])
bools = st.booleans()
int_arrays = arrays.arrays(np.int64, st.integers(1, 9), elements=st.integers(-9, 9))
float_arrays = arrays.arrays(np.float64, st.integers(1, 9), elements=st.floats(-100, 100))
bool_arrays = arrays.arrays(np.bool_, st.integers(1, 9))
tables = arrays.arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.integers(-9, 9))
narrow = arrays.arrays(np.int32, st.integers(1, 9), elements=st.integers(-(2**31), 2**31 - 1))
bytes_ = arrays.arrays(np.int8, st.integers(1, 9), elements=st.integers(-128, 127))
words = st.integers(0, 2**64 - 1).map(np.uint64)


def of(*drawn: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Draws these arguments for a function."""

    def case(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = function, drawn
        return function

    return case


class Pair(NamedTuple):
    left: Any
    right: Any


class Nested(NamedTuple):
    pair: Pair
    factor: int


pairs = st.builds(Pair, int_arrays, float_arrays)
nested = st.builds(Nested, pairs, few)


@of(ints, ints.filter(bool))
def whole_numbers(a: int, b: int) -> tuple[int, int, int, int, int, int]:
    return a + b, a - b, a * b, a // b, a % b, -a


@of(ints, st.integers(0, 20))
def bits(a: int, by: int) -> tuple[int, int, int, int, int, int]:
    return a << by, a >> by, a & by, a | by, a ^ by, ~a


@of(ints, ints.filter(bool), st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def divisions_and_floats(a: int, b: int, x: float, y: float) -> tuple[float, float, float, float, float]:
    return a / b, x / y, x + a, x * y - b, -x


@of(words, words)
def unsigned(a: Any, b: Any) -> tuple[Any, Any, Any, Any, int, bool]:
    return a ^ b, a & b, a | 5, a >> 3, int(a >> 40), a > b


@of(ints, ints, floats, floats)
def least_and_most(a: int, b: int, x: float, y: float) -> tuple[int, int, float, float, int, float, int]:
    return min(a, b), max(a, b), min(x, y), max(x, y), abs(a), abs(x), min(a, b, 3, LEAST)


@of(ints, floats.filter(math.isfinite), bools)
def conversions(a: int, x: float, yes: bool) -> tuple[Any, ...]:
    return float(a), int(x), bool(a), bool(x), int(yes), np.float64(a) * HALF, np.int64(x)


@of(ints, ints, ints)
def comparisons(a: int, b: int, c: int) -> tuple[bool, bool, bool, bool, bool, bool]:
    return a < b < c, a <= b > c, a == b, a != b, a in (b, c, 3), not a < b


@of(bools, bools, ints)
def conditions(p: bool, q: bool, a: int) -> tuple[bool, bool, bool, int, int, bool]:
    number = 1 if p and (q or a > 0) else 2
    return p and q, p or q, p ^ q, number, 5 if not a else 6, p | (a > 3)


@of(ints)
def branches(a: int) -> int:
    if a > 100:
        return 1
    elif a > 0:
        found = 2
    else:
        found = 3
    return found


@of(few, few, st.integers(1, 3))
def ranges(begin: int, end: int, step: int) -> tuple[int, int, int, int]:
    total, last, down, by = 0, -1, 0, 0
    for i in range(begin, end):
        if i == 7:
            continue
        total += i
        last = i
        end = 3
    for i in range(end, begin, -1):
        down = 10 * down + i
        if down > 1000:
            break
    for i in range(begin, 20, step):
        by += i
    for _ in range(3):
        by += 1
    return total, last, down, by


@of(few)
def loops(n: int) -> tuple[int, int]:
    steps, rest = 0, n
    while True:
        steps += 1
        if rest <= 1:
            break
        rest = rest // 2 if rest % 2 == 0 else 3 * rest + 1
        if steps > 50:
            break
    while rest < 5 and steps >= 0:
        rest += 1
    return steps, rest


@of(few)
def names_that_later_lines_set(n: int) -> int:
    total = 0
    for i in range(n):
        if i > 2:
            total += third  # type: ignore[has-type]  # noqa: F821
        if i > 1:
            third = 2 * second  # type: ignore[has-type]  # noqa: F821, F841
        if i > 0:
            second = first + 1  # type: ignore[has-type]  # noqa: F821, F841
        first = i + n  # noqa: F841
    return total


@of(int_arrays, few)
def over_items(items: Any, n: int) -> tuple[int, int]:
    total, places = 0, 0
    for one in items:
        total = 3 * total + one
    for one in (n, n + 1, LEAST):
        places = 7 * places + one
    return total, places


@of(int_arrays, few)
def items_and_lengths(items: Any, i: int) -> tuple[int, int, int, int]:
    at = i % len(items)
    return items[at], items[at] + items[-1], items.shape[0], len(items)


@of(tables)
def two_dimensions(table: Any) -> tuple[int, int, int]:
    n, d = table.shape
    total = 0
    for i in range(n):
        row = table[i]
        for j in range(d):
            total = 5 * total + row[j] + table[i, j]
    column = table[:, d - 1]
    for one in column:
        total = 5 * total + one
    return total, table[n - 1, 0], table.shape[1]


@of(int_arrays, st.integers(-12, 12), st.integers(-12, 12))
def slices(items: Any, begin: int, end: int) -> tuple[int, int, int, int, int]:
    part, total, turned = items[begin:end], 0, 0
    for one in part:
        total = 3 * total + one
    for one in items[::-1]:
        turned = 3 * turned + one
    return len(part), total, len(items[begin:]), len(items[:end]), turned


@of(int_arrays, few, ints)
def writes(items: Any, i: int, a: int) -> int:
    at = i % len(items)
    items[at] = a
    items[at] += 3
    items[at] *= 2
    items[0], items[at] = items[at], items[0]
    at, items[at] = 0, 9
    items[0] -= 1
    return at


@of(tables, ints)
def fills(table: Any, a: int) -> None:
    table[0] = a
    table[:, 0] = 4
    table[-1] = table[0]


@of(int_arrays, st.integers(0, 3))
def overlapping(items: Any, by: int) -> None:
    n = len(items)
    if by < n:
        items[by:] = items[: n - by]
        items[: n - by] = items[by:]


@of(float_arrays, narrow, bytes_, bool_arrays)
def elements(numbers: Any, small: Any, tiny: Any, yes: Any) -> tuple[float, int, int, bool, int]:
    numbers[0], small[0], yes[0] = small[0], 7, not yes[-1]
    tiny[-1] = 5
    n = 0
    for one in yes:
        n += int(one)
    return numbers[0], int(small[-1]) * 4, int(tiny[0]) + 1, yes[-1], n


@of(few, few)
def allocations(n: int, m: int) -> tuple[int, float, int, int, bool]:
    zeros, ones, full = np.zeros(n + 1, np.int64), np.ones(m + 1), np.full((2, n + 1), 7)
    empty, counted, listed = np.empty((n + 1, 2), dtype=np.int32), np.arange(n + 1), np.array([n, m, 3])
    flags = np.full(m + 1, True)
    empty[:, 0], empty[:, 1] = 3, 4
    return zeros[n] + counted[n], ones[m], full[1, n] + empty[n, 1], listed[1] + len(listed), flags[m]


@of(int_arrays, few)
def copies_and_gathers(items: Any, n: int) -> tuple[Any, Any, Any]:
    by = np.empty(n, np.int64)
    for i in range(n):
        by[i] = (i * 5) % len(items)
    copy = items.copy()
    copy[0] = 99
    return copy, items[by], items[::-1].copy()


@of(nested, few)
def named_tuples(given: Nested, i: int) -> tuple[int, float, int]:
    left, right = given.pair
    mine = Pair(left[:1], right)
    if i > 5:
        mine = Pair(left, right)
    mine.left[0] = 3 * given.factor
    return len(mine.left), mine.right[0] + given.pair.right[-1], given.pair.left[0]


def pair_of(n: int) -> Pair:
    return Pair(n, 10 * n)


@of(few)
def named_tuples_that_change_places(n: int) -> tuple[int, int, int]:
    one, other = pair_of(n), pair_of(n + 1)
    one, other = other, one
    for _ in range(3):
        one, other = pair_of(one.left + 1), one
    last = one
    one = pair_of(99)
    total = 0
    for each in (one, other):
        one, other = pair_of(7), pair_of(8)
        total = 100 * total + each.left
    return last.left, other.right, total


@of(few)
def tuples_of_named_tuples(n: int) -> tuple[int, int]:
    both = (pair_of(n), pair_of(n + 1))
    a, b = both
    both = (pair_of(n + 5), pair_of(n + 6))
    c, d = both
    total = 0
    for i in range(3):
        for last in (pair_of(i), pair_of(i + n)):
            total += last.left
        total = 10 * total + last.right
    return 1000 * a.left + 100 * b.left + 10 * c.left + d.left, total


def set_first(items: Any, a: int) -> None:
    items[0] = a


def hands_on(items: Any, a: int) -> None:
    return set_first(items, a)


@of(int_arrays, ints)
def a_call_that_returns_nothing(items: Any, a: int) -> None:
    hands_on(items, a)


@of(arrays.arrays(np.int64, 3, elements=st.integers(-9, 9)))
def an_array_that_unpacks(items: Any) -> tuple[int, int, int]:
    a, b, c = items[::-1]
    items[0] = 99
    return a, b, c


@of(few)
def made_and_returned(n: int) -> Nested:
    return Nested(Pair(np.arange(n), np.zeros((2, n))), n)


@inlined
def twice(a: int) -> int:
    return 2 * a


def noted(notes: Any, a: int) -> int:
    """Has an effect, so that the order of calls is seen."""
    notes[0] += 1
    notes[notes[0]] = a
    return 10 * a + notes[0]


@of(few)
def order_of_calls(n: int) -> tuple[Any, int]:
    notes = np.zeros(40, np.int64)
    total = notes[0] + noted(notes, 1) - noted(notes, 2) * noted(notes, 3)
    total += max(noted(notes, 4), noted(notes, 5)) + (noted(notes, 6) if n > 3 else noted(notes, 7))
    if noted(notes, 8) < noted(notes, 9) < noted(notes, 10) or noted(notes, 11) > 0:
        total += twice(noted(notes, n))
    notes[notes[0]] += noted(notes, 12)
    for i in (noted(notes, 13), noted(notes, 14)):
        total += i
    while noted(notes, 15) < 168 + n:
        total -= 1
    return notes, total


def halves(a: int) -> tuple[int, int]:
    return a // 2, a - a // 2


@of(ints)
def several_results(a: int) -> tuple[int, int, int]:
    low, high = halves(a)
    pair = halves(low)
    return low, high, pair[0] + pair[1]


def or_nothing(items: Any, a: int) -> int:
    if items is not None and a > 0:
        return int(items[0])
    return -1 if items is None else 0


@of(int_arrays, ints)
def nothing(items: Any, a: int) -> tuple[int, int]:
    return or_nothing(items, a), or_nothing(None, a)


def records_of(values: list[tuple[int, float, int, int]]) -> Any:
    return np.array(values, RECORD).view(np.recarray)


rows = st.lists(st.tuples(few, st.floats(0, 1), few, few), min_size=1, max_size=5).map(records_of)


@of(rows, few)
def records(items: Any, a: int) -> tuple[int, float]:
    first, total = items[0], 0.0
    first.number, first.small = first.number + a, 5
    first.flag = first.share > HALF
    items[len(items) - 1].share += 1.0
    for one in items:
        total += one.share * one.small
    return int(first.number), total


@of(st.floats(0.01, 1e6))
def functions_of_floats(x: float) -> tuple[float, float, float]:
    return math.log(x), np.nextafter(x, math.inf), np.nextafter(x, -np.inf)


@of(few)
def constants(n: int) -> tuple[int, float, int, float]:
    largest: int = np.iinfo(np.int64).max
    return largest - n, math.inf, LEAST, -HALF
