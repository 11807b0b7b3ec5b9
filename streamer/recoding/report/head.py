"""What a run of `anonymize` says of itself: a few lines for a terminal, for Python's prompt and for a notebook.

A published DataFrame carries the same as plain values in its `attrs`, which pandas copies with it and writes into
Parquet files: nothing there is an object of ours, a source key or a value of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamer.errors import UsageError
from streamer.privacy.models import model_of, words
from streamer.recoding.algorithms.contract import Algorithm, Options
from streamer.recoding.report.findings import Drawn
from streamer.recoding.report.page import bars, group_sizes
from streamer.shown import Picture, Shape, Shown, figure, plural
from streamer.table.schema import LOSSY_JOIN, Table

if TYPE_CHECKING:
    import pandas as pd

RUN = "streamer"
"""The name of the facts of a run in the `attrs` of a published DataFrame."""


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """What was published and what it cost; facts: as `streamer anonymize --json` prints them.

    measures: by name (`streamer.recoding.metrics.measures.WHAT`). losses: of each quasi-identifier, 0 exact, 1 nothing
    left (NCP). sizes: how many QI groups have how many rows, by rows.
    """

    facts: Mapping[str, Any]
    measures: Mapping[str, Any]
    cautions: Sequence[str]
    to_know: Sequence[str]
    losses: Mapping[str, float]
    sizes: Mapping[int, int]

    def lines(self) -> Iterator[Shape]:
        yield head(self.facts)
        if self.losses:
            yield {f"loss of {name}": figure(loss) for name, loss in self.losses.items()}
            yield Picture("What every attribute lost", bars(list(self.losses), list(self.losses.values()), "NCP"))
        if self.sizes:
            sizes = np.repeat(list(self.sizes), list(self.sizes.values())).astype(np.int64)
            yield Picture("Sizes of the QI groups", group_sizes(sizes))
        yield from remarks(self.facts)


def report(published: pd.DataFrame) -> Report:
    """What `anonymize` has found out about the DataFrame that it gave: guarantees, loss, risk, cautions.

    published: what `anonymize` returned, or a copy of it; pandas keeps its `attrs`. Prints the lines that
    `streamer anonymize` prints; a notebook shows loss by column and sizes of the QI groups as pictures. Holds
    `measures`, `cautions`, `to_know`, `losses`, `sizes`. Nothing in it is a value of a row. It is of the whole table,
    even if only some of its rows or columns are left.

    Raises UsageError for anything else.
    """
    facts = getattr(published, "attrs", {}).get(RUN)
    if not isinstance(facts, Mapping):
        raise UsageError(
            "report takes the DataFrame that `streamer.anonymize` returned, or a copy with its `attrs`, not"
            f" {'another one' if hasattr(published, 'attrs') else type(published).__name__}"
        )
    facts = {**facts, **{name: said for name, said in published.attrs.items() if name != RUN}}
    names = ("measures", "cautions", "to_know", "losses")
    return Report(facts, **{name: facts[name] for name in names}, sizes=dict(facts["sizes"]))


def drawn_facts(table: Table, drawn: Drawn) -> dict[str, Any]:
    """The facts that a published DataFrame carries beside its cautions: plain values that JSON has."""
    names = (attribute.name for attribute in table.attributes)
    losses = {} if drawn.losses is None else dict(zip(names, drawn.losses, strict=True))
    sizes, groups = np.unique(drawn.sizes, return_counts=True)
    return {"losses": losses, "sizes": list(map(list, zip(sizes.tolist(), groups.tolist(), strict=True)))}


def described(
    algorithm: Algorithm, options: Options, table: Table, form: str, measures: Mapping[str, Any],
    levels: Sequence[int] | None, details: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """A run as plain values: algorithm, settings, measures. Readers of a report must not have the seed."""
    return {
        "table": table.name,
        "algorithm": algorithm.name,
        "what": algorithm.what,
        "source": algorithm.source,
        "model": words(table, model_of(table)),
        "options": {
            "k": table.k,
            "suppression": options.suppression,
            "refine": options.refine,
            "keep_equal_boxes": not options.merge_equal_boxes,
        },
        "form": form,
        "measures": measures,
        "levels": levels and dict(zip((a.name for a in table.attributes), levels, strict=True)),
        "details": dict(details),
    }


def head(facts: Mapping[str, Any]) -> dict[str, object]:
    """The lines about method, guarantee, size, loss and risk, by their names."""
    measures = facts["measures"]
    published = measures["rows"] - measures["suppressed"]
    lines: dict[str, object] = {
        "algorithm": f"{facts['algorithm']}: {facts['what']} ({facts['source']})",
        "model": f"every QI group has {facts['model']}",
        "rows": f"{published:,} published, {measures['suppressed']:,} suppressed",
        "QI groups": _groups(measures),
        "loss": _loss(facts),
    }
    if measures["risk"] is not None:
        lines["risk"] = f"{figure(measures['risk'])} is the largest share of close sensitive values in a QI group"
    return lines


def remarks(facts: Mapping[str, Any]) -> Iterator[str]:
    """The sentences below them."""
    yield from (f"warning: {warning}" for warning in (*facts["cautions"], *facts.get("warnings", ())))
    yield from (f"to know: {sentence}" for sentence in facts["to_know"])


def _loss(facts: Mapping[str, Any]) -> str:
    if facts["form"] == LOSSY_JOIN:
        true = figure(facts["measures"]["joined_true"])
        return f"a guess which of a QI group's quasi-identifiers belong to which of its rows is right with {true}"
    measures = facts["measures"]
    ncp, ranks, others = (figure(measures[name]) for name in ("ncp", "rank_loss", "gcp"))
    published = f"; of the published rows alone {others}" if measures["suppressed"] else ""
    return f"NCP {ncp}, by ranks {ranks}{published} (0: exact values, 1: nothing left)"


def _groups(measures: Mapping[str, Any]) -> str:
    if not measures["groups"]:
        return "none"
    smallest = plural(measures["k"], "row")
    return f"{measures['groups']:,}, the smallest of {smallest}, {figure(measures['aes'])} on average"
