"""README.md and ARCHITECTURE.md tell what is: their commands run, their files exist, their numbers are the code's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from agents.cli import main
from benchmarks import readme
from docs.generate.commands import all_commands
from streamer.incremental.events.decoder import Decoder
from streamer.table.published import box_columns
from streamer.table.schema import Limits
from streamer.table.yaml_loading import load_table
from worlds.checkout import ROOT
from worlds.command_lines import check_options

README = (ROOT / "README.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "streamer" / "ARCHITECTURE.md").read_text("utf-8")
RUNS_ALONE = "<!-- runs: no servers -->\n"

COMPILING_SECONDS_MAX = 400
"""All algorithms are compiled on the way, where the machine has not done so yet: a minute of two idle cores."""


def blocks(language: str, text: str = README) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def command_lines() -> Iterator[str]:
    """Every call of `streamer` in README: lines of its shell blocks, and words in backticks."""
    for block in blocks("sh"):
        for line in block.splitlines():
            yield from re.findall(r"(?:^|&& )(streamer [^&|#]*)", line)
    yield from re.findall(r"`(streamer [a-z][^`]*)`", re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S))


@pytest.mark.parametrize("line", sorted({line.strip() for line in command_lines()}))
def test_every_command_line_is_a_real_one(line: str) -> None:
    check_options(line)


def test_enough_command_lines_are_found_for_this_to_mean_something() -> None:
    assert len(set(command_lines())) >= 12


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_every_command_is_mentioned_and_has_help(name: str) -> None:
    assert re.search(rf"streamer {name}\b|`{name}\b|make {name}\b", README), f"README.md does not mention {name}"
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 3


def test_every_make_target_is_a_real_one() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    lines = [line.partition("#")[0] for block in blocks("sh") for line in block.splitlines()]
    asked = {word for line in lines if line.startswith("make") for word in line.split()[1:] if "=" not in word}
    assert asked <= targets
    assert {"demo", "test"} <= asked


@pytest.mark.slow
@pytest.mark.timeout(COMPILING_SECONDS_MAX + 60)
def test_the_blocks_that_need_no_server_run_as_they_stand(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    streamer = binaries / "streamer"
    streamer.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agents.cli "$@"\n', "utf-8")
    streamer.chmod(0o755)
    alone = [block for block in blocks("sh") if f"{RUNS_ALONE}```sh\n{block}" in README]
    assert len(alone) == 3
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "KAFKA_BOOTSTRAP": "127.0.0.1:1", "REDIS_URL": "redis://:1"}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(alone)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMPILING_SECONDS_MAX,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "every law holds" in run.stdout


def test_its_table_yaml_is_that_of_the_example(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "patients", tmp_path / "mine")
    block, *_ = blocks("yaml")
    (tmp_path / "mine" / "table.yaml").write_text(block, "utf-8")
    assert load_table(tmp_path / "mine").fingerprint == load_table(ROOT / "examples" / "patients").fingerprint


def test_settings_that_it_calls_defaults_are_the_defaults(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "patients", tmp_path / "mine")
    block, *others = blocks("yaml")
    defaults = [other for other in others if "these are the defaults" in other]
    assert defaults
    (tmp_path / "mine" / "table.yaml").write_text("\n".join([block, *defaults]), "utf-8")
    said, silent = load_table(tmp_path / "mine"), load_table(ROOT / "examples" / "patients")
    assert (said.fingerprint, said.rebuilding) == (silent.fingerprint, silent.rebuilding)


def test_its_columns_of_dates_are_columns_of_a_table(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "patients", tmp_path / "mine")
    block, *others = blocks("yaml")
    (dates,) = (other for other in others if "type: date" in other)
    (tmp_path / "mine" / "table.yaml").write_text(block.replace("columns:\n", f"columns:\n{dates}"), "utf-8")
    table = load_table(tmp_path / "mine")
    assert [attribute.name for attribute in table.attributes[:2]] == ["born", "seen"]
    published = msgspec.json.encode(box_columns(table.attributes[0], 16, 16)).decode().strip("{}")
    assert f"(`{published}`)" in README


def test_its_messages_are_valid_for_that_table() -> None:
    decoder = Decoder(load_table(ROOT / "examples" / "patients"))
    (block,) = blocks("json")
    for line in block.splitlines():
        decoder.decode(None, line.encode())


def test_figures_come_from_benchmarks_that_exist() -> None:
    figures = README.partition("## Figures")[2].partition("## ")[0]
    rows = [line for line in figures.splitlines() if re.search(r"\d ×|p50|\d to \d", line)]
    assert len(rows) >= 4
    for row in rows:
        assert [(ROOT / name).is_file() for name in re.findall(r"`(benchmarks/\S+\.py)`", row)] == [True], row


def test_its_sentences_on_whole_tables_are_those_of_the_benchmark() -> None:
    """`python benchmarks/batch.py --readme` writes them."""
    found = json.loads((ROOT / "docs" / "benchmarks" / "batch.json").read_bytes())
    assert readme.written_into(README, found) == README


def test_its_sentences_follow_the_benchmark() -> None:
    found = json.loads((ROOT / "docs" / "benchmarks" / "batch.json").read_bytes())
    for loss in found["losses"]:
        loss["ncp"] = 0.1234
    assert "an NCP of 0.123" in readme.written_into(README, found)


def test_a_sentence_without_its_place_is_told() -> None:
    found = json.loads((ROOT / "docs" / "benchmarks" / "batch.json").read_bytes())
    with pytest.raises(ValueError, match="0 lines that begin with"):
        readme.written_into(README.replace(readme.OPENING, "Whatever"), found)


def test_links_lead_somewhere() -> None:
    files = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(files) >= 2
    assert [name for name in files if not (ROOT / name).is_file()] == []
    headings = re.findall(r"^#+ (.*)$", README, re.M)
    anchors = {re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors


def test_the_files_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.(?:py|md)|(?:\w+/)+)`", ARCHITECTURE))
    assert len(named) > 15
    assert {name for name in named if not ((ROOT / name).exists() or (ROOT / "streamer" / name).exists())} == set()


def test_the_limits_of_the_architecture_are_those_of_the_code() -> None:
    limits = Limits()
    told = re.findall(r"^\| `(\w+)` \| ([\d,.]+)", ARCHITECTURE, re.M)
    assert {name: float(value.replace(",", "")) for name, value in told} == {
        name: getattr(limits, name) for name in limits.__dataclass_fields__
    }


def test_its_messy_columns_are_columns_of_a_table(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "patients", tmp_path / "mine")
    shutil.copy(tmp_path / "mine/hierarchies/sex.csv", tmp_path / "mine/hierarchies/job.csv")
    block, *others = blocks("yaml")
    (messy,) = (other for other in others if other.startswith("na:"))
    (tmp_path / "mine" / "table.yaml").write_text(block.replace("columns:\n", messy), "utf-8")
    table = load_table(tmp_path / "mine")
    assert [attribute.name for attribute in table.attributes[:3]] == ["cost", "postal", "job"]
    assert {text.written for text in table.source_texts} == {None, "1,234.5", "digits"}
