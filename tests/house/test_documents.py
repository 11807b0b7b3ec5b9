"""The documents tell what is: their links lead somewhere, their blocks run, their columns and messages are a table's.

What they show that needs servers runs in tests/servers/test_documents.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from click.testing import CliRunner

from benchmarks import figures_page
from docs.generate.commands import all_commands
from streamer.cli.main import main
from streamer.incremental.events.decoder import Decoder
from streamer.table.published.rows import box_columns
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS, ROOT, put_streamer
from worlds.documents import (
    ALL,
    BY_HAND,
    block_for,
    blocks,
    blocks_alone,
    blocks_elsewhere,
    calls_in,
    check_options,
    check_whole,
    hints_in,
    name_of,
    shown,
    without_blocks,
)

README_LINES_MAX = 250
BLOCKS_SECONDS_MAX = 240

HISTORY = "docs/explanation/what-a-history-reveals.md"


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def block_of(name: str, language: str, has: str) -> str:
    """The block of a document that has these words; there must be one."""
    (block,) = (block for block in blocks(text_of(name), language) if has in block)
    return block


TABLE_YAML = block_of("docs/tutorial.md", "yaml", "table: patients")
FIGURES = text_of("docs/explanation/figures.md")
FOUND = text_of("docs/benchmarks/batch.json")


def loaded(folder: Path, yaml: str) -> Table:
    """The table that a text of table.yaml makes, beside the example's hierarchies."""
    shutil.copytree(PATIENTS, folder / "mine")
    shutil.copy(folder / "mine/hierarchies/sex.csv", folder / "mine/hierarchies/job.csv")
    (folder / "mine" / "table.yaml").write_text(yaml, "utf-8")
    return load_table(folder / "mine")


# -- what they show --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", BY_HAND, ids=name_of)
def test_a_document_shows_calls_that_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    for block in blocks(text, "sh"):
        for call in calls_in(block):
            check_whole(call)
    for hint in hints_in(without_blocks(text)):
        check_options(hint)


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_every_command_is_in_a_document_that_people_write_and_has_help(name: str) -> None:
    texts = "".join(path.read_text("utf-8") for path in BY_HAND)
    assert re.search(rf"streamer {name}\b|`{name}\b|make {name}\b", texts), f"no document mentions {name}"
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 3


def test_enough_commands_are_found_for_this_to_mean_something() -> None:
    assert len(BY_HAND) >= 14
    assert len(shown()) >= 60


def test_every_make_target_is_a_real_one() -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.M))
    made = [one.text for one in shown() if one.text.startswith("make ")]
    asked = {word for line in made for word in line.split()[1:] if "=" not in word}
    assert asked <= targets
    assert {"demo", "test"} <= asked


@pytest.mark.slow
@pytest.mark.timeout(BLOCKS_SECONDS_MAX + 60)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("README.md", 2),
        ("docs/tutorial.md", 3),
        ("docs/how-to/watching.md", 1),
        pytest.param(HISTORY, 1, marks=pytest.mark.night),
    ],
)
def test_blocks_that_need_no_server_run_as_they_stand(tmp_path: Path, name: str, count: int) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    binaries = put_streamer(tmp_path / ".venv" / "bin")
    alone = blocks_alone(text_of(name))
    assert len(alone) == count
    unreachable = {"KAFKA_BOOTSTRAP": "127.0.0.1:1", "REDIS_URL": "redis://:1"}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(alone)],
        cwd=tmp_path,
        env={**os.environ, **unreachable, "PYTHONPATH": str(ROOT), "PATH": f"{binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=BLOCKS_SECONDS_MAX,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert ("every law holds" in run.stdout) == (name == "docs/tutorial.md")
    if name == HISTORY:  # what it prints but the number of records, which differs with each secret
        said, printed = (
            {line[:62] for line in text.splitlines() if "." in line[25:62]} for text in (text_of(name), run.stdout)
        )
        assert len(printed & said) == 3, "the table of three ways to publish"


@pytest.mark.slow
def test_the_readmes_python_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PATIENTS, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"frame": pd.read_csv(tmp_path / "mine" / "rows.csv")}
    exec(block_of("README.md", "python", "import streamer"), names)
    published = names["published"]
    assert published.groupby("qi_group").size().min() >= 5
    assert published.attrs["measures"]
    for name in set(re.findall(r"`streamer\.(\w+)\(", text_of("README.md"))):
        assert callable(getattr(names["streamer"], name))


