"""The report: what every paper claims, our curves, their numbers, and the verdict. Markdown, from results alone.

Nothing in here knows a figure: all numbers come from `Paper` values, which are what results.json has. The papers' own
plots are lost in the scans that we have; a claim is what the paper's text says, translated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchmarks.papers.figures import (
    REPRODUCED,
    SPLIT,
    VERDICTS,
    Check,
    Figure,
    Panel,
    Paper,
    verdict,
    verdict_by_reading,
)

HEAD = """# The papers' experiments, run again

`make papers` writes this page, its plots and `results.json`, from which every number and every verdict here is made;
none is written by hand. The data is UCI Adult in the folder above `adult/` that `STREAMER_DATA` names.

How to read a verdict: a claim is taken apart into sentences, and each is held against every point of the curves that it
speaks of. **Reproduced**: every sentence holds at every point. **Not reproduced**: the first sentence, the heart of the
claim, holds at fewer than half of its points. **Reproduced in part**: all else. **Split**: the paper can be read in two
ways, and they have different verdicts. A sentence marked *law* cannot fail here, because the code refuses to publish
anything else or because it follows from what is counted: it is shown, but no verdict rests on it. The papers' own plots
are lost in the scans that we have, so what is compared is what their texts say of them, translated. Times are given in
sorts: one `np.lexsort` over the quasi-identifiers of the same table in the same process, best of three. What the papers
misprint or leave undefined: [errata](errata.md).
"""

QUICK = "> This is a quick run that shows that it works. Its figures are no measurement.\n"


def render(papers: Sequence[Paper]) -> str:
    """The whole page."""
    parts = [HEAD]
    if any(paper.quick for paper in papers):
        parts.append(QUICK)
    parts.append("\n".join(_overview(papers)))
    parts += [part for paper in papers for part in _paper(paper)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _overview(papers: Sequence[Paper]) -> Iterator[str]:
    figures = [figure for paper in papers for figure in paper.figures]
    counted = Counter(verdict(figure.checks) for figure in figures)
    said = [f"{counted[kind]} {kind.lower()}" for kind in VERDICTS if counted[kind]]
    yield f"## All figures: {', '.join(said)}\n"
    if laws := sum(one.law for figure in figures for one in figure.checks):
        yield f"Sentences that are laws, and count in none of these verdicts: {laws}.\n"
    yield "| paper | figure | verdict |"
    yield "|---|---|---|"
    for paper in papers:
        for figure in paper.figures:
            yield f"| {_short(paper)} | [{figure.title}](#{_anchor(figure)}) | {_small(_found(figure))} |"


def _found(figure: Figure) -> str:
    """The verdict; of a split one every reading's."""
    found = verdict(figure.checks)
    if found != SPLIT:
        return found
    return f"{found}: " + "; ".join(f"{one.lower()} {name}" for name, one in verdict_by_reading(figure.checks).items())


def _small(said: str) -> str:
    return said[0].lower() + said[1:]


def _short(paper: Paper) -> str:
    return paper.cites.split(":")[0] + paper.cites[-5:]


def _anchor(figure: Figure) -> str:
    """As GitHub names a heading."""
    kept = [letter for letter in figure.title.lower() if letter.isalnum() or letter in " -_"]
    return "".join(kept).replace(" ", "-")


def _paper(paper: Paper) -> Iterator[str]:
    yield f"## {paper.cites}\n\n{paper.setting}\n\nThe runs of this paper took {paper.seconds} s."
    for figure in paper.figures:
        yield f"### {figure.title}"
        yield f"**The paper says:** {figure.claim}"
        yield f"![{figure.title}]({figure.slug}.svg)"
        yield from (_table(panel) for panel in figure.panels)
        yield "\n".join(_verdict(figure))
        yield from figure.notes


def _verdict(figure: Figure) -> Iterator[str]:
    found = _found(figure)
    because = f", because {figure.because}" if figure.because and found != REPRODUCED else ""
    yield f"**{found}**{because}.\n"
    yield from (f"- {_sentence(one)}" for one in figure.checks)


def _sentence(one: Check) -> str:
    size = f" ({one.size})" if one.size else ""
    law = "*Law:* " if one.law else ""
    return f"{law}{one.says}: in {one.held} of {one.of} {one.cases}{size}."


def _table(panel: Panel) -> str:
    lines = [f"{panel.y_label}, {panel.title}:\n" if panel.title else f"{panel.y_label}:\n"]
    names = [name.replace("|", "\\|") for name in (panel.x_label, *(curve.name for curve in panel.curves))]
    lines.append("| " + " | ".join(names) + " |")
    lines.append("|---" + "|---:" * len(panel.curves) + "|")
    for i, x in enumerate(panel.x):
        cells = [x if isinstance(x, str) else f"{x:,g}", *(_number(curve.y[i]) for curve in panel.curves)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    """Four digits; whole numbers whole.

    >>> _number(1234567.0), _number(0.012345), _number(None), _number(12345.6), _number(3.25e12)
    ('1,234,567', '0.01235', '–', '12,346', '3.25e+12')
    """
    if value is None:
        return "–"
    if abs(value) >= 1e9 or 0 < abs(value) < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1e3 else f"{value:.4g}"
