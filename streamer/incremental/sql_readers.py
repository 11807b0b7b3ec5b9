"""Which readers of the changelog may do what, where k counts individuals, and where one table is two topics.

A QI group that is one message holds the model by itself: no reader of that form has to count anything.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamer.table.schema import LOSSY_JOIN, ROWS, Table


def sql_warnings(table: Table) -> Iterator[str]:
    """A warning for tables whose rows cannot be counted by a reader that does not wait for whole releases."""
    if table.form == LOSSY_JOIN:
        yield (
            "a lossy join is two topics: readers must apply whole releases of both, as `streamer subscribe` does; what "
            "SQL joins of them meanwhile may be of two moments"
        )
    elif table.individual is not None and table.form == ROWS:
        yield (
            f"k counts individuals ({table.individual}), and rows do not tell whose they are: readers must apply whole "
            "releases, as `streamer subscribe` does; `HAVING count(*) >= k` in SQL counts rows and protects nobody"
        )
