"""The QI groups that a shard begins with: those of the default algorithm, none below k, nobody in two."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from streamer.cli.first_groups import first_groups
from streamer.table.encode import EncodedRows, Encoder
from streamer.table.files import read_rows
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS, ROOT

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


def test_who_only_names_it_does_not_wait_for_the_compiler() -> None:
    code = "import sys, streamer.cli.first_groups; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
