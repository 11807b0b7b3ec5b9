"""Hierarchies drafted from the values of a column, as rows from leaf to root: by intervals, prefix, order, frequency.

Every value is a leaf, every level joins nodes of the one below, and a level that joins nothing is left out. What an
expert would call alike, such as the countries of a continent, no draft knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from itertools import accumulate, count, takewhile

from streamer.errors import ConfigError
from streamer.table.codes import decimal_text
from streamer.table.draft.columns import ROOT, HierarchyRows, numbers_of, values_of
from streamer.table.draft.kinds import scale_of
from streamer.table.hierarchy import Hierarchy

LEAVES_MAX = 10_000
"""The most numbers of a domain that become leaves; of a larger one only those that are there."""
RARE = (Decimal("0.05"), Decimal("0.2"), Decimal("0.5"))
"""Shares of the rows that the rarest values together have at most, level by level."""

Level = Callable[[str], str]
"""The label of a value at a level; the value itself if it is not joined there, "" if it has no label."""


def by_intervals(texts: Sequence[str], fan: int, width: Decimal | None = None) -> HierarchyRows:
    """Intervals of numbers, `fan` of one level in one of the next; width: of the first, a round one by default.

    Whole numbers, and others with a step, are all leaves from the first interval to the last one, seen or not: so the
    file serves a numeric column, too. Raises ConfigError if a text is no number.
    """
    rows = values_of(texts, counts=True)
    numbers = numbers_of(sorted(rows))[0]
    if (scale := scale_of(numbers) if numbers else None) is None:
        raise ConfigError("not all values are numbers that a domain can have: `--by order` or `--by prefix`?")
    first = width or (scale.grid if scale.grid != scale.step else scale.grid * fan)
    step, (lo, hi) = scale.step, (min(numbers), max(numbers))
    if step is not None and first % step:
        raise ConfigError(f"--width: must be a multiple of {decimal_text(step)}, the step of the values")
    lo, hi = _floor(lo, first), _floor(hi, first) + first - (step or 0)
    if step is not None and (hi - lo) / step < LEAVES_MAX:
        numbers = [lo + i * step for i in range(int((hi - lo) / step) + 1)]
    widths = takewhile(lambda wide: wide <= hi - lo, (first * fan**i for i in count()))
    levels = [partial(_interval, wide, lo, hi, step) for wide in widths]
    return _rows(map(decimal_text, sorted({*numbers})), levels)


def _floor(number: Decimal, width: Decimal) -> Decimal:
    return (number / width).to_integral_value(ROUND_FLOOR) * width


def _interval(width: Decimal, lo: Decimal, hi: Decimal, step: Decimal | None, text: str) -> str:
    """The label of the interval around a number, closed if there is a step, within [lo, hi]."""
    start = _floor(Decimal(text), width)
    first, last = (decimal_text(end) for end in (max(start, lo), min(start + width - (step or 0), hi)))
    return f"{first}-{last}" if step is not None else f"[{first}, {last})"


def by_prefix(texts: Sequence[str]) -> HierarchyRows:
    """Codes that begin alike, one letter or digit less at each level: `E11*` above `E11.9`; signs do not count."""
    values = sorted(values_of(texts))
    longest = max((sum(map(str.isalnum, value)) for value in values), default=0)
    return _rows(values, [partial(_prefix, n) for n in range(longest, 0, -1)])


def _prefix(n: int, text: str) -> str:
    """The start of a text with n letters and digits, and a star; "" if it has fewer.

    >>> _prefix(3, "E11.9"), _prefix(4, "E11.9"), _prefix(4, "E11")
    ('E11*', 'E11.9*', '')
    """
    end = next((i for i, seen in enumerate(accumulate(map(str.isalnum, text)), start=1) if seen == n), 0)
    return text[:end] + ROOT if end else ""


def by_order(texts: Sequence[str], fan: int, named: Sequence[str] = ()) -> HierarchyRows:
    """Neighbours in order, `fan` of one level in one of the next; named: the values in order, else numbers or texts.

    Raises ConfigError if `named` lacks a value.
    """
    found = values_of(texts)
    if named and (lacking := len(found.keys() - {*named})):
        raise ConfigError(f"--values: {lacking} of the column's {len(found)} values are not among them")
    values = [*dict.fromkeys(named)] or sorted(found)
    if not named and (numbers := numbers_of(values)[0]):
        values = [text for _, text in sorted(zip(numbers, values, strict=True))]
    sizes = takewhile(lambda size: size < len(values), (fan**i for i in count(1)))
    return _rows(values, [partial(_run, values, {value: i for i, value in enumerate(values)}, size) for size in sizes])


def _run(values: Sequence[str], place: Mapping[str, int], size: int, text: str) -> str:
    start = place[text] // size * size
    run = values[start : start + size]
    return run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}"


def by_frequency(texts: Sequence[str]) -> HierarchyRows:
    """The rarest values together, as many as have 5, 20 and 50 % of the rows at most; the others stay as they are."""
    counts = values_of(texts)
    rarest = sorted(counts, key=lambda value: (counts[value], value))
    below = [*accumulate(counts[value] for value in rarest)]
    numbers = [sum(so_far <= share * counts.total() for so_far in below) for share in RARE]
    levels = [frozenset(rarest[:n]) for n in numbers if n > 1]
    return _rows(rarest[::-1], [partial(_rare, rare) for rare in levels])


def _rare(rarest: frozenset[str], text: str) -> str:
    return f"the {len(rarest)} rarest" if text in rarest else text


def _rows(values: Iterable[str], levels: Iterable[Level]) -> HierarchyRows:
    """The rows of values at levels, the narrowest first. Raises ConfigError if no level joins any."""
    values = [*values]
    kept = [*_joining(values, levels)]
    if not kept:
        raise ConfigError(f"joins nothing among {len(values)} different values: leave the hierarchy flat")
    rows = tuple((value, *(label for level in kept if (label := level(value))), ROOT) for value in values)
    try:
        Hierarchy.from_rows(rows)
    except ConfigError:  # which quotes a value
        raise ConfigError("a value has the label of a node over others: write it otherwise in the source") from None
    return rows


def _joining(values: Sequence[str], levels: Iterable[Level]) -> Iterator[Level]:
    """The levels that have fewer nodes than the one below, and more than one."""
    n_below = len(values)
    for level in levels:
        nodes = Counter(level(value) or value for value in values)
        if 1 < len(nodes) < n_below:
            n_below = len(nodes)
            yield level
