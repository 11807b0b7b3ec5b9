"""Errors by whose fault they are: an exit code each, and the reason of a refused message beside its sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamer
from streamer import errors
from streamer.errors import (
    A_PATH,
    A_TEXT,
    EXIT_LAW,
    EXIT_OK,
    EXIT_SERVER,
    EXIT_USAGE,
    FLAG,
    NUMBER,
    WHOLE_NUMBER,
    EventRefused,
    LawViolated,
    LibraryMissing,
    StreamerError,
    UsageError,
    needs_extra,
    require_type,
)
from worlds.checkout import PATIENTS

pytestmark = pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # tables of a few rows

OURS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StreamerError)]


def test_the_exit_codes_are_those_of_the_manual() -> None:
    assert (EXIT_OK, EXIT_LAW, EXIT_USAGE, EXIT_SERVER) == (0, 1, 2, 3)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_an_error_says_whose_fault_it_is_and_never_ends_a_command_well(kind: type[StreamerError]) -> None:
    special = {
        "LawViolated": EXIT_LAW, "GroupTooLarge": EXIT_LAW,
        "ServerUnreachable": EXIT_SERVER, "RegistryUnreachable": EXIT_SERVER,
    }  # fmt: skip
    assert kind.exit_code == special.get(kind.__name__, EXIT_USAGE)
    assert kind.__doc__


def test_a_refused_message_has_a_stable_reason_beside_its_sentence() -> None:
    refused = EventRefused("out-of-domain", "column 'age': outside the domain", "age")
    assert (str(refused), refused.reason, refused.detail, refused.column) == (
        "column 'age': outside the domain", "out-of-domain", "column 'age': outside the domain", "age",
    )  # fmt: skip
    assert EventRefused("truncated", "no column is at fault").column is None


def test_a_violated_law_is_told_apart_from_a_wrong_command() -> None:
    assert not issubclass(LawViolated, EventRefused)
    assert LawViolated.exit_code != EventRefused.exit_code


def test_a_library_that_is_not_installed_is_told_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = r"pyarrow is not installed: `pip install 'streamer\[parquet\]'`"
    with pytest.raises(LibraryMissing, match=said), needs_extra("parquet"):
        import pyarrow.parquet  # noqa: F401


def test_a_module_of_ours_that_is_missing_is_no_matter_of_extras() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("parquet"):
        import streamer.nowhere  # type: ignore[import-not-found]  # noqa: F401


# Arguments of the wrong type: a sentence that names the argument, what is wanted and what came; never a value.

CANARY = "Canary-7316"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("mondrian", A_TEXT), (3, WHOLE_NUMBER), (np.int64(3), WHOLE_NUMBER), (0, NUMBER), (0.05, NUMBER),
        (np.float32(0.5), NUMBER), (True, FLAG), ("live.jsonl", A_PATH), (Path("live.jsonl"), A_PATH),
    ],
)  # fmt: skip
def test_what_is_wanted_passes(value: object, wanted: str) -> None:
    require_type("it", value, wanted)


@pytest.mark.parametrize(
    ("value", "wanted", "says"),
    [
        (3, A_TEXT, "it must be a text, not int"),
        (True, WHOLE_NUMBER, "it must be a whole number, not bool"),
        (3.0, WHOLE_NUMBER, "it must be a whole number, not float"),
        (CANARY, NUMBER, "it must be a number, not str"),
        (1, FLAG, "it must be True or False, not int"),
        ([CANARY], A_PATH, "it must be the path of a file, not list"),
        (None, A_TEXT, "it must be a text, not NoneType"),
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
        ("k", "3", "k must be a whole number or None, not str"),
        ("suppression", "5%", "suppression must be a number, not str"),
        ("refine", 1.5, "refine must be a whole number, not float"),
        ("keep_equal_boxes", "yes", "keep_equal_boxes must be True or False, not str"),
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
