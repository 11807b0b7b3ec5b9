"""Figures as SVG: one style, and the same bytes for the same figures.

matplotlib draws without a screen. Its files are named by nothing but what they show: no date, and the numbers inside
are salted by a constant. Text stays text, so the files are small and readable at any size. All panels of a figure have
curves of the same names, so there is one legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import ceil
from textwrap import fill
from typing import Any

import matplotlib as mpl
from cycler import cycler

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.papers.figures import Figure, Panel

STYLE: Any = {
    "svg.hashsalt": "streamer",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "figure.facecolor": "white",
    # Okabe and Ito's colours, which the colour-blind tell apart too
    "axes.prop_cycle": cycler(
        color=["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"], marker=["o", "s", "^", "D", "v", "P"]
    ),
}
PANELS_ABREAST = 2
WIDTH, HEIGHT = 4.2, 3.1  # inches, of one panel
LEGEND_COLUMNS, LETTERS_ALONG = 3, 36


def svg(figure: Figure) -> bytes:
    """The plot of a figure."""
    return svg_of(figure.panels)


def svg_of(panels: Sequence[Panel]) -> bytes:
    """Panels side by side, with one legend."""
    abreast = min(PANELS_ABREAST, len(panels))
    deep = ceil(len(panels) / abreast)
    with mpl.rc_context(STYLE):
        drawn, axes = plt.subplots(
            deep, abreast, figsize=(WIDTH * abreast, HEIGHT * deep), layout="constrained", squeeze=False
        )
        for ax, panel in zip(axes.flat, panels, strict=False):
            _draw(ax, panel)
        for ax in axes.flat[len(panels) :]:
            ax.remove()
        drawn.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=LEGEND_COLUMNS)
        out = BytesIO()
        drawn.savefig(out, format="svg", metadata={"Date": None})
        plt.close(drawn)
    return out.getvalue()


def _draw(ax: Axes, panel: Panel) -> None:
    numeric = all(isinstance(x, (int, float)) for x in panel.x)
    along = panel.x if numeric else range(len(panel.x))
    for curve in panel.curves:
        ax.plot(along, [float("nan") if y is None else y for y in curve.y], label=curve.name)
    if panel.log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    ax.set_xticks(list(along), [f"{x:,g}" if numeric else str(x) for x in panel.x])
    if not numeric and max(map(len, map(str, panel.x))) > 6:
        ax.tick_params(axis="x", rotation=45)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(fill(panel.y_label, LETTERS_ALONG))
    if panel.title:
        ax.set_title(panel.title)
