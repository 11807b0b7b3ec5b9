"""The law of shares in compiled functions is that of exact fractions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from streamer.kernels.shares import keeps_share, rows_for_share
from streamer.privacy.models import exceeds

SHARES = st.fractions(min_value=Fraction(1, 10**6), max_value=1, max_denominator=10**6)
ROWS = st.integers(0, 10**9)


@given(ROWS, st.integers(1, 10**9), SHARES)
def test_a_share_is_kept_up_to_the_last_row(count: int, size: int, share: Fraction) -> None:
    kept = keeps_share(count, size, share.numerator, share.denominator)
    assert kept == (Fraction(count, size) <= share) == (not exceeds(count, size, share))


@given(ROWS, SHARES)
def test_the_fewest_rows_keep_it_and_one_less_does_not(count: int, share: Fraction) -> None:
    least = rows_for_share(count, share.numerator, share.denominator)
    assert least == -(-Fraction(count) // share)
    assert keeps_share(count, least, share.numerator, share.denominator)
    assert count == 0 or not keeps_share(count, least - 1, share.numerator, share.denominator)
