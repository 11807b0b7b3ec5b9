"""Codes with zeros in front, such as postal ones, are published with all their digits, in every form."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from streamer.errors import ConfigError, LawViolated
from streamer.table.published.rows import RowReader, box_columns, box_text
from streamer.table.published.schemas import TEXT, all_columns
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer

YAML = """
table: people
key: id
columns:
  zip: {{role: quasi-identifier, {zip}}}
privacy: {{k: 2}}
publish: {{live: {{form: rows}}}}
"""
CODES = "type: integer, domain: [0, 99999], grid: 100, written: digits, width: 5"


def loaded(folder: Path, settings: str = CODES) -> Table:
    (folder / "table.yaml").write_text(YAML.format(zip=settings))
    return load_table(folder)


def test_an_interval_of_codes_keeps_the_zeros_in_messages_and_is_read_back(tmp_path: Path) -> None:
    table = loaded(tmp_path)
    assert box_columns(table.attributes[0], 10, 813) == {"zip_lo": "01000", "zip_hi": "81399"}
    row = b'{"qi_group":"0-1"' + box_text(table, (10,), (813,)) + b"}"
    assert row == b'{"qi_group":"0-1","zip_lo":"01000","zip_hi":"81399"}'
    read = RowReader(table).read(row)
    assert (read.lo, read.hi) == ((10,), (813,))


@pytest.mark.parametrize("ends", ['"1000","zip_hi":"81399"', '1000,"zip_hi":81399', '"01001","zip_hi":"81399"'])
def test_a_published_code_with_other_digits_is_none(tmp_path: Path, ends: str) -> None:
    with pytest.raises(LawViolated):
        RowReader(loaded(tmp_path)).read(b'{"qi_group":"0-1","zip_lo":' + ends.encode() + b"}")


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_files_hold_codes_as_texts(tmp_path: Path, out: str) -> None:
    loaded(tmp_path)
    (tmp_path / "rows.csv").write_text("id,zip\n1,01067\n2,01069\n3,81369\n4,81371\n")
    done = streamer("anonymize", "--table", tmp_path, tmp_path / "rows.csv", "-o", tmp_path / out)
    assert done.exit_code == 0, done.output
    path = tmp_path / out
    frame = pd.read_csv(path, dtype=str) if path.suffix == ".csv" else pd.read_parquet(path)
    assert frame["zip_lo"].tolist() == ["01000", "01000", "81300", "81300"]
    assert frame["zip_hi"].tolist() == ["01099", "01099", "81399", "81399"]


def test_the_other_side_gets_a_column_of_texts_and_the_state_another_fingerprint(tmp_path: Path) -> None:
    table, before = loaded(tmp_path), loaded(tmp_path, CODES.removesuffix(", width: 5"))
    assert [column.type for column in all_columns(table) if column.name.startswith("zip")] == [TEXT, TEXT]
    assert table.differences(before.fingerprint).parts == ("columns",)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (CODES.replace("width: 5", "width: 4"), "width: is less than the digits of the domain's ends; at least 5"),
        ("type: decimal, domain: [0, 9], grid: 1, width: 5", "width: is only for `type: integer`"),
        ("hierarchy: zip.csv, width: 5", "width: is only for `type: integer`"),
        (CODES.replace("width: 5", "width: 0"), "width: must be at least 1"),
    ],
)
def test_a_width_that_means_nothing_is_refused(tmp_path: Path, settings: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, settings)
