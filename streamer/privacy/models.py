"""Privacy models: what every QI group of a published table must satisfy.

The rules of this file
----------------------
* Every model is a conjunction of four kinds of *constraints* on the rows of a QI group: at least n rows; at least n
  distinct subjects; no subject with more than a share of the rows; laws about how the rows are distributed over the
  subjects (`streamer.privacy.distributions`). A *subject* is what a constraint counts:
  individuals, the values of one sensitive column, or their ancestors at a level of that column's hierarchy; what is one
  text, however it is written, is one subject (`streamer.table.codes.same_text`).
* Models compose with `&`. Of two constraints of one kind and subject, the stronger stays.
* Shares are exact fractions: 2 of 4 rows are a share of 1/2, and no rounding decides about a person.
* *Closed under union*: if two groups hold a model, their union does. This is true of every model (a share of a union
  lies between the shares of its parts), so merging repairs a group and generalizing never breaks one.
* *Growing*: a group that holds still holds with any row added. Models with shares or laws are not.
* A null never makes a group diverse: it is not one of the l distinct values, unless table.yaml says `null_counts` (then
  it is a value like any other). In shares, a null always is a value. If no row of a group has a value, that says
  something about all of them, so the share of nulls is bounded, too. And nulls are among the rows: with at most a share
  s of nulls, no value has more than s / (1 - s) of the rows that have one. Leaving nulls out would only loosen the
  bound.

Sources: k-anonymity, Samarati and Sweeney; identity-reserved k, (k, l), (alpha, beta): Tong et al. 2010, definitions 2,
3 and 4; (r, k): Gui et al. 2020, definition 4; distinct l: Machanavajjhala et al. 2006.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np

from streamer.privacy.distributions import (
    AtLeastEntropy,
    AtMostDistance,
    Law,
    Recursive,
    by_subject,
    law_held,
    measured,
)
from streamer.table.arrays import Bools, Ints
from streamer.table.codes import DistributionDemands, Diversity
from streamer.table.microdata import IN_REFERENCE, INDIVIDUAL, NULL, Subject, codes_in_reference, nodes_above
from streamer.table.row import Values
from streamer.table.schema import SealedRules, Table


@dataclass(frozen=True)
class AtLeastRows:
    n: int


@dataclass(frozen=True)
class AtLeastDistinct:
    subject: Subject
    n: int


@dataclass(frozen=True)
class AtMostShare:
    subject: Subject
    share: Fraction


Constraint = AtLeastRows | AtLeastDistinct | AtMostShare | Law


class Model:
    """A conjunction of constraints.

    >>> (k_anonymity(3) & k_anonymity(5)).rows_min
    5
    >>> alpha_beta(INDIVIDUAL, Fraction(1, 2), Subject(0), Fraction(1, 4)).rows_min
    4
    """

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        rows, distinct, shares, laws = 1, dict[Subject, int](), dict[Subject, Fraction](), list[Law]()
        for constraint in constraints:
            match constraint:
                case AtLeastRows(n):
                    rows = max(rows, n)
                case AtLeastDistinct(subject, n):
                    distinct[subject] = max(distinct.get(subject, 1), n)
                case AtMostShare(subject, share):
                    shares[subject] = min(shares.get(subject, Fraction(1)), share)
                case _:
                    laws.append(constraint)
        self.rows = rows
        self.distinct: Mapping[Subject, int] = {subject: distinct[subject] for subject in sorted(distinct)}
        self.shares: Mapping[Subject, Fraction] = {subject: shares[subject] for subject in sorted(shares)}
        self.laws = by_subject(laws)

    def __and__(self, other: Model) -> Model:
        return Model((*self.constraints, *other.constraints))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.constraints == other.constraints

    def __hash__(self) -> int:
        return hash(self.constraints)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (
            AtLeastRows(self.rows),
            *(AtLeastDistinct(subject, n) for subject, n in self.distinct.items()),
            *(AtMostShare(subject, share) for subject, share in self.shares.items()),
            *self.laws,
        )

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The counted subjects, in the order of the columns that `holds_by_group` takes."""
        return tuple(sorted({*self.distinct, *self.shares, *(law.subject for law in self.laws)}))

    @cached_property
    def rows_min(self) -> int:
        """No group with fewer rows can hold: k, l, or the rows that a share or a law requires."""
        needed = (ceil(1 / share) for share in self.shares.values())
        return max((self.rows, *self.distinct.values(), *needed, *(law.rows_min for law in self.laws)))

    @property
    def is_growing(self) -> bool:
        """True if a group that holds still holds with any row added."""
        return not self.shares and not self.laws

    def holds_by_group(self, qi_group: Ints, n_groups: int, subjects: Ints) -> Bools:
        """True for each QI group that holds; an empty group does not. Rows with a negative group number do not count.

        qi_group: int64 (n,); subjects: int64 (n, s), columns as in `subjects`, codes from 0. Returns bool (n_groups,).
        """
        inside = qi_group >= 0
        if not inside.all():
            qi_group, subjects = qi_group[inside], subjects[inside]
        size = np.bincount(qi_group, minlength=n_groups)
        holds = np.asarray(size >= self.rows)
        for column, subject in enumerate(self.subjects):
            codes, group = subjects[:, column], qi_group
            if not subject.null_counts:
                codes, group = codes[codes != NULL], group[codes != NULL]
            n_codes = int(codes.max(initial=0)) + 1
            pairs, count = np.unique(group * n_codes + codes, return_counts=True)
            owner = pairs // n_codes
            if subject in self.distinct:
                holds &= np.bincount(owner, minlength=n_groups) >= self.distinct[subject]
            if subject in self.shares:
                share = self.shares[subject]
                holds[owner[exceeds(count, size[owner], share)]] = False
            for law in (law for law in self.laws if law.subject == subject):
                begins = np.searchsorted(owner, np.arange(n_groups + 1)).astype(np.int64)
                holds &= law_held(law, begins, pairs - owner * n_codes, count.astype(np.int64), size)
        return holds

    def holds(self, subjects: Ints) -> bool:
        """True if the rows subjects (m, s) as one QI group hold."""
        return bool(self.holds_by_group(np.zeros(len(subjects), dtype=np.int64), 1, subjects)[0])

    def shortfall(self, subjects: Ints, names: Mapping[Subject, str]) -> str:
        """The first constraint that the rows subjects (m, s) as one QI group break, in words; "" if all hold."""
        counts = [np.bincount(column, minlength=1) for column in subjects.T]
        for subject, count in zip(self.subjects, counts, strict=True):
            if not subject.null_counts:
                count[NULL] = 0
        return self.shortfall_of_counts(len(subjects), counts, names)

    def shortfall_of_counts(self, n: int, counts: Sequence[Ints], names: Mapping[Subject, str]) -> str:
        """The same of n rows; counts: of each subject, how many rows each of its codes has that counts."""
        if n < self.rows:
            return f"{counted(n, 'rows')} fewer than k = {self.rows}"
        for subject, count in zip(self.subjects, counts, strict=True):
            n_distinct, top = int((count > 0).sum()), int(count.max(initial=0))
            if n_distinct < self.distinct.get(subject, 0):
                return f"{counted(n_distinct, names[subject], 'distinct ')} fewer than {self.distinct[subject]}"
            share = self.shares.get(subject, Fraction(1))
            if top > share * n:
                return (
                    f"one of the {names[subject]} has {top} of {n} rows ({top / n:.3f});"
                    f" the largest share allowed is {float(share):g}"
                )
            for law in (law for law in self.laws if law.subject == subject):
                codes = np.flatnonzero(count).astype(np.int64)
                if not law_held(law, np.array([0, len(codes)]), codes, count[codes].astype(np.int64), np.array([n]))[0]:
                    has, needs = measured(law, count)
                    return f"the {names[subject]} have {law.measure} {has:.3f}; allowed is {law.bound} {needs:g}"
        return ""


