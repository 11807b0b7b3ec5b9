"""A published DataFrame is held to the laws of a changelog, in every type that pandas has for it."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.errors import LawViolated, UsageError
from streamer.incremental.verification import verify
from streamer.recoding.frame import anonymize
from streamer.table.published.from_frame import rows_of_frame
from streamer.table.yaml.loading import table_of
from worlds.checkout import PATIENTS

pytestmark = pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # tables of a few rows

ROWS = pd.read_csv(PATIENTS / "rows.csv")
PUBLISHED, INDEX = anonymize(ROWS, PATIENTS, return_index=True)

COLUMNS: dict[str, Any] = {
    "age": {"role": "quasi-identifier", "type": "integer", "domain": [0, 99], "grid": 10, "null_as": 0},
    "born": {"role": "quasi-identifier", "type": "date", "domain": ["2000-01-01", "2000-12-31"], "grid": "1 month"},
    "seen": {"role": "quasi-identifier", "type": "timestamp", "domain": ["2000-01-01", "2001-01-01"], "grid": "1 day"},
    "share": {"role": "quasi-identifier", "type": "decimal", "domain": [0, 1], "step": 0.1, "grid": 0.2},
    "sex": {"role": "quasi-identifier", "hierarchy": [["f", "*"], ["m", "*"]]},
    "problem": {"role": "sensitive"},
    "cost": {"role": "sensitive", "type": "decimal"},
}
TABLE = {"table": "p", "columns": COLUMNS, "privacy": {"k": 2}, "publish": {"live": {"form": "rows"}}}


@st.composite
def frames(draw: Callable[..., Any]) -> pd.DataFrame:
    """People in columns of many types, also with nulls where the table has a cell for them."""
    n = draw(st.integers(2, 12))

    def some(values: list[Any], *kinds: str) -> pd.Series:
        return pd.Series(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))).astype(draw(of(kinds)))

    of = st.sampled_from
    days = pd.date_range("2000-01-01", periods=300)
    zones = draw(of(["UTC", "Europe/Berlin"]))
    seen = pd.Series(pd.DatetimeIndex(draw(st.lists(of(days[2:].tolist()), min_size=n, max_size=n))).tz_localize(zones))
    return pd.DataFrame(
        {
            "age": some([1, 30, 44, None], "Int64", "Int8", "float64"),
            "born": some(days.tolist(), "datetime64[ns]", "datetime64[s]"),
            "seen": seen,
            "share": some([0.1, 0.3, 1.0], "float64", "Float32", "Float64"),
            "sex": some(["f", "m"], "category", "string", "object"),
            "problem": some(["flu", "burn", None], "category", "string", "object", "str"),
            "cost": some([1, 2.5, None], "Float64", "float64"),
        }
    )


def test_a_row_is_the_bytes_that_a_changelog_has() -> None:
    frame = pd.DataFrame({"age": [31, 38], "problem": ["flu", None]}).astype({"age": "Int64", "problem": "string"})
    columns = {"age": COLUMNS["age"], "problem": COLUMNS["problem"]}
    table = table_of(TABLE | {"columns": columns}, needs_key=False)
    for both in (False, True):
        rows = [*rows_of_frame(table, anonymize(frame, table, intervals=both))]
        assert rows == [
            (b'{"qi_group":"0-1","slot":0}', b'{"qi_group":"0-1","age_lo":30,"age_hi":39,"problem":"flu"}'),
            (b'{"qi_group":"0-1","slot":1}', b'{"qi_group":"0-1","age_lo":30,"age_hi":39,"problem":null}'),
        ]


@settings(max_examples=25)
@given(frames(), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_whatever_is_published_holds_every_law_with_its_source(frame: pd.DataFrame, both: bool, left: float) -> None:
    published, index = anonymize(frame, TABLE, intervals=both, suppression=left, return_index=True)
    verified = verify(published, TABLE, source=frame, index=index)
    assert (verified.rows, verified.laws) == (len(published), 15)
    if not both:  # as somebody reads it who was given the file
        read = pd.read_csv(StringIO(published.to_csv(index=False)))
        assert verify(read, TABLE, source=frame, index=index) == verified


@pytest.mark.parametrize(
    ("spoil", "law"),
    [
        (lambda one: one.head(2), "size"),
        (lambda one: one.assign(age_lo=[0, *one["age_lo"][1:]]), "one box"),
        (lambda one: one.assign(age_lo=one["age_lo"] + 1), "form"),
        (lambda one: one.assign(age_lo="young"), "form"),
        (lambda one: one.assign(age_lo=np.nan), "form"),
        (lambda one: one.assign(sex="nobody"), "form"),
        (lambda one: one.assign(problem="nothing"), "form"),
        (lambda one: one.assign(name="Ann"), "form"),
        (lambda one: one.drop(columns="bmi_hi"), "form"),
        (lambda one: one.assign(qi_group="one"), "form"),
        (lambda one: one.assign(qi_group="7-1"), "names"),
    ],
)
def test_a_spoilt_frame_breaks_a_law_that_names_no_value(
    spoil: Callable[[pd.DataFrame], pd.DataFrame], law: str
) -> None:
    with pytest.raises(LawViolated, match=f"law '{law}' is broken") as broken:
        verify(spoil(PUBLISHED), PATIENTS)
    assert not any(value in str(broken.value) for value in ("young", "nobody", "nothing", "Ann"))


def test_with_the_source_a_frame_of_other_people_is_told() -> None:
    assert verify(PUBLISHED, PATIENTS, source=ROWS, index=INDEX).laws == 15
    other = ROWS.assign(problem=ROWS["problem"].tolist()[::-1])
    with pytest.raises(LawViolated, match="law 'values' is broken at the published DataFrame"):
        verify(PUBLISHED, PATIENTS, source=other, index=INDEX)
    older = ROWS.assign(age=ROWS["age"].clip(upper=60))
    with pytest.raises(LawViolated, match=r"law '(containment|edges)' is broken"):
        verify(PUBLISHED, PATIENTS, source=older, index=INDEX)


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        ((PATIENTS, PUBLISHED), {}, "before its table"),
        ((PUBLISHED,), {}, "verify takes a published DataFrame and its table"),
        ((PUBLISHED, PATIENTS), {"source": ROWS}, "source and index belong together"),
        ((PUBLISHED, PATIENTS), {"source": ROWS, "index": INDEX.head(3)}, "index must be the Series"),
        ((PUBLISHED, PATIENTS), {"source": 7, "index": INDEX}, "source takes a pandas DataFrame"),
        ((PUBLISHED.head(0), PATIENTS), {}, "has no rows"),
        ((PATIENTS, "live.jsonl"), {"source": ROWS}, "go with a published DataFrame"),
    ],
)
def test_a_call_that_cannot_be_followed_says_so(arguments: Any, named: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        verify(*arguments, **named)
