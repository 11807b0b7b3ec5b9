"""Losses of every algorithm on tables of many kinds under many models: is the default the best of them?

A *setting* is a table and a model. In each, every algorithm of the catalogue runs as it is, without options; the
measure is NCP. Three questions are answered from the figures:

* in every setting: does the default lose at most NEAR times as much as the best algorithm there?
* in which settings is another algorithm ahead of the default, and by how much (`beside_others`)?
* of every algorithm: is the default better *in the mean*? That is the mean over all settings in which the algorithm
  runs of its loss divided by the default's; above 1, the default is the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from statistics import fmean
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from benchmarks import adult, kinds, shapes
from streamer.privacy.models import Model, alpha_beta, distinct_l, identity_reserved, k_anonymity, k_l, model_of, r_k
from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM, objections, run
from streamer.recoding.algorithms.contract import LEFT_OUT, Algorithm, Options
from streamer.recoding.metrics import utility
from streamer.table.codes import Attribute, CategoricalAttribute, DistributionDemands
from streamer.table.microdata import INDIVIDUAL, Microdata, Subject

Result = dict[str, object]
Answer = TypeVar("Answer")

NEAR = 1.02
VALUE, PARENT = Subject(0), Subject(0, 1)


@dataclass(frozen=True)
class Workload:
    """A table, made when it is asked for, and the models it is anonymized under, by their names."""

    table: Callable[[], Microdata]
    models: Mapping[str, Model] = field(repr=False)
    laws: Mapping[str, DistributionDemands] = field(repr=False, default_factory=dict)  # of k = 5, too


def beta(k: int, share: Fraction) -> Model:
    """At least k rows, and no sensitive value above a share."""
    return alpha_beta(INDIVIDUAL, Fraction(1), VALUE, share) & k_anonymity(k)


def adult_with_occupations() -> Microdata:
    """8,000 of the 45,222 people, evenly spread over the file, with occupation as the sensitive value."""
    source = adult.microdata_45222(5)
    return source.rows(np.arange(8_000) * len(source) // 8_000)


def weighted() -> Microdata:
    """The same people, whose columns have the weights 1, 2, 4, 1, 2, 4 and so on."""
    people = adult_with_occupations()
    return with_attributes(lambda j, attribute: replace(attribute, weight=Decimal(2 ** (j % 3))), people)


def bounded() -> Microdata:
    """The same people, as `with_coarsest` has them."""
    return with_coarsest(adult_with_occupations())


def with_coarsest(people: Microdata) -> Microdata:
    """No number is published wider than a fifth of its domain, no category as the root of its tree."""
    return with_attributes(
        lambda _, attribute: (
            replace(attribute, coarsest=max(0, attribute.hierarchy.n_levels - 2))
            if isinstance(attribute, CategoricalAttribute)
            else replace(attribute, coarsest=(attribute.domain[1] - attribute.domain[0]) / 5)
        ),
        people,
    )


def with_attributes(changed: Callable[[int, Any], Attribute], people: Microdata) -> Microdata:
    attributes = tuple(changed(j, attribute) for j, attribute in enumerate(people.table.attributes))
    return replace(people, table=replace(people.table, attributes=attributes))


PLAIN_K = {"k = 5": k_anonymity(5), "k = 10": k_anonymity(10)}
SEVERAL = {
    **PLAIN_K,
    "k = 5, l = 3": k_anonymity(5) & distinct_l(VALUE, 3),
    "k = 5, beta = 0.4": beta(5, Fraction(2, 5)),
    "k = 5, r = 0.6": r_k(5, PARENT, Fraction(3, 5)),
}
OF_OCCUPATIONS = {
    "k = 5, beta = 0.25": beta(5, Fraction(1, 4)),
    "k = 5, l = 4": k_anonymity(5) & distinct_l(VALUE, 4),
    "k = 10, r = 0.5": r_k(10, PARENT, Fraction(1, 2)),
}
OF_STROKES = {
    **PLAIN_K,
    "k = 5, l = 2": k_anonymity(5) & distinct_l(VALUE, 2),
    "k = 10, l = 2": k_anonymity(10) & distinct_l(VALUE, 2),
    "k = 5, beta = 0.97": beta(5, Fraction(97, 100)),
}
OF_CMC = {
    **PLAIN_K,
    "k = 5, l = 3": k_anonymity(5) & distinct_l(VALUE, 3),
    "k = 5, beta = 0.5": beta(5, Fraction(1, 2)),
}
OF_RARE = {
    **PLAIN_K,
    "k = 5, l = 2": k_anonymity(5) & distinct_l(VALUE, 2),
    "k = 5, l = 3": k_anonymity(5) & distinct_l(VALUE, 3),
    "k = 5, beta = 0.93": beta(5, Fraction(93, 100)),
}
OF_INDIVIDUALS = {
    "k = 5 people": identity_reserved(5),
    "k = 10 people": identity_reserved(10),
    "k = 5 people, l = 3": k_l(5, VALUE, 3),
    "alpha = 0.2, beta = 0.4": alpha_beta(INDIVIDUAL, Fraction(1, 5), VALUE, Fraction(2, 5)),
}

LAWS = {
    "k = 5, entropy l = 3": DistributionDemands(entropy_l=Decimal(3)),
    "k = 5, recursive (2, 3)": DistributionDemands(recursive=(Decimal(2), 3)),
    "k = 5, t = 0.3": DistributionDemands(t=Decimal("0.3")),
    "k = 5, t = 0.2": DistributionDemands(t=Decimal("0.2")),
}

WORKLOADS = {
    "adult": Workload(lambda: adult.microdata(5), PLAIN_K),
    "adult-8000": Workload(adult_with_occupations, OF_OCCUPATIONS, LAWS),
    "adult-8000, weighted": Workload(weighted, PLAIN_K),
    "adult-8000, bounded": Workload(bounded, PLAIN_K),
    "stroke": Workload(kinds.stroke, OF_STROKES),
    "cmc": Workload(kinds.cmc, OF_CMC),
    "rare": Workload(kinds.rare, OF_RARE),
    "flat-300": Workload(lambda: kinds.flat_codes(300, 0.0), PLAIN_K),
    "flat-1000": Workload(lambda: kinds.flat_codes(1_000, 0.5), PLAIN_K),
    "flat-5000": Workload(lambda: kinds.flat_codes(5_000, 1.0), PLAIN_K),
    "correlated": Workload(kinds.correlated, SEVERAL, LAWS),
    "individuals": Workload(kinds.individuals, OF_INDIVIDUALS),
    "mixture": Workload(kinds.mixture, SEVERAL, LAWS),
}


KS = (2, 5, 10, 25, 50, 100, 250, 1_000)
ROWS_OF_A_SHAPE = 12_000


def of_shape(name: str) -> Microdata:
    """The first rows of a table of `shapes`: as many as it begins with there, at most ROWS_OF_A_SHAPE."""
    synthetic = shapes.SYNTHETIC.get(name)
    people, first = shapes.pool(name, min(synthetic.rows if synthetic else ROWS_OF_A_SHAPE, ROWS_OF_A_SHAPE))
    return people.rows(np.arange(first))


BY_K = {
    name: Workload(partial(of_shape, name), {f"k = {k}": k_anonymity(k) for k in KS})
    for name in (*shapes.SYNTHETIC, *shapes.PUBLIC, shapes.ADULT)
    if shapes.is_there(name)
}
"""The tables of the benchmark of drift, at many k."""


def losses(
    algorithms: Sequence[Algorithm],
    tables: Iterable[str],
    rows_max: int | None = None,
    workloads: Mapping[str, Workload] = WORKLOADS,
) -> Iterator[Result]:
    """Every algorithm in every setting of these tables, of which the first rows_max rows are taken."""
    for name in tables:
        people = workloads[name].table()
        people = people.rows(np.arange(min(rows_max or len(people), len(people))))
        asked = [(said, people, model) for said, model in workloads[name].models.items()]
        for said, law in workloads[name].laws.items():
            some = adult.with_demands(replace(people, table=replace(people.table, k=5)), law)
            asked.append((said, some, model_of(some.table)))
        for said, some, model in asked:
            if model.rows_min > len(some):
                continue
            for algorithm in algorithms:
                setting: Result = {"table": name, "model": said, "rows": len(some), "algorithm": algorithm.name}
                yield setting | lost(algorithm, some, model)


LEAVING_OUT = Options(too_wide=LEFT_OUT)
"""What `coarsest` leaves out is counted as lost, not refused."""


def lost(algorithm: Algorithm, people: Microdata, model: Model, options: Options = LEAVING_OUT) -> Result:
    """Costs of one run; time in sorts of the table."""
    if said := objections(algorithm, people.table, model, options):
        return {"skipped": said[0]}
    seconds, recoding = timed(lambda: run(algorithm, people, model, options))
    sort = min(timed(lambda: np.lexsort(people.codes.T))[0] for _ in range(3))
    return {
        "ncp": utility.ncp(people, recoding),
        "groups": recoding.n_groups,
        "largest": int(recoding.sizes.max(initial=0)),
        "suppressed": recoding.n_suppressed,
        "units": seconds / sort,
    }


def timed(work: Callable[[], Answer]) -> tuple[float, Answer]:
    """Seconds of one call, and its answer."""
    begun = perf_counter()
    answer = work()
    return perf_counter() - begun, answer


def judged(losses: Sequence[Result]) -> list[Result]:
    """Setting by setting: the default beside the best; only settings in which the default and another one ran."""
    verdicts = []
    for (table, model), ran in by_setting(losses).items():
        if DEFAULT_ALGORITHM in ran and len(ran) > 1:
            least = min(ran, key=lambda name: ran[name])
            verdict: Result = {"table": table, "model": model, "default": ran[DEFAULT_ALGORITHM], "best": least}
            over = ran[DEFAULT_ALGORITHM] / ran[least]
            verdicts.append(verdict | {"ncp": ran[least], "over_best": over, "within_2_percent": over <= NEAR})
    return verdicts


def beside_others(losses: Sequence[Result]) -> list[Result]:
    """Setting by setting, the default beside the best of the others, first where it is farthest behind."""
    found: list[Result] = []
    for (table, model), ran in by_setting(losses).items():
        others = {name: ncp for name, ncp in ran.items() if name != DEFAULT_ALGORITHM and ncp > 0}
        if DEFAULT_ALGORITHM in ran and others:
            best = min(others, key=lambda name: others[name])
            over = {
                "default": ran[DEFAULT_ALGORITHM],
                "other": others[best],
                "over": ran[DEFAULT_ALGORITHM] / others[best],
            }
            found.append({"table": table, "model": model, "best": best, **over})
    return sorted(found, key=lambda verdict: -float(str(verdict["over"])))


def in_the_mean(losses: Sequence[Result]) -> list[Result]:
    """Of every other algorithm: the mean over its settings of its loss divided by the default's."""
    ratios: dict[str, list[float]] = {}
    for ran in by_setting(losses).values():
        for name, ncp in ran.items():
            if DEFAULT_ALGORITHM in ran and name != DEFAULT_ALGORITHM:
                ratios.setdefault(name, []).append(ncp / ran[DEFAULT_ALGORITHM])
    return [
        {
            "algorithm": name,
            "settings": len(some),
            "mean_ratio": fmean(some),
            "default_is_better": fmean(some) > 1,
        }
        for name, some in ratios.items()
    ]


