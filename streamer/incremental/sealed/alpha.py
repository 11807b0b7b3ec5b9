"""Says whether a sealed changelog can keep what alpha promises, judged by how frequent values are in a table.

No way of publishing hides a value of 70 % of the people below 0.7: who knows nothing but the frequencies is right that
often. And the nearer alpha is to a frequency, the more cohorts have to withhold their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from math import ceil, exp, floor, lgamma, log, log1p

from streamer.errors import ConfigError
from streamer.table.row import Values
from streamer.table.schema import Table

FREQUENT_MAX = 100
"""The most frequent values that decide how many cohorts withhold theirs: others are never in the way."""


Frequencies = Mapping[int, Counter[str | None]]
"""How many rows of a table have each value, as a counted text, by the number of the sensitive column."""


def frequencies(table: Table, rows: Sequence[Values]) -> Frequencies:
    """The frequencies in some rows; none if the table has no sealed changelog."""
    counted = table.counted_value
    return {i: Counter(counted(values[i]) for values in rows) for i in table.sensitive if table.sealed is not None}


def check_alpha(table: Table, found: Frequencies) -> list[str]:
    """The warnings for a user whose rows have such values; none without rows.

    Raises ConfigError, with the remedy, if a value is more frequent than alpha.
    """
    if table.sealed is None:
        return []
    alpha, warnings = table.sealed.alpha, []
    for i, counts in found.items():
        if not (rows := counts.total()):
            continue
        name, largest = table.kept[i].name, Decimal(max(counts.values())) / rows
        if alpha < largest:
            raise ConfigError(
                f"publish.sealed.alpha: {alpha} is below the share of the most frequent value of {name}, which"
                f" {100 * largest:.1f} % of the initial table have: nothing can hide that; set alpha to"
                f" {Decimal(ceil(100 * largest)) / 100} or more, or give {name} values that are less frequent"
            )
        if alpha < 2 * largest:
            share = withheld_share(table.k, alpha, (n / rows for n in counts.values()))
            warnings.append(
                f"sealed changelog: about {100 * share:.0f} % of the cohorts will withhold their values, since"
                f" {100 * largest:.1f} % of the rows share one {name};"
                " a larger publish.sealed.alpha or k withholds fewer"
            )
    return warnings


def withheld_share(n: int, alpha: Decimal, shares: Iterable[float]) -> float:
    """The expected share of cohorts of n rows in which some value has a larger share than alpha.

    shares: of the values in the table; rows come to a cohort independently of their values. Exact from alpha = 1/2 on,
    because two values cannot be above it; else it counts a cohort once for each such value.

    >>> round(withheld_share(2, Decimal("0.5"), [0.5, 0.5]), 9), withheld_share(2, Decimal(1), [0.5, 0.5])
    (0.5, 0)
    """
    most = floor(alpha * n)
    frequent = sorted(shares, reverse=True)[:FREQUENT_MAX]
    return min(1, sum(_more_than(most, n, share) for share in frequent))


def _more_than(most: int, n: int, share: float) -> float:
    """The chance that more than `most` of n rows have a value."""
    if share >= 1:
        return float(most < n)
    odds, none = log(share) - log1p(-share), n * log1p(-share) + lgamma(n + 1)
    return sum(exp(none + i * odds - lgamma(i + 1) - lgamma(n - i + 1)) for i in range(most + 1, n + 1))
