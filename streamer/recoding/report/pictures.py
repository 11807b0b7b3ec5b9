"""The pictures of a report, as SVG.

A picture shows counts, shares and losses, no value of a row, and no label of a category. The same numbers give the same
bytes: no date, no random identifiers.
"""

from __future__ import annotations

import re
import warnings
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamer.recoding.report.tradeoffs import Curve
from streamer.table.arrays import Floats, Ints

WIDTH, HEIGHT = 6.4, 2.8  # inches
COLOUR = "#35618f"
BINS_MAX = 40
SEEN_BESIDE = 100
"""The largest number of QI groups in a bar beside which a bar of one can still be seen."""

NAME_MAX = 40
"""Characters of a name beside its bar: more would leave no room for the bar."""

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

SHARES = ("alpha", "beta")
DEMANDS = {
    "k": "k: rows (or individuals) of every QI group",
    "l": "l: distinct sensitive values of every QI group",
    "alpha": "alpha: largest share of one individual",
    "beta": "beta: largest share of one sensitive value",
}


def group_sizes(sizes: Ints) -> str:
    """How many QI groups there are of each size; sizes int64 (g,). A data URI.

    Where one bar is so high that a single QI group could not be seen beside it, the axis counts in powers of ten.
    """
    figure, axes = _axes("rows of a QI group", "QI groups")
    first, last = int(sizes.min()), int(sizes.max())
    width = -(-(last - first + 1) // BINS_MAX)
    edges = np.arange(first, last + width + 1, width) - 0.5
    counts, _, _ = axes.hist(sizes, bins=edges.tolist(), color=COLOUR, rwidth=0.9)
    if np.max(counts) > SEEN_BESIDE:
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.5)  # a bar of one QI group has a height
        axes.set_ylabel("QI groups (powers of ten)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _svg(figure)


def tradeoff(curve: Curve) -> str:
    """What every strength of a demand costs, with a mark at what is asked now. A data URI."""
    figure, axes = _axes(DEMANDS[curve.demand], "NCP")
    axes.plot(curve.strengths, curve.losses, color=COLOUR, marker="o", markersize=4)
    axes.set_ylim(0, None)
    if curve.now is not None:
        axes.axvline(curve.now, color=COLOUR, linestyle=":", label="asked for now")
        axes.legend(frameon=False)
    if curve.demand in SHARES:
        axes.invert_xaxis()  # stricter to the right, as with k and l
    return _svg(figure)


def bars(names: Sequence[str], values: Sequence[float], label: str) -> str:
    """One bar for each name. A data URI."""
    figure, axes = _axes(label, "")
    axes.barh(range(len(names)), values, color=COLOUR)
    axes.set_yticks(range(len(names)), [_label(name) for name in names])
    axes.invert_yaxis()
    figure.set_figheight(max(HEIGHT, 0.3 * len(names) + 1))
    return _svg(figure)


def _label(name: str) -> str:
    """A name as text that every picture can hold."""
    text = NOT_XML.sub("\ufffd", name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…")
    return text.replace("$", r"\$")


def largest_shares(shares: Floats) -> str:
    """In how many QI groups the most frequent sensitive value has which share; float64 (g,). A data URI."""
    figure, axes = _axes("share of the most frequent sensitive value", "QI groups")
    axes.hist(shares, bins=np.linspace(0, 1, 21).tolist(), color=COLOUR, rwidth=0.9)
    axes.set_xlim(0, 1)
    return _svg(figure)


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Figure) -> str:
    out = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "streamer", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the reader's fonts draw the text, not ours
        figure.savefig(out, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + b64encode(out.getvalue()).decode()