def by_setting(losses: Sequence[Result]) -> dict[tuple[str, str], dict[str, float]]:
    """NCP by table and model, then by algorithm; without what was left out."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for loss in losses:
        if "ncp" in loss:
            ran = found.setdefault((str(loss["table"]), str(loss["model"])), {})
            ran[str(loss["algorithm"])] = float(str(loss["ncp"]))
    return found


def with_options(algorithms: Sequence[Algorithm], rows_max: int | None = None) -> Iterator[Result]:
    """Adult under plain k with the options that an algorithm has: sweeps that refine, a share of suppressed rows."""
    people = WORKLOADS["adult"].table()
    people = people.rows(np.arange(min(rows_max or len(people), len(people))))
    for said, model in PLAIN_K.items():
        for algorithm in algorithms:
            for words, options in options_of(algorithm):
                setting: Result = {"model": said, "rows": len(people), "algorithm": algorithm.name, "option": words}
                yield setting | lost(algorithm, people, model, options)


def options_of(algorithm: Algorithm) -> Iterator[tuple[str, Options]]:
    if algorithm.refines:
        yield from ((f"refine = {sweeps}", Options(refine=sweeps)) for sweeps in (1, 2, 3))
    if algorithm.suppresses:
        yield "suppression = 0.05", Options(suppression=0.05)
