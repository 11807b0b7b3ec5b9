"""A changelog in files: whatever wrote the JSON, shards in any mixture, a line that is no record told by its number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.incremental.live_files import read_files, read_live
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS

TABLE = load_table(PATIENTS)


def line(shard: int, slot: int, value: object = None, **more: object) -> str:
    key = {"slot": slot, "qi_group": f"{shard}-1"}  # another order of members than ours
    return json.dumps({"shard": shard, "release": 1, "through": 9, "value": value, "key": key, **more}, indent=None)


def test_records_come_in_the_order_of_the_lines_with_keys_written_our_way(tmp_path: Path) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text("\n".join([line(0, 1, {"a": 1}), "", line(1, 1), line(0, 2, part="2/3")]))
    records = list(read_live(path, TABLE))
    assert [(r.shard, r.release, r.through) for r in records] == [(0, 1, 9), (1, 1, 9), (0, 1, 9)]
    assert records[0].key == b'{"qi_group":"0-1","slot":1}'
    assert [r.value for r in records] == [b'{"a": 1}', None, None]
    assert [r.part for r in records] == [None, None, (2, 3)]


@pytest.mark.parametrize("text", ["{}", "nothing", '{"shard":0}'])
def test_a_line_that_is_no_record_is_told_by_its_number_and_how_one_looks(tmp_path: Path, text: str) -> None:
    path = tmp_path / "live.jsonl"
    path.write_text(line(0, 1) + "\n" + text)
    with pytest.raises(ConfigError, match=r'live.jsonl, line 2: is not of the form .*"qi_group":"0-17","slot":3'):
        list(read_live(path, TABLE))


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    paths = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for shard, path in enumerate(paths):
        path.write_text("\n".join([line(shard, slot) for slot in range(3)]))
    assert [r.shard for r in read_files(paths, TABLE)] == [0] * 3 + [1] * 3


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing.jsonl: cannot be read"):
        list(read_live(tmp_path / "missing.jsonl", TABLE))
