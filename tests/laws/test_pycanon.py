"""The measures beside those of another library, pycanon, on the same published tables.

`.ci/venv` puts pycanon into a folder of its own, without its dependencies: it pins versions of numpy and pandas that
are not the project's. It runs on the project's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.adult import microdata as adult_microdata
from streamer.recoding.algorithms.contract import Recoding, local_recoding
from streamer.recoding.metrics import risk, utility
from streamer.table.microdata import Microdata, canonical
from streamer.table.schema import Table
from worlds.microdata import TABLES, microdata

FOLDER = Path(sys.prefix) / "pycanon"


@pytest.fixture(scope="module")
def pycanon() -> Iterator[SimpleNamespace]:
    if not (FOLDER / "pycanon").is_dir():
        sentence = f"pycanon is not in {FOLDER}: `make venv` puts it there"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(sentence)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield SimpleNamespace(anonymity=import_module("pycanon.anonymity"), metrics=import_module("pycanon.metrics"))


def published(data: Microdata, recoding: Recoding) -> tuple[pd.DataFrame, list[str]]:
    """The published rows as pycanon takes them, and which columns are quasi-identifiers.

    The QI group is one of them: a published row names it, and two groups with equal boxes stay two.
    """
    rows = np.flatnonzero(recoding.qi_group >= 0)
    group = recoding.qi_group[rows]
    frame = pd.DataFrame({"qi_group": group, "problem": [f"value {i}" for i in data.values[rows, 0].tolist()]})
    for j in range(data.space.d):
        ends = zip(recoding.lo[group, j].tolist(), recoding.hi[group, j].tolist(), strict=True)
        frame[f"qi {j}"] = [f"{lo}..{hi}" for lo, hi in ends]
    return frame, ["qi_group", *(f"qi {j}" for j in range(data.space.d))]


def assert_equal_measures(pycanon: SimpleNamespace, data: Microdata, recoding: Recoding) -> None:
    source = pd.DataFrame({"row": range(len(data))})
    frame, qi = published(data, recoding)
    anonymity, metrics = pycanon.anonymity, pycanon.metrics
    k = risk.k_rows(recoding)
    assert k is not None
    assert k == anonymity.k_anonymity(frame, qi)
    assert risk.l_distinct(data, recoding) == anonymity.l_diversity(frame, qi, ["problem"])
    assert (risk.beta(data, recoding), k) == anonymity.alpha_k_anonymity(frame, qi, ["problem"])
    assert 1 / k == metrics.max_rir(frame, qi)
    assert utility.dm(recoding) == metrics.discernability_metric(source, frame, qi)
    # pycanon's average size is measured in k: of the published rows, and with sup=False of the source rows.
    assert utility.aes(recoding) == pytest.approx(k * metrics.average_ecsize(source, frame, qi), rel=1e-12)
    assert recoding.n_groups == metrics.sizes_ec(frame, qi)["n_ec"]


@settings(max_examples=max(25, settings().max_examples // 8))  # it filters a data frame for every group and value
@given(data=st.data(), small=st.sampled_from(list(TABLES.values())))
def test_pycanon_finds_the_same_on_small_tables(pycanon: SimpleNamespace, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    groups = st.lists(st.integers(-1, 4), min_size=len(people), max_size=len(people))
    recoding = local_recoding(people, np.array(data.draw(groups)))
    assume(recoding.n_groups)
    counting = replace(people, table=replace(small, diversity=replace(small.diversity, null_counts=True)))
    assert_equal_measures(pycanon, counting, recoding)  # a null is a value like any other to pycanon


@pytest.mark.night
@pytest.mark.parametrize("n_suppressed", [0, 40])
def test_pycanon_finds_the_same_on_adult(pycanon: SimpleNamespace, adult: Path, n_suppressed: int) -> None:
    people = adult_microdata(5).rows(np.arange(4_000))
    qi_group = np.empty(len(people), dtype=np.int64)
    order = canonical(people, np.random.default_rng(0)).rows
    qi_group[order] = np.minimum(np.arange(len(people)) // 7, len(people) // 7 - 1)
    qi_group[:n_suppressed] = -1
    assert_equal_measures(pycanon, people, local_recoding(people, qi_group))
