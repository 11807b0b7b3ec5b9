"""Which readers of the changelog may do what, where k counts individuals."""

from __future__ import annotations

from collections.abc import Iterator

from streamer.table.schema import Table


def sql_warnings(table: Table) -> Iterator[str]:
    """A warning for tables whose rows cannot be counted by a reader that does not wait for whole releases."""
    if table.individual is not None:
        yield (
            f"k counts individuals ({table.individual}), and rows do not tell whose they are: readers must apply whole "
            "releases, as `streamer subscribe` does; `HAVING count(*) >= k` in SQL counts rows and protects nobody"
        )
