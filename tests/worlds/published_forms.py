"""A table with a column of every kind that is published, in any form, and records of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry, PublishedGroup
from streamer.table.codes import CLOCKS, CategoricalAttribute, KeptColumn, NumericAttribute
from streamer.table.encode import Encoder
from streamer.table.schema import ROWS, Table
from worlds.dates import temporal
from worlds.small_tables import CITIES

AGE = NumericAttribute("age", (Decimal(0), Decimal(119)), Decimal(5), Decimal(1), Decimal(24))
BMI = NumericAttribute(
    "bmi", (Decimal(10), Decimal("59.9")), Decimal("2.5"), Decimal("0.1"), Decimal(10), integer=False
)
CITY = CategoricalAttribute("city", CITIES, Decimal("1.2"))
KEPT = (
    KeptColumn("problem", sensitive=True, type="text"),
    KeptColumn("cost", sensitive=False, type="decimal"),
    KeptColumn("visits", sensitive=False, type="integer"),
    KeptColumn("smokes", sensitive=False, type="boolean"),
)
TABLE = Table("people", ("id",), (AGE, BMI, CITY), KEPT, k=2)


def published_as(form: str = ROWS, individual: str | None = None) -> Table:
    return replace(TABLE, form=form, individual=individual)


BORN = temporal("born", "1950-01-01", "2010-12-31", "1 year")
SEEN = temporal("at", "2024-01-01T00:00:00Z", "2024-01-03T00:00:00Z", "1 hour", CLOCKS["timestamp"])

EVERY_KIND = Table(
    "people",
    ("id",),
    (AGE, BMI, CITY, BORN, SEEN),
    (*KEPT, KeptColumn("seen", sensitive=False, type="date")),
    k=2,
)

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)


def raw_values() -> st.SearchStrategy[dict[str, object]]:
    """The kept values of one row, before they are encoded."""
    return st.fixed_dictionaries(
        {
            "problem": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
            "cost": st.none() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False).map(_as_decimal),
            "visits": st.none() | st.integers(-(2**63), 2**63 - 1),
            "smokes": st.none() | st.booleans(),
            "seen": st.none() | st.dates().map(str),
        }
    )


def _as_decimal(number: float) -> Decimal:
    return Decimal(repr(number))


@st.composite
def published_records(draw: st.DrawFn, form: str, format_: str) -> tuple[Table, list[OutboxEntry]]:
    """A table, and what a QI group with rows that its format takes is written as, and removed by."""
    table = replace(EVERY_KIND, form=form, format=format_)
    encoder = Encoder(table)
    slots = []
    for raw in draw(st.lists(raw_values(), min_size=1, max_size=4)):
        try:
            slots.append(tuple(encoder.kept(i, raw[column.name]) for i, column in enumerate(table.kept)))
        except EventRefused:
            continue
    cells = [attribute.axis.n_cells for attribute in table.attributes]
    lo = [draw(st.integers(0, n - 1)) for n in cells]
    hi = [draw(st.integers(first, n - 1)) for first, n in zip(lo, cells, strict=True)]
    hi[2] = lo[2]  # of a category a leaf: not every run of leaves is a node
    group = PublishedGroup(tuple(lo), tuple(hi), tuple(slots))
    changelog, number = Changelog(table, 3), draw(st.integers(1, 10**17))
    return table, changelog.diff(number, None, group)[0] + changelog.diff(number, group, None)[0]
