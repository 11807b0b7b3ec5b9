"""Words of a column that say that nothing is known, told by the words alone and by what else the column holds.

Some words are that in every column. Others are somebody's value elsewhere (`none` of a medication, `-` of a blood
group, `NA` of a country), and are nulls only where all else is numbers or dates.
"""

from __future__ import annotations

from collections.abc import Collection

SURE = frozenset(("N/A", "n/a", "#N/A", "#NV", "<NA>", "NULL", "null", "(null)", "\\N", "?", "??", "n.a."))
DOUBTFUL = frozenset(("NA", "na", "NaN", "nan", "None", "none", "-", "--", "---", "."))


def words_for_nulls(texts: Collection[str], counts: bool) -> tuple[str, ...]:
    """The words among the texts that are nulls, sorted; counts: what else there is are numbers or dates.

    >>> words_for_nulls(["f", "?", "none"], counts=False), words_for_nulls(["7", "?", "none"], counts=True)
    (('?',), ('?', 'none'))
    """
    words = SURE | DOUBTFUL if counts else SURE
    return tuple(sorted(words.intersection(texts)))