def exceeds(count: Any, size: Any, share: Any) -> Any:
    """True if `count` of `size` rows are more than a share of them; numbers or arrays.

    share: anything with a numerator and a denominator.
    """
    return count * share.denominator > size * share.numerator


def counted(n: int, names: str, which: str = "") -> str:
    """The beginning of a sentence about n things, by their plural.

    >>> counted(1, "values of problem", "distinct "), counted(4, "rows")
    ('1 distinct value of problem is', '4 rows are')
    """
    noun, blank, rest = names.partition(" ")
    return f"{n} {which}{noun.removesuffix('s') if n == 1 else noun}{blank}{rest} {'is' if n == 1 else 'are'}"


def k_anonymity(k: int) -> Model:
    return Model([AtLeastRows(k)])


def identity_reserved(k: int) -> Model:
    """At least k individuals (Tong et al. 2010, definition 2)."""
    return Model([AtLeastRows(k), AtLeastDistinct(INDIVIDUAL, k)])


def distinct_l(sensitive: Subject, l: int) -> Model:  # noqa: E741
    """At least l distinct sensitive values."""
    return Model([AtLeastDistinct(sensitive, l)])


def k_l(k: int, sensitive: Subject, l: int) -> Model:  # noqa: E741
    """At least k individuals and l sensitive values (Tong et al. 2010, definition 3)."""
    return identity_reserved(k) & distinct_l(sensitive, l)


