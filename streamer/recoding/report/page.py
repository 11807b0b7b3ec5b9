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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED
from streamer.recoding.report.charts import bars, group_sizes, largest_shares, tradeoff
from streamer.recoding.report.findings import Drawn
from streamer.recoding.report.tradeoffs import ROWS_MAX, Curve
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
        diverse=any(limit is not None for _, asked in table.demands for limit in (asked.l, asked.beta, asked.r)),
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
