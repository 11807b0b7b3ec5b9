"""QI groups of rows that are there: those a shard begins with, and those a rebuild gives it by any algorithm."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from streamer.errors import ConfigError, UsageError
from streamer.grouping import first_groups, groups_by
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Insert
from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.row import Row
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.engine_tables import FoldedTable
from worlds.small_tables import CITY, YEARS, table

TABLE = load_table(PATIENTS)


def encoded() -> EncodedRows:
    return Encoder(TABLE).frame(read_rows(PATIENTS / "rows.csv"))


def test_every_row_is_in_one_group_of_k_or_more() -> None:
    groups = first_groups(TABLE, encoded(), 7)
    assert sorted(np.concatenate(groups).tolist()) == list(range(40))
    assert min(map(len, groups)) >= TABLE.k


def test_a_table_with_fewer_rows_than_k_begins_with_no_group_and_its_rows_wait() -> None:
    rows = Encoder(TABLE).frame(read_rows(PATIENTS / "rows.csv").head(TABLE.k - 1))
    assert first_groups(TABLE, rows, 7) == []


# -- rows that are there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_puts_every_row_into_a_group_that_holds(algorithm: str) -> None:
    rows = encoded()
    groups = groups_by(TABLE, rows, algorithm, 2**64 - 1)
    assert sorted(np.concatenate(groups).tolist()) == list(range(40))
    assert min(map(len, groups)) >= TABLE.k
    again = groups_by(TABLE, rows, algorithm, 2**64 - 1)
    assert [members.tolist() for members in again] == [members.tolist() for members in groups]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_shard_that_is_loaded_anew_is_rebuilt_to_the_last_bit(algorithm: str) -> None:
    """The same state, algorithm and seed give the same QI groups, numbers and slots."""
    small, chance, folded = table(YEARS, CITY, k=2), Random(1), FoldedTable()
    engine = Engine(small, secret=b"sixteen bytes of")
    for i in range(60):
        engine.apply(Insert(str(i), Row((chance.randrange(10), chance.randrange(6)), (chance.choice([b"1", b"2"]),))))
    folded.fold(engine.drain())
    tables = []
    for _ in range(2):
        reloaded = Engine.load(small, 0, 1, folded.kept_table(), b"sixteen bytes of")
        for numbers in reloaded.regions(turn=3, rows_max=1000 if ALGORITHMS[algorithm].full_domain else 25):
            region = reloaded.region(numbers)
            replaced = reloaded.replace(region, groups_by(small, region.rows, algorithm, 7))
            assert replaced is not None
        tables.append(dict(reloaded.drain().qi_groups))
    assert tables[0] == tables[1] != {}


def test_no_rows_have_no_groups() -> None:
    rows = Encoder(TABLE).frame(read_rows(PATIENTS / "rows.csv").head(0))
    assert groups_by(TABLE, rows, "ordered", 7) == []


def test_rows_that_cannot_hold_the_model_are_refused() -> None:
    rows = Encoder(TABLE).frame(read_rows(PATIENTS / "rows.csv").head(TABLE.k - 1))
    with pytest.raises(ConfigError, match="cannot hold"):
        groups_by(TABLE, rows, "ordered", 7)


def test_what_is_no_algorithm_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="there is no algorithm 'best'"):
        groups_by(TABLE, encoded(), "best", 7)
