"""Costs of every batch algorithm, in time and in information, on Adult and on tables of many kinds.

Time is counted in *units*: one `np.lexsort(codes.T)` of the same table in the same process, the best of several. An
algorithm's time is that of `catalog.run`, which sorts the rows and checks the answer, too; the best of three runs if
they are short. The bars are limits that the algorithms should keep.
Information loss, and the verdicts on the default, are those of `losses`, on the tables of `kinds` and on Adult.

    python benchmarks/batch.py [--only NAME ...] [--tables TABLE ...] [--only-losses] [--quick] [--json] [--save]
    python benchmarks/batch.py --by-k     the default beside the best other at k from 2 to 1,000, the worst first
    python benchmarks/batch.py --page     writes the sentences of docs/explanation/figures.md from what --save kept
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.table import Table as RichTable

import ready
from benchmarks import adult, figures_page, kinds, losses
from benchmarks.losses import WORKLOADS
from streamer.privacy.models import Model, k_anonymity, r_k
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM, run
from streamer.recoding.algorithms.contract import PLAIN, Algorithm, Options, Recoding
from streamer.table.microdata import Microdata, Subject

K = 10
SIZES, QUICK_SIZES = (30_162, 100_000, 1_000_000), (1_000, 2_000)
QUICK_TABLES = ("adult", "stroke", "individuals")
RUNS, SHORT_S, ENOUGH_S, LONGEST_S = 3, 0.3, 4.0, 90.0
ADULT_ONLY = "gdppr"
CMC_ROWS = 1_473
R, LEVEL = Fraction(1, 2), 1  # Adult's occupations have three ancestors at level 1, the largest with 36 % of the rows
ROWS_AT_ONCE = 2_048
TEXTS = ("table", "model", "algorithm", "best", "option", "figure", "details", "skipped")

ROOT = Path(__file__).resolve().parents[1]
PAGE, SAVED = ROOT / "docs" / "explanation" / "figures.md", ROOT / "docs" / "benchmarks" / "batch.json"

Result = dict[str, object]


@dataclass(frozen=True)
class Bar:
    """An algorithm's figure at a size may not be above `limit`."""

    algorithm: str
    figure: str
    rows: int
    limit: float


BARS = (
    Bar("mondrian", "units", SIZES[0], 15),
    Bar("mondrian", "units", SIZES[2], 10),
    *(Bar(name, "units", SIZES[0], 60) for name in ("emp", "bottom-up", "top-down")),
    Bar("ordered", "units", SIZES[0], 300),
    Bar("ordered", "cost_per_row", SIZES[2], 2),
    *(Bar(name, "units", SIZES[0], 150) for name in ("ola", "degree-first")),
    Bar("ola", "seconds", CMC_ROWS, 2),
    Bar("degree-first", "seconds", CMC_ROWS, 1),
    Bar("gdppr", "matmuls", 45_222, 5),
    Bar("gdppr", "peak_gb", 45_222, 1),
)


def main() -> None:
    options = ready.options(__doc__, "a few thousand rows, few tables")
    options.add_argument("--only", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS), metavar="NAME")
    options.add_argument("--tables", nargs="+", choices=list(WORKLOADS), metavar="TABLE")
    options.add_argument("--only-losses", action="store_true", help="no times: every table under every model")
    options.add_argument("--save", action="store_true", help="keep what was found for --page")
    options.add_argument("--by-k", action="store_true", help="losses on the tables of shapes.py, at many k; no more")
    options.add_argument("--page", action="store_true", help="measure nothing; write the page of figures")
    options.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)  # a child: one run, its memory
    chosen = options.parse_args()
    if chosen.peak:
        print(peak_gb(ALGORITHMS[chosen.only[0]], QUICK_SIZES[0] if chosen.quick else 45_222))
        return
    if chosen.page:
        PAGE.write_text(figures_page.written_into(PAGE.read_text("utf-8"), json.loads(SAVED.read_bytes())), "utf-8")
        return
    ready.compiled()
    console = Console(width=160, quiet=chosen.json)
    if chosen.by_k:
        rows_max = QUICK_SIZES[0] if chosen.quick else None
        lost = list(losses.losses([ALGORITHMS[name] for name in chosen.only], losses.BY_K, rows_max, losses.BY_K))
        beside = losses.beside_others(lost)
        show(console, f"The default, {DEFAULT_ALGORITHM}, beside the best of the others", beside)
        print(json.dumps({"benchmark": "batch", "losses": lost, "beside_others": beside}))
        return
    if chosen.save and (chosen.quick or chosen.tables or len(chosen.only) < len(ALGORITHMS)):
        options.error("what is kept is measured in full: --save goes with --only-losses alone")
    tables = chosen.tables or (QUICK_TABLES if chosen.quick else list(WORKLOADS))
    algorithms = [ALGORITHMS[name] for name in chosen.only]
    found = {"benchmark": "batch", "k": K, **all_losses(console, algorithms, tables, chosen.quick)}
    if not chosen.only_losses:
        found |= all_times(console, algorithms, chosen.quick)
    if chosen.save:
        save(found)
    print(json.dumps(found))


