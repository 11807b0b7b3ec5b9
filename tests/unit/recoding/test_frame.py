"""`streamer.anonymize`, the way for users of pandas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.recoding.algorithms.contract import PLAIN, Options
from streamer.recoding.frame import anonymize, checked_options
from streamer.recoding.metrics.measures import WHAT
from streamer.table.codes import KeptColumn, NumericAttribute, cell_text
from streamer.table.csv_files import write_rows
from streamer.table.hierarchy import Hierarchy
from streamer.table.published.rows import published_columns
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS, ROOT

pytestmark = pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # tables of a few rows

AGE = NumericAttribute("age", (Decimal(0), Decimal(99)), Decimal(10), Decimal(1), Decimal(20))
PEOPLE = Table("people", ("id",), (AGE,), (KeptColumn("problem", sensitive=True),), k=2)


def people(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"id": [1, 2, 3, 4], "age": [64, 31, 39, 68], "problem": list("abcd"), **columns})


# -- typed frames ---------------------------------------------------------------------------------------------------


def test_typed_values_and_texts_give_the_same_table() -> None:
    texts = read_rows(PATIENTS / "rows.csv")
    typed = pd.read_csv(PATIENTS / "rows.csv")
    assert (typed["age"].dtype, typed["bmi"].dtype) == (np.int64, np.float64)
    one, other = anonymize(texts, PATIENTS, seed=1), anonymize(typed, PATIENTS / "table.yaml", seed=1)
    pd.testing.assert_frame_equal(one, other)
    pd.testing.assert_frame_equal(one, anonymize(texts, load_table(PATIENTS), seed=1))


def test_the_result_is_typed_has_a_fresh_index_and_its_measures() -> None:
    frame = pd.read_csv(PATIENTS / "rows.csv").set_index(pd.Index(range(100, 140)))
    published = anonymize(frame, PATIENTS, k=5)
    assert tuple(published.columns) == published_columns(load_table(PATIENTS))
    assert {name: str(kind) for name, kind in published.dtypes.items()} == {
        **dict.fromkeys(["qi_group", "sex"], "str"),
        **dict.fromkeys(["age_lo", "age_hi", "zip_lo", "zip_hi"], "int64"),
        **dict.fromkeys(["bmi_lo", "bmi_hi"], "float64"),
        "problem": "object",
    }
    assert published.index.equals(pd.RangeIndex(len(frame)))
    assert list(published.attrs["measures"]) == list(WHAT)
    assert published.groupby("qi_group").size().min() == published.attrs["measures"]["k"] >= 5


def types_in_the_docs() -> Iterator[tuple[str, str, str]]:
    """Type, value and text of every type in the table of docs/how-to/whole-tables.md."""
    page = (ROOT / "docs/how-to/whole-tables.md").read_text("utf-8").partition("## Types of a DataFrame")[2]
    for types, value, text in re.findall(r"^\| (`.+) \| (.+) \| (.+) \|$", page.partition("## ")[0], re.MULTILINE):
        for one in re.findall("`([^`]+)`", types):
            yield one, value.strip("`"), text.strip("`")


def arrow(name: str, *of: object) -> pd.ArrowDtype:
    """A type of Arrow by its name."""
    return pd.ArrowDtype(getattr(pytest.importorskip("pyarrow"), name)(*of))


NAMELESS = {  # a column of a type that pandas does not make of its name
    "Decimal": lambda value: [Decimal(value)],
    "datetime.date": lambda value: [date.fromisoformat(value)],
    "boolean": lambda value: pd.array([value == "True"], dtype="boolean"),
    "period[D]": lambda value: [pd.Period(value, "D")],
    "bytes": lambda value: [value.encode()],
    "list": lambda value: [[value]],
    "decimal128(5, 2)[pyarrow]": lambda value: pd.Series([Decimal(value)]).astype(arrow("decimal128", 5, 2)),
    "list<item: string>[pyarrow]": lambda value: pd.Series(
        [[value]], dtype=arrow("list_", arrow("string").pyarrow_dtype)
    ),
    "category of float32": lambda value: pd.Series([value]).astype("float32").astype("category"),
    "dictionary of float[pyarrow]": lambda value: pd.arrays.ArrowExtensionArray(
        pytest.importorskip("pyarrow").array([np.float32(value)]).dictionary_encode()
    ),
    "np.str_": lambda value: pd.Series([np.str_(value)], dtype=object),
    "Sparse[float32]": lambda value: pd.Series([value]).astype("float32").astype(pd.SparseDtype("float32")),
}


@pytest.mark.parametrize(("kind", "value", "text"), list(types_in_the_docs()))
def test_a_type_of_a_frame_is_read_as_the_docs_say(kind: str, value: str, text: str) -> None:
    make = NAMELESS.get(kind, lambda value: pd.Series([value]).astype(kind))  # type: ignore[call-overload]
    one = make(value)  # type: ignore[no-untyped-call]
    cells = pd.concat([pd.Series(one)] * 4, ignore_index=True)
    if text == "refused":
        with pytest.raises(ConfigError, match="'problem'"):
            anonymize(people(problem=cells), PEOPLE)
        return
    published = anonymize(people(problem=cells), PEOPLE)["problem"].tolist()
    assert [cell_text(one) for one in published] == [text] * 4


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([52_000, 61_000, 48_000, 48_000], "int64"),
        (pd.array([52_000, None, 48_000, 48_000], dtype="Int64"), "Int64"),
        (pd.array([52_000, None, 48_000, 48_000], dtype="int64[pyarrow]"), "Int64"),
        (pd.Series([1, 2, 1, 2]).astype("category"), "int64"),
        ([1.5, 2.0, np.nan, 4.0], "float64"),
        ([Decimal("0.10"), Decimal("2"), Decimal("3"), Decimal("4")], "float64"),
        ([True, False, True, True], "bool"),
        ([True, None, True, True], "boolean"),
        ([10**30, 1, 2, 3], "object"),
        (["007", "8", "9", "10"], "object"),
        (["7", 8, 9, 10], "object"),
    ],
)
def test_sensitive_numbers_and_booleans_come_back_as_such(cells: Any, kind: str) -> None:
    source, typed = people(problem=cells), KeptColumn("problem", sensitive=True, type="decimal")
    are_numbers = kind in ("int64", "Int64", "float64")
    for table in (PEOPLE, replace(PEOPLE, kept=(typed,)))[: 1 + are_numbers]:
        found = anonymize(source, table)["problem"]
        assert str(found.dtype) == kind
        assert Counter(map(cell_text, found)) == Counter(map(cell_text, source["problem"]))


@pytest.mark.parametrize(
    "cells",
    [
        pd.array([1, 2, 1, 2], dtype="Int64"),
        pd.array([1.0, 2.0, None, 2.0], dtype="Float64"),
        pd.array([True, False, True, False], dtype="boolean"),
        pd.array(["a", None, "a", "b"], dtype="string"),
        pd.Categorical(["a", "b", None, "a"]),
        pd.Categorical(["b", "a", "c", "a"], categories=["c", "b", "a"], ordered=True),
        pd.to_datetime(["2020-02-01", "1969-12-31", "2020-02-01", "2020-02-02"]).as_unit("ns"),
        pd.DatetimeIndex(["2020-02-01", "NaT", "2020-10-25", "2020-02-02"], tz="Europe/Berlin"),
    ],
    ids=lambda cells: str(cells.dtype),
)
def test_a_published_column_has_the_pandas_type_of_its_source(cells: Any) -> None:
    found = anonymize(people(problem=cells), PEOPLE)["problem"]
    assert found.dtype == pd.Series(cells).dtype
    assert Counter(map(str, found)) == Counter(map(str, cells))


def test_categories_that_nobody_has_and_the_order_of_the_rows_are_not_published() -> None:
    cells = pd.Categorical(["d", "b", "c", "d"], categories=["d", "nobody", "b", "c"])
    assert anonymize(people(problem=cells), PEOPLE)["problem"].cat.categories.tolist() == ["b", "c", "d"]


def test_ends_and_labels_have_the_pandas_type_of_their_column() -> None:
    frame = pd.read_csv(PATIENTS / "rows.csv").astype({"age": "Int16", "bmi": "Float64", "sex": "category"})
    published = anonymize(frame, PATIENTS, k=5)
    types = [str(published[name].dtype) for name in ("age_lo", "age_hi", "bmi_lo", "zip_lo", "sex")]
    assert types == ["Int64", "Int64", "Float64", "int64", "category"]
    assert set(published["sex"].cat.categories) == set(published["sex"])


def test_ends_may_be_one_column_of_intervals() -> None:
    frame = pd.read_csv(PATIENTS / "rows.csv").astype({"age": "Int64"})
    pairs, both = anonymize(frame, PATIENTS), anonymize(frame, PATIENTS, intervals=True)
    assert both.columns.tolist() == ["qi_group", "age", "zip", "bmi", "sex", "problem"]
    for name in ("age", "zip", "bmi"):
        interval = both[name].array
        assert interval.closed == "both"
        assert [*interval.left] == [*pairs[f"{name}_lo"]] and [*interval.right] == [*pairs[f"{name}_hi"]]
    codes = replace(AGE, width=3)
    assert "age_lo" in anonymize(people(), replace(PEOPLE, attributes=(codes,)), intervals=True)


@pytest.mark.parametrize("kind", ["float16", "float32", "Float32", "halffloat[pyarrow]", "float[pyarrow]"])
def test_a_short_float_is_a_multiple_of_the_step_that_its_text_is(kind: str) -> None:
    tenths = NumericAttribute("age", (Decimal(0), Decimal(1)), Decimal("0.1"), Decimal("0.1"), Decimal("0.2"))
    table = replace(PEOPLE, attributes=(replace(tenths, integer=False),))
    ages = pd.Series(["0.1", "0.3", "0.1", "0.7"]).astype(kind)  # type: ignore[call-overload]
    assert sorted(anonymize(people(age=ages), table)["age_lo"]) == [0.1, 0.1, 0.3, 0.3]


def test_holes_of_a_short_float_are_nulls_and_its_categories_are_those_of_the_hierarchy() -> None:
    floats = pd.Series([0.1, None, 0.1, 0.1], dtype="Float32")
    assert anonymize(people(problem=floats), PEOPLE)["problem"].isna().sum() == 1
    doses = KeptColumn("problem", sensitive=True, type="text", hierarchy=Hierarchy.from_rows([["0.1"], ["rest"]]))
    published = anonymize(
        people(problem=np.full(4, 0.1, np.float32)), replace(PEOPLE, kept=(replace(doses, other="rest"),))
    )
    assert (published["problem"].tolist(), published.attrs["unlisted"]) == (["0.1"] * 4, {})


@pytest.mark.parametrize(
    "ages", [[64.0, 31.0, 39.0, 68.0], np.array([64, 31, 39, 68], dtype=np.int8), [Decimal(64), "31", 39.0, 68]]
)
def test_a_whole_number_may_come_in_any_type(ages: object) -> None:
    pd.testing.assert_frame_equal(anonymize(people(age=ages), PEOPLE), anonymize(people(), PEOPLE))


def test_a_hole_is_a_null() -> None:
    published = anonymize(people(problem=["a", None, float("nan"), "d"]), PEOPLE)
    assert published["problem"].tolist() == [None, None, "a", "d"]
    with pytest.raises(ConfigError, match="data row 2: column 'age' is null"):
        anonymize(people(age=[64, None, 39, 68]), PEOPLE)


def test_numbers_that_a_float_would_round_come_out_as_they_came_in() -> None:
    doses = [Decimal("0.12345678901234567890"), 9007199254740993, 0.1, "9007199254740993.5"]
    table = replace(PEOPLE, kept=(KeptColumn("problem", sensitive=True, type="decimal"),))
    published = anonymize(people(problem=doses), table)["problem"].tolist()
    assert published == [0.1, 9007199254740993, Decimal("0.1234567890123456789"), Decimal("9007199254740993.5")]


def test_a_key_is_the_same_as_number_and_as_text() -> None:
    with pytest.raises(ConfigError, match="an earlier row has the same key"):
        anonymize(people(id=[7.0, "7", 8, 9]), PEOPLE)


def test_the_frame_that_came_in_is_left_alone() -> None:
    frame = people()
    anonymize(frame, PEOPLE)
    pd.testing.assert_frame_equal(frame, people())


# -- chance ---------------------------------------------------------------------------------------------------------

TWENTY_PAIRS = pd.DataFrame({"id": range(40), "age": 35, "problem": range(40)})
"""All in one cell: twenty QI groups of two that publish the same values."""


def groups_of(published: pd.DataFrame) -> list[list[int]]:
    """The problems of every QI group, in the order of the numbers."""
    assert (published["age_lo"] == 30).all()
    return [of_group.tolist() for _, of_group in published.groupby("qi_group", sort=False)["problem"]]


def test_groups_that_publish_the_same_values_are_one() -> None:
    assert len(groups_of(anonymize(TWENTY_PAIRS, PEOPLE))) == 1


def test_without_a_seed_chance_alone_numbers_the_groups_that_publish_the_same_values() -> None:
    one, other = (groups_of(anonymize(TWENTY_PAIRS, PEOPLE, keep_equal_boxes=True)) for _ in range(2))
    assert sorted(one) == sorted(other)
    assert one != other  # by chance once in 20! runs


def test_a_seed_repeats_the_numbers_too() -> None:
    one, other = (anonymize(TWENTY_PAIRS, PEOPLE, keep_equal_boxes=True, seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(one, other)


# -- options and errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 1}, "k must be at least 2"),
        ({"k": 1_000_001}, "k must be at least 2 and at most 1,000,000"),
        ({"suppression": Decimal("sNaN")}, "suppression must be a share"),
        ({"suppression": 10**400}, "suppression must be a share"),
        ({"k": 5}, "4 rows are fewer than k = 5"),
        ({"algorithm": "magic"}, "there is no algorithm 'magic'"),
        ({"suppression": 1.0}, "suppression must be a share"),
        ({"suppression": -0.1}, "suppression must be a share"),
        ({"refine": -1}, "refine counts sweeps"),
        ({"seed": -1}, "seed must not be negative"),
        ({"algorithm": "mondrian", "suppression": 0.5}, "mondrian cannot do this"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises(StreamerError, match=said):
        anonymize(people(), PEOPLE, **options)


def test_a_share_may_be_a_decimal() -> None:
    ages = {"age": [1, 2, 3, 4, 5, 6, 7, 8, 9, 99], "id": range(10), "problem": list("aaaaaaaaaa")}
    published = anonymize(pd.DataFrame(ages), PEOPLE, algorithm="ola", suppression=Decimal(".1"))
    assert published.attrs["measures"]["suppressed"] == 1


def test_half_a_character_is_refused_in_any_column_that_is_read() -> None:
    for column in ("id", "age", "problem"):
        halves = pd.Series(["1", "2", "\ud800", "4"], dtype=object)
        with pytest.raises(ConfigError, match=rf"^data row 3: column '{column}': not a text: .*; mend it"):
            anonymize(people(**{column: halves}), PEOPLE)


def test_what_cannot_be_compared_is_refused_by_its_column() -> None:
    for cells in ([Decimal("sNaN")] * 4, [[1]] * 4):
        with pytest.raises(ConfigError, match=r"^column 'problem' holds a value that is neither .*; convert it, or"):
            anonymize(people(problem=pd.Series(cells, dtype=object)), PEOPLE)
    with pytest.raises(ConfigError, match="column 'problem' holds a value that is neither"):
        anonymize(people(problem=pd.Series([1j] * 4, dtype="clongdouble")), PEOPLE)
    for column, why in {
        "id": "more than 400 digits",
        "age": "outside the domain",
        "problem": "than 400 digits",
    }.items():
        with pytest.raises(ConfigError, match=f"column '{column}'.* {why}"):
            anonymize(people(**{column: pd.Series([10**5000] * 4, dtype=object)}), PEOPLE)


def test_a_float_beside_the_step_is_refused_with_what_to_do() -> None:
    tenths = NumericAttribute("age", (Decimal(0), Decimal(1)), Decimal("0.1"), Decimal("0.1"), Decimal("0.2"))
    table = replace(PEOPLE, attributes=(replace(tenths, integer=False),))
    with pytest.raises(ConfigError, match=r"column 'age': not a multiple of the step of .*; round it in the source"):
        anonymize(people(age=[0.1 + 0.2] * 4), table)


def test_a_tiny_number_is_published_as_short_as_it_was_given() -> None:
    tiny = people(problem=[1e-300, Decimal("1.50E-299"), Decimal("-1e-31"), 1e-30])
    assert sorted(anonymize(tiny, PEOPLE)["problem"], key=Decimal) == ["-1e-31", "1e-300", "1.5e-299", f"0.{1:030}"]


def test_data_that_does_not_fit_is_refused_without_its_values() -> None:
    with pytest.raises(ConfigError, match=r"^data row 3: column 'age': outside the domain") as refused:
        anonymize(people(age=[1, 2, 777, 3]), PEOPLE)
    assert "777" not in str(refused.value)
    with pytest.raises(ConfigError, match="the data has no column 'age'"):
        anonymize(people().drop(columns="age"), PEOPLE)
    with pytest.raises(ConfigError, match=r"^the data has several columns 'age', which table.yaml names"):
        anonymize(pd.concat([people(), people()[["age"]]], axis=1), PEOPLE)
    with pytest.raises(ConfigError, match=r"no column 'age', which table.yaml names; it has .*7 \(no text\)"):
        anonymize(people().rename(columns={"age": 7}), PEOPLE)
    with pytest.raises(ConfigError, match="column 'age' holds a value that is neither text, number"):
        anonymize(people(age=[[1], 2, 3, 4]), PEOPLE)
    with pytest.raises(ConfigError, match="the data has no rows"):
        anonymize(people().head(0), PEOPLE)
    with pytest.raises(UsageError):
        anonymize(people(), PEOPLE, k=0)


def test_numbers_are_written_as_shortest_decimals_and_read_back_as_they_are(tmp_path: Path) -> None:
    frame = pd.DataFrame({"whole": [10.0, 2.5], "any": pd.Series([True, 1], dtype=object), "null": [None, "x"]})
    with open(tmp_path / "out.csv", "w", newline="") as file:
        write_rows(frame, file)
    assert (tmp_path / "out.csv").read_text() == "whole,any,null\n10,true,\n2.5,1,x\n"


def test_options_that_are_not_given_are_those_of_a_plain_run_but_for_chance() -> None:
    one, other = checked_options(), checked_options()
    merged = replace(PLAIN, merge_equal_boxes=True)
    assert replace(one, chance=0) == replace(other, chance=0) == merged
    assert one.chance != other.chance
    assert checked_options(seed=0) == merged


def test_options_that_are_given_are_those_of_the_run() -> None:
    given: dict[str, Any] = {"suppression": 0.1, "refine": 2, "seed": 7}
    assert checked_options(**given, keep_equal_boxes=True) == Options(**given, merge_equal_boxes=False, chance=7)
