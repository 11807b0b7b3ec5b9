"""The reports of `anonymize` and `compare`: one HTML file each, which needs nothing beside it.

They are written for a data protection officer: what was done to what and when, what is guaranteed in words, what can
still be found out, and then every measure with what it means. They show counts, shares, losses, settings and the text
of table.yaml, never a value of a row, so a report may go where the published table goes. The same run gives the same
bytes, but for the time that it is handed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED
from streamer.recoding.metrics.risk import share_by_group
from streamer.recoding.metrics.utility import ncp_by_attribute
from streamer.recoding.report import pictures
from streamer.recoding.report.headline import headlines, rows_at_risk
from streamer.recoding.report.meaning import MEANING, meanings
from streamer.recoding.report.provenance import Provenance
from streamer.recoding.report.tradeoffs import ROWS_MAX, Curve
from streamer.table.microdata import Microdata, Subject

COMPARED = ("groups", "ncp", "aes", "k", "l", "beta", "risk", "suppressed")
"""The measures of the comparison's table."""


def anonymize_page(
    facts: Mapping[str, Any],
    microdata: Microdata,
    recoding: Recoding,
    provenance: Provenance,
    curves: Sequence[Curve] = (),
) -> str:
    """The report of one run; facts: what was done and every measure, as `streamer anonymize --json` prints them."""
    return _rendered(
        "anonymize.html",
        facts=facts,
        provenance=provenance,
        headlines=headlines(facts["measures"], microdata, recoding, facts["form"]),
        meaning=meanings(facts["form"], microdata.individuals is not None),
        at_risk=[] if "ncp" not in facts["measures"] else rows_at_risk(microdata, recoding),
        pictures=list(_pictures(facts["measures"], microdata, recoding)),
        **_tradeoffs(curves, len(microdata)),
    )


def compare_page(report: Mapping[str, Any], provenance: Provenance, curves: Sequence[Curve] = ()) -> str:
    """The report of a comparison, which `streamer compare --json` prints; curves: of the default algorithm."""
    ran = [found for found in report["algorithms"] if "measures" in found]
    names = [found["name"] for found in ran]
    drawn = {
        "NCP": [found["measures"]["ncp"] for found in ran],
        "seconds": [found["seconds"] for found in ran],
    }
    return _rendered(
        "compare.html",
        report=report,
        provenance=provenance,
        compared=COMPARED,
        meaning=MEANING,
        ran=ran,
        could_not=[found for found in report["algorithms"] if "cannot" in found],
        pictures=[{"title": label, "uri": pictures.bars(names, values, label)} for label, values in drawn.items()],
        **_tradeoffs(curves, report["rows"]),
    )


def _rendered(template: str, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("streamer.recoding.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(what={**WHAT, **WHAT_JOINED}, figure=figure, **values)


def figure(value: bool | float | str | None) -> str:
    """A number as people read it; nothing is a dash, and words stay."""
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
    drawn = [{"title": f"More {curve.demand}", "uri": pictures.tradeoff(curve)} for curve in curves]
    return {"tradeoffs": drawn, "tradeoff_rows": ROWS_MAX if rows > ROWS_MAX else None}


def _pictures(measures: Mapping[str, Any], microdata: Microdata, recoding: Recoding) -> Iterator[dict[str, str]]:
    """Title and picture (a data URI) of what can be shown; what attributes lost only where that was measured."""
    losses = ncp_by_attribute(microdata, recoding) if "ncp" in measures else None
    if losses is not None:
        names = [attribute.name for attribute in microdata.table.attributes]
        uri = pictures.bars(names, losses.tolist(), "NCP of the attribute")
        yield {"title": "What every attribute lost", "uri": uri}
    if recoding.n_groups:
        yield {"title": "Sizes of the QI groups", "uri": pictures.group_sizes(recoding.sizes)}
        for column in microdata.table.sensitive:
            name = microdata.table.kept[column].name
            shares = share_by_group(microdata, recoding, Subject(column))
            yield {"title": f"The most frequent {name} of a QI group", "uri": pictures.largest_shares(shares)}
