"""Compiling the default algorithm ahead: tables that say no more than k find all of it compiled, and so do reports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from worlds.checkout import ROOT

COMPILING_SECONDS_MAX = 400
"""Where the machine has not compiled it yet: half a minute of an idle core."""

SCRIPT = """
import gc
from numba.core.dispatcher import Dispatcher
from streamer.recoding.algorithms.warming import compile_counting, compile_default

def signatures():
    ours = (one for one in gc.get_objects() if isinstance(one, Dispatcher) and one.__module__.startswith("streamer."))
    return {(one.__module__, one.__qualname__, str(signature)) for one in ours for signature in one.signatures}

compile_default()
compile_counting()
before = signatures()

from streamer.grouping import first_groups
from streamer.table.encode import Encoder
from streamer.table.files import read_rows
from streamer.table.yaml.loading import load_table
table = load_table("examples/patients")
rows = Encoder(table).frame(read_rows("examples/patients/rows.csv"))
first_groups(table, rows, 7)

from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM
from streamer.recoding.algorithms.contract import PLAIN
from streamer.recoding.report.tradeoffs import tradeoffs
from streamer.table.microdata import microdata_of
assert tradeoffs(microdata_of(table, rows), ALGORITHMS[DEFAULT_ALGORITHM], PLAIN)
print(len(before) > 3, sorted(signatures() - before))  # from the disk only what Python calls has one
"""


@pytest.mark.slow
@pytest.mark.timeout(COMPILING_SECONDS_MAX)
def test_a_table_of_numbers_and_categories_and_its_report_need_nothing_more() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=COMPILING_SECONDS_MAX
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True []"), done.stderr