def save(found: Result) -> None:
    """Keeps what was found; what this run did not measure stays as it was."""
    earlier = json.loads(SAVED.read_bytes()) if SAVED.exists() else {}
    SAVED.parent.mkdir(parents=True, exist_ok=True)
    SAVED.write_text(json.dumps({**earlier, **found}, indent=1) + "\n", "utf-8")


def all_losses(console: Console, algorithms: Sequence[Algorithm], tables: Sequence[str], quick: bool) -> Result:
    """Information loss of every table under every model, the verdicts, and what options make of it."""
    rows_max = QUICK_SIZES[0] if quick else None
    lost = list(losses.losses(algorithms, tables, rows_max))
    for name in tables:
        show(console, f"Information loss: {name}", [loss for loss in lost if loss["table"] == name])
    verdicts, means, beside = losses.judged(lost), losses.in_the_mean(lost), losses.beside_others(lost)
    show(console, f"The default, {DEFAULT_ALGORITHM}, beside the best of the others, the worst first", beside)
    show(console, f"The default, {DEFAULT_ALGORITHM}, against the best of each setting", verdicts)
    show(console, f"Loss of every algorithm over that of {DEFAULT_ALGORITHM}, in the mean of the settings", means)
    options = list(losses.with_options(algorithms, rows_max)) if "adult" in tables else []
    show(console, "Information loss on Adult with options", options)
    return {"losses": lost, "verdicts": verdicts, "means": means, "options": options}


def all_times(console: Console, algorithms: Sequence[Algorithm], quick: bool) -> Result:
    """Time by rows, of GDPPR beside matrix products, of the searches of a large lattice; then the bars."""
    times = list(timed(algorithms, adult.microdata(K), QUICK_SIZES if quick else SIZES))
    if ADULT_ONLY in [algorithm.name for algorithm in algorithms]:
        times.append(beside_matmuls(ALGORITHMS[ADULT_ONLY], QUICK_SIZES[0] if quick else 45_222))
    show(console, f"Time at k = {K}; unit: one lexsort of the same table", times)
    searches = list(searched([algorithm for algorithm in algorithms if algorithm.full_domain], quick))
    show(console, "Time to search a large lattice", searches)
    bars = [judged(bar, [*times, *searches]) for bar in BARS if ALGORITHMS[bar.algorithm] in algorithms]
    show(console, "Bars", bars)
    return {"times": times, "searches": searches, "bars": bars}


def searched(algorithms: Sequence[Algorithm], quick: bool) -> Iterator[Result]:
    """The algorithms that search a lattice of levels, on one of 331,776 nodes, with up to 5 % suppressed."""
    people, options = kinds.cmc(drafted=not quick), Options(suppression=0.05)
    people = people.rows(np.arange(QUICK_SIZES[0])) if quick else people
    for algorithm in algorithms:
        seconds, recoding = clock(algorithm, people, k_anonymity(5), options)
        details = {"details": dict(recoding.details)}
        yield {"algorithm": algorithm.name, "rows": len(people), "seconds": seconds, **details}


def best(work: Callable[[], object]) -> float:
    """Seconds of the quickest of three runs; of more where they are short, of fewer where they are long."""
    seconds: list[float] = []
    while sum(seconds) < SHORT_S or (len(seconds) < RUNS and sum(seconds) < ENOUGH_S):
        begun = perf_counter()
        work()
        seconds.append(perf_counter() - begun)
    return min(seconds)


def unit_of(people: Microdata) -> float:
    """Seconds of one lexsort."""
    return best(lambda: np.lexsort(people.codes.T))


def timed(algorithms: Sequence[Algorithm], people: Microdata, sizes: Sequence[int]) -> Iterator[Result]:
    """Every algorithm at every size; cost_per_row: against the first size."""
    first: dict[str, float] = {}
    for n in sizes:
        table = adult.many(people, n)
        unit, results = unit_of(table), []
        for algorithm in algorithms:
            result: Result = {"algorithm": algorithm.name, "rows": n}
            results.append(result)
            if reason := why_not(algorithm, n, first.get(algorithm.name), sizes[0]):
                result["skipped"] = reason
                continue
            seconds, recoding = clock(algorithm, table, k_anonymity(K))
            first.setdefault(algorithm.name, seconds / n)
            result |= {"seconds": seconds, "cost_per_row": seconds / n / first[algorithm.name]}
            result |= {"groups": recoding.n_groups, "details": dict(recoding.details)}
        yield from in_units(results, min(unit, unit_of(table)))


