"""UCI Adult as a table of people: its table.yaml, its rows with an id, and random changes to them as plain messages.

Every column but `salary-class` is a quasi-identifier: `age` a number, the others by their ARX hierarchies. `Changes`
keeps the table that its messages lead to in a plain dict, beside and independent of the engine.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

Person = dict[str, str]
Message = tuple[bytes, bytes]
"""Key and value."""

SENSITIVE = "salary-class"
CANARY = "Canary-9052"
"""Stands in values that are refused."""

ROWS_ONLY = {"insert": 4, "delete": 3, "modify": 3}
"""One row at a time, in the proportions of these weights."""

ALL_KINDS = {
    "insert": 380, "delete": 280, "modify": 200, "modify_several": 60, "modify_sensitive": 60, "modify_where": 5,
    "delete_where": 5, "refused": 10,
}  # fmt: skip


def write_table(directory: Path, adult: Path, table_name: str, k: int = 5) -> Path:
    """Writes table.yaml into `directory`; the hierarchies stay in the folder `adult`."""
    names = [name for name in read_people(adult)["0"] if name not in ("id", "age", SENSITIVE)]
    columns = ["  age: {role: quasi-identifier, type: integer, domain: [17, 90]}"]
    columns += [f"  {n}: {{role: quasi-identifier, hierarchy: '{adult}/hierarchies/{n}.csv'}}" for n in names]
    columns += [f"  {SENSITIVE}: {{role: sensitive}}"]
    lines = [
        f"table: {table_name}",
        "key: id",
        "columns:",
        *columns,
        f"privacy: {{k: {k}}}",
        "publish: {live: {form: rows}}",
    ]
    path = directory / "table.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def read_people(adult: Path) -> dict[str, Person]:
    """Adult's rows by id, which is the number of the row as text and a column too."""
    with open(adult / "adult.csv", newline="") as file:
        return {str(i): {"id": str(i), **row} for i, row in enumerate(csv.DictReader(file, delimiter=";"))}


def write_people(path: Path, people: Iterable[Person]) -> None:
    people = list(people)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, people[0])
        writer.writeheader()
        writer.writerows(people)


def inserts(people: Iterable[Person]) -> Iterator[Message]:
    """An insert for everyone, as messages."""
    for person in people:
        yield person["id"].encode(), _insert(person)


def _insert(person: Person) -> bytes:
    return _text({"op": "insert", "row": _json(person)})


def _json(fields: Mapping[str, str]) -> dict[str, object]:
    return {name: int(value) if name == "age" else value for name, value in fields.items()}


def _text(message: Mapping[str, object]) -> bytes:
    return json.dumps(message).encode()


class Changes:
    """Seeded random changes; `people` is the table as it is after those made so far, by id."""

    def __init__(self, people: Mapping[str, Person], seed: int, kinds: Mapping[str, int] = ROWS_ONLY) -> None:
        self.people = dict(people)
        self._pool = list(people.values())
        self._alive = list(people)
        self._rng = random.Random(seed)
        self._kinds = kinds
        self._born = 0

    def more(self, count: int) -> Iterator[Message]:
        """`count` messages."""
        for kind in self._rng.choices(list(self._kinds), list(self._kinds.values()), k=count):
            yield getattr(self, f"_{kind}")()

    def _insert(self) -> Message:
        person = {**self._rng.choice(self._pool), "id": f"new-{self._born}"}
        self._born += 1
        self.people[person["id"]] = person
        self._alive.append(person["id"])
        return person["id"].encode(), _insert(person)

    def _delete(self) -> Message:
        i = self._rng.randrange(len(self._alive))
        self._alive[i], self._alive[-1] = self._alive[-1], self._alive[i]
        who = self._alive.pop()
        del self.people[who]
        return who.encode(), _text({"op": "delete", "key": who})

    def _modify(self) -> Message:
        """One quasi-identifier, as someone else has it."""
        return self._changed(self._rng.sample(self._quasi_identifiers(), 1))

    def _modify_several(self) -> Message:
        return self._changed(self._rng.sample(self._quasi_identifiers(), 3))

    def _modify_sensitive(self) -> Message:
        return self._changed([SENSITIVE])

    def _changed(self, columns: Collection[str]) -> Message:
        who, other = self._rng.choice(self._alive), self._rng.choice(self._pool)
        changed = {name: other[name] for name in columns}
        self.people[who] = {**self.people[who], **changed}
        return who.encode(), _text({"op": "modify", "key": who, "row": _json(changed)})

    def _modify_where(self) -> Message:
        """Everyone of one age and occupation becomes a year older, or moves to another class of work."""
        age, occupation = self._some_age_and_occupation()
        where = f"age = {age} and occupation = '{occupation}'"
        if self._rng.random() < 0.5 and int(age) < 90:
            changed, expressions = {"age": str(int(age) + 1)}, {"age": "age + 1"}
        else:
            changed = {"workclass": self._rng.choice(self._pool)["workclass"]}
            expressions = {"workclass": f"'{changed['workclass']}'"}
        for who in self._those(age, occupation):
            self.people[who] = {**self.people[who], **changed}
        return b"statement", _text({"op": "modify", "where": where, "set": expressions})

    def _delete_where(self) -> Message:
        age, occupation = self._some_age_and_occupation()
        for who in self._those(age, occupation):
            del self.people[who]
        self._alive = list(self.people)
        return b"statement", _text({"op": "delete", "where": f"age = {age} and occupation = '{occupation}'"})

    def _refused(self) -> Message:
        """A message that must change nothing."""
        who = self._rng.choice(self._alive)
        message: Mapping[str, object] = self._rng.choice(
            [
                {"op": "insert", "row": _json(self.people[who])},
                {"op": "delete", "key": f"{CANARY}-{who}"},
                {"op": "modify", "key": who, "row": {"age": 17, "race": CANARY}},
                {"op": "modify", "key": who, "row": {"age": 91}},
            ]
        )
        return who.encode(), _text(message)

    def _some_age_and_occupation(self) -> tuple[str, str]:
        person = self.people[self._rng.choice(self._alive)]
        return person["age"], person["occupation"]

    def _those(self, age: str, occupation: str) -> list[str]:
        return [w for w, person in self.people.items() if (person["age"], person["occupation"]) == (age, occupation)]

    def _quasi_identifiers(self) -> list[str]:
        return [name for name in self._pool[0] if name not in ("id", SENSITIVE)]
