"""Dates and timestamps through the whole house, beside a table of Python's own dates."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamer.cli.main import main
from streamer.incremental.engine.engine import Engine
from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.recoding.frame import anonymize
from streamer.table.codes import TIMESTAMP
from streamer.table.schema import Repair
from worlds.dates import Person, Registry, counted, temporal, write_messages, write_table
from worlds.engine_tables import FoldedTable
from worlds.microdata import MODELS, assert_laws, microdata, people
from worlds.small_tables import CITY, changes, table
from worlds.twin import SECRETS, Twin, assert_same, refusal

pytestmark = pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")  # tables of a few rows

BORN = temporal("born", "1990-01-01", "1999-05-15", "1 year")
SEEN = temporal("seen", "2024-01-01", "2024-01-02", "6 hours", TIMESTAMP)
K = 3


def streamer(*arguments: object) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def in_utc(text: str) -> datetime:
    return datetime.fromisoformat(text)


def assert_true(published: Iterable[Mapping[str, Any]], groups: Mapping[str, list[Person]]) -> None:
    """Every person lies in the intervals of their QI group, whose kept values are those of its people, each once."""
    rows = defaultdict(list)
    for row in published:
        rows[row["qi_group"]].append(row)
    assert rows.keys() == groups.keys()
    for name, members in groups.items():
        said = rows[name]
        assert len(members) >= K
        for person in members:
            born, shift = counted(person["born"]), person["shift"]
            assert date.fromisoformat(said[0]["born_lo"]) <= born <= date.fromisoformat(said[0]["born_hi"])
            assert in_utc(said[0]["seen_lo"]) <= person["seen"] <= in_utc(said[0]["seen_hi"])
            assert in_utc(said[0]["shift_lo"]) <= shift <= in_utc(said[0]["shift_hi"])
        assert Counter((row["since"], row["left"]) for row in said) == Counter(
            (str(person["since"] or ""), f"{person['left']:%Y-%m-%dT%H:%M:%SZ}") for person in members
        )


@pytest.mark.parametrize("form", ["rows", "groups", "lossy-join"])
def test_a_replayed_table_of_dates_is_true_and_passes_verify(tmp_path: Path, form: str) -> None:
    folder, registry = write_table(tmp_path), Registry(seed=7)
    if form != "rows":
        text = (folder / "table.yaml").read_text().replace("form: rows", f"form: {form}")
        (folder / "table.yaml").write_text(text.replace("k: 3", "k: 3, l: 2"))
    events = write_messages(registry, 120, folder / "events.jsonl")
    streamer("replay", "--table", folder, events, "--out", folder / "out", "--batch", 9)
    streamer("verify", "--table", folder, folder / "out" / "live.jsonl", "--events", events)
    if form != "rows":
        return
    groups = defaultdict(list)
    with open(folder / "out" / "index.csv") as file:
        index = {row["key"]: row["qi_group"] for row in csv.DictReader(file)}
    assert index.keys() == registry.people.keys()
    for key, name in index.items():
        groups[name].append(registry.people[key])
    with open(folder / "out" / "table.csv") as file:
        assert_true(csv.DictReader(file), groups)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_publishes_a_true_table_of_a_data_frame(tmp_path: Path, name: str) -> None:
    registry = Registry(seed=3)
    for _ in range(60):
        registry.insert()
    published = anonymize(registry.frame(), write_table(tmp_path), algorithm=name)
    assert str(published.dtypes["born_lo"]) == "datetime64[s]"
    boxes = published.groupby("qi_group").first()
    in_some: Counter[str] = Counter()
    for person in registry.people.values():
        born, seen, shift = (
            pd.Timestamp(value) for value in (counted(person["born"]), person["seen"], person["shift"])
        )
        around = boxes[
            (boxes.born_lo <= born) & (born <= boxes.born_hi)
            & (boxes.seen_lo <= seen) & (seen <= boxes.seen_hi)
            & (boxes.shift_lo <= shift) & (shift <= boxes.shift_hi)
        ]  # fmt: skip
        assert len(around)
        in_some.update(around.index)
    sizes = published.groupby("qi_group").size()
    assert sizes.min() >= K
    assert all(in_some[str(group)] >= size for group, size in sizes.items())


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=max(5, settings().max_examples // 10))
@given(data=st.data(), model=st.sampled_from(list(MODELS.values())))
def test_every_algorithm_keeps_its_laws_on_dates(name: str, data: st.DataObject, model: Any) -> None:
    small = people(BORN, SEEN, CITY)
    assert_laws(ALGORITHMS[name], data.draw(microdata(small)), model)


@settings(max_examples=max(5, settings().max_examples // 4))
@given(data=st.data())
def test_the_engine_stays_with_its_twin_on_dates(data: st.DataObject) -> None:
    small, secret = table(BORN, SEEN, k=2, repair=Repair(0.02)), data.draw(SECRETS)
    engine, folded, twin = Engine(small, secret=secret), FoldedTable(), Twin(small, secret)
    for change in data.draw(st.lists(changes(small), max_size=40)):
        note(f"{change!r}")
        assert refusal(engine.apply, change) == refusal(twin.apply, change)
        folded.fold(engine.drain())
        assert_same(engine, folded, twin)
