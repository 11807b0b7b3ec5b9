"""The values of statements: exact numbers, and of which type each is."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from streamer.incremental.events.statement_values import Type, is_number, scalar, type_of


def test_a_decoded_scalar_is_exact_and_anything_else_is_a_fault_of_ours() -> None:
    assert [scalar(value) for value in (Decimal("1.50"), Decimal("2.0"), True, None, "x")] == [
        Fraction(3, 2), 2, True, None, "x",
    ]  # fmt: skip
    with pytest.raises(TypeError):
        scalar([1])


def test_types_are_those_of_the_values() -> None:
    assert [type_of(value) for value in (1, Fraction(1, 2), "x", False, None)] == [
        Type.NUMBER, Type.NUMBER, Type.TEXT, Type.BOOLEAN, Type.NULL,
    ]  # fmt: skip
    assert is_number(0) and is_number(Fraction(1, 2))
    assert not is_number(True)
