"""A drafted table as a dict: edited, printed, written, and what `init` refuses."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import UsageError
from streamer.table.draft.drafting import DraftedTable, init
from streamer.table.draft.yaml_text import edited, settings_of
from streamer.table.yaml.loading import load_table, table_of

PEOPLE = pd.DataFrame(
    {
        "email": [f"p{i}@example.org" for i in range(12)],
        "age": range(20, 32),
        "weight": [60.5 + i / 2 for i in range(12)],
        "smoker": ["yes", "no"] * 6,
        "disease": list("abc") * 4,
    }
)


def draft() -> DraftedTable:
    return init(PEOPLE, k=3)


def test_who_is_identified_is_left_out_and_it_is_said_why() -> None:
    named = init(PEOPLE.assign(nr=range(12)), key="nr")
    assert "e-mail address" in named.left_out["email"]
    assert "email" not in named["columns"]
    assert "# left out: email: holds an e-mail address" in repr(named)
    assert "e-mail address" in draft().left_out["email"]  # the key


def test_a_draft_prints_no_value_of_a_row() -> None:
    text = repr(draft()) + repr(draft().left_out)
    assert "yes" not in text and "example.org" not in text


def test_words_that_yaml_takes_for_booleans_stay_words() -> None:
    assert draft()["columns"]["smoker"]["hierarchy"] == [["no", "*"], ["yes", "*"]]
    assert settings_of("na: [no, 7]\nprivacy: {k: 7}\n") == {"na": ["no", "7"], "privacy": {"k": 7}}


def test_what_is_edited_is_printed_without_its_comment_and_the_rest_with_it() -> None:
    table = draft()
    table["columns"]["age"]["grid"] = 5
    table["privacy"] = {"k": 2, "l": 2}
    table["individual"] = "email"
    del table["columns"]["weight"]
    table["columns"]["town"] = {"role": "keep", "acknowledge_linkable": True}
    lines = repr(table).splitlines()
    domain = table["columns"]["age"]["domain"]
    assert f"  age: {{role: quasi-identifier, type: integer, domain: {domain}, grid: 5}}" in lines
    assert "privacy: {k: 2, l: 2}" in lines
    assert lines[-1] == "individual: email"
    assert any(line.startswith("  smoker: ") and "  # " in line for line in lines)
    assert "  town: {role: keep, acknowledge_linkable: true}" in lines
    assert "weight" not in repr(table)


SETTINGS = st.recursive(
    st.text(max_size=8) | st.integers(-99, 99) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["age", "smoker", "privacy", "a: b", "#", "no"]), SETTINGS, max_size=4))
def test_whatever_is_edited_the_text_says_what_the_dict_says(change: dict[str, Any]) -> None:
    text, settings = draft().text, settings_of(draft().text)
    settings["columns"] |= change
    settings |= {name: said for name, said in change.items() if name not in ("columns", "publish")}
    assert yaml.load(edited(text, settings), yaml.BaseLoader) == as_texts(settings)


def as_texts(said: Any) -> Any:
    if isinstance(said, dict):
        return {name: as_texts(one) for name, one in said.items()}
    if isinstance(said, list):
        return list(map(as_texts, said))
    return str(said).lower() if isinstance(said, bool) else str(said)


def test_what_is_written_is_the_table_of_the_dict(tmp_path: Path) -> None:
    table = draft()
    table["columns"]["smoker"]["hierarchy"] = [["yes", "known", "*"], ["no", "known", "*"]]
    folder = table.write(tmp_path / "mine")
    assert load_table(folder).fingerprint == table_of(table).fingerprint
    with pytest.raises(UsageError, match=r"table\.yaml: is there already"):
        table.write(folder)
    table["privacy"]["k"] = 4
    assert load_table(table.write(folder, force=True)).k == 4


def test_a_draft_survives_copies() -> None:
    again = pickle.loads(pickle.dumps(draft()))
    assert (again, repr(again), again.left_out) == (draft(), repr(draft()), draft().left_out)


def test_a_role_is_drafted_as_it_is_asked_for() -> None:
    table = init(PEOPLE, roles={"disease": "quasi-identifier", "smoker": "sensitive", "weight": ""})
    roles = {name: one["role"] for name, one in table["columns"].items()}
    assert roles == {"age": "quasi-identifier", "smoker": "sensitive", "disease": "quasi-identifier"}
    assert "weight" in table.left_out


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"roles": ["age"]}, "roles must be a dict by column"),
        ({"roles": {"zip": "sensitive"}}, "'zip' is no column of the DataFrame"),
        ({"roles": {"age": "secret"}}, "roles must be a dict by column of 'quasi-identifier', 'sensitive' or ''"),
        ({"roles": {"email": "sensitive"}}, "'email' is the key, which is never published"),
        ({"key": "smoker"}, "key: 'smoker' is not a column with another text or number in every row"),
        ({"key": 7}, "key must be a text or None, not int"),
        ({"k": 1}, "k must be at least 2"),
        ({"k": "5"}, "k must be a whole number or None, not str"),
    ],
)
def test_what_cannot_be_drafted_is_refused_in_a_sentence(how: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        init(PEOPLE, **how)
