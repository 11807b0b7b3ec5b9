"""The report of an audit: one HTML file for a data protection officer, which needs nothing beside it.

It shows counts, shares and tokens, never a value or a source key, unless the caller put them into the examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.audit.found import BARS, Found
from streamer.recoding.report.page import Provenance, course, histogram, percent, rendered

LINE_POINTS_MAX = 600  # of a line in a picture

HOW: Mapping[str, str] = {
    "one release by itself": "The QI group had one value for all its rows: no history was needed.",
    "insert delta": "A row came into a group, and the group's values grew by one.",
    "delete delta": "A row left a group, and the group's values shrank by one.",
    "modify delta": "A value in a group was replaced: the old and the new one both show.",
    "split intersection": "A group was cut, or exchanged rows; what a row may be must be in each group it was in.",
    "merge, then split": "Groups were merged and cut elsewhere; a row's value must be in each group it was in.",
    "rebuild": "The whole table was anonymized again, and a row's value must be in both of its groups.",
    "move after a change of quasi-identifiers": "A row moved to another group with the value it had.",
    "batch of one": "Changes were published together, but a group saw only one of them.",
    "net delta": "Changes were published together; what was added and what was taken away still shows.",
    "readmitted survivors": "A group was withdrawn, and its rows came back in another one.",
    "same value after a return": "A row came back, and was published again with its value.",
    "pooled departures": "Rows left several groups at once, and the groups together show what they took.",
    "all facts together": "No single difference tells it, but all of them together leave one value.",
}
"""Each attack in a sentence, for somebody who has never heard its name."""


def audit_page(facts: Mapping[str, Any], found: Found | None, provenance: Provenance) -> str:
    """The report; facts: what `streamer audit --json` prints. found: None if there was no source to compare with."""
    pictures = [] if found is None else [*_pictures(found)]
    return rendered(
        "audit.html",
        "streamer.audit",
        facts=facts,
        found=found,
        how=HOW,
        pictures=pictures,
        share=lambda part, whole: percent(part / whole) if whole else "–",
        provenance=provenance,
        tradeoffs=[],
    )


def _pictures(found: Found) -> list[dict[str, str]]:
    step = -(-len(found.timeline) // LINE_POINTS_MAX) or 1
    shares = [pinned / max(1, published) for _, published, pinned in found.timeline[::step]]
    edges = [i / BARS for i in range(BARS + 1)]
    label = "release" if step == 1 else f"release, in steps of {step}"
    known = course(shares, label, "share of values known")
    sure = histogram(found.bars, edges, "chance that the best guess is right", what="values")
    titles = {"Share of values that are known for certain": known, "How sure the best guess is": sure}
    return [{"title": title, "uri": uri} for title, uri in titles.items()]
