"""The pictures of reports, of audits and of results in a notebook: SVG, each as a data URI, the same for the same run.

They show counts, shares, losses and names of columns, never a value of a row.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import NamedTuple
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from streamer.recoding.report.findings import SHARE_EDGES
from streamer.recoding.report.tradeoffs import Curve
from streamer.table.arrays import Ints

WIDTH, HEIGHT = 640, 280  # pixels
LEFT, RIGHT, TOP, BOTTOM = 72, 40, 20, 48
"""Margins around the drawing, for numbers and labels."""

CHARACTER, BAR = 8, 28
"""Pixels for a character of a name, and for a bar with the gap to the next."""

COLOUR, INK = "#35618f", "#333"
BINS_MAX, TICKS_MAX = 40, 8
SEEN_BESIDE = 100
"""A bar of one QI group can still be seen beside a bar of this many."""

NAME_MAX = 40
"""Characters of a name beside its bar; more would leave no room for the bar."""

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

CONSTRAINTS = {
    "k": "k: rows (or individuals) of every QI group",
    "l": "l: distinct sensitive values of every QI group",
    "alpha": "alpha: largest share of one individual",
    "beta": "beta: largest share of one sensitive value",
}


class ChartAxis(NamedTuple):
    """The numbers first..last, drawn from pixel `begin` to pixel `end`."""

    first: float
    last: float
    begin: float
    end: float
    is_whole: bool = False  # fractions have no meaning
    is_log: bool = False

    def at(self, number: float) -> float:
        """The pixel of a number."""
        first, last, here = (log10(x) if self.is_log else x for x in (self.first, self.last, number))
        return self.begin + (here - first) / (last - first) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """The numbers to write at the axis: powers of ten, or multiples of 1, 2 or 5 times one."""
        if self.is_log:
            return [10.0**power for power in range(ceil(log10(self.first)), floor(log10(self.last)) + 1)]
        least = (self.last - self.first) / TICKS_MAX
        power = 10.0 ** floor(log10(least))
        step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= least)
        step = max(step, 1.0) if self.is_whole else step
        return [round(i * step, 10) for i in range(ceil(self.first / step), floor(self.last / step + 1e-9) + 1)]


def group_sizes(sizes: Ints) -> str:
    """The number of QI groups of each size; sizes int64 (g,). A data URI.

    The axis counts in powers of ten if a single QI group could not be seen beside the highest bar.
    """
    first, last = int(sizes.min()), int(sizes.max())
    width = -(-(last - first + 1) // BINS_MAX)
    edges = np.arange(first, last + width + 1, width, dtype=np.float64) - 0.5
    return histogram(np.histogram(sizes, edges)[0].tolist(), edges.tolist(), "rows of a QI group", of_sizes=True)


def largest_shares(counts: Sequence[int]) -> str:
    """In how many QI groups the most frequent sensitive value has which share, as `share_bins` counts. A data URI."""
    return histogram(counts, SHARE_EDGES, "share of the most frequent sensitive value")


def histogram(
    counts: Sequence[int], edges: Sequence[float], label: str, of_sizes: bool = False, what: str = "QI groups"
) -> str:
    """Counts of something between edges (n + 1) of a number. A data URI."""
    is_log = of_sizes and max(counts) > SEEN_BESIDE
    x = ChartAxis(edges[0], edges[-1], LEFT, WIDTH - RIGHT, is_whole=of_sizes)
    y = ChartAxis(0.5 if is_log else 0, max(counts), HEIGHT - BOTTOM, TOP, True, is_log)
    svg = _picture(x, label, HEIGHT)
    _draw_y(svg, y, f"{what} (powers of ten)" if is_log else what)
    for lo, hi, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if count:
            top, width = y.at(count), max(x.at(hi) - x.at(lo) - 1, 1)
            _add(svg, "rect", x=x.at(lo) + 0.5, y=top, width=width, height=y.begin - top, fill=COLOUR)
    return _uri(svg)


def tradeoff(curve: Curve) -> str:
    """The cost of every strength of a constraint, with a mark at the present one. A data URI."""
    ends = [LEFT, WIDTH - RIGHT]
    if curve.constraint in ("alpha", "beta"):
        ends.reverse()  # stricter to the right, as with k and l
    x = ChartAxis(min(curve.strengths), max(curve.strengths), ends[0], ends[1])
    y = ChartAxis(0, max(curve.losses) or 1, HEIGHT - BOTTOM, TOP)
    svg = _picture(x, CONSTRAINTS[curve.constraint], HEIGHT)
    _draw_y(svg, y, "NCP")
    points = [(x.at(strength), y.at(loss)) for strength, loss in zip(curve.strengths, curve.losses, strict=True)]
    _draw_line(svg, points)
    for across, down in points:
        _add(svg, "circle", cx=across, cy=down, r=3, fill=COLOUR)
    if curve.now is not None:
        now = x.at(curve.now)
        _add(svg, "path", d=f"M{now:.1f} {TOP}V{HEIGHT - BOTTOM}", stroke=COLOUR, stroke_dasharray="2 3")
        _text(svg, "asked for now", now, TOP - 6, "end" if now > WIDTH / 2 else "start")
    return _uri(svg)


def course(values: Sequence[float], label: str, what: str) -> str:
    """Shares, 0 to 1, one after the other. A data URI."""
    x = ChartAxis(0, max(1, len(values) - 1), LEFT, WIDTH - RIGHT, is_whole=True)
    y = ChartAxis(0, 1, HEIGHT - BOTTOM, TOP)
    svg = _picture(x, label, HEIGHT)
    _draw_y(svg, y, what)
    _draw_line(svg, [(x.at(i), y.at(value)) for i, value in enumerate(values)])
    return _uri(svg)


def bars(names: Sequence[str], values: Sequence[float], label: str) -> str:
    """One bar for each name. A data URI."""
    labels = [_label(name) for name in names]
    left = max(map(_width, labels), default=0) + 16
    height = TOP + BAR * len(labels) + BOTTOM
    x = ChartAxis(0, max(values, default=0) or 1, left, WIDTH - RIGHT)
    svg = _picture(x, label, height)
    for i, (name, value) in enumerate(zip(labels, values, strict=True)):
        top = TOP + BAR * i
        _add(svg, "rect", x=left, y=top + 3, width=x.at(value) - left, height=BAR - 6, fill=COLOUR)
        _text(svg, name, left - 8, top + BAR / 2 + 4, "end")
    return _uri(svg)


def _label(name: str) -> str:
    """A name as text that XML can hold, not too long."""
    return NOT_XML.sub("\ufffd", name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…")


def _width(text: str) -> int:
    """About how many pixels wide a text is."""
    return CHARACTER * sum(2 if east_asian_width(character) in "FW" else 1 for character in text)


def _picture(x: ChartAxis, label: str, height: int) -> Element:
    """A picture with the axis below only."""
    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}")
    svg.attrib |= {"width": str(WIDTH), "height": str(height), "font-family": "sans-serif", "font-size": "12"}
    floor_at = height - BOTTOM
    _add(svg, "path", d=f"M{x.begin:.1f} {floor_at}H{x.end:.1f}", stroke=INK)
    for number in x.ticks():
        _add(svg, "path", d=f"M{x.at(number):.1f} {floor_at}v5", stroke=INK)
        _text(svg, f"{number:,.10g}", x.at(number), floor_at + 18, "middle")
    _text(svg, label, (x.begin + x.end) / 2, height - 10, "middle")
    return svg


def _draw_line(svg: Element, points: Iterable[tuple[float, float]]) -> None:
    line = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
    _add(svg, "polyline", points=line, fill="none", stroke=COLOUR, stroke_width=1.5)


def _draw_y(svg: Element, y: ChartAxis, label: str) -> None:
    """The axis at the left."""
    _add(svg, "path", d=f"M{LEFT} {y.begin:.1f}V{y.end:.1f}", stroke=INK)
    for number in y.ticks():
        _add(svg, "path", d=f"M{LEFT} {y.at(number):.1f}h-5", stroke=INK)
        _text(svg, f"{number:,.10g}", LEFT - 8, y.at(number) + 4, "end")
    middle = (y.begin + y.end) / 2
    _text(svg, label, 14, middle, "middle").set("transform", f"rotate(-90 14 {middle:.1f})")


def _text(svg: Element, text: str, x: float, y: float, anchor: str) -> Element:
    element = _add(svg, "text", x=x, y=y, text_anchor=anchor, fill=INK)
    element.text = text
    return element


def _add(svg: Element, tag: str, **attributes: float | str) -> Element:
    """Adds an element; an attribute's underscore stands for a hyphen, and pixels have one digit."""
    texts = {
        name.replace("_", "-"): value if isinstance(value, str) else f"{value:.1f}"
        for name, value in attributes.items()
    }
    return SubElement(svg, tag, texts)


def _uri(svg: Element) -> str:
    return "data:image/svg+xml;base64," + b64encode(tostring(svg)).decode()