def alpha_beta(individual: Subject, alpha: Fraction, sensitive: Subject, beta: Fraction) -> Model:
    """No individual above a share of alpha, no sensitive value above beta (Tong et al. 2010, definition 4)."""
    return Model([AtMostShare(individual, alpha), AtMostShare(sensitive, beta)])


def r_k(k: int, ancestors: Subject, r: Fraction) -> Model:
    """At least k rows, and no set of close sensitive values above a share of r (Gui et al. 2020, definition 4)."""
    return Model([AtLeastRows(k), AtMostShare(ancestors, r)])


def model_of(table: Table) -> Model:
    """The model of table.yaml: k (of individuals, if it declares them) and its diversity, also that of its columns."""
    counted = table.individual is not None
    model = identity_reserved(table.k) if counted else k_anonymity(table.k)
    if table.diversity.alpha is not None:
        alpha = Fraction(table.diversity.alpha)
        model &= Model([AtMostShare(INDIVIDUAL, alpha) if counted else AtLeastRows(ceil(1 / alpha))])
    return model & Model(chain.from_iterable(_of_column(*one) for one in table.demands)) & Model(_laws(table))


def cohort_model(table: Table, rules: SealedRules) -> Model:
    """The model of the values that a sealed cohort shows: its alpha and l, and what columns demand of themselves.

    To `rules.l` a null is a value like any other.
    """
    own = ((i, asked) for i in table.sensitive if (asked := table.kept[i].diversity) is not None)
    return Model(
        [
            *(AtLeastDistinct(Subject(column), rules.l) for column in table.sensitive),
            *(AtMostShare(Subject(column), Fraction(rules.alpha)) for column in table.sensitive),
            *chain.from_iterable(_of_column(column, asked) for column, asked in own),
            *_laws(table),
        ]
    )


def _of_column(column: int, asked: Diversity) -> Iterator[Constraint]:
    """What is demanded of the values of a sensitive column."""
    if asked.l is not None:
        yield AtLeastDistinct(Subject(column, null_counts=asked.null_counts), asked.l)
    if asked.beta is not None:
        yield AtMostShare(Subject(column), Fraction(asked.beta))
    if asked.r is not None:
        yield AtMostShare(Subject(column, asked.level), Fraction(asked.r))


def _laws(table: Table) -> Iterator[Law]:
    """What is demanded of the distributions of sensitive values."""
    for column in table.sensitive:
        asked = table.kept[column].distribution
        if asked is not None:
            yield from _laws_of_column(column, asked)


def _laws_of_column(column: int, asked: DistributionDemands) -> Iterator[Law]:
    for subject in (Subject(column), *(() if asked.null_counts else (Subject(column, null_counts=False),))):
        if asked.entropy_l is not None:
            yield AtLeastEntropy(subject, asked.entropy_l)
        if asked.recursive is not None:
            yield Recursive(subject, *asked.recursive)
    if asked.t is not None:
        yield AtMostDistance(Subject(column, IN_REFERENCE), asked.t, asked.distance, asked.reference)


def shown_by_rows(model: Model) -> Model:
    """The part of a model that published rows show: all but individuals; of these, the least number of rows."""
    shown = [one for one in model.constraints if isinstance(one, AtLeastRows) or one.subject != INDIVIDUAL]
    return Model([*shown, AtLeastRows(about_individuals(model).rows_min)])


def about_individuals(model: Model) -> Model:
    """The part of a model that only those can see who know whose rows they are."""
    return Model(one for one in model.constraints if not isinstance(one, AtLeastRows) and one.subject == INDIVIDUAL)


def subject_names(table: Table, model: Model) -> dict[Subject, str]:
    """The name of each subject in messages."""
    names = {INDIVIDUAL: "individuals"}
    for subject in model.subjects:
        if subject != INDIVIDUAL:
            column = table.kept[subject.column].name
            level = f" at level {subject.level} of its hierarchy" if subject.level > 0 else ""
            null = "" if subject.null_counts else " other than null"
            names[subject] = f"values of {column}{level}{null}"
    return names


