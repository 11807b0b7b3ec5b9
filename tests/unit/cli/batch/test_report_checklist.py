"""The questions of a data protection officer, put to the text of the report of eight kinds of tables."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from html import unescape
from pathlib import Path

import pytest

from worlds.calls import answer, streamer

ROLES = {
    "key": "key", "name": "stays behind", "years": "quasi-identifier", "zip": "quasi-identifier",
    "illness": "sensitive", "income": "sensitive",
}  # fmt: skip
SETTINGS = """table: people
key: key
individual: {individual}
columns:
  years: {{role: quasi-identifier, type: integer, domain: [0, 99], grid: 1}}
  zip: {{role: quasi-identifier, type: integer, domain: [10000, 99999], grid: 1000}}
  illness: {{role: sensitive}}
  income: {{role: sensitive}}
privacy: {privacy}
publish: {{live: {{form: rows}}}}
"""

EVERY_REPORT = (
    "Every QI group",
    "This was checked on the finished table",
    "Can somebody pick one person's row out of the table?",
    "Can somebody tell that two records, here or in another table, are one person's?",
    "Can somebody learn something of a person without picking out her row?",
    "in the input as published fewest",
    "rows like nobody else's",
    "Another table with names and quasi-identifiers",
    "Columns that tell whose rows they are not published",
    "illness, of a person whose QI group is known",
    "Promised is at least",
    "recital 26 of the GDPR",
    "background knowledge",
    "several releases",
    "whether the roles below are right",
    "Every column of the input.",
    "Purpose of the publication",
    "Recipients, and what else they know",
    "Why these roles",
    "To be reviewed on",
    "Name and office",
    "Signature",
)


@dataclass(frozen=True)
class Kind:
    """One kind of table: its rows, how it is anonymized, and what its report alone must say or must not."""

    rows: list[tuple[int, str, str]]  # years, illness, income
    says: tuple[str, ...]
    says_not: tuple[str, ...] = ()
    privacy: str = "{k: 3}"
    individuals: int | None = None  # so many people; None: table.yaml does not say
    options: tuple[str, ...] = field(default=())


ILLNESSES = ("flu", "ulcer", "burn", "sprain")
PLAIN = [(20 + i // 3 * 9, ILLNESSES[i % 4], f"{20 + i % 2}00.50") for i in range(24)]
SHARED, NOT_SHARED = "there it is known of everybody", "In no QI group do all rows share one value."
UNKNOWN_PEOPLE = "Whose rows they are not known: every row counts as a person"

KINDS = {
    "nulls shared": Kind(
        [(years, "" if years < 40 else illness, "Unknown" if years < 40 else pay) for years, illness, pay in PLAIN],
        ("nobody has a value; readers learn only that.", UNKNOWN_PEOPLE),
        ("illness, of a person whose QI group is known guessed right with 100 %",),
    ),
    "unique values": Kind(
        [(years, illness, f"{1000 + 7 * i}.25") for i, (years, illness, _) in enumerate(PLAIN)],
        (
            "Look at this first",
            "income in 24 of 24 rows (100 %)",
            "cap the highest ones",
            "links that row to that",
            "as they are tell 24 (100 %) of the rows apart from all others",
        ),
    ),
    "individuals": Kind(
        PLAIN,
        ("people at least", "fewest people that are alike", "picks her out of the people of her QI group"),
        (UNKNOWN_PEOPLE,),
        individuals=12,
    ),
    "l-diversity": Kind(
        PLAIN,
        ("limits on sensitive values prevents singling out", "at least 2 distinct values of illness", NOT_SHARED),
        ("sets no limit on sensitive values",),
        privacy="{k: 3, l: 2}",
    ),
    "forms": Kind(
        PLAIN,
        (
            "It does not prevent singling out by quasi-identifiers",
            "Who is in the table not hidden",
            "leads to a person's own quasi-identifiers",
            "Yes, by quasi-identifiers",
        ),
        ("Prosecutor 1 in",),
        privacy="{k: 3, l: 2}",
        options=("--form", "lossy-join"),
    ),
    "suppression": Kind(
        [*PLAIN, (99, "burn", "7777.75")],
        (
            "24 of 25 rows in",
            "as they are tell 0 (0 %) of the rows apart",
            "1 left out",
            "sets no limit on sensitive values",
        ),
        ("Look at this first",),
        options=("--algorithm", "ola", "--suppression", "0.05"),
    ),
    "tiny": Kind(PLAIN[:3], ("3 of 3 rows in 1 QI group;", "1 in 3 at worst"), ("known of everybody in",)),
    "all alike": Kind(
        [(33, "flu", "10.50")] * 6,
        (SHARED, "guessed right with 100 % at worst", "Values that nobody else has none"),
        (NOT_SHARED, "Look at this first"),
    ),
}


def table_of(folder: Path, kind: Kind) -> Path:
    """table.yaml and rows.csv of a kind of table."""
    folder.mkdir()
    individual = "name" if kind.individuals else "null"
    text = SETTINGS.format(individual=individual, privacy=kind.privacy)
    (folder / "table.yaml").write_text(text if kind.individuals else text.replace("individual: null\n", ""))
    with open(folder / "rows.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(ROLES)
        for i, (years, illness, income) in enumerate(kind.rows):
            who = i % kind.individuals if kind.individuals else i
            rows.writerow((f"K-{i:04}", f"Nobody-{who:04}", years, 48_111 + 37 * i, illness, income))
    return folder


def words_of(page: str) -> str:
    """What somebody reads, on one line."""
    text = re.sub(r"<(style|pre)>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split()).replace(" ,", ",").replace(" .", ".")


@pytest.mark.parametrize("name", KINDS)
def test_every_question_of_an_officer_has_its_answer(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    folder = table_of(tmp_path / "people", kind)
    report = tmp_path / "report.html"
    out = ("-o", tmp_path / "out.csv", "--report", report, "--seed", "1")
    said = answer("anonymize", "--table", folder, folder / "rows.csv", *out, *kind.options)
    text = words_of(page := report.read_text())
    assert [question for question in (*EVERY_REPORT, *kind.says) if question not in text] == []
    assert [sentence for sentence in kind.says_not if sentence in text] == []
    for column, role in ROLES.items():
        roles = role if column != "name" or not kind.individuals else "individual"
        assert f"{column} {roles} " in text, column
    published = [Path(path) for path in said["files"] if Path(path) != report]
    for file in (folder / "rows.csv", folder / "table.yaml", *published):
        assert sha256(file.read_bytes()).hexdigest() in page, file.name
    assert json.dumps(said["report"]), "the same content is there for programs"
    seen = "".join(path.read_text() for path in published)
    lines = (folder / "rows.csv").read_text().splitlines()
    hidden = [cell for row in csv.reader(lines) for cell in row if len(cell) > 3]
    hidden = [cell for cell in hidden if cell not in seen and cell not in ROLES and cell != "Unknown"]
    assert hidden, "names, keys and exact places stay behind"
    assert [cell for cell in hidden if cell in page] == []
    assert [cell for cell in ("2000.50", "ulcer") if cell in page] == [], "nor is any value in it"


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_the_report_has_the_hash_of_the_file_that_is_there_whatever_its_format(name: str, tmp_path: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    folder, out = table_of(tmp_path / "people", KINDS["tiny"]), tmp_path / name
    said = answer("anonymize", "--table", folder, folder / "rows.csv", "-o", out, "--report", tmp_path / "r.html")
    assert said["report"]["sha256"]["output"] == {name: sha256(out.read_bytes()).hexdigest()}


def test_what_comes_and_goes_by_pipes_is_hashed_where_it_can_be(tmp_path: Path) -> None:
    folder = table_of(tmp_path / "people", KINDS["tiny"])
    report = tmp_path / "report.html"
    rows = (folder / "rows.csv").read_text()
    result = streamer("anonymize", "--table", folder, "-", "-o", "-", "--report", report, stdin=rows)
    assert result.exit_code == 0, result.output
    page = report.read_text()
    assert sha256(result.stdout_bytes).hexdigest() in page
    assert "input – (no file: it came by a pipe)" in words_of(page)
