"""The report of one anonymization: one HTML file that needs nothing beside it.

It shows counts, shares, losses and settings, never a value of a row, so the report may go where the published table
goes. The same run gives the same bytes: times are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from streamer.recoding.algorithms.recoding import Recoding
from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED
from streamer.recoding.metrics.risk import share_by_group
from streamer.recoding.metrics.utility import ncp_by_attribute
from streamer.recoding.report import pictures
from streamer.table.microdata import Microdata, Subject


def page(facts: Mapping[str, Any], microdata: Microdata, recoding: Recoding) -> str:
    """The report as HTML; facts: what was done and every measure, as `streamer anonymize --json` prints them."""
    environment = Environment(
        loader=PackageLoader("streamer.recoding.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        facts=facts,
        what={**WHAT, **WHAT_JOINED},
        pictures=list(_pictures(facts["measures"], microdata, recoding)),
        figure=lambda value: "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}",
    )


def _pictures(measures: Mapping[str, Any], microdata: Microdata, recoding: Recoding) -> Iterator[dict[str, str]]:
    """Title and picture (a data URI) of what can be shown; what attributes lost only where that was measured."""
    losses = ncp_by_attribute(microdata, recoding) if "ncp" in measures else None
    if losses is not None:
        names = [attribute.name for attribute in microdata.table.attributes]
        yield {"title": "What every attribute lost", "uri": pictures.losses(names, losses.tolist())}
    if recoding.n_groups:
        yield {"title": "Sizes of the QI groups", "uri": pictures.group_sizes(recoding.sizes)}
        for column in microdata.table.sensitive:
            name = microdata.table.kept[column].name
            shares = share_by_group(microdata, recoding, Subject(column))
            yield {"title": f"The most frequent {name} of a QI group", "uri": pictures.largest_shares(shares)}
