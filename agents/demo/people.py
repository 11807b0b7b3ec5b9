"""The people of the demo, and what happens to them: invented by a seed, the same in every run.

Age, years married, children, schooling and two occupations are what a neighbour knows; how somebody rates the marriage
is not. No rating is that of most. Half of what happens are arrivals, a quarter departures, a quarter changes: of the
rating, of the occupation, or a birthday.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

SEED = 7
PEOPLE_INITIAL, ARRIVALS = 3_183, 2_000

EDUCATION = {
    "grade school": 1, "high school": 33, "some college": 36, "college graduate": 17, "some graduate school": 8,
    "advanced degree": 5,
}  # fmt: skip
OCCUPATION = {
    "student": 2, "unskilled or farming": 14, "white-collar": 43, "skilled or teaching": 28, "managerial": 11,
    "professional": 2,
}  # fmt: skip
MARRIAGE = {"very good": 42, "good": 35, "fair": 16, "poor": 5, "very poor": 2}
"""How many of a hundred are so."""

AGES = (17.5, 22.0, 27.0, 32.0, 37.0, 42.0)

Event = Mapping[str, Any]


class Register:
    """The source table: the rows that are true now, by id, and the changes that lead from one state to the next."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self._random = random.Random(SEED)
        self._arrived = 0

    def insert(self) -> Event:
        """The next person arrives."""
        self._arrived += 1
        age = self._random.choice(AGES)
        years = self._random.choice([years for years in (0.5, 2.5, 6.0, 9.0, 13.0, 16.5, 23.0) if years < age - 15])
        person = {
            "id": self._arrived,
            "age": age,
            "years_married": years,
            "children": min(5, int(self._random.triangular(0, 1 + years / 3, 0))),
            "education": self._one_of(EDUCATION),
            "occupation": self._one_of(OCCUPATION),
            "spouse": self._one_of(OCCUPATION),
            "marriage": self._one_of(MARRIAGE),
        }
        self.rows[self._arrived] = person
        return {"op": "insert", "row": person}

    def delete(self, person_id: int) -> Event:
        del self.rows[person_id]
        return {"op": "delete", "key": person_id}

    def modify(self, person_id: int, **changed: object) -> Event:
        self.rows[person_id] = {**self.rows[person_id], **changed}
        return {"op": "modify", "key": person_id, "row": changed}

    def initial(self) -> list[Event]:
        """The initial load, as plain insertions."""
        return [self.insert() for _ in range(PEOPLE_INITIAL)]

    def mixed(self) -> Iterator[Event]:
        """Arrivals, departures and changes in random order."""
        kinds = ["insert"] * ARRIVALS + ["delete", "modify"] * (ARRIVALS // 2)
        self._random.shuffle(kinds)
        for kind in kinds:
            somebody = self._random.choice(list(self.rows))
            if kind == "insert":
                yield self.insert()
            elif kind == "delete":
                yield self.delete(somebody)
            else:
                yield self._change(somebody)

    def frame(self) -> pd.DataFrame:
        """The source table as it is now."""
        return pd.DataFrame(list(self.rows.values()))

    def _change(self, person_id: int) -> Event:
        what = self._random.choice(("marriage", "occupation", "age"))
        now = self.rows[person_id][what]
        if what == "age":
            return self.modify(person_id, age=next((age for age in AGES if age > now), now))
        others = MARRIAGE if what == "marriage" else OCCUPATION
        return self.modify(person_id, **{what: self._random.choice([one for one in others if one != now])})

    def _one_of(self, shares: Mapping[str, int]) -> str:
        return self._random.choices(list(shares), list(shares.values()))[0]


WRONG_MESSAGES = (
    b'{"op": "insert", "row": {"id": 90001, "age": ',
    b'{"op": "modify", "key": 90002, "row": {"marriage": "complicated"}}',
    b'{"op": "delete", "key": 90003}',
)
"""Messages that must be refused: broken JSON, a category nobody knows, and somebody who is not there."""


def write_table(directory: Path, name: str, *, embedded: bool) -> Path:
    """Writes the demo's table.yaml and its hierarchies; returns the path of table.yaml.

    Embedded Redis keeps nothing, so its table.yaml vouches for it; a real one is asked by the worker.
    """
    source = files("agents.demo")
    for file in source.iterdir():
        if file.name.endswith(".csv"):
            (directory / file.name).write_text(file.read_text("utf-8"), "utf-8")
    text = source.joinpath("table.yaml").read_text("utf-8").replace("table: survey\n", f"table: {name}\n")
    if embedded:
        text += "durability: stated             # the embedded Redis keeps nothing, and nobody minds\n"
    path = directory / "table.yaml"
    path.write_text(text, "utf-8")
    return path
