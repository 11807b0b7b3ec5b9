"""A table with a column of every kind that is published, in any form."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.schema import ROWS, KeptColumn, Table
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
