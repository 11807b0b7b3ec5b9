"""The experiments of the five papers, run again on Adult: the report in docs/papers/ with its plots.

    python benchmarks/papers/reproduce.py [--only yan,hu,song,gui,tong] [--quick] [--out DIR]

With --only, what results.json in DIR holds of the other papers stays as it is.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.papers import plots, report
from benchmarks.papers.figures import Figure, Paper, verdict

PAPERS = ("yan", "hu", "song", "gui", "tong")
"""Modules, in the order of the report."""
RESULTS = "results.json"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", type=_papers, default=PAPERS, help="papers, with commas between them")
    options.add_argument("--quick", action="store_true", help="few points and small tables: shows that it works")
    options.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[2] / "docs" / "papers")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found = {paper.slug: paper for paper in _earlier(chosen.out)}
    with _progress() as progress:
        for slug in chosen.only:
            found[slug] = paper(slug, chosen.quick, progress)
            write(chosen.out, [found[slug] for slug in PAPERS if slug in found])
    _say(list(found.values()), chosen.out)


def _papers(text: str) -> tuple[str, ...]:
    wanted = text.split(",")
    if unknown := [slug for slug in wanted if slug not in PAPERS]:
        raise argparse.ArgumentTypeError(f"there is no paper {unknown[0]!r}; there are {', '.join(PAPERS)}")
    return tuple(slug for slug in PAPERS if slug in wanted)


def _progress() -> Progress:
    columns = (TextColumn("{task.description:<40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


def paper(slug: str, quick: bool, progress: Progress) -> Paper:
    """Runs the experiments of one paper."""
    module, begun = import_module(f"benchmarks.papers.{slug}"), perf_counter()
    task = progress.add_task(slug, total=module.N_FIGURES)
    figures: list[Figure] = []
    for figure in module.figures(quick, lambda what: progress.update(task, description=f"{slug}: {what}")):
        figures.append(figure)
        progress.advance(task)
    progress.update(task, description=slug)
    return Paper(slug, module.CITES, module.setting(), tuple(figures), quick, round(perf_counter() - begun))


def write(out: Path, papers: list[Paper]) -> None:
    """results.json, the plots and the page."""
    text = msgspec.json.format(msgspec.json.encode(papers), indent=1)
    (out / RESULTS).write_bytes(text + b"\n")
    for figure in (figure for one in papers for figure in one.figures):
        (out / f"{figure.slug}.svg").write_bytes(plots.svg(figure))
    (out / "README.md").write_text(report.render(papers), encoding="utf-8")


def _earlier(out: Path) -> list[Paper]:
    path = out / RESULTS
    return msgspec.json.decode(path.read_bytes(), type=list[Paper]) if path.exists() else []


def _say(papers: list[Paper], out: Path) -> None:
    for figure in (figure for one in papers for figure in one.figures):
        print(f"{verdict(figure.checks):<20}  {figure.title}")
    print(f"{out / 'README.md'} is written")


if __name__ == "__main__":
    main()
