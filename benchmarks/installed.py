"""Weight of an installation: distributions and MB, of the base and of every extra, as they are installed here.

    python benchmarks/installed.py [--quick] [--json]

Counted by the requirements of the installed libraries, and the files of each; nothing is installed.
An extra that is not installed here is left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console
from rich.table import Table as RichTable

OURS = "streamer"


def needed_by(*wanted: str) -> set[str]:
    """All distributions that an installation of these has, themselves included: `name` or `name[extra]`."""
    seen: set[tuple[str, frozenset[str]]] = set()
    open_ = [Requirement(one) for one in wanted]
    while open_:
        asked = open_.pop()
        one = str(canonicalize_name(asked.name)), frozenset(asked.extras)
        if one not in seen:
            seen.add(one)
            asks = map(Requirement, distribution(asked.name).requires or ())
            open_ += [each for each in asks if _holds(each, one[1])]
    return {name for name, _ in seen}


def _holds(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def megabytes(name: str) -> float:
    """Of all files that a distribution has brought, with the byte code that was made when it was installed."""
    places = (Path(str(file.locate())) for file in distribution(name).files or ())
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def measured() -> dict[str, dict[str, float]]:
    """By wing: distributions, and MB."""
    wings = {"base": OURS} | {extra: f"{OURS}[{extra}]" for extra in metadata(OURS).get_all("Provides-Extra") or ()}
    figures = {}
    for wing, wanted in wings.items():
        try:
            names = needed_by(wanted)
        except PackageNotFoundError:
            continue
        figures[wing] = {"distributions": len(names), "mb": round(sum(map(megabytes, names - {OURS})), 1)}
    return figures


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="As without it.")
    arguments.add_argument("--json", action="store_true")
    chosen, figures = arguments.parse_args(), measured()
    if not chosen.json:
        table = RichTable("wing", "distributions", "MB", title="What an installation weighs")
        for wing, one in figures.items():
            table.add_row(wing, str(one["distributions"]), str(one["mb"]))
        Console(width=120).print(table)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
