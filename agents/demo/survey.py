"""The people of the demo, and what happens to them: a real survey, and changes drawn from it by a seed.

The data set is `fair` of statsmodels: 6,366 answers of married women to a magazine's questionnaire of 1974 (R. Fair,
"A theory of extramarital affairs", Journal of Political Economy, 1978). It comes inside a package that many use, needs
no download, and is what k-anonymity is about: age, years married, children, schooling and two occupations are what a
neighbour knows; how she rates her marriage is not. No rating is that of most: very good 42 %, good 35 %, fair 16 %.
The affairs, which the set is known for, are none for 68 %: in a QI group of five all would often have the same. They
and the religiousness are not named in the table and never leave. The names of the categories are those of the set's
own documentation, shortened. Its numbers stay as they are; "five and a half" children mean five or more, and are five
here.

Half of the people are the initial load, in an order drawn by the seed (the file has those with affairs first). Then
half of what happens are arrivals from the other half, a quarter departures, a quarter changes: of the rating, of the
occupation, or a birthday. The changes are invented; the people are not. `Register` is the source table: what the demo
knows to be true, beside what it sends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from streamer.errors import ConfigError

SEED = 7
PEOPLE_INITIAL = 3_183
ARRIVALS = 2_000

EDUCATION = {
    9: "grade school", 12: "high school", 14: "some college", 16: "college graduate", 17: "some graduate school",
    20: "advanced degree",
}  # fmt: skip
OCCUPATION = {
    1: "student", 2: "unskilled or farming", 3: "white-collar", 4: "skilled or teaching", 5: "managerial",
    6: "professional",
}  # fmt: skip
MARRIAGE = {1: "very poor", 2: "poor", 3: "fair", 4: "good", 5: "very good"}
AGES = (17.5, 22.0, 27.0, 32.0, 37.0, 42.0)

Person = dict[str, Any]
Event = Mapping[str, Any]


def people() -> list[Person]:
    """All people of the survey, in an order drawn by the seed."""
    try:
        from statsmodels.datasets import fair
    except ImportError:
        raise ConfigError("the demo's data set is not installed: install streamer[demo]") from None
    answers = fair.load_pandas().data
    survey = pd.DataFrame(
        {
            "id": range(1, len(answers) + 1),
            "age": answers["age"],
            "years_married": answers["yrs_married"],
            "children": answers["children"].astype(int),
            "education": answers["educ"].map(EDUCATION),
            "occupation": answers["occupation"].map(OCCUPATION),
            "husband": answers["occupation_husb"].map(OCCUPATION),
            "marriage": answers["rate_marriage"].map(MARRIAGE),
        }
    )
    shuffled = survey.sample(frac=1, random_state=SEED)
    return [{str(name): value for name, value in row.items()} for row in shuffled.to_dict(orient="records")]


def write_table(directory: Path, name: str, *, embedded: bool) -> Path:
    """Writes the demo's table.yaml and its hierarchies; returns the path of table.yaml.

    Embedded Redis keeps nothing, so its table.yaml vouches for it; a real one is asked by the worker.
    """
    source = files("agents.demo")
    for file in source.iterdir():
        if file.name.endswith(".csv"):
            (directory / file.name).write_text(file.read_text("utf-8"), "utf-8")
    text = source.joinpath("table.yaml").read_text("utf-8").replace("table: fair\n", f"table: {name}\n")
    if embedded:
        text += "durability: stated             # the embedded Redis keeps nothing, and nobody minds\n"
    path = directory / "table.yaml"
    path.write_text(text, "utf-8")
    return path


class Register:
    """The source table: the rows that are true now, by id, and the changes that lead from one state to the next."""

    def __init__(self, everybody: list[Person]) -> None:
        self.rows: dict[object, Person] = {}
        self._waiting = list(reversed(everybody))
        self._random = random.Random(SEED)

    def insert(self) -> Event:
        """The next person arrives."""
        person = self._waiting.pop()
        self.rows[person["id"]] = person
        return {"op": "insert", "row": person}

    def delete(self, person_id: object) -> Event:
        del self.rows[person_id]
        return {"op": "delete", "key": person_id}

    def modify(self, person_id: object, **changed: object) -> Event:
        self.rows[person_id] = {**self.rows[person_id], **changed}
        return {"op": "modify", "key": person_id, "row": changed}

    def initial(self) -> Iterator[Event]:
        """The initial load, as plain insertions."""
        for _ in range(PEOPLE_INITIAL):
            yield self.insert()

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

    def _change(self, person_id: object) -> Event:
        what = self._random.choice(("marriage", "occupation", "age"))
        return self.modify(person_id, **{what: self._another(what, self.rows[person_id][what])})

    def _another(self, what: str, now: Any) -> Any:
        if what == "age":
            return next((age for age in AGES if age > now), now)
        others = MARRIAGE if what == "marriage" else OCCUPATION
        return self._random.choice([one for one in others.values() if one != now])

    def frame(self) -> pd.DataFrame:
        """The source table as it is now."""
        return pd.DataFrame(list(self.rows.values()))


def wrong_messages() -> list[bytes]:
    """Messages that must be refused: broken JSON, a category nobody knows, and somebody who is not there."""
    return [
        b'{"op": "insert", "row": {"id": 90001, "age": ',
        b'{"op": "modify", "key": 90002, "row": {"marriage": "complicated"}}',
        b'{"op": "delete", "key": 90003}',
    ]
