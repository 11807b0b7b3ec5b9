"""A small table with a large lattice: 1,473 people, nine attributes, 331,776 nodes, and what searching it costs.

The table has the shape of the contraceptive method choice data (UCI): the same number of rows, nine attributes of as
many values, correlated, of which nearly all rows are distinct. It is made from a seed; nobody is in it. The first run
of a process, on a few rows, compiles or loads machine code, and is printed by itself.

    python benchmarks/wide_lattice.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
from decimal import Decimal
from time import perf_counter, process_time

import numpy as np

from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.contract import Options
from streamer.recoding.algorithms.lattice import DEGREE_FIRST, OLA
from streamer.table.microdata import Microdata
from streamer.table.schema import NumericAttribute, Table

ROWS, SUPPRESSION, KS = 1_473, 0.05, (3, 5, 10, 20)
FEW, QUICK_ROWS, RUNS = 60, 40, 3

COLUMNS = {  # last code, grid; levels are runs of 1, 2, 4 ... cells
    "wife_age": (34, 2),
    "wife_education": (4, 1),
    "husband_education": (4, 1),
    "children": (16, 1),
    "religion": (2, 1),
    "working": (2, 1),
    "occupation": (4, 1),
    "living": (4, 1),
    "method": (4, 1),
}

CUTS = {  # how much a column follows a person's standing, and where it steps up
    "wife_education": (0.7, (-1.2, -0.4, 0.25)),
    "husband_education": (0.7, (-1.9, -1.0, -0.2)),
    "religion": (0.2, (-1.03,)),
    "working": (0.1, (-0.67,)),
    "occupation": (0.6, (-0.5, 0.2, 1.7)),
    "living": (0.5, (-1.3, -0.7, 0.1)),
    "method": (0.3, (-0.2, 0.4)),
}


def microdata(k: int, rows: int = ROWS, seed: int = 0) -> Microdata:
    """The table; every column an integer attribute without a hierarchy."""
    rng = np.random.default_rng(seed)
    standing = rng.normal(size=rows)
    age = np.clip(rng.normal(32.5, 8.2, rows).round(), 16, 49).astype(np.int64)
    columns = {"wife_age": age - 15, "children": np.minimum(rng.poisson(np.clip((age - 16) / 6, 0.2, 6)), 16)}
    for name, (weight, cuts) in CUTS.items():
        mixed = weight * standing + np.sqrt(1 - weight * weight) * rng.normal(size=rows)
        columns[name] = np.searchsorted(np.array(cuts), mixed)
    attributes = tuple(
        NumericAttribute(name, (Decimal(0), Decimal(last)), Decimal(grid), Decimal(1), Decimal(1))
        for name, (last, grid) in COLUMNS.items()
    )
    codes = np.stack([columns[name] for name in COLUMNS], axis=1).astype(np.int64)
    return Microdata(Table("women", ("id",), attributes, (), k), codes, None, np.zeros((rows, 0), dtype=np.int64), ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one k, few rows: that it runs at all")
    parser.add_argument("--json", action="store_true", help="the JSON object alone")
    asked = parser.parse_args()
    found, options = [], Options(suppression=SUPPRESSION)
    for algorithm in (OLA, DEGREE_FIRST):
        started = perf_counter()
        run(algorithm, microdata(5, FEW), k_anonymity(5), options)
        first = perf_counter() - started
        for k in (5,) if asked.quick else KS:
            rows = microdata(k, QUICK_ROWS if asked.quick else ROWS)
            best = (np.inf, np.inf)
            for _ in range(RUNS):
                wall, cpu = perf_counter(), process_time()
                recoding = run(algorithm, rows, k_anonymity(k), options)
                best = min(best, (perf_counter() - wall, process_time() - cpu))
            found.append(
                {"algorithm": algorithm.name, "k": k, "rows": len(rows), "first_call_s": round(first, 2)}
                | {"seconds": round(best[0], 2), "cpu_s": round(best[1], 2), "levels": recoding.levels}
                | {"suppressed": recoding.n_suppressed} | recoding.details
            )  # fmt: skip
            if not asked.json:
                print(found[-1], flush=True)
    print(json.dumps({"runs": found}))


if __name__ == "__main__":
    main()
