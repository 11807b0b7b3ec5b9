"""Raw values stay inside: canaries in every private place of the input must not come out anywhere.

Private are source keys, individuals, columns that table.yaml does not name, the shard's secret, and whatever stands in
a refused message.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamer.cli.main import main

TABLE_YAML = """\
table: patients
key: [ward_id, bed_id]
individual: ssn
columns:
  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 10}
  bmi: {role: quasi-identifier, type: decimal, domain: [10, 80], grid: 5}
  problem: {role: sensitive}
privacy: {k: 2}
publish:
  live: {form: rows}
"""


class Canaries:
    """Texts and numbers that occur nowhere else."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.all: list[str] = []

    def text(self) -> str:
        self.all.append("canary" + self._rng.randbytes(6).hex())
        return self.all[-1]

    def digits(self, n: int = 12) -> str:
        self.all.append("".join(self._rng.choice("123456789") for _ in range(n)))
        return self.all[-1]


def good_row(canaries: Canaries, rng: random.Random) -> dict:
    return {
        "ward_id": canaries.text(),
        "bed_id": int(canaries.digits()),
        "ssn": canaries.text(),
        "name": canaries.text(),  # not in table.yaml
        "age": rng.randrange(120),
        "bmi": float(f"{rng.randrange(10, 80)}.{canaries.digits(9)}"),
        "problem": rng.choice(["flu", "cough"]),
    }


def events(canaries: Canaries, rng: random.Random) -> list[str]:
    rows = [good_row(canaries, rng) for _ in range(60)]
    lines: list[str] = [json.dumps({"op": "insert", "row": row}) for row in rows]
    keys = [{"ward_id": row["ward_id"], "bed_id": row["bed_id"]} for row in rows]
    lines += [json.dumps({"op": "delete", "key": key}) for key in keys[:10]]
    lines += [
        json.dumps({"op": "modify", "key": key, "row": {"bmi": float("33." + canaries.digits(9))}})
        for key in keys[10:20]
    ]
    row = rows[30]
    lines += [
        json.dumps({"op": "insert", "row": row}),  # key exists
        json.dumps({"op": "delete", "key": keys[0]}),  # key unknown
        json.dumps({"op": canaries.text(), "row": row}),
        json.dumps({canaries.text(): canaries.text()}),
        json.dumps({"op": "insert", "row": good_row(canaries, rng) | {"age": canaries.text()}}),
        json.dumps({"op": "insert", "row": good_row(canaries, rng) | {"age": int(canaries.digits())}}),
        json.dumps({"op": "insert", "row": good_row(canaries, rng) | {"bmi": canaries.text()}}),
        json.dumps({"op": "insert", "row": good_row(canaries, rng) | {"ssn": None}}),
        json.dumps({"op": "insert", "row": good_row(canaries, rng) | {"problem": [canaries.text()]}}),
        json.dumps({"op": "modify", "key": keys[31], "row": {"ssn": canaries.text()}}),
        json.dumps({"op": "modify", "key": canaries.text(), "row": {"age": 3}}),
        json.dumps({"op": "delete", "where": f"problem = {canaries.text()}"}),
        json.dumps({"op": "delete", "where": f"{canaries.text()} = 3"}),
        json.dumps({"op": "modify", "where": "age > 3", "set": {"age": f"age + {canaries.digits()}"}}),
        json.dumps({"op": "modify", "where": "age > 3", "set": {canaries.text(): "3"}}),
        json.dumps({"op": "c", "before": None, "after": good_row(canaries, rng) | {"age": "x"}}),
        '{"op": "insert", "row": {"ward_id": "' + canaries.text(),  # cut off
        canaries.text(),
        "\x00" + canaries.text(),
    ]
    return lines


@pytest.mark.parametrize("seed", range(3))
def test_nothing_private_comes_out_anywhere(tmp_path: Path, seed: int) -> None:
    canaries = Canaries(seed)
    lines = events(canaries, random.Random(seed))
    (tmp_path / "table.yaml").write_text(TABLE_YAML)
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    arguments = ["--table", str(tmp_path), "--out", str(tmp_path / "out"), str(tmp_path / "events.jsonl")]
    result = CliRunner().invoke(main, ["replay", "--json", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["dead_letters"] >= 17  # the statement that no row can follow may count as applied
    assert report["events"] == len(lines) == report["applied"] + report["ignored"] + report["dead_letters"]
    outside = result.output + "".join(
        (tmp_path / "out" / name).read_text() for name in ("live.jsonl", "dead-letters.jsonl", "table.csv")
    )
    secret = (tmp_path / "out" / "secret.txt").read_text().strip()
    assert [canary for canary in [*canaries.all, secret] if canary in outside] == []
    private = (tmp_path / "out" / "index.csv").read_text()
    assert any(canary in private for canary in canaries.all)  # the test can see what it looks for
