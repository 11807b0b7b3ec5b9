"""The pictures of a report, as SVG.

A picture shows counts, shares and losses, no value of a row, and no label of a category. The same numbers give the same
bytes: no date, no random identifiers.
"""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamer.table.arrays import Floats, Ints

WIDTH, HEIGHT = 6.4, 2.8  # inches
COLOUR = "#35618f"
BINS_MAX = 40


def group_sizes(sizes: Ints) -> str:
    """How many QI groups there are of each size; sizes int64 (g,). A data URI."""
    figure, axes = _axes("rows of a QI group", "QI groups")
    first, last = int(sizes.min()), int(sizes.max())
    width = -(-(last - first + 1) // BINS_MAX)
    edges = np.arange(first, last + width + 1, width) - 0.5
    axes.hist(sizes, bins=edges.tolist(), color=COLOUR, rwidth=0.9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _svg(figure)


def losses(names: Sequence[str], shares: Sequence[float]) -> str:
    """What every attribute lost, 0 to 1, as bars. A data URI."""
    figure, axes = _axes("NCP of the attribute", "")
    axes.barh(range(len(names)), shares, color=COLOUR)
    axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    figure.set_figheight(max(HEIGHT, 0.3 * len(names) + 1))
    return _svg(figure)


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
