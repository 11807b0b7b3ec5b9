"""Published QI groups, and the table that their records fold into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from hypothesis import strategies as st

from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import OutboxEntry, PublishedGroup
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, KeptColumn, Table
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM, VALUES, YEARS

SONG_AGE = NumericAttribute("age", (Decimal(1), Decimal(120)), Decimal(5), Decimal(1), Decimal(1))


SONG_ZIP = NumericAttribute("zip", (Decimal(1000), Decimal(99000)), Decimal(5000), Decimal(1000), Decimal(1000))


SONG = Table("patients", ("id",), (SONG_AGE, SONG_ZIP), (PROBLEM,), k=2)


ALL_KINDS = Table("people", ("id",), (AGE, BMI, CITY, YEARS), (PROBLEM, KeptColumn("ward", sensitive=False)), k=2)


NODES = sorted(CITIES.node_of)


def applied(rows: dict[bytes, bytes], records: Iterable[OutboxEntry]) -> dict[bytes, bytes]:
    """The table after some records."""
    rows = dict(rows)
    for record in records:
        if record.value is None:
            del rows[record.key]
        else:
            rows[record.key] = record.value
    return rows


FORMS = (ROWS, GROUPS, LOSSY_JOIN)


def of_form(form: str) -> Table:
    return replace(ALL_KINDS, form=form)


def table_of(group: PublishedGroup | None, form: str = ROWS) -> dict[bytes, bytes]:
    """All that is published of a QI group."""
    return applied({}, Changelog(of_form(form), 3).diff(17, None, group)[0])


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ends: list[tuple[int, int]] = []
    for attribute in ALL_KINDS.attributes:
        if isinstance(attribute, CategoricalAttribute):
            ends.append(draw(st.sampled_from(NODES)))
        else:
            cell = st.integers(0, attribute.n_cells - 1)
            one, other = draw(cell), draw(cell)
            ends.append((min(one, other), max(one, other)))
    return tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)


VALUES_OF_TWO = st.tuples(VALUES, st.sampled_from([b"1", b"2.5", b"true"])).map(lambda v: (*v[0], v[1]))
