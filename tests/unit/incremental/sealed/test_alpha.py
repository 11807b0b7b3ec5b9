"""Whether alpha can be kept, by the values of the first table."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from streamer.errors import ConfigError
from streamer.incremental.sealed.alpha import check_alpha, frequencies, withheld_share
from streamer.table.schema import Table
from worlds.sealed_people import sealed_table


def values_of(*texts: str) -> list[tuple[bytes, ...]]:
    return [tuple(b'"%b"' % letter.encode() for letter in row) for row in zip(*texts, strict=True)]


def warnings(table: Table, rows: list[tuple[bytes, ...]]) -> list[str]:
    return check_alpha(table, frequencies(table, rows))


def test_a_value_that_is_more_frequent_than_alpha_is_refused_with_the_remedy_and_not_named() -> None:
    with pytest.raises(ConfigError) as caught:
        warnings(sealed_table(5, "0.5"), values_of("xxxxxyyz"))
    assert str(caught.value) == (
        "publish.sealed.alpha: 0.5 is below the share of the most frequent value of problem, which 62.5 % of the"
        " initial table have: nothing can hide that; set alpha to 0.63 or more, or give problem values that are less"
        " frequent"
    )


def test_alpha_below_twice_the_most_frequent_value_is_a_warning_with_what_will_be_withheld() -> None:
    table = sealed_table(5, "0.5", sensitive=("problem", "drug"))
    assert warnings(table, values_of("xxxxyyzz", "abcdefgh")) == [
        "sealed changelog: about 71 % of the cohorts will withhold their values, since 50.0 % of the rows share one"
        " problem; a larger publish.sealed.alpha or k withholds fewer"
    ]


def test_alpha_of_twice_the_most_frequent_value_is_no_news_and_neither_is_an_empty_table() -> None:
    assert warnings(sealed_table(5, "0.5"), values_of("wwxxyyzz")) == []
    assert warnings(sealed_table(5, "0.5"), []) == []


@pytest.mark.parametrize(("n", "alpha"), [(2, "0.5"), (5, "0.5"), (6, "0.6"), (4, "1")])
def test_the_share_of_cohorts_that_withhold_is_that_of_all_cohorts_there_may_be(n: int, alpha: str) -> None:
    shares = [0.6, 0.3, 0.1]
    expected = 0.0
    for cohort in product(range(3), repeat=n):
        likely = 1.0
        for value in cohort:
            likely *= shares[value]
        if max(cohort.count(value) for value in cohort) > Decimal(alpha) * n:
            expected += likely
    assert withheld_share(n, Decimal(alpha), shares) == pytest.approx(expected)


def test_the_share_is_one_where_all_rows_are_alike_and_does_not_overflow_at_large_k() -> None:
    assert withheld_share(3, Decimal("0.5"), [1.0]) == 1
    assert 0 < withheld_share(100_000, Decimal("0.5"), [0.499, 0.501]) <= 1
