"""What is not in the subset is refused with file, line and what to write instead, when the library is built."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from streamer.native import compiled
from streamer.native.build import programs
from streamer.native.program import Program
from streamer.native.types import NotTranslated, type_of
from worlds.source_code import modules

NUMBERS, FLOATS, FLAGS = np.arange(3), np.zeros(3), np.zeros(3, np.bool_)
TABLE = np.zeros((2, 2), np.int64)
CONSTANT = np.arange(3)


class Pair(NamedTuple):
    left: Any
    right: Any


def two_types(n: int) -> float:
    least: float = 0
    for _ in range(n):
        least = 0.5
    return least


def bool_and_int(n: int) -> int:
    found: int = False
    if n > 1:
        found = 2
    return found


def none_and_int(n: int) -> int | None:
    found: int | None = None
    if n > 1:
        found = 2
    return found


def some_ways_only(n: int) -> int | None:
    if n > 1:
        return 2
    return None


def falls_off(n: int) -> int:  # type: ignore[return]
    while n > 1:
        return 2


def a_method(items: Any) -> Any:
    return items.any()


def whole_arrays(items: Any) -> Any:
    return items + 1


def a_mask(items: Any, flags: Any) -> Any:
    return items[flags]


def a_list(n: int) -> list[int]:
    return [n]


def a_keyword(items: Any) -> Any:
    return np.sort(items, kind="stable")


def with_default(n: int, more: int = 1) -> int:
    return n + more


def itself(n: int) -> int:
    return 1 if n < 1 else itself(n - 1)


def a_raise(n: int) -> int:
    if n < 0:
        raise ValueError
    return n


def a_string(n: int) -> str:
    return f"{n}"


def two_bools(a: bool, b: bool) -> int:
    return a + b


def a_power(n: int) -> int:
    return int(n**2)


def floats_rounded_down(x: float) -> float:
    return x // 2.0


def a_global_array(n: int) -> int:
    return int(CONSTANT[n])


def mixed_choice(n: int, x: float) -> float:
    return max(n, x)


def a_step(items: Any) -> Any:
    return items[::2]


def a_filled_table(table: Any) -> None:
    table[:, :] = 3


def a_field_of_a_tuple(pair: Pair) -> None:
    pair.left = 3  # type: ignore[misc]


def an_argument_that_changes(pair: Pair, n: int) -> int:
    pair = Pair(pair.left, pair.right)
    return n


def no_such_name(n: int) -> int:
    return n + missing  # type: ignore[name-defined]  # noqa: F821


def an_and_of_ints(a: int, b: int) -> int:
    return a and b


def unequal_unpacking(pair: Pair) -> Any:
    a, b, c = pair  # type: ignore[misc]
    return a + b + c


def of_uint(a: Any, n: int) -> Any:
    return a + n


def too_many_dimensions(items: Any) -> Any:
    return items[0, 0, 0]


def in_an_array(items: Any, n: int) -> bool:
    return n in items


def an_int_as_a_bool(flags: Any, n: int) -> None:
    flags[0] += n


def bools_of_ints(n: int) -> Any:
    return np.full(n, n, np.bool_)


def arange_from(n: int) -> Any:
    return np.arange(2, n)


def array_of_array(items: Any) -> Any:
    return np.array(items)


def shifted_by_uint(u: Any) -> Any:
    return 1 << u


def none_of_a_call(items: Any) -> bool:
    return a_method(items) is None


def is_true(flags: Any) -> bool:
    return flags[0] is True


def brackets_in_brackets(a: int, b: int) -> int:
    (a, b), c = (b, a), 1
    return a + b + c


def two_calls_in_an_index(table: Any, n: int) -> Any:
    return table[abs(n), abs(n)]


def shape_of_a_call(n: int) -> Any:
    return np.zeros(n).shape


def items_from_an_array(items: Any) -> None:
    items[0], items[1] = items[::-1]


def an_item_of_a_row(table: Any) -> Any:
    return table[0][1]


def turned_around_in_place(items: Any) -> None:
    items[:] = items[::-1]


def a_range_of_a_float(x: float) -> int:
    last = 0
    for i in range(x):  # type: ignore[call-overload]
        last = i
    return last


def never_set_before(n: int) -> int:
    while n < later:  # type: ignore[has-type]  # noqa: F821
        later = n  # noqa: F841
    return n


def rows_and_columns(table: Any, n: int) -> Any:
    part = table[0]
    if n > 1:
        part = table[:, 0]
    return part[0]


def small_floats(items: Any) -> float:
    return float(items[0])


PAIR = Pair(NUMBERS, FLOATS)


def more(items: Any) -> int:
    items[0] += 1
    return int(items[0])


def filled_by_a_call(items: Any) -> int:
    return len(np.full(items[0], more(items)))


def cut_by_a_call(table: Any, items: Any) -> int:
    return int(table[items[0], : more(items)][0])


def set_by_numbers(items: Any, chosen: Any) -> None:
    items[chosen] = 1


REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (two_types, (3,), "int in one place and float in another"),
    (bool_and_int, (3,), "bool in one place and int in another"),
    (none_and_int, (3,), "None in one place and int in another"),
    (some_ways_only, (3,), "int in one place and None in another"),
    (falls_off, (3,), "a value on some ways and none on others"),
    (a_method, (FLAGS,), "this method is not in the subset: write a loop"),
    (whole_arrays, (NUMBERS,), "operators are of numbers: write a loop"),
    (a_mask, (NUMBERS, FLAGS), "gathered by an array of ints"),
    (a_list, (3,), "not in the subset"),
    (a_keyword, (NUMBERS,), "by position"),
    (with_default, (3, 1), "every argument is given"),
    (itself, (3,), "does not call itself: write a loop"),
    (a_raise, (3,), "this statement is not in the subset"),
    (a_string, (3,), "not in the subset"),
    (two_bools, (True, False), "this operator is not of bool: convert by int"),
    (a_power, (3,), "this operator is not of int"),
    (floats_rounded_down, (3.0,), "this operator is not of float"),
    (a_global_array, (1,), "a constant is a number"),
    (mixed_choice, (1, 2.0), "int in one place and float in another"),
    (a_step, (NUMBERS,), r"a slice is \[a:b\] or \[::-1\]"),
    (a_filled_table, (TABLE,), "write a loop"),
    (a_field_of_a_tuple, (PAIR,), "only fields of records are set"),
    (an_argument_that_changes, (PAIR, 1), "use another name"),
    (no_such_name, (1,), "neither an argument nor the module's"),
    (an_and_of_ints, (1, 2), "`and` and `or` are of bools"),
    (unequal_unpacking, (PAIR,), "does not unpack into 3 names"),
    (of_uint, (np.uint64(1), 2), r"convert one by np.uint64\(\)"),
    (too_many_dimensions, (TABLE,), "has no such item"),
    (in_an_array, (NUMBERS, 1), "`in` is of values in brackets"),
    (an_int_as_a_bool, (FLAGS, 1), "a bool is set to a bool"),
    (bools_of_ints, (2,), "a bool array is filled with bools"),
    (arange_from, (2,), "a shape, then its filling or its dtype"),
    (array_of_array, (NUMBERS,), "np.array is of values in brackets"),
    (shifted_by_uint, (np.uint64(3),), r"convert one by np.uint64\(\)"),
    (none_of_a_call, (FLAGS,), "name the result first"),
    (is_true, (FLAGS,), "not in the subset|in brackets"),
    (brackets_in_brackets, (1, 2), "unpack them later"),
    (two_calls_in_an_index, (TABLE, 1), "name the results of calls first"),
    (shape_of_a_call, (2,), "name the array first"),
    (items_from_an_array, (NUMBERS,), "an array unpacks into names"),
    (an_item_of_a_row, (TABLE,), "name the array first"),
    (filled_by_a_call, (NUMBERS,), "name the results of calls first"),
    (cut_by_a_call, (TABLE, NUMBERS), "name the results of calls first"),
    (set_by_numbers, (NUMBERS, NUMBERS), "items that an array names are set one by one: write a loop"),
    (turned_around_in_place, (NUMBERS,), "whose items stand side by side, too: write a loop"),
    (rows_and_columns, (TABLE, 1), "of i8 that stand side by side in one place and .* apart in another"),
    (a_range_of_a_float, (1.5,), "a range is of one to three ints"),
    (never_set_before, (1,), "a name in it is not set before"),
    (small_floats, (FLOATS.astype(np.float32),), "float32 are not in the subset"),
]


@pytest.mark.parametrize(("function", "arguments", "why"), REFUSED, ids=[one.__name__ for one, _, _ in REFUSED])
def test_it_is_refused_in_a_sentence(function: Callable[..., Any], arguments: tuple[Any, ...], why: str) -> None:
    with pytest.raises(NotTranslated, match=why):
        Program("tests").entry(function, tuple(map(type_of, arguments)))


def test_a_refusal_names_file_line_and_text() -> None:
    with pytest.raises(NotTranslated) as refused:
        Program("tests").entry(a_method, (type_of(FLAGS),))
    line = a_method.__code__.co_firstlineno + 1
    assert str(refused.value).startswith(f"{__file__}:{line}: `items.any()`: ")


def test_what_a_called_function_says_is_refused_where_it_stands() -> None:
    def calls(items: Any) -> Any:
        return a_method(items)

    with pytest.raises(NotTranslated, match=f"test_refusals.py:{a_method.__code__.co_firstlineno + 1}: "):
        Program("tests").entry(calls, (type_of(FLAGS),))


@compiled
def never_an_example(n: int) -> int:
    return n


def test_a_function_without_a_form_for_these_arguments_is_an_error_and_never_runs_uncompiled() -> None:
    with pytest.raises(TypeError, match=r"never_an_example .* no machine code .* \(int\).*examples\.py"):
        never_an_example(3)


@pytest.mark.night  # every build does it with most modules
def test_no_python_code_of_the_whole_project_calls_a_function_that_is_compiled_into_others() -> None:
    """The build sees the modules that its examples import; here are all of them."""
    for name, path in modules().items():
        if name.startswith("streamer.") and path.name != "__main__.py" and name != "streamer.spark":
            importlib.import_module(name)
    assert programs(), "it raises otherwise"
