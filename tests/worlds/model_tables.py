"""Small tables that ask for more than k: every kind of privacy model, with individuals and without, and all at once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from streamer.table.attributes import Attribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Diversity, KeptColumn, Table
from worlds.small_tables import AGE, BMI, CITY, YEARS, table

PROBLEMS = Hierarchy.from_rows(
    [
        ["flu", "lung", "*"],
        ["cough", "lung", "*"],
        ["ulcer", "belly", "*"],
        ["gastritis", "belly", "*"],
        ["insomnia", "*"],
    ]
)
PROBLEM = KeptColumn("problem", sensitive=True, type="text", hierarchy=PROBLEMS)


def asking(*attributes: Attribute, k: int = 2, individual: str | None = None, **diversity: object) -> Table:
    """A table whose QI groups owe more than k."""
    asked = {name: Decimal(v) if isinstance(v, str) else v for name, v in diversity.items()}
    small = table(*attributes, k=k, individual=individual)
    return replace(small, kept=(PROBLEM,), diversity=Diversity(**asked))  # type: ignore[arg-type]


MODEL_TABLES = {
    "distinct l": asking(YEARS, l=3),
    "distinct l, nulls count": asking(AGE, CITY, l=2, null_counts=True),
    "(k, l)": asking(AGE, CITY, k=2, individual="ssn", l=2),
    "(alpha, beta)": asking(YEARS, CITY, individual="ssn", alpha="0.5", beta="0.5"),
    "(alpha, beta) of rows": asking(YEARS, alpha="0.3", beta="0.6"),
    "(r, k)": asking(AGE, CITY, k=3, r="0.7", level=1),
    "(r, k) of individuals": asking(YEARS, CITY, individual="ssn", r="0.6", level=1),
    "all at once": asking(BMI, YEARS, k=2, individual="ssn", alpha="0.6", beta="0.6", l=2, r="0.75", level=1),
    "all at once, whole": replace(asking(YEARS, CITY, l=2, beta="0.7", r="0.8"), recut=False, shrink=False),
}

PRICES = (0.001, 0.02, 0.05)

REPAIRED_MODELS = {
    f"{name}, repair": replace(small, repair=PRICES[i % len(PRICES)])
    for i, (name, small) in enumerate(MODEL_TABLES.items())
}
"""The same with local repair."""
