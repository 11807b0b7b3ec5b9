"""Compiled and as it was written, every construct of the subset gives the same to the last bit."""

from __future__ import annotations

import ast
import copy
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from streamer.native.arrays import widened
from streamer.native.expressions import literal
from streamer.native.library import EntryForm
from streamer.native.statements import ends
from unit.native.subset import CASES
from worlds.native import called, made_of

FIRST = settings(max_examples=1, phases=[Phase.generate], database=None)
"""The first example that is drawn says the types; to make it simpler takes ten seconds of all of them."""


@pytest.fixture(scope="module", params=[(), ("-DCHECKED",)], ids=["plain", "checked"])
def forms(request: pytest.FixtureRequest) -> Mapping[str, Sequence[EntryForm]]:
    calls = [
        (function, [find(one, lambda _: True, settings=FIRST) for one in drawn]) for function, drawn in CASES.values()
    ]
    return made_of(calls, *request.param)


def bits(value: Any) -> Any:
    """A value with nothing left that compares equal although it differs, as 0.0 and -0.0 do."""
    if isinstance(value, np.ndarray):
        plain = value.tobytes() if value.dtype.names is None else repr(value.tolist())  # between fields is anything
        return value.dtype, value.shape, plain
    if isinstance(value, tuple):
        return type(value).__name__, tuple(map(bits, value))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    return ("bool", bool(value)) if isinstance(value, bool | np.bool_) else None if value is None else int(value)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60)
@given(data=st.data())
def test_a_construct_is_the_same_to_the_last_bit(
    forms: Mapping[str, Sequence[EntryForm]], name: str, data: st.DataObject
) -> None:
    function, drawn = CASES[name]
    arguments = tuple(data.draw(one) for one in drawn)
    others = copy.deepcopy(arguments)
    expected = function(*arguments)
    got = called(forms[f"{function.__module__}:{name}"], others)
    assert bits(got) == bits(expected)
    assert bits(others) == bits(arguments)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "INT64_C(0)"), (-7, "(-INT64_C(7))"), (-(2**63), "INT64_MIN"), (2**63, "UINT64_C(9223372036854775808)"),
        (True, "1"), (None, "0"), (0.5, "(0x1.0000000000000p-1)"), (-0.0, "(-0x0.0p+0)"), (math.inf, "INFINITY"),
        (-math.inf, "(-INFINITY)"),
    ],
)  # fmt: skip
def test_a_constant_is_written_without_losing_a_bit(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize(
    ("text", "always"),
    [
        ("return 1", True), ("if a:\n return 1\nelse:\n return 2", True), ("if a:\n return 1", False),
        ("while True:\n return 1", True), ("while True:\n if a:\n  break", False), ("for i in b:\n return i", False),
    ],
)  # fmt: skip
def test_it_is_known_which_statements_always_return(text: str, always: bool) -> None:
    assert ends(ast.parse(text).body) is always


def test_numbers_narrower_than_64_bits_are_widened_when_they_are_loaded() -> None:
    assert [widened("x", code) for code in ("i8", "f8", "i4", "b1")] == ["x", "x", "(int64_t)x", "(int64_t)x"]