def test_no_other_document_has_blocks_that_no_one_runs() -> None:
    with_blocks = [name_of(path) for path in BY_HAND if blocks_alone(path.read_text("utf-8"))]
    assert sorted(with_blocks) == sorted(["README.md", "docs/tutorial.md", "docs/how-to/watching.md", HISTORY])


@pytest.mark.parametrize("path", BY_HAND, ids=name_of)
def test_a_block_is_run_by_a_test_that_names_its_page_or_line_by_line(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "no-run" not in text
    for test, _ in blocks_elsewhere(text):
        assert name_of(path) in text_of(test), test


@pytest.mark.night
@pytest.mark.timeout(BLOCKS_SECONDS_MAX + 60)
def test_the_printed_calls_of_tests_find_some() -> None:
    """They are collected, not run: they are tests themselves. One process for all imports each of them once."""
    calls = [shlex.split(line, comments=True) for line in block_for(__file__, "docs/how-to/developing.md").splitlines()]
    asked = [[*words[words.index(".venv/bin/pytest") + 1 :], "--collect-only", "-qq"] for words in calls]
    collect = f"import pytest; print(*[int(pytest.main(words)) for words in {asked}])"
    run = subprocess.run(
        [sys.executable, "-c", collect], cwd=ROOT, capture_output=True, text=True, timeout=BLOCKS_SECONDS_MAX
    )
    assert run.stdout.splitlines()[-1].split() == ["0"] * len(calls), run.stdout + run.stderr


def test_developing_names_the_files_that_are_touched() -> None:
    """A row's example is in every file of the row, in any writing; a file is named from the root of the checkout."""
    section = text_of("docs/how-to/developing.md").partition("\n## Which files do I touch?\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 30
    missing = [
        f"{example}: {name}"
        for _, example, files in rows
        for name in re.findall(r"`([^`]+/[^`]+\.\w+)`", files)
        if plain(example.strip("`")) not in plain(text_of(name))
    ]
    assert missing == []


def plain(text: str) -> str:
    """A text without capitals, line breaks, and differences of blanks, - and _."""
    return re.sub(r"[\s_]+", "-", text.lower())


# -- links -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_links_of_a_document_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def anchors_of(path: Path) -> set[str]:
    """What links may name in a document: its headings, as the web shows them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_map_leads_to_every_document() -> None:
    linked = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text_of("docs/README.md"))}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - linked == {"README.md"}


def test_files_of_the_code_and_of_examples_that_name_a_document_name_one_that_exists() -> None:
    named = {
        (name_of(path), name)
        for folder in ("streamer", "agents", "examples", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".py", ".sh", ".yaml", ".md"}
        for name in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text("utf-8"))
    }
    assert len(named) >= 4
    assert [(file, name) for file, name in named if not (ROOT / name).is_file()] == []


# -- columns, messages, settings ---------------------------------------------------------------------------------------


def test_the_tutorials_table_yaml_is_that_of_the_example(tmp_path: Path) -> None:
    assert loaded(tmp_path, TABLE_YAML).fingerprint == load_table(PATIENTS).fingerprint


def test_the_tutorials_messages_are_valid_for_that_table() -> None:
    decoder = Decoder(load_table(PATIENTS))
    for line in block_of("docs/tutorial.md", "json", '"op"').splitlines():
        decoder.decode(None, line.encode())


def test_settings_that_are_called_defaults_are_the_defaults(tmp_path: Path) -> None:
    defaults = block_of("docs/how-to/rebuilding.md", "yaml", "these are the defaults")
    said, silent = loaded(tmp_path, f"{TABLE_YAML}\n{defaults}"), load_table(PATIENTS)
    assert (said.fingerprint, said.rebuilding) == (silent.fingerprint, silent.rebuilding)


def test_columns_of_dates_are_columns_of_a_table(tmp_path: Path) -> None:
    dates = block_of("docs/how-to/dates.md", "yaml", "type: date")
    table = loaded(tmp_path, TABLE_YAML.replace("columns:\n", f"columns:\n{dates}"))
    assert [attribute.name for attribute in table.attributes[:2]] == ["born", "seen"]
    published = msgspec.json.encode(box_columns(table.attributes[0], 16, 16)).decode().strip("{}")
    assert f"(`{published}`)" in text_of("docs/how-to/dates.md")


def test_messy_columns_are_columns_of_a_table(tmp_path: Path) -> None:
    messy = block_of("docs/how-to/messy-files.md", "yaml", "na:")
    table = loaded(tmp_path, TABLE_YAML.replace("columns:\n", messy))
    assert [attribute.name for attribute in table.attributes[:3]] == ["cost", "postal", "job"]
    assert {text.written for text in table.source_texts} == {None, "1,234.5", "digits"}


@pytest.mark.night
@pytest.mark.timeout(BLOCKS_SECONDS_MAX + 60)
def test_disguised_columns_are_published_as_the_page_says(tmp_path: Path) -> None:
    page = "docs/how-to/pseudonyms.md"
    shown_yaml = block_of(page, "yaml", "publish:").splitlines(keepends=True)
    own = "".join(line for line in TABLE_YAML.splitlines(keepends=True) if "problem:" not in line)
    loaded(tmp_path, TABLE_YAML)
    (tmp_path / "mine" / "table.yaml").write_text(own.replace("columns:\n", f"columns:\n{''.join(shown_yaml)}"))
    rows = pd.read_csv(tmp_path / "mine" / "rows.csv", dtype=str)
    rows.assign(since="2024-02-29").to_csv(tmp_path / "mine" / "rows.csv", index=False)
    (tmp_path / "names.txt").write_text("7\n")
    binaries = put_streamer(tmp_path / ".venv" / "bin")
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block_for(__file__, page)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=BLOCKS_SECONDS_MAX,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    published = pd.read_csv(tmp_path / "out.csv", dtype=str)
    *_, one, again = run.stdout.split()
    assert one == again and one in set(published["id"])
    assert "respiratory" in set(published["problem"]) and "2024-02-29" not in set(published["since"])


# -- figures -----------------------------------------------------------------------------------------------------------


def test_figures_come_from_benchmarks_that_exist() -> None:
    rows = [line for line in FIGURES.splitlines() if re.search(r"^\|.*(\d ×|p50|\d to \d)", line)]
    assert len(rows) >= 4
    for row in rows:
        assert [(ROOT / name).is_file() for name in re.findall(r"`(benchmarks/\S+\.py)`", row)] == [True], row


def test_the_sentences_on_whole_tables_are_those_of_the_benchmark() -> None:
    """`python benchmarks/batch.py --page` writes them."""
    assert figures_page.written_into(FIGURES, json.loads(FOUND)) == FIGURES


def test_the_sentences_follow_the_benchmark() -> None:
    found = json.loads(FOUND)
    for loss in found["losses"]:
        loss["ncp"] = 0.1234
    assert "an NCP of 0.123" in figures_page.written_into(FIGURES, found)


def test_a_sentence_without_its_place_is_told() -> None:
    with pytest.raises(ValueError, match="0 lines that begin with"):
        figures_page.written_into(FIGURES.replace(figures_page.OPENING, "Whatever"), json.loads(FOUND))


def test_the_readmes_figures_are_those_of_the_page() -> None:
    section = text_of("README.md").partition("\n## Figures\n")[2].partition("\n## ")[0]
    figures = re.findall(r"\*\*(.*?)\*\*", section)
    assert len(figures) >= 4
    assert [figure for figure in figures if figure not in FIGURES] == []


# -- the README --------------------------------------------------------------------------------------------------------


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(text_of("README.md").splitlines()) <= README_LINES_MAX
