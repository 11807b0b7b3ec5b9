"""The sentences of docs/explanation/figures.md on whole tables, made from the results of `batch.py`.

`batch.py --save` keeps its results in docs/benchmarks/batch.json; `batch.py --page` writes the sentences that follow
from that file into the page, and a test compares both. A paragraph is known by its first words, a row of the table of
figures by its first cell; nothing else of the page is touched. Without times there is no sentence on times, and the row
on them stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from streamer.recoding.algorithms.catalog import DEFAULT_ALGORITHM

Found = Mapping[str, Any]
"""The JSON that `batch.py` prints."""

WIDTH = 120
OPENING = "The default, for `anonymize`"
LOSSES = "Information loss (NCP) of whole tables, Adult, 8 columns, exact ages, k = 5 / k = 10"
MEANS = "Information loss of the other algorithms over that of the default, mean over tables of many kinds and models"
TIMES = "Time of the same at k = 10, in sorts of the same table (one `numpy.lexsort`), 30 thousand rows / a million"
SEARCHES = "Searching a lattice of 331,776 nodes, with up to 5 % of the rows suppressed"
SOURCE = "`benchmarks/batch.py`"


def written_into(page: str, found: Found) -> str:
    """The page's text with these sentences. Raises ValueError where the paragraph or a row is missing."""
    lines = page.split("\n")
    begin = _line_of(lines, OPENING)
    end = lines.index("", begin)
    lines[begin:end] = paragraph(found).split("\n")
    for label, figure in rows(found):
        at = _line_of(lines, f"| {label} |")
        lines[at] = f"| {label} | {figure} | {SOURCE} |"
    return "\n".join(lines)


def _line_of(lines: Sequence[str], opening: str) -> int:
    at = [number for number, line in enumerate(lines) if line.startswith(opening)]
    if len(at) != 1:
        raise ValueError(f"the page has {len(at)} lines that begin with {opening!r}; there must be one")
    return at[0]


def paragraph(found: Found) -> str:
    """The default, and why."""
    return fill(" ".join(_sentences(found)), WIDTH, break_long_words=False, break_on_hyphens=False)


def rows(found: Found) -> Iterator[tuple[str, str]]:
    """Rows of the table of figures: first cell, second cell."""
    yield LOSSES, "; ".join(_losses_on_adult(found))
    yield MEANS, "; ".join(f"`{mean['algorithm']}` {mean['mean_ratio']:.2f} ×" for mean in _means(found))
    if "times" in found:
        yield TIMES, "; ".join(_times(found))
    if "searches" in found:
        yield SEARCHES, "; ".join(f"`{one['algorithm']}` {one['seconds']:.2g} s" for one in found["searches"])


def _sentences(found: Found) -> Iterator[str]:
    ncp = _of_adult(found, "k = 5")
    others = ", ".join(f"`{name}` {ncp[name]:.3f}" for name in ("bottom-up", "mondrian"))
    yield (
        f"{OPENING} and for the first table of a shard, is `{DEFAULT_ALGORITHM}`: on Adult at k = 5 it has an NCP of"
        f" {ncp[DEFAULT_ALGORITHM]:.3f} ({others})."
    )
    yield from _verdicts(found)
    yield from _on_time(found)
    yield (
        "It keeps every model. `gdppr` compares every row with every cluster, so it is for tens of thousands of rows."
        " Where a share is asked for that is hardly above the table's own, every algorithm loses much: `compare` shows"
        " how much. All figures: [below](#all-figures)."
    )


def _verdicts(found: Found) -> Iterator[str]:
    verdicts, means = found["verdicts"], _means(found)
    near = sum(verdict["within_2_percent"] for verdict in verdicts)
    worst = max(verdicts, key=lambda verdict: verdict["over_best"])
    tables = len({verdict["table"] for verdict in verdicts})
    far = (
        ""
        if near == len(verdicts)
        else f"; at worst it loses {worst['over_best']:.2f} times what `{worst['best']}` does"
    )
    yield (
        f"Of {len(verdicts)} pairs of a table and a model, over {tables} tables of many kinds, it is the best of all"
        f" algorithms, or within 2 % of it, in {near}{'' if near == len(verdicts) else far}."
    )
    best, last = means[0], means[-1]
    yield (
        f"In the mean over them the others lose {best['mean_ratio']:.2f} (`{best['algorithm']}`) to"
        f" {last['mean_ratio']:.2f} (`{last['algorithm']}`) times as much."
    )


def _on_time(found: Found) -> Iterator[str]:
    if "times" not in found:
        return
    units = _units(found)
    (small, *_, large), (quick, *_) = units[DEFAULT_ALGORITHM], units["mondrian"]
    yield (
        f"It takes as long as {small:.0f} sorts of the table at 30 thousand rows, and as {large:.0f} at a million;"
        f" `mondrian` as {quick:.2g}."
    )
    refined = _option(found, DEFAULT_ALGORITHM, "refine = 1", "k = 10")
    if refined is not None:
        less = 1 - refined["ncp"] / _of_adult(found, "k = 10")[DEFAULT_ALGORITHM]
        yield f"`--refine 1` takes another {100 * less:.0f} % off the loss, and {refined['units']:.0f} sorts in all."


def _of_adult(found: Found, model: str) -> dict[str, float]:
    """NCP by algorithm on Adult."""
    return {
        loss["algorithm"]: loss["ncp"]
        for loss in found["losses"]
        if loss["table"] == "adult" and loss["model"] == model and "ncp" in loss
    }


def _losses_on_adult(found: Found) -> Iterator[str]:
    five, ten = _of_adult(found, "k = 5"), _of_adult(found, "k = 10")
    alike: dict[str, list[str]] = {}
    for name in sorted(five, key=lambda name: (name != DEFAULT_ALGORITHM, five[name])):
        alike.setdefault(f"{five[name]:.3f} / {ten[name]:.3f}", []).append(name)
    for figures, names in alike.items():
        yield f"{' and '.join(f'`{name}`' for name in names)} {figures}"
    options = ((DEFAULT_ALGORITHM, "refine = 1", "refined once"), ("ola", "suppression = 0.05", "with 5 % suppressed"))
    for name, words, said in options:
        pair = [_option(found, name, words, model) for model in ("k = 5", "k = 10")]
        if pair[0] and pair[1]:
            yield f"`{name}` {said} {pair[0]['ncp']:.3f} / {pair[1]['ncp']:.3f}"


def _option(found: Found, algorithm: str, words: str, model: str) -> dict[str, Any] | None:
    for one in found["options"]:
        if (one["algorithm"], one["option"], one["model"]) == (algorithm, words, model):
            return dict(one)
    return None


def _means(found: Found) -> list[dict[str, Any]]:
    return sorted(found["means"], key=lambda mean: mean["mean_ratio"])


def _units(found: Found) -> dict[str, list[float]]:
    """Time in sorts by algorithm, from the smallest table to the largest; only what was run."""
    units: dict[str, list[float]] = {}
    for time in found["times"]:
        if "units" in time and "matmuls" not in time:
            units.setdefault(time["algorithm"], []).append(time["units"])
    return units


def _times(found: Found) -> Iterator[str]:
    units = _units(found)
    for name in sorted(units, key=lambda name: (name != DEFAULT_ALGORITHM, units[name][0])):
        ends = [units[name][0], *units[name][2:]]  # the table in the middle is left out
        yield f"`{name}` {' / '.join(_two_digits(one) for one in ends)}"


def _two_digits(value: float) -> str:
    """
    >>> _two_digits(3.25), _two_digits(91.3), _two_digits(606.2)
    ('3.2', '91', '606')
    """
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
