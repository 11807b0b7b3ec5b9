"""Information loss of `ordered` beside ARX's local recoding: the census of 45,222 people, k = 5 and a model beside it.

ARX generalizes rows step by step, 1 % of them or more in each, by its loss metric (`ARXResult.optimizeIterativeFast`).
Both results are measured alike: of each published value, the leaves below it but one, over those of the whole hierarchy
but one; a row that ARX suppresses counts 1. `ordered` suppresses none.

ARX is not among the packages of this project: let --arx be its jar, with all that it needs, or a class path, of Java 11
or later. Under `t` it takes ARX minutes.

    python benchmarks/beside_arx.py --arx libarx.jar [--model "t 0.3" ...] [--quick] [--json]
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from streamer.privacy.models import model_of
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.ordered import ORDERED
from streamer.recoding.metrics import utility
from streamer.table.codes import DistributionDemands, Diversity

K = 5
MODELS: dict[str, Diversity | DistributionDemands] = {
    "k": Diversity(),
    "l 4": Diversity(l=4),
    "entropy 3": DistributionDemands(entropy_l=Decimal(3)),
    "recursive 2 3": DistributionDemands(recursive=(Decimal(2), 3)),
    "t 0.3": DistributionDemands(t=Decimal("0.3")),
    "t 0.2": DistributionDemands(t=Decimal("0.2")),
}
HIERARCHIES = {column: "salary-class" if column == "income" else column for column in adult.QI_45222}
SUPPRESSED = "*"

Figures = dict[str, float | str]


def main() -> None:
    options = ready.options(__doc__, "2,000 of the people, under k alone")
    options.add_argument("--arx", required=True, metavar="CLASSPATH")
    options.add_argument("--model", nargs="+", default=list(MODELS), choices=MODELS, metavar="NAME")
    chosen = options.parse_args()
    ready.compiled()
    people = adult.rows_45222()[: 2_000 if chosen.quick else None]
    results = [beside(name, people, chosen.arx) for name in (["k"] if chosen.quick else chosen.model)]
    if not chosen.json:
        show(results)
    print(json.dumps({"benchmark": "beside_arx", "k": K, "rows": len(people), "results": results}))


def beside(name: str, people: list[dict[str, str]], classpath: str) -> Figures:
    """Loss and seconds of both under a model."""
    mine = adult.microdata_45222(K)
    mine = adult.with_demands(mine.rows(range(len(people))), MODELS[name])
    began = perf_counter()
    recoding = run(ORDERED, mine, model_of(mine.table))
    figures: Figures = {"model": name, "ordered": utility.ncp(mine, recoding) or 0.0, "s": perf_counter() - began}
    return figures | by_arx(name, people, classpath)


def by_arx(name: str, people: list[dict[str, str]], classpath: str) -> Figures:
    """Loss, share of suppressed rows, and seconds with the start of Java."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "people.csv", Path(folder) / "anonymous.csv"
        columns = [*adult.QI_45222, "occupation"]
        with source.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(people)
        program = Path(__file__).parent / "arx" / "LocalRecoding.java"
        levels = [f"{column}={file}" for column, file in HIERARCHIES.items()]
        words = [source, adult.folder() / "hierarchies", str(K), "occupation", name, target, *levels]
        began = perf_counter()
        subprocess.run(["java", "-Xmx3g", "-cp", classpath, program, *words], check=True)
        seconds = perf_counter() - began
        with target.open(newline="") as file:
            published = list(csv.DictReader(file))
    lost = {column: losses_of(column) for column in adult.QI_45222}
    loss = sum(lost[column][row[column]] for row in published for column in lost) / len(lost) / len(published)
    gone = sum(all(row[column] == SUPPRESSED for column in lost) for row in published)
    return {"arx": loss, "arx_suppressed": gone / len(published), "arx_s": seconds}


def losses_of(column: str) -> dict[str, float]:
    """What each label of a hierarchy loses; of ages from 17 to 90."""
    with (adult.folder() / "hierarchies" / f"{HIERARCHIES[column]}.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file, delimiter=";") if column != "age" or 17 <= int(row[0]) <= 90]
    below = Counter(label for row in rows for label in set(row))
    return {label: (n - 1) / (len(rows) - 1) for label, n in below.items()} | {SUPPRESSED: 1.0}


def show(results: list[Figures]) -> None:
    """The figures as a table."""
    table = RichTable(title=f"Information loss (NCP) beside ARX's local recoding, k = {K}")
    for column in ("model", "ordered", "ARX", "over", "suppressed by ARX", "s", "ARX, s"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for one in results:
        mine, theirs = float(one["ordered"]), float(one["arx"])
        gone, seconds, their_seconds = (float(one[name]) for name in ("arx_suppressed", "s", "arx_s"))
        table.add_row(
            str(one["model"]), f"{mine:.4f}", f"{theirs:.4f}", f"{theirs / mine:.2f} x", f"{gone:.1%}",
            f"{seconds:.1f}", f"{their_seconds:.1f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
