"""The rows of a file, part by part, each in the shard that gets its messages."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from streamer.engines.pool import ProcessPool, private_folder
from streamer.errors import ConfigError
from streamer.incremental.events.key_form import BARE, AnyKeyForm, KeyContract, KeyForm, default_form, shard_of
from streamer.loading import waiting_rows
from streamer.loading.waiting_rows import OwnFile, WaitingRows, at_executors, by_shard, route_all
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.sources import RowSource, read_rows
from streamer.table.stray_rows import judged
from worlds.small_tables import YEARS, table

PEOPLE = table(YEARS, k=2)
JSON_FORM = default_form(("ward", "number"))


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_rows, "PART_ROWS", 7)


@contextmanager
def routed(
    path: Path, shards: int = 1, form: AnyKeyForm | None = None, chosen: Any = None, of: Table = PEOPLE
) -> Iterator[WaitingRows]:
    with closing(OwnFile()) as spill:
        rows = WaitingRows(of, frozenset(range(shards) if chosen is None else chosen), spill)
        route_all(rows, RowSource(str(path)), form or (BARE if shards > 1 else None), shards)
        yield rows


def written(path: Path, keys: list[object]) -> Path:
    lines = (f"{key},{i % 10},{'flu' if i % 3 else ''}" for i, key in enumerate(keys))
    path.write_text("\n".join(["id,years,problem", *lines, ""]))
    return path


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_row_lies_where_its_messages_are_accepted(tmp_path: Path, shards: int, n: int, suffix: str) -> None:
    file = written(tmp_path / "rows.csv", list(range(n)))
    if suffix == ".parquet":
        pd.read_csv(file, dtype={"id": str}).to_parquet(file := tmp_path / "rows.parquet", row_group_size=5)
    whole = Encoder(PEOPLE).frame(read_rows(file))
    expected = dict(zip(whole.source_keys, whole.rows(), strict=True))
    with routed(file, shards) as rows:
        assert rows.counted.n_read == rows.counted.n_chosen == n
        found = [rows.of(shard) for shard in range(shards)]
    assert sorted(key for rows in found for key in rows.source_keys) == sorted(expected)
    for shard, one in enumerate(found):
        assert one.source_keys == sorted(one.source_keys, key=int), "in the order of the file"
        for source_key, row in zip(one.source_keys, one.rows(), strict=True):
            KeyContract(PEOPLE, shard).check_partition(source_key.encode(), shards)
            assert row == expected[source_key]


def test_only_the_chosen_shards_rows_are_kept_and_all_are_checked(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.csv", list(range(40)))
    with routed(file, 3, chosen=[1]) as rows:
        assert [len(rows.of(shard).source_keys) > 0 for shard in range(3)] == [False, True, False]
        assert rows.counted.n_read == 40 and rows.counted.n_chosen == len(rows.of(1).source_keys)
    elsewhere = next(key for key in range(40) if shard_of(b"%d" % key, 3) != 1)
    file.write_text(file.read_text().replace(f"\n{elsewhere},", f"\n{elsewhere},1"))  # its years are out of range
    with pytest.raises(ConfigError, match=f"data row {elsewhere + 1}: "), routed(file, 3, chosen=[1]):
        pass


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("again", [3, 30])
def test_a_key_that_comes_again_in_the_same_part_or_in_a_later_one_is_told_by_its_line(
    tmp_path: Path, shards: int, again: int
) -> None:
    keys: list[object] = [*range(40)]
    keys[again] = 1
    with (
        pytest.raises(ConfigError, match=rf"^data row {again + 1}: an earlier row has the same key \(id\)$"),
        routed(written(tmp_path / "rows.csv", keys), shards) as rows,
    ):
        for shard in range(shards):
            rows.of(shard)


def test_rows_without_a_key_are_numbered_through_all_parts(tmp_path: Path) -> None:
    keyless = Table("people", (), (YEARS,), PEOPLE.kept, k=2)
    with routed(written(tmp_path / "rows.csv", list(range(20))), of=keyless) as rows:
        assert rows.of(0).source_keys == [str(number) for number in range(1, 21)]


def test_the_form_of_the_keys_decides_about_the_shard() -> None:
    (where,) = (shard for shard, found in enumerate(by_shard(['["B","3"]'], JSON_FORM, 7)) if len(found))
    assert where == shard_of(b'{"ward":"B","number":"3"}', 7)


def test_a_key_that_the_input_cannot_write_is_told_by_its_line(tmp_path: Path) -> None:
    numbers = KeyForm("json:number", (b"", b""), ((0, "number"),))
    file = written(tmp_path / "rows.csv", [*range(9), "nine"])
    with (
        pytest.raises(ConfigError, match="data row 10: its key cannot be written as json:number"),
        routed(file, 3, numbers),
    ):
        pass


def test_a_file_without_rows_is_taken_for_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no rows"), routed(written(tmp_path / "rows.csv", [])):
        pass
    pd.DataFrame({"id": [], "years": [], "problem": []}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match="holds no rows"), routed(tmp_path / "rows.parquet"):
        pass


@pytest.mark.parametrize("shards", [1, 2])
def test_how_keys_and_values_are_spelt_is_counted_over_all_parts(tmp_path: Path, shards: int) -> None:
    file = written(tmp_path / "rows.csv", [f"{i}.0" for i in range(20)])
    file.write_text(file.read_text().replace("flu\n", "Flu \n", 3))
    with routed(file, shards) as rows:
        assert rows.counted.keys == {"id": "point"}
        assert rows.counted.spelt == {"problem": (2, 1)}
    with routed(written(tmp_path / "rows.csv", [*range(20)])) as rows:
        assert (rows.counted.keys, rows.counted.spelt) == ({}, {})


def test_what_waits_is_in_a_file_that_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(waiting_rows, "SPILL_IN_MEMORY_BYTES", 10)
    with closing(OwnFile()) as spill:
        for piece in ("a" * 100, "b" * 100):
            spill.add(3, piece)
        assert list(spill.of(3)) == ["a" * 100, "b" * 100] and list(spill.of(0)) == []
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_with_the_variable_that_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_rows, "SPILL_IN_MEMORY_BYTES", 10)

    def full(_: bytes) -> int:
        raise OSError(28, "No space left on device")

    with closing(OwnFile()) as spill:
        monkeypatch.setattr(spill, "_file", SimpleNamespace(write=full, seek=lambda *_: 0))
        with pytest.raises(ConfigError, match="No space left on device; give the variable TMPDIR"):
            spill.add(0, "x" * 100)


def test_a_machine_without_a_folder_for_temporary_files_is_told_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting_rows, "SPILL_IN_MEMORY_BYTES", 10)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/dev/null/nowhere"])
    with closing(OwnFile()) as spill, pytest.raises(ConfigError, match="give the variable TMPDIR a folder"):
        spill.add(0, "x" * 100)


def test_executors_leave_the_same_rows_in_a_folder_that_all_see(tmp_path: Path) -> None:
    pd.read_csv(written(tmp_path / "rows.csv", list(range(60))), dtype={"id": str}).to_parquet(
        file := tmp_path / "rows.parquet", row_group_size=9
    )
    with private_folder(tmp_path / "spill", b"job"), ProcessPool(tmp_path / "spill", 2) as pool:
        rows = WaitingRows(PEOPLE, frozenset(range(3)), at_executors(pool, tmp_path / "spill").rows)
        route_all(rows, RowSource(str(file)), BARE, 3, pool)
        with routed(file, 3) as here:
            assert rows.counted == here.counted
            for shard in range(3):
                found, expected = rows.of(shard), here.of(shard)
                assert (found.source_keys, found.rows()) == (expected.source_keys, expected.rows())
    assert not (tmp_path / "spill").exists()


@pytest.mark.parametrize(("more", "few"), [(16_000, 3_000), pytest.param(40_000, 4_000, marks=pytest.mark.night)])
def test_memory_holds_a_part_of_the_file_and_not_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, few: int
) -> None:
    monkeypatch.setattr(waiting_rows, "PART_ROWS", 1_000)
    monkeypatch.setattr(waiting_rows, "SPILL_IN_MEMORY_BYTES", 10)

    def peak(n: int) -> int:
        file = written(tmp_path / f"{n}.csv", list(range(n)))
        gc.collect()
        tracemalloc.start()
        with routed(file, 4):
            most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(1_000)
    assert peak(more) < 2 * peak(few)


def test_rows_that_seem_to_be_no_data_are_counted_over_the_parts(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.csv", list(range(30)))
    file.write_text(f"All of 2025\n{file.read_text()}Total,3,flu\n")
    with routed(file) as rows:
        assert judged(rows.counted.stray, rows.counted.n_read) == {30: "a total"}
        assert rows.counted.titles == "line 1 was skipped as a title, and line 2 was taken for the header"