def why_not(algorithm: Algorithm, n: int, seconds_per_row: float | None, smallest: int) -> str:
    """The reason to leave an algorithm out at a size; "" where there is none."""
    if algorithm.name == ADULT_ONLY and n > smallest:
        return "rows by clusters: it grows with the square of the rows"
    if seconds_per_row is not None and seconds_per_row * n > LONGEST_S:
        return f"would take {seconds_per_row * n:.0f} s, even if its cost per row did not grow"
    return ""


def clock(algorithm: Algorithm, people: Microdata, model: Model, options: Options = PLAIN) -> tuple[float, Recoding]:
    """Seconds of the quickest run, and its answer."""
    answers: list[Recoding] = []
    numbers = np.arange(len(people))
    seconds = best(lambda: answers.append(run(algorithm, people.rows(numbers), model, options)))
    return seconds, answers[-1]


def in_units(results: Sequence[Result], unit: float) -> Iterator[Result]:
    for result in results:
        seconds = result.get("seconds")
        yield result if seconds is None else {**result, "units": float(str(seconds)) / unit, "unit_ms": unit * 1e3}


def beside_matmuls(algorithm: Algorithm, n: int) -> Result:
    """GDPPR on Adult with occupations: its time in matrix products of its shape, its memory in a process of its own."""
    people, model = with_occupations(n)
    seconds, recoding = clock(algorithm, people, model)
    rounds = int(recoding.details["rounds"])
    options = ["--only", algorithm.name, "--peak", *(["--quick"] if n < 45_222 else [])]
    child = subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True, check=True)
    return {
        "algorithm": algorithm.name,
        "rows": n,
        "seconds": seconds,
        "units": seconds / unit_of(people),
        "groups": recoding.n_groups,
        "details": dict(recoding.details),
        "matmuls": seconds / (rounds * round_of_matmuls(people)),
        "peak_gb": float(child.stdout),
    }


def with_occupations(n: int) -> tuple[Microdata, Model]:
    """Adult's first n rows of 45,222, and the model: k, and no more than R of close occupations."""
    people = adult.microdata_45222(K)
    return people.rows(np.arange(n)), r_k(K, Subject(0, LEVEL), R)


def round_of_matmuls(people: Microdata) -> float:
    """Seconds to multiply the rows' one-hot columns with n / k centres, some rows at a time, in float32."""
    n, columns = len(people), int(people.space.n_cells.sum())
    centres = np.random.default_rng(0).random((columns, n // K), dtype=np.float32)
    one_hot = np.zeros((n, columns), dtype=np.float32)
    first = np.cumsum(people.space.n_cells) - people.space.n_cells
    np.put_along_axis(one_hot, people.cells + first, 1, axis=1)
    product = np.empty((ROWS_AT_ONCE, n // K), dtype=np.float32)

    def every_part() -> None:
        for begin in range(0, n, ROWS_AT_ONCE):
            part = one_hot[begin : begin + ROWS_AT_ONCE]
            np.matmul(part, centres, out=product[: len(part)])

    return best(every_part)


def peak_gb(algorithm: Algorithm, n: int) -> float:
    """Largest memory of this process so far, with one run in it.

    From Linux's own account: what `getrusage` tells begins with the memory of the process that started this one.
    """
    people, model = with_occupations(n)
    run(algorithm, people, model)
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e9


def judged(bar: Bar, times: Sequence[Result]) -> Result:
    """True if the bar was met; None if it was not measured."""
    found = [t.get(bar.figure) for t in times if t["algorithm"] == bar.algorithm and t["rows"] == bar.rows]
    value = found[-1] if found else None
    return {**asdict(bar), "value": value, "met": None if value is None else float(str(value)) <= bar.limit}


def show(console: Console, title: str, results: Sequence[Result]) -> None:
    grid = RichTable(title=title)
    names = list(dict.fromkeys(name for result in results for name in result))
    for name in names:
        grid.add_column(name.replace("_", " "), justify="left" if name in TEXTS else "right")
    for result in results:
        grid.add_row(*(written(result.get(name)) for name in names))
    console.print(grid)


def written(value: object) -> str:
    """
    >>> written(12345), written(0.01234), written(True), written(None)
    ('12,345', '0.0123', 'yes', '')
    """
    match value:
        case None:
            return ""
        case dict():
            return ", ".join(f"{written(number)} {name.replace('_', ' ')}" for name, number in value.items())
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


if __name__ == "__main__":
    main()
