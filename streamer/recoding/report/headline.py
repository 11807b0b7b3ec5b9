"""The few sentences that come before all measures: what is guaranteed, and what an attacker can still do.

Attackers have the names that ARX and El Emam and Dankar 2008 gave them. The *prosecutor* knows that a person is in the
table. The *journalist* wants to find anybody at all and does not know who is in it: the risk is at most the
prosecutor's, and how far below depends on the people who might have been in the table, of whom nothing is known here.
The *marketer* wants as many as possible right. None of them counts what a QI group gives away without anybody being
picked out: that is said of every sensitive column. What no figure looks at is said last: rows of one person that count
as several people, and columns that are published as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.metrics.risk import individuals_by_group, share_by_group
from streamer.table.microdata import Microdata, Subject
from streamer.table.schema import LOSSY_JOIN, Table

CROWDS = (2, 3, 5, 10, 20)
"""Numbers of people below which a row's crowd is counted as small."""


@dataclass(frozen=True)
class Headline:
    """One finding: who or what, how much in a few words, and what it means."""

    title: str
    figure: str
    sentence: str


def headlines(measures: Mapping[str, Any], microdata: Microdata, recoding: Recoding, form: str) -> list[Headline]:
    """What can still be found out; nothing where nothing is published."""
    if not recoding.n_groups:
        return []
    by_individual = microdata.individuals is not None
    about_people = _of_a_join() if form == LOSSY_JOIN else _of_rows(measures, by_individual)
    return [*about_people, *_of_values(microdata, recoding), *_not_looked_at(microdata.table)]


def _of_rows(measures: Mapping[str, Any], by_individual: bool) -> Iterator[Headline]:
    worst, mean, alpha = measures["prosecutor_max"], measures["prosecutor_mean"], measures["alpha"]
    picks = "picks her out of the people of her QI group" if by_individual else "picks the right row"
    yield Headline(
        "Prosecutor",
        f"{chance(worst)} at worst, {chance(mean)} on average",
        f"Somebody who knows that a person is in the table, and her quasi-identifiers, {picks} with this chance. That "
        "she is in the table is not hidden.",
    )
    if by_individual and alpha > worst:
        yield Headline(
            "One row of a person's QI group",
            f"is hers with {percent(alpha)} at worst",
            "Some people have more of a QI group's rows than others, and whoever knows that of somebody guesses better "
            "than by counting people. `alpha` in table.yaml bounds it.",
        )
    yield Headline(
        "Journalist",
        f"{chance(worst)} at most",
        "Somebody who wants to find anybody, and does not know who is in the table. How much lower it really is "
        "depends on the people who might have been in it; without a register of them the prosecutor's is the bound.",
    )
    yield Headline(
        "Marketer",
        f"{percent(mean)} of the rows",
        "Somebody who guesses for every row, and wants as many right as possible.",
    )


def _of_a_join() -> Iterator[Headline]:
    yield Headline(
        "Who is in the table",
        "not hidden",
        "Quasi-identifiers are published as exactly as the columns' grids are, so whoever knows somebody's sees "
        "whether such a person is in the table, and in which QI group. Prosecutor, journalist and marketer find people "
        "here; what is hidden is which value is whose.",
    )


def _of_values(microdata: Microdata, recoding: Recoding) -> Iterator[Headline]:
    for column in microdata.table.sensitive:
        name = microdata.table.kept[column].name
        shares = share_by_group(microdata, recoding, Subject(column))
        known = int((shares == 1).sum())
        alone = f"In {known:,} of {len(shares):,} QI groups all rows share one value: there it is known of everybody."
        yield Headline(
            f"{name}, of a person whose QI group is known",
            f"guessed right with {percent(float(shares.max()))} at worst",
            alone if known else "In no QI group do all rows share one value.",
        )


def _not_looked_at(table: Table) -> Iterator[Headline]:
    if table.individual is None:
        yield Headline(
            "Whose rows they are",
            "not known: every row counts as a person",
            "table.yaml names no column that says it. Where somebody can have several rows, a QI group is fewer people "
            "than rows, and every chance above is really higher.",
        )
    if as_they_are := [column.name for column in table.kept if not column.sensitive]:
        yield Headline(
            "Published as they are",
            ", ".join(as_they_are),
            "Whoever knows such a value of somebody can tell the rows of a QI group apart by it, and every chance "
            "above is then really higher: no figure of this page looks at them.",
        )


def rows_at_risk(microdata: Microdata, recoding: Recoding) -> list[tuple[str, int, str]]:
    """For every crowd: the risk that it stands for, how many rows have more, and their share of the published ones."""
    if not recoding.n_groups:
        return []
    sizes, people = recoding.sizes, individuals_by_group(microdata, recoding)
    counted = [(crowd, int(sizes[people < crowd].sum())) for crowd in CROWDS]
    return [(chance(1 / crowd), rows, percent(rows / int(sizes.sum()))) for crowd, rows in counted]


def chance(share: float) -> str:
    """A share as people say chances.

    >>> chance(0.2), chance(0.15), chance(1.0)
    ('1 in 5', '1 in 6.7', 'certain')
    """
    return "certain" if share == 1 else f"1 in {float(f'{1 / share:.2g}'):,.9g}"


def percent(share: float) -> str:
    """
    >>> percent(0.125), percent(0.00012)
    ('12.5 %', '0.012 %')
    """
    return f"{100 * share:.3g} %"
