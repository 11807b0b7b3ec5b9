"""Arguments of the wrong type: a sentence that names the argument, what is wanted and what came; never a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamer
from streamer.arguments import FLAG, NUMBER, PATH, TEXT, WHOLE_NUMBER, require_type
from streamer.errors import UsageError
from worlds.checkout import PATIENTS

CANARY = "Canary-7316"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("mondrian", TEXT), (3, WHOLE_NUMBER), (np.int64(3), WHOLE_NUMBER), (0, NUMBER), (0.05, NUMBER),
        (np.float32(0.5), NUMBER), (True, FLAG), ("live.jsonl", PATH), (Path("live.jsonl"), PATH),
    ],
)  # fmt: skip
def test_what_is_wanted_passes(value: object, wanted: str) -> None:
    require_type("it", value, wanted)


@pytest.mark.parametrize(
    ("value", "wanted", "says"),
    [
        (3, TEXT, "it must be a text, not int"),
        (True, WHOLE_NUMBER, "it must be a whole number, not bool"),
        (3.0, WHOLE_NUMBER, "it must be a whole number, not float"),
        (CANARY, NUMBER, "it must be a number, not str"),
        (1, FLAG, "it must be True or False, not int"),
        ([CANARY], PATH, "it must be the path of a file, not list"),
        (None, TEXT, "it must be a text, not NoneType"),
    ],
)
def test_what_is_not_is_named_by_its_type(value: object, wanted: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_type("it", value, wanted)
    assert str(refused.value) == says


def test_none_passes_where_it_may_be_left_out() -> None:
    require_type("k", None, WHOLE_NUMBER, or_none=True)
    with pytest.raises(UsageError, match=r"^k must be a whole number or None, not str$"):
        require_type("k", "3", WHOLE_NUMBER, or_none=True)


def rows() -> pd.DataFrame:
    return pd.read_csv(PATIENTS / "rows.csv", dtype=str)


@pytest.mark.parametrize(
    ("argument", "value", "says"),
    [
        ("algorithm", 3, "algorithm must be a text, not int"),
        ("algorithm", ["mondrian"], "algorithm must be a text, not list"),
        ("k", "3", "k must be a whole number or None, not str"),
        ("k", 3.5, "k must be a whole number or None, not float"),
        ("suppression", "5%", "suppression must be a number, not str"),
        ("suppression", None, "suppression must be a number, not NoneType"),
        ("refine", 1.5, "refine must be a whole number, not float"),
        ("merge_equal_boxes", "yes", "merge_equal_boxes must be True or False, not str"),
        ("seed", "1", "seed must be a whole number or None, not str"),
    ],
)
def test_every_argument_of_anonymize_is_looked_at(argument: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        streamer.anonymize(rows(), PATIENTS, **{argument: value})
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((3, "127.0.0.1:1"), "the table must be a Table or the path of a table.yaml, not int"),
        ((PATIENTS, 9092), "kafka must be a text, not int"),
        ((PATIENTS, ["127.0.0.1:1"]), "kafka must be a text, not list"),
        ((PATIENTS, "127.0.0.1:1", "http://registry"), "schemas must be those of a schema registry or None, not str"),
    ],
)
def test_every_argument_of_a_subscription_is_looked_at(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        streamer.Subscription(*arguments)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((None, "live.jsonl"), "the table must be a Table or the path of a table.yaml, not NoneType"),
        ((PATIENTS, ["live.jsonl"]), "live must be the path of a file, not list"),
        ((PATIENTS, "live.jsonl", 3), "live must be the path of a file, not int"),
    ],
)
def test_every_argument_of_verify_is_looked_at(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        streamer.verify(*arguments)
    assert str(refused.value) == says


def test_a_number_of_numpy_is_a_number() -> None:
    options: dict[str, Any] = {"k": np.int64(4), "suppression": np.float64(0)}
    published = streamer.anonymize(rows(), PATIENTS, **options, seed=1)
    assert published.attrs["measures"]["k"] >= 4