def words(table: Table, model: Model) -> str:
    """The model as a sentence of the command line.

    >>> from streamer.table.schema import Table
    >>> words(Table("t", ("id",), (), (), 5), k_anonymity(5))
    'at least 5 rows'
    """
    names = subject_names(table, model)
    said = [] if model.rows <= 1 else [f"at least {model.rows} rows"]
    said += [f"at least {n} distinct {names[subject]}" for subject, n in model.distinct.items()]
    for subject, share in model.shares.items():
        percent = f"{Decimal(share.numerator) * 100 / Decimal(share.denominator):.4g} %"
        said.append(f"at most {percent} of the rows for any of the {names[subject]}")
    laws = [law for law in model.laws if law.subject.null_counts or replace(law.subject, null_counts=True) not in names]
    said += [law.words(names[law.subject]) for law in laws]
    return " and ".join(said) or "nothing"


TEXTS_MAX = 1 << 16
"""Texts of which is remembered what they count as."""


def subject_of(table: Table, subject: Subject) -> Callable[[Values], Hashable | None]:
    """The reader of a subject, other than individuals, in a published row: a counted text or the node above; None: a
    null."""
    i, counted = subject.column, table.counted_value
    if subject.level == IN_REFERENCE:
        code_of = codes_in_reference(table.kept[i])
        return lambda values: code_of(counted(values[i])) or None
    node_of = nodes_above(table.kept[i], subject.level, table.counted_text) if subject.level else None

    @lru_cache(TEXTS_MAX)
    def of_text(text: bytes) -> Hashable | None:
        return None if text == b"null" else counted(text) if node_of is None else node_of(text)

    return lambda values: of_text(values[i])


def of_values(table: Table, model: Model) -> Callable[[Sequence[Values]], bool]:
    """A model that counts no individuals as a predicate: True for rows whose values, as one QI group, hold."""
    asked = [
        (subject_of(table, s), s.null_counts, model.distinct.get(s, 0), model.shares.get(s, Fraction(1)))
        for s in model.subjects
    ]
    lawful, codes = Model((AtLeastRows(0), *model.laws)), SubjectCodes(table, Model(model.laws))

    def holds(rows: Sequence[Values]) -> bool:
        for reader, null_counts, distinct, share in asked:
            counts = Counter(map(reader, rows))
            if not null_counts:
                del counts[None]
            if len(counts) < distinct or exceeds(max(counts.values(), default=0), len(rows), share):
                return False
        return len(rows) >= model.rows and (not model.laws or lawful.holds(codes.of(rows)))

    return holds


class SubjectCodes:
    """Codes of published rows, as the methods of a `Model` take them; equal subjects have one code in one call."""

    def __init__(self, table: Table, model: Model) -> None:
        self._readers = [None if s == INDIVIDUAL else subject_of(table, s) for s in model.subjects]
        self._in_reference = [s.level == IN_REFERENCE for s in model.subjects]

    def of(self, values: Sequence[Values], individuals: Sequence[str | None] = ()) -> Ints:
        """Codes of n rows, int64 (n, s), columns as in `model.subjects`; NULL for a null.

        individuals: of each row, if the model counts them.
        """
        codes = np.empty((len(values), len(self._readers)), dtype=np.int64)
        for column, reader in enumerate(self._readers):
            number: dict[Hashable | None, int] = {None: NULL}
            counted = individuals if reader is None else map(reader, values)
            if self._in_reference[column]:
                codes[:, column] = np.array([NULL if one is None else one for one in counted], dtype=np.int64)
                continue
            codes[:, column] = [number.setdefault(one, len(number)) for one in counted]
        return codes


class Margin(NamedTuple):
    """One constraint on one QI group. `spare`: the number of rows, whichever they are, that can leave and it holds."""

    what: str
    has: float
    needs: float  # at most, for a share or a distance; else at least
    spare: int  # of a law 0: which rows may leave depends on their values


def margins(table: Table, model: Model, subjects: Ints) -> Iterator[Margin]:
    """The margins of the rows subjects (m, s), columns as in `model.subjects`, as one QI group."""
    n, names = len(subjects), subject_names(table, model)
    yield Margin("rows", n, model.rows, n - model.rows)
    for column, subject in enumerate(model.subjects):
        count = np.bincount(subjects[:, column], minlength=1)
        if not subject.null_counts:
            count[NULL] = 0
        distinct, top = int((count > 0).sum()), int(count.max(initial=0))
        if subject in model.distinct:
            needed = model.distinct[subject]
            yield Margin(f"distinct {names[subject]}", distinct, needed, distinct - needed)
        if subject in model.shares:
            share = model.shares[subject]
            spare = floor(n - top / share)
            yield Margin(f"largest share of {names[subject]}", top / n, float(share), spare)
        for law in (law for law in model.laws if law.subject == subject):
            has, needs = measured(law, count)
            yield Margin(f"{law.measure} of {names[subject]}", has, needs, 0)
