"""The reports of `anonymize` and `compare`: one HTML file each, which needs nothing beside it.

They are written for a data protection officer: what was done to what and when, what is guaranteed in words, what can
still be found out, and then every measure with what it means. They show counts, shares, losses, settings, names of
columns and files, hashes and the text of table.yaml, never a value of a row or a label of a category, so a report may
go where the published table goes. The same run gives the same bytes, except for the time that the caller passes.

The page is in the order and the words of the officer's work: the three questions of the European data protection
authorities, each with this table's figures (`findings`), what was not looked at, columns and roles, and blanks to sign.
Measures under the names of their papers come last, folded away. Attackers have the names that ARX and El Emam and
Dankar 2008 gave them: the *prosecutor* knows that a person is in the table, the *journalist* wants to find anybody at
all and does not know who is in it, the *marketer* wants as many as possible right.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any, NamedTuple
from unicodedata import east_asian_width
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED
from streamer.recoding.report.findings import SHARE_EDGES, Drawn
from streamer.recoding.report.tradeoffs import ROWS_MAX, Curve
from streamer.table.arrays import Ints
from streamer.table.schema import LOSSY_JOIN, Table


@dataclass(frozen=True)
class Provenance:
    """When a report was made, by which version, and from what."""

    made: str  # date and time in words
    version: str
    input_name: str  # of the file, without its folder
    settings: str  # the text of table.yaml


MEANING: Mapping[str, str] = {
    "rows": "How many rows went in.",
    "suppressed": "Rows that are not in the published table at all. Many of them distort every statistic.",
    "groups": "People are published in groups that look alike. More groups keep more detail.",
    "aes": "How many rows look alike, on average. The nearer to the smallest allowed, the more detail is kept.",
    "dm": "Grows with the square of the groups' sizes: low where no group is larger than it has to be.",
    "sed": "How much is left open about the values inside the groups. Low is precise.",
    "sed_literal": "The same as its paper writes it; only for comparison with other people's figures.",
    "sed_left_out": "Groups that the figure above cannot count, because all their rows are alike in some column.",
    "ncp": "How much detail was given up: 0 is exact values, 1 is nothing but stars. 0.05 is little, 0.3 is much.",
    "rank_loss": (
        "The same by ranks: 0.3 is that 30 % of the rows lie within the published values. If it is far above the"
        " figure before, a few extreme values widen a column: give it a finer grid, or cap it with `outside: ends`."
    ),
    "gcp": "How much detail was given up without the rows that were left out.",
    "il": "The sum from which the next figure is made; it grows with the number of rows.",
    "ril": "How much was given up, of all there was to give up: 0 is nothing, 1 is everything.",
    "distortion": "How far up their hierarchies values were lifted: 0 not at all, 1 to the very top.",
    "k": "The smallest crowd that anybody of the table is hidden in, counted in rows.",
    "k_individuals": "The smallest crowd counted in people: one person with five rows is one person.",
    "l": "How many different secrets there are in the group that has the fewest. 1 means that a secret is known.",
    "alpha": "How much of a group is one and the same person. 1 means a group of one person.",
    "beta": "How sure one can be of a secret in the worst group: 0.5 is a coin toss, 1 is certain.",
    "risk": "The same for secrets that are close to each other, such as two diseases of the lung.",
    "vulnerable": "Groups that look large enough by their rows and are not by their people. Should be 0.",
    "single_value": "Groups in which all rows are one person's. Should be 0.",
    "prosecutor_max": "The risk of the person who is hidden worst: 0.2 is one in five.",
    "prosecutor_mean": "The same risk on average over the rows.",
    "quasi_identifiers": "How many rows the first table has.",
    "joined_rows": "How many rows there are once both tables are put together again.",
    "joined_true": "The share of these rows that is true. The others are what hides people.",
}
"""The meaning of a measure for somebody who has never heard its name; `WHAT` defines it precisely."""

OF_A_JOIN: Mapping[str, str] = {
    "groups": "Within a group it is open whose secret is whose; quasi-identifiers are not.",
    "aes": "Among how many rows a secret could be anybody's, on average.",
    "k": "The fewest rows among which it is open whose secret is whose. Who is in the table is not open.",
    "prosecutor_max": "For a person found in the first table: the chance to pick her row of the second one, at worst.",
    "prosecutor_mean": "The same chance on average over the rows.",
}
"""The same for a lossy join, in which everybody can be found."""


NOT_PEOPLE = "Not judged: table.yaml does not say whose rows they are."
NO_GROUP = "Not judged: nothing is published."
NOT_SENSITIVE = "Not judged: table.yaml names no sensitive column."
NOT_CLOSE = "Not judged: no sensitive column has a hierarchy, which says what is close; see beta."
NO_ANSWER = "Not judged: in some groups nobody has a value, which counts here as one that they share; see Inference."
NOTHING_ABOVE = "Not judged: no column has anything above its cells."
ALL_FLAT = "Not judged: in every group all rows are alike in some column."


def unjudged(facts: Mapping[str, Any], table: Table) -> dict[str, str]:
    """By measure, why its figure would say nothing of this table."""
    measures, found = facts["measures"], facts["report"]
    reasons = {} if found["by_individual"] else dict.fromkeys(OF_INDIVIDUALS, NOT_PEOPLE)
    if not table.sensitive:
        reasons |= dict.fromkeys(OF_VALUES, NOT_SENSITIVE)
    elif any(one["unanswered_groups"] for one in found["inference"]):
        reasons |= {name: NO_ANSWER for name in OF_VALUES if measures[name] in (0, 1)}
    if table.sensitive and not any(table.kept[column].hierarchy for column in table.sensitive):
        reasons["risk"] = NOT_CLOSE
    nothing = {"distortion": NOTHING_ABOVE, "sed_literal": ALL_FLAT} if measures["groups"] else {}
    missing = {name for name, value in measures.items() if value is None} - reasons.keys()
    return reasons | {name: nothing.get(name, NO_GROUP) for name in missing}


OF_INDIVIDUALS = ("k_individuals", "alpha", "vulnerable", "single_value")
OF_VALUES = ("l", "beta", "risk")


def meanings(form: str, reasons: Mapping[str, str]) -> Mapping[str, str]:
    """The meaning of every measure for a table published in this form, or why it is not judged."""
    return {**MEANING, **(OF_A_JOIN if form == LOSSY_JOIN else {}), **reasons}


def chance(share: float) -> str:
    """A share as people say chances.

    >>> chance(0.2), chance(0.15), chance(1.0)
    ('1 in 5', '1 in 6.7', 'certain')
    """
    return "certain" if share == 1 else f"1 in {float(f'{1 / share:.2g}'):,.9g}"


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.125), percent(0.00012)
    ('12.5 %', '0.012 %')
    """
    return f"{100 * share:.3g} %"


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


