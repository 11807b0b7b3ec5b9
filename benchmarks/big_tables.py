"""Costs of a table that is anonymized in fragments, and its loss over that of one run.

People like Adult's (`adult.many`), k = 5, in a folder of Parquet files, by `streamer anonymize` in its own process:

size  seconds, rows per second and peak memory (of the largest process) at several sizes, by fragments; beside one run,
      if the table is small enough, and beside pandas reading the folder
loss  NCP over that of one run, and the smallest group, for few large fragments and for many small ones; of a model with
      l = 3; and of k individuals, each with 1.25 rows, with l = 3
alike `ola`, which recodes all rows alike, with up to 2 % of the rows left out: seconds and peak memory in fragments and
      in one run, and whether both publish the same rows
spark seconds of the same rows by processes and by Spark (`local[2]`, of one machine), at two sizes: Spark's fixed cost,
      and its cost per row; and whether the files are equal to the byte. Needs Java, and pyspark, which may be in a
      folder that PYTHONPATH names

other mosaicrown/mondrian (github.com), on Spark, beside the same rows in fragments here: NCP, groups of fewer than k
      rows, and seconds. It publishes sets of categories, which count as wide as they are; a group is the rows that it
      publishes alike. --mondrian names its folder `distributed`, --mondrian-packages one with the packages of its
      requirements.txt and pyspark 3.5

    python benchmarks/big_tables.py [--only size loss] [--rows 1000000 5000000 10000000] [--quick] [--json]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table as RichTable

import ready
from benchmarks import adult
from streamer.table.codes import CategoricalAttribute
from streamer.table.microdata import Microdata

SIZES, FRAGMENT_ROWS = (1_000_000, 5_000_000, 10_000_000), 250_000
ONE_RUN_ROWS_MAX = 1_000_000
ROWS_PER_SOURCE_FILE = 250_000
KEEPS, ROWS_OF_ONE = "salary-class", 1.25

Line = dict[str, object]


@dataclass(frozen=True)
class Case:
    """A table and its model."""

    name: str
    rows: int
    fragment_rows: int
    privacy: str = "{k: 5}"
    individuals: bool = False


CASES = (
    Case("100,000 rows", 100_000, 20_000),
    Case("1,000,000 rows, large fragments", 1_000_000, 150_000),
    Case("1,000,000 rows, small fragments", 1_000_000, 40_000),
    Case("l = 3", 100_000, 20_000, "{k: 5, l: 3}"),
    Case("individuals, l = 3", 100_000, 20_000, "{k: 5, l: 3}", individuals=True),
)


def main() -> None:
    options = ready.options(__doc__, "20,000 rows in fragments of 4,000")
    options.add_argument(
        "--only", nargs="+", choices=("size", "loss", "alike", "spark", "other"), default=("size", "loss")
    )
    options.add_argument("--mondrian", type=Path, metavar="FOLDER", help="for `other`")
    options.add_argument("--mondrian-packages", type=Path, metavar="FOLDER", help="for `other`")
    options.add_argument("--rows", nargs="+", type=int, default=SIZES, help="sizes to measure")
    chosen = options.parse_args()
    cases, sizes, fragment_rows = CASES, chosen.rows, FRAGMENT_ROWS
    if chosen.quick:
        cases, sizes, fragment_rows = tuple(Case(one.name, 20_000, 4_000, one.privacy, one.individuals) for one in
                                            CASES[2:]), (20_000,), 4_000  # fmt: skip
    found: dict[str, list[Line]] = {}
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        if "loss" in chosen.only:
            found["loss"] = [loss(case, folder) for case in cases]
        if "size" in chosen.only:
            found["size"] = [line for rows in sizes for line in size(rows, fragment_rows, folder)]
        if "alike" in chosen.only:
            found["alike"] = recoded_alike(sizes[0], fragment_rows, folder)
        if "spark" in chosen.only:
            found["spark"] = [by_spark(rows, rows // 4, folder) for rows in (sizes[0] // 10, sizes[0])]
        if "other" in chosen.only:
            found["other"] = beside_mondrian(sizes[0], folder, chosen.mondrian, chosen.mondrian_packages)
    if not chosen.json:
        for title, lines in found.items():
            show(title, lines)
    print(json.dumps({"benchmark": "big_tables", **found}))


# -- tables -----------------------------------------------------------------------------------------------------------


def people(case: Case) -> Microdata:
    """As many as the case wants; with occupations as the sensitive value where it asks for l."""
    source = adult.microdata(5) if case.privacy == "{k: 5}" else adult.microdata_45222(5)
    return adult.many(source, case.rows)


def saved(case: Case, folder: Path) -> tuple[Path, Path]:
    """The table.yaml and the folder of Parquet files."""
    those, place = people(case), folder / f"{case.rows}-{case.individuals}-{len(case.privacy)}"
    rows = place / "rows"
    if place.exists():
        return place / "table.yaml", rows
    rows.mkdir(parents=True)
    n, kept = len(those), those.table.kept[0].name
    columns: dict[str, object] = {"id": np.arange(n), "who": np.random.default_rng(1).integers(0, n / ROWS_OF_ONE, n)}
    lines = ["table: people", "key: id", *(["individual: who"] if case.individuals else []), f"privacy: {case.privacy}"]
    lines += ["publish: {live: {form: rows}}", "columns:", f"  {kept}: {{role: sensitive}}"]
    for j, attribute in enumerate(those.table.attributes):
        name, codes = attribute.name, those.codes[:, j]
        if isinstance(attribute, CategoricalAttribute):
            columns[name] = pd.Categorical.from_codes(codes, list(attribute.hierarchy.leaves))
            levels = attribute.hierarchy.levels
            names = [[attribute.hierarchy.label(*ends(levels[i], code)) for i in range(len(levels))] for code in
                     range(attribute.hierarchy.n_leaves)]  # fmt: skip
            pd.DataFrame(names).to_csv(place / f"{name}.csv", index=False, header=False)
            lines.append(f"  {name}: {{role: quasi-identifier, hierarchy: {name}.csv}}")
        else:
            columns[name] = codes + int(attribute.domain[0])
            low, high = (int(end) for end in attribute.domain)
            lines.append(f"  {name}: {{role: quasi-identifier, type: integer, domain: [{low}, {high}], grid: 1}}")
    texts = [json.loads(text) for text in those.texts[0]]
    columns[kept] = pd.Categorical.from_codes(those.values[:, 0], texts)
    (place / "table.yaml").write_text("\n".join(lines))
    frame = pd.DataFrame(columns)
    for i, begin in enumerate(range(0, n, ROWS_PER_SOURCE_FILE)):
        frame.iloc[begin : begin + ROWS_PER_SOURCE_FILE].to_parquet(rows / f"{i:04}.parquet", index=False)
    return place / "table.yaml", rows


def ends(nodes: np.ndarray, leaf: int) -> tuple[int, int]:
    """The first and the last leaf under the node above a leaf."""
    same = np.flatnonzero(nodes == nodes[leaf])
    return int(same[0]), int(same[-1])


# -- figures ----------------------------------------------------------------------------------------------------------


def called(words: Sequence[object]) -> tuple[dict[str, object], float, int]:
    """The JSON that a command prints; its seconds, and the MB of the largest of its processes."""
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True);"
        " sys.stdout.buffer.write(done.stdout); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    )
    began = monotonic()
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    *said, peak = done.stdout.strip().splitlines()
    return json.loads(said[-1]) if said and said[-1].startswith("{") else {}, monotonic() - began, int(peak)


def command(table: Path, rows: Path, out: Path, *more: object) -> list[object]:
    return [sys.executable, "-m", "streamer.cli.main", "anonymize", "--table", table, rows, "-o", out, "--force",
            "--seed", 1, "--json", *more]  # fmt: skip


def loss(case: Case, folder: Path) -> Line:
    """A case in fragments over the same in one run."""
    table, rows = saved(case, folder)
    one, _, _ = called(command(table, rows, folder / "one.parquet"))
    many, _, _ = called(command(table, rows, folder / "many", "--fragment-rows", case.fragment_rows))
    whole, parts = dict(one["measures"]), dict(many["measures"])  # type: ignore[call-overload]
    return {
        "table": case.name,
        "fragments": dict(many["details"])["fragments"],  # type: ignore[call-overload]
        "NCP of one run": round(whole["ncp"], 6),
        "over one run": round(parts["ncp"] / whole["ncp"], 4),
        "k": parts["k_individuals"] if case.individuals else parts["k"],
        "l": parts["l"],
    }


def size(rows: int, fragment_rows: int, folder: Path) -> list[Line]:
    """Seconds and memory of one size."""
    case = Case(f"{rows:,} rows", rows, fragment_rows)
    table, source = saved(case, folder)
    reads = [sys.executable, "-c", f"import pandas; pandas.read_parquet({str(source)!r})"]
    ways: dict[str, list[object]] = {
        "fragments": command(table, source, folder / "many", "--fragment-rows", fragment_rows),
        "pandas reads it": list(reads),
    }
    if rows <= ONE_RUN_ROWS_MAX:
        ways["one run"] = command(table, source, folder / "one.parquet")
    found: list[Line] = []
    for way, words in ways.items():
        _, seconds, peak = called(words)
        found.append({"rows": rows, "way": way, "seconds": round(seconds, 1), "rows per second": round(rows / seconds),
                      "peak MB": peak})  # fmt: skip
    return found


def recoded_alike(rows: int, fragment_rows: int, folder: Path) -> list[Line]:
    """One level for every attribute, in fragments and in one run."""
    table, source = saved(Case(f"{rows:,} rows", rows, fragment_rows), folder)
    how, one, many = ("--algorithm", "ola", "--suppression", 0.02), folder / "one.parquet", folder / "many"
    found: list[Line] = []
    for way, words in (
        ("fragments", command(table, source, many, "--fragment-rows", fragment_rows, *how)),
        ("one run", command(table, source, one, *how)),
    ):
        facts, seconds, peak = called(words)
        measures = dict(facts["measures"])  # type: ignore[call-overload]
        found.append({"rows": rows, "way": way, "seconds": round(seconds, 1), "peak MB": peak,
                      "NCP": round(measures["ncp"], 6), "left out": measures["suppressed"]})  # fmt: skip
    whole = pd.concat([pd.read_parquet(path) for path in sorted(many.iterdir())], ignore_index=True)
    same = whole.equals(pd.read_parquet(one))
    return [line | {"the same rows": same} for line in found]


def by_spark(rows: int, fragment_rows: int, folder: Path) -> Line:
    """The same fragments by processes and by Spark."""
    table, source = saved(Case(f"{rows:,} rows", rows, fragment_rows), folder)
    outs = [folder / "by-processes", folder / "by-spark"]
    words = [command(table, source, out, "--fragment-rows", fragment_rows) for out in outs]
    _, of_processes, _ = called(words[0])
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _, of_spark, _ = called([*words[1], "--engine", "spark"])
    files = [{path.name: path.read_bytes() for path in out.iterdir()} for out in outs]
    return {
        "rows": rows,
        "seconds of processes": round(of_processes, 1),
        "seconds of Spark": round(of_spark, 1),
        "beyond processes": round(of_spark - of_processes, 1),
        "the same bytes": files[0] == files[1],
    }


def beside_mondrian(rows: int, folder: Path, mondrian: Path, packages: Path) -> list[Line]:
    """Another program for Spark and this one on the same rows, in four fragments each."""
    case = Case(f"{rows:,} rows", rows, rows // 4)
    table, source = saved(case, folder)
    those = people(case)
    facts, seconds, _ = called(command(table, source, folder / "many", "--fragment-rows", rows // 4))
    measures = dict(facts["measures"])  # type: ignore[call-overload]
    here = {"program": "streamer", "groups": measures["groups"], "NCP": round(measures["ncp"], 6),
            "groups below k": 0, "smallest": measures["k"], "seconds": round(seconds)}  # fmt: skip
    began = monotonic()
    published = published_by_mondrian(case, those, source, folder, mondrian, packages)
    group = np.unique(published, return_inverse=True)[1].astype(np.int64)
    rows_of = np.bincount(group)
    there = {
        "program": "mosaicrown/mondrian",
        "groups": len(rows_of),
        "NCP": round(ncp_of_sets(those, group), 6),
        "groups below k": int((rows_of < those.table.k).sum()),
        "smallest": int(rows_of.min()),
        "seconds": round(monotonic() - began),
    }
    return [here, there]


def ncp_of_sets(those: Microdata, group: np.ndarray) -> float:
    """NCP if a group publishes the range of its numbers, and of its categories those that it has, and no others."""
    lost = []
    for attribute, codes in zip(those.table.attributes, those.codes.T, strict=True):
        by_group = pd.Series(codes).groupby(group)
        if isinstance(attribute, CategoricalAttribute):
            different = by_group.nunique().to_numpy()
            width = np.where(different == 1, 0, different / attribute.hierarchy.n_leaves)
        else:
            width = (by_group.max() - by_group.min()).to_numpy() / float(attribute.domain[1] - attribute.domain[0])
        lost.append(width[group].mean())
    return float(np.mean(lost))


def published_by_mondrian(
    case: Case, those: Microdata, source: Path, folder: Path, mondrian: Path, packages: Path
) -> np.ndarray:
    """The published quasi-identifiers of each row, as one text."""
    names, out, rows = [attribute.name for attribute in those.table.attributes], folder / "other.csv", folder / "in.csv"
    pd.concat(map(pd.read_parquet, sorted(source.iterdir()))).drop(columns="who").to_csv(rows, index=False)
    (folder / "job.json").write_text(json.dumps({
        "input": rows.as_uri(), "output": out.as_uri(), "quasiid_columns": names, "K": those.table.k,
        "sensitive_columns": [those.table.kept[0].name], "column_score": "entropy", "fragmentation": "quantile",
    }))  # fmt: skip
    paths = [packages, mondrian / "mondrian", mondrian]
    submits = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
    variables = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYSPARK_SUBMIT_ARGS": submits,
                 "PYSPARK_PYTHON": sys._base_executable}  # fmt: skip
    words = [sys._base_executable, mondrian / "anonymize.py", folder / "job.json", "4", "0", "0"]
    subprocess.run(words, check=True, env={**os.environ, **variables}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)  # fmt: skip
    found = pd.concat(pd.read_csv(path, dtype=str) for path in sorted(out.glob("*.csv"))).astype({"id": int})
    if sorted(found["id"]) != list(range(case.rows)):
        raise SystemExit("mosaicrown/mondrian has not published every row once")
    return found.sort_values("id")[names].agg("|".join, axis=1).to_numpy()


def show(title: str, lines: Sequence[Line]) -> None:
    """Lines as a table."""
    table = RichTable(title=title)
    for column in lines[0]:
        table.add_column(column)
    for line in lines:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in line.values()))
    Console().print(table)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
