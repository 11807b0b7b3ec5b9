"""The rows of a file, each in the shard that gets its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.cli.stream.bootstrap import assumed_form, by_shard, routed_file
from streamer.errors import ConfigError, UsageError
from streamer.incremental.events.key_form import BARE, KeyContract, KeyForm, default_form, shard_of
from streamer.table.encode import EncodedRows
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.sources import RowSource
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=2)
JSON_FORM = default_form(("ward", "number"))


def people(*source_keys: str) -> EncodedRows:
    return EncodedRows.of_rows({key: Row((i % 10,), (b'"%d"' % i,)) for i, key in enumerate(source_keys)}, 1)


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_every_row_lies_where_its_messages_are_accepted(shards: int, n: int) -> None:
    found = by_shard(people(*map(str, range(n))), BARE, shards)
    assert sorted(key for rows in found for key in rows.source_keys) == sorted(map(str, range(n)))
    for shard, rows in enumerate(found):
        for source_key, row in zip(rows.source_keys, rows.rows(), strict=True):
            KeyContract(PEOPLE, shard).check_partition(source_key.encode(), shards)
            assert row == Row((int(source_key) % 10,), (b'"%s"' % source_key.encode(),))


def test_the_form_of_the_keys_decides_about_the_shard() -> None:
    source_key = '["B","3"]'
    (where,) = (shard for shard, rows in enumerate(by_shard(people(source_key), JSON_FORM, 7)) if rows.source_keys)
    assert where == shard_of(b'{"ward":"B","number":"3"}', 7)


def test_a_key_that_the_input_cannot_write_is_told_by_its_line() -> None:
    numbers = KeyForm("json:number", (b"", b""), ((0, "number"),))
    with pytest.raises(ConfigError, match="data row 2: its key cannot be written as json:number"):
        by_shard(people("7", "seven"), numbers, 3)


def test_one_shard_asks_nobody_and_learns_no_form(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,years,problem\n1,3,flu\n2,4,\n")
    routed = routed_file(PEOPLE, RowSource(str(tmp_path / "rows.csv")), "nobody", 1)
    assert ([rows.source_keys for rows in routed.rows], routed.key_form) == ([["1", "2"]], "")


def test_a_file_without_rows_is_taken_for_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,years,problem\n")
    with pytest.raises(ConfigError, match="holds no rows"):
        routed_file(PEOPLE, RowSource(str(tmp_path / "rows.csv")), "nobody", 1)


def test_a_form_that_only_the_shards_remember_is_not_replaced_by_a_guess() -> None:
    with pytest.raises(UsageError, match="know message keys as json-schema:ab"):
        assumed_form(PEOPLE, ["", "json-schema:ab"])
    assert assumed_form(PEOPLE, ["", "bare"]) == BARE


def test_rows_whose_producer_places_them_cannot_be_routed() -> None:
    stated = Table("people", ("id",), (YEARS,), (), k=2, partitioner_stated=True)
    with pytest.raises(UsageError, match="--from-source topic"):
        routed_file(stated, RowSource("rows.csv"), "nobody", 3)