COMPARED = ("groups", "ncp", "aes", "k", "l", "beta", "risk", "suppressed")
"""The measures of the comparison's table."""


def anonymize_page(
    facts: Mapping[str, Any],
    table: Table,
    drawn: Drawn,
    provenance: Provenance,
    curves: Sequence[Curve] = (),
) -> str:
    """The report of one run; facts: what `streamer anonymize --json` prints, with what `findings` found."""
    reasons = unjudged(facts, table)
    return rendered(
        "anonymize.html",
        facts=facts,
        report=facts["report"],
        provenance=provenance,
        judged={name: None if name in reasons else value for name, value in facts["measures"].items()},
        meaning=meanings(facts["form"], reasons),
        diverse=any(limit is not None for _, asked in table.demands for limit in (asked.l, asked.beta, asked.r))
        or any(column.distribution for column in table.kept),
        pictures=list(_pictures(facts["measures"], table, drawn)),
        **_tradeoffs(curves, facts["measures"]["rows"]),
    )


def compare_page(report: Mapping[str, Any], provenance: Provenance, curves: Sequence[Curve] = ()) -> str:
    """The report of a comparison, which `streamer compare --json` prints; curves: of the default algorithm."""
    ran = [found for found in report["algorithms"] if "measures" in found]
    names = [found["name"] for found in ran]
    drawn = {"NCP": [found["measures"]["ncp"] for found in ran], "seconds": [found["seconds"] for found in ran]}
    return rendered(
        "compare.html",
        report=report,
        provenance=provenance,
        compared=COMPARED,
        meaning=MEANING,
        ran=ran,
        could_not=[found for found in report["algorithms"] if "cannot" in found],
        pictures=[{"title": label, "uri": bars(names, values, label)} for label, values in drawn.items()],
        **_tradeoffs(curves, report["rows"]),
    )


HERE = "streamer.recoding.report"


def rendered(template: str, package: str = HERE, **values: Any) -> str:
    """A page; package: holds the template, which may extend those that are here."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # an extra; pictures do without it

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader(HERE, "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        what={**WHAT, **WHAT_JOINED}, figure=figure, chance=chance, percent=percent, **values
    )


def figure(value: bool | float | str | None) -> str:
    """A number as people read it; None is a dash, and words stay as they are."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return "–"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
    return value


def _tradeoffs(curves: Sequence[Curve], rows: int) -> dict[str, Any]:
    drawn = [{"title": f"More {curve.constraint}", "uri": tradeoff(curve)} for curve in curves]
    return {"tradeoffs": drawn, "tradeoff_rows": ROWS_MAX if rows > ROWS_MAX else None}


def _pictures(measures: Mapping[str, Any], table: Table, drawn: Drawn) -> Iterator[dict[str, str]]:
    """Title and picture (a data URI) of what can be shown; the attributes' losses only if these were measured."""
    if drawn.losses is not None and "ncp" in measures:
        names = [attribute.name for attribute in table.attributes]
        yield {"title": "What every attribute lost", "uri": bars(names, drawn.losses, "NCP of the attribute")}
    if len(drawn.sizes):
        yield {"title": "Sizes of the QI groups", "uri": group_sizes(drawn.sizes)}
        for column, counts in zip(table.sensitive, drawn.shares, strict=True):
            yield {"title": f"The most frequent {table.kept[column].name} of a QI group", "uri": largest_shares(counts)}
