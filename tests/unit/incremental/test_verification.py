"""A whole changelog held to its laws from Python: what `streamer verify` finds, as values and errors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from streamer.cli.main import main
from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.incremental.verification import verify
from streamer.recoding.frame import anonymize
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The changelog of a replay of the example."""
    folder = tmp_path_factory.mktemp("replayed")
    files = [str(PATIENTS / "events.jsonl"), "--initial", str(PATIENTS / "rows.csv"), "--out", str(folder)]
    result = CliRunner().invoke(main, ["replay", "--table", str(PATIENTS), *files])
    assert result.exit_code == 0, result.output
    return folder / "live.jsonl"


def test_it_finds_what_the_command_finds(live: Path) -> None:
    result = CliRunner().invoke(main, ["verify", "--table", str(PATIENTS), str(live), "--json"])
    assert {"ok": True, **asdict(verify(PATIENTS, live))} == json.loads(result.output)


def test_a_table_is_named_by_its_folder_its_file_or_itself(live: Path) -> None:
    found = [verify(table, str(live)) for table in (str(PATIENTS), PATIENTS / "table.yaml", load_table(PATIENTS))]
    assert found[0] == found[1] == found[2]
    assert found[0].rows > 0


def test_a_changelog_in_parts_is_one(live: Path, tmp_path: Path) -> None:
    lines = live.read_text().splitlines(keepends=True)
    parts = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for path, part in zip(parts, (lines[:20], lines[20:]), strict=True):
        path.write_text("".join(part))
    assert verify(PATIENTS, *parts) == verify(PATIENTS, live)


def test_a_broken_law_is_an_error_in_words(live: Path, tmp_path: Path) -> None:
    (tmp_path / "live.jsonl").write_text("".join(live.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(LawViolated, match="release"):
        verify(PATIENTS, tmp_path / "live.jsonl")


def test_where_there_is_no_record_nothing_was_proved(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UsageError, match=r"empty.jsonl: there is no record"):
        verify(PATIENTS, tmp_path / "empty.jsonl")
    with pytest.raises(UsageError, match="no file was named"):
        verify(PATIENTS)
    with pytest.raises(ConfigError, match="cannot be read"):
        verify(PATIENTS, tmp_path / "missing.jsonl")


# -- whole tables whose columns are published otherwise, or compared with the whole table ------------------------------

FORTY = pd.DataFrame(
    {"id": range(40), "age": [i % 20 for i in range(40)], "problem": ["flu", "ulcer", "burn", "cold"] * 10}
)


def of_forty(**problem: object) -> dict[str, object]:
    age = {"role": "quasi-identifier", "type": "integer", "domain": [0, 99]}
    columns = {"age": age, "problem": {"role": "sensitive"} | problem}
    publish = {"live": {"form": "rows"}}
    return {"table": "forty", "key": "id", "privacy": {"k": 2}, "columns": columns, "publish": publish}


def test_a_whole_table_is_as_close_to_itself_as_it_promises() -> None:
    published, index = anonymize(FORTY, of_forty(t=0.4), return_index=True)
    assert verify(published, of_forty(t=0.4)).laws == 10
    assert verify(published, of_forty(t=0.4), source=FORTY, index=index).laws == 15
    torn = published.assign(problem=sorted(published["problem"]))
    with pytest.raises(LawViolated, match="distance from the whole table"):
        verify(torn, of_forty(t=0.1))


@pytest.mark.filterwarnings("ignore::streamer.errors.PrivacyWarning")
def test_pseudonyms_are_read_back_as_they_were_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, digits in (("readers.key", "5e"), ("others.key", "77")):
        (tmp_path / name).write_text(digits * 32)
        (tmp_path / name).chmod(0o600)
    table = of_forty(l=2, publish={"pseudonym": "readers.key"})
    published, index = anonymize(FORTY, table, return_index=True)
    assert verify(published, table, source=FORTY, index=index).laws == 15
    with pytest.raises(LawViolated):
        verify(published, of_forty(l=2, publish={"pseudonym": "others.key"}), source=FORTY, index=index)
