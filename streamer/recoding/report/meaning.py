"""What every measure means to somebody who has never heard its name: one or two plain sentences.

`WHAT` of the measures says precisely what each is; this says what to make of a high or a low one. The meaning
depends on the form that is published, and on whether individuals are declared.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamer.table.schema import LOSSY_JOIN

MEANING: Mapping[str, str] = {
    "rows": "How many rows went in.",
    "suppressed": "These rows are not in the published table at all. Many of them bend every statistic.",
    "groups": "People are published in groups that look alike. More groups keep more detail.",
    "aes": "How many rows look alike, on average. The nearer to the smallest allowed, the more detail is kept.",
    "dm": "Grows with the square of the groups' sizes: low where no group is larger than it has to be.",
    "sed": "How much is left open about the values inside the groups. Low is precise.",
    "sed_literal": "The same as its paper writes it; only for comparison with other people's figures.",
    "sed_left_out": "Groups that the figure above cannot count, because all their rows are alike in some column.",
    "ncp": "How much detail was given up: 0 is exact values, 1 is nothing but stars. 0.05 is little, 0.3 is much.",
    "gcp": "The same without the rows that were left out.",
    "il": "The sum behind the next figure; it grows with the number of rows.",
    "ril": "How much was given up, of all there was to give up: 0 is nothing, 1 is everything.",
    "distortion": "How far up their hierarchies values were lifted: 0 not at all, 1 to the very top.",
    "k": "The smallest crowd that anybody of the table is hidden in, counted in rows.",
    "k_individuals": "The smallest crowd counted in people: one person with five rows is one person.",
    "l": "How many different secrets there are in the group that has the fewest. 1 means that a secret is known.",
    "alpha": "How much of a group is one and the same person. 1 means a group of one person.",
    "beta": "How sure one can be of a secret in the worst group: 0.5 is a coin's toss, 1 is certain.",
    "risk": "The same for secrets that are close to each other, such as two diseases of the lung.",
    "vulnerable": "Groups that look large enough by their rows and are not by their people. Should be 0.",
    "single_value": "Groups in which all rows are one person's. Should be 0.",
    "prosecutor_max": "The risk of the person who is hidden worst: 0.2 is one in five.",
    "prosecutor_mean": "The same risk on average over the rows.",
    "quasi_identifiers": "How many rows the first table has.",
    "joined_rows": "How many rows there are once both tables are put together again.",
    "joined_true": "Of these rows, how many are true. The others are what hides people.",
}

OF_NOBODY: Mapping[str, str] = {
    "k_individuals": "The same as k: table.yaml does not say whose rows they are, so each counts as a person.",
    "alpha": "How much of a group is one row; of people it says nothing, because table.yaml does not say whose it is.",
    "vulnerable": "Cannot be told: table.yaml does not say whose rows they are. Always 0.",
    "single_value": "Cannot be told: table.yaml does not say whose rows they are. Always 0.",
}
"""Where k counts rows, and no people."""

OF_A_JOIN: Mapping[str, str] = {
    "groups": "Within a group it is open whose secret is whose; quasi-identifiers are not.",
    "aes": "Among how many rows a secret could be anybody's, on average.",
    "k": "The fewest rows among which it is open whose secret is whose. Who is in the table is not open.",
    "prosecutor_max": "Whoever is found in the first table: the chance to pick her row of the second one, at worst.",
    "prosecutor_mean": "The same chance on average over the rows.",
}
"""Of a lossy join, in which everybody can be found."""


def meanings(form: str, by_individual: bool) -> Mapping[str, str]:
    """What every measure means of a table that is published in this form; by_individual: k counts people."""
    return {**MEANING, **(OF_A_JOIN if form == LOSSY_JOIN else {}), **({} if by_individual else OF_NOBODY)}
