"""However a table is published, a person or a value that is written in several ways counts once, as it is written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import pandas as pd
import pytest

from worlds.calls import answer, streamer

TABLE = """
table: people
key: id
individual: person
columns:
  age: {role: quasi-identifier, type: integer, domain: [0, 99], grid: 1}
  problem: {role: sensitive, hierarchy: problems.csv}
privacy: {k: 3, l: 2, beta: 0.7}
publish: {live: {form: rows}}
"""
FREE = TABLE.replace(", hierarchy: problems.csv", "")
NAMES = ["Anna M\u00fcller", "O'Neill", "4711", "Stra\u00dfe 7", "Meyer-Wolf", "Zo\u00eb", "Li Na"]
PROBLEMS = ["HIV", "M\u00e9ni\u00e8re", "0", "Yes", "flu-like"]
SPELT: list[Callable[[str], str]] = [
    str.upper,
    str.lower,
    lambda text: f" {text}\u00a0",
    lambda text: text.replace(" ", "  ").replace("e", "\u200be"),
    lambda text: text.replace("\u00fc", "u\u0308").replace("\u00e8", "e\u0300").replace("'", "\u2019"),
    lambda text: text.replace("-", "\u2011"),
    lambda text: f"{text}.0" if text.isdigit() else text,
]


def people(seed: int, n: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows as their source meant them, and as it wrote them."""
    random = Random(seed)
    meant = pd.DataFrame(
        {
            "id": [str(i) for i in range(n)],
            "person": random.choices(NAMES, k=n),
            "age": random.choices(range(20), k=n),
            "problem": random.choices(PROBLEMS, k=n),
        }
    )
    written = meant.assign(
        **{name: [random.choice(SPELT)(text) for text in meant[name]] for name in ("person", "problem")}
    )
    return meant, written


def assert_groups_hold(meant: pd.DataFrame, group_of: dict[str, str]) -> None:
    """Asserts that every QI group holds the model of the texts that were meant."""
    groups = defaultdict(list)
    for row in meant.to_dict("records"):
        if row["id"] in group_of:
            groups[group_of[row["id"]]].append(row)
    assert groups
    for rows in groups.values():
        problems = [row["problem"] for row in rows]
        assert len({row["person"] for row in rows}) >= 3
        assert len(set(problems)) >= 2
        assert max(map(problems.count, problems)) <= 0.7 * len(problems)


def of_index(path: Path) -> dict[str, str]:
    """By source key, the QI group."""
    index = pd.read_csv(path, dtype=str).dropna()
    return dict(zip(index.iloc[:, 0], index.iloc[:, 1], strict=True))


def written_to(folder: Path, table: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    meant, written = people(seed)
    (folder / "table.yaml").write_text(table)
    (folder / "problems.csv").write_text("".join(f"{problem};*\n" for problem in PROBLEMS))
    written.to_csv(folder / "rows.csv", index=False)
    return meant, written


@pytest.mark.parametrize("algorithm", ["ordered", "mondrian", "ola", "bottom-up"])
@pytest.mark.parametrize("seed", range(3))
def test_of_a_whole_table(tmp_path: Path, algorithm: str, seed: int) -> None:
    meant, written = written_to(tmp_path, FREE, seed)
    out, index = tmp_path / "out.csv", tmp_path / "index.csv"
    found = answer(
        "anonymize", "--table", tmp_path, tmp_path / "rows.csv", "-o", out, "--algorithm", algorithm, "--index", index
    )
    assert_groups_hold(meant, of_index(index))
    assert sorted(pd.read_csv(out, dtype=str)["problem"]) == sorted(written["problem"])
    assert len(found["warnings"]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_of_a_stream_and_its_initial_table(tmp_path: Path, seed: int) -> None:
    meant, written = written_to(tmp_path, FREE, seed)
    rows = written.to_dict("records")
    (tmp_path / "first.csv").write_text(written[:20].to_csv(index=False))
    inserts = [{"op": "insert", "row": row} for row in rows[20:]]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(message) + "\n" for message in inserts))
    call = ("replay", "--table", tmp_path, tmp_path / "events.jsonl", "--initial", tmp_path / "first.csv")
    assert answer(*call, "--out", tmp_path / "out")["dead_letters"] == 0
    assert_groups_hold(meant, of_index(tmp_path / "out" / "index.csv"))
    verified = streamer("verify", "--table", tmp_path, tmp_path / "out" / "live.jsonl", "--events", call[3], *call[4:])
    assert verified.exit_code == 0, verified.output


def test_a_category_in_another_spelling_is_published_as_the_leaf_that_it_is(tmp_path: Path) -> None:
    meant, _ = written_to(tmp_path, TABLE, 0)
    _, written = people(0)
    written["problem"] = [problem.replace(".0", "") for problem in written["problem"]]  # a code is not rounded
    written.to_csv(tmp_path / "rows.csv", index=False)
    answer("anonymize", "--table", tmp_path, tmp_path / "rows.csv", "-o", tmp_path / "out.csv")
    assert sorted(pd.read_csv(tmp_path / "out.csv", dtype=str)["problem"]) == sorted(meant["problem"])


def test_verify_finds_a_group_of_one_value_in_several_spellings(tmp_path: Path) -> None:
    demanding = FREE.replace("individual: person\n", "").replace(", beta: 0.7", "")
    (tmp_path / "table.yaml").write_text(demanding.replace(", l: 2", ""))
    rows = [{"id": str(i), "age": 1, "problem": text} for i, text in enumerate(("HIV", "HIV ", "hiv"))]
    events, out = tmp_path / "events.jsonl", tmp_path / "out"
    events.write_text("".join(json.dumps({"op": "insert", "row": row}) + "\n" for row in rows))
    answer("replay", "--table", tmp_path, events, "--out", out)
    assert streamer("verify", "--table", tmp_path, out / "live.jsonl").exit_code == 0
    (tmp_path / "table.yaml").write_text(demanding)
    refused = streamer("verify", "--table", tmp_path, out / "live.jsonl")
    assert refused.exit_code != 0
    assert "1 distinct value of problem other than null is fewer than 2" in refused.output
