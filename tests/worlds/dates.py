"""Calendars of a few cells and people with dates, each beside the same in Python's own dates."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from streamer.table.codes import DATE, Clock, Span, TemporalAttribute, limit_of
from streamer.table.codes.calendar import CalendarCells, read_span

GRIDS = ("1 day", "2 days", "7 days", "1 month", "2 months", "3 months", "7 months", "1 year", "5 years")


def span(text: str) -> Span:
    found = read_span(text)
    assert found is not None
    return found


def calendar(first: str, last: str, grid: str, clock: Clock = DATE) -> CalendarCells:
    return CalendarCells(clock, limit_of(first, "x", clock), limit_of(last, "x", clock), span(grid))


def temporal(
    name: str, first: str, last: str, grid: str, clock: Clock = DATE, levels: tuple[str, ...] | None = None
) -> TemporalAttribute:
    cells = calendar(first, last, grid, clock)
    return TemporalAttribute(name, cells, Decimal(cells.n_cells) / 5, levels)


@st.composite
def calendars(draw: st.DrawFn) -> CalendarCells:
    """Dates of up to a year and a half, of years up to six, which begin where the grid may begin."""
    grid = span(draw(st.sampled_from(GRIDS)))
    day = draw(st.dates(max_value=date(9990, 1, 1)))
    if grid.months:
        day = day.replace(day=1, month=1 if grid.unit == "year" else day.month)
    first = day.toordinal() - 1
    return CalendarCells(DATE, first, first + draw(st.integers(0, 2_200 if grid.unit == "year" else 550)), grid)


def next_start(day: date, grid: Span) -> date:
    """Where the cell that begins with `day` ends, counted on the fingers."""
    if not grid.months:
        return date.fromordinal(day.toordinal() + grid.n)
    month = day.month - 1 + grid.months
    return day.replace(year=day.year + month // 12, month=month % 12 + 1)


def days_by_cell(cells: CalendarCells) -> list[list[date]]:
    """The days of every cell, the last one clipped."""
    day, found = date.fromordinal(cells.first + 1), []
    last = date.fromordinal(cells.last + 1)
    while day <= last:
        end = next_start(day, cells.grid)
        found.append([date.fromordinal(n) for n in range(day.toordinal(), min(end, last).toordinal() + (end > last))])
        day = end
    return found


TABLE = """
table: people
key: id
columns:
  born: {role: quasi-identifier, type: date, domain: [1930-01-01, 2009-11-15], grid: 3 months, null_as: 1930-01-01}
  seen: {role: quasi-identifier, type: timestamp, domain: [2024-01-01, 2024-12-31], grid: 7 days}
  shift: {role: quasi-identifier, type: local-timestamp, domain: [2024-01-01, 2024-01-03], grid: 8 hours}
  since: {role: sensitive, type: date}
  left: {role: keep, acknowledge_linkable: true, type: timestamp}
privacy: {k: 3}
publish: {live: {form: rows}}
"""

FIRST_BORN, LAST_BORN = date(1930, 1, 1), date(2009, 11, 15)
NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
SHIFTS = [datetime(2024, 1, 1) + timedelta(hours=hours) for hours in (0, 5, 8, 23, 30, 47)]
SINCE = [date(2020, 2, 29), date(2021, 1, 1), date(2022, 7, 14)]

Person = dict[str, Any]


def write_table(folder: Path) -> Path:
    (folder / "table.yaml").write_text(TABLE)
    return folder


class Registry:
    """People by key, changed by the rules of the messages, in Python's own dates."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._born = 0
        self.people: dict[str, Person] = {}

    def person(self) -> Person:
        chance = self._random
        born = date.fromordinal(chance.randint(FIRST_BORN.toordinal(), LAST_BORN.toordinal()))
        return {
            "born": None if chance.random() < 0.05 else born,
            "seen": NEW_YEAR + timedelta(microseconds=chance.randrange(365 * 86_400 * 10**6 + 1)),
            "shift": chance.choice(SHIFTS),
            "since": chance.choice([*SINCE, None]),
            "left": NEW_YEAR + timedelta(hours=chance.randrange(5)),
        }

    def insert(self) -> dict[str, object]:
        self._born += 1
        key, person = str(self._born), self.person()
        self.people[key] = person
        return {"op": "insert", "row": {"id": key, **self._written(person)}}

    def messages(self, n: int) -> Iterator[dict[str, object]]:
        """Inserts at first, then changes of every kind; one in ten is refused."""
        for i in range(n):
            kinds = ["insert"] * 4 + ["modify", "delete", "upsert", "where", "set", "refused"]
            yield getattr(self, self._random.choice(kinds) if i > n // 4 else "insert")()

    def modify(self) -> dict[str, object]:
        key = self._random.choice(list(self.people))
        some = {name: value for name, value in self.person().items() if self._random.random() < 0.5}
        self.people[key] |= some
        return {"op": "modify", "key": key, "row": self._written(some)}

    def delete(self) -> dict[str, object]:
        key = self._random.choice(list(self.people))
        del self.people[key]
        return {"op": "delete", "key": key}

    def upsert(self) -> dict[str, object]:
        key = self._random.choice(list(self.people))
        self.people[key] = self.person()
        return {"op": "u", "after": {"id": key, **self._written(self.people[key])}}

    def where(self) -> dict[str, object]:
        """Few go: those born in a month, seen since a day."""
        start = date(self._random.randint(1930, 2009), self._random.randint(1, 12), 1)
        end, day = start + timedelta(days=400), NEW_YEAR.date() + timedelta(days=self._random.randrange(366))
        self.people = {
            key: person
            for key, person in self.people.items()
            if not (start <= counted(person["born"]) < end and person["seen"].date() >= day)
        }
        return {"op": "delete", "where": f"born >= '{start}' and born < '{end}' and seen >= '{day}'"}

    def set(self) -> dict[str, object]:
        since, born = self._random.sample(SINCE, 2)
        for person in self.people.values():
            if person["since"] == since and person["shift"] > SHIFTS[2]:
                person |= {"since": born, "shift": SHIFTS[1], "left": NEW_YEAR}
        return {
            "op": "modify",
            "where": f"since = '{since}' and shift > '2024-01-01T08:00:00'",
            "set": {"since": f"'{born}'", "shift": "'2024-01-01T05:00'", "left": "'2024-01-01'"},
        }

    def refused(self) -> dict[str, object]:
        faults = [("born", "1929-12-31"), ("born", "10000-01-01"), ("born", 3652), ("seen", "2024-05-01T00:00:00")]
        wrong: dict[str, object] = dict([self._random.choice(faults)])
        return {"op": "insert", "row": {"id": "nobody"} | self._written(self.person()) | wrong}

    def _written(self, person: Person) -> dict[str, object]:
        """Instants with any offset."""
        zone = timezone(timedelta(minutes=self._random.choice([0, 60, -330])))
        return {
            name: value.astimezone(zone).isoformat()
            if isinstance(value, datetime) and value.tzinfo
            else value and value.isoformat()
            for name, value in person.items()
        }

    def frame(self) -> pd.DataFrame:
        """All of them with pandas' own types."""
        frame = pd.DataFrame([{"id": key, **person} for key, person in self.people.items()])
        return frame.astype({"born": "datetime64[s]", "seen": "datetime64[us, UTC]", "shift": "datetime64[us]"})


def counted(born: object) -> date:
    """What a missing date of birth counts as."""
    assert born is None or isinstance(born, date)
    return FIRST_BORN if born is None else born


def write_messages(registry: Registry, n: int, path: Path) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in registry.messages(n)))
    return path
