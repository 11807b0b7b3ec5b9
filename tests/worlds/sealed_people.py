"""People of a sealed changelog: small tables, what happens to people as row changes, and records in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import NamedTuple

import msgspec

from streamer.incremental.events.changes import RowChange
from streamer.incremental.sealed.formation import median_cuts
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.records import Add, EpochEnd, Live, Retire, SealedRecord, Written, encode
from streamer.incremental.sealed.stored_state import NO_MARK, SealedPlace, StoredCohort, StoredSealed
from streamer.table.codes import KeptColumn, NumericAttribute
from streamer.table.row import Row
from streamer.table.schema import EpochLength, SealedRules, Table

MINUTE = 60


def number(name: str, last: int, grid: int = 1) -> NumericAttribute:
    """An attribute of the whole numbers from 0."""
    return NumericAttribute(name, (Decimal(0), Decimal(last)), Decimal(grid), Decimal(1), Decimal(last) / 5)


AGE, HOUSE = number("age", 99), number("house", 9)


def sealed_table(
    k: int = 2,
    alpha: str = "0.5",
    *,
    theta: str = "0",
    l: int = 1,  # noqa: E741 - as table.yaml writes it
    tau: str | None = None,
    delta: int = 1,
    counters: bool = True,
    individual: str | None = None,
    attributes: Sequence[NumericAttribute] = (AGE,),
    sensitive: Sequence[str] = ("problem",),
) -> Table:
    epoch, least = EpochLength(events=1_000), None if tau is None else Decimal(tau)
    rules = SealedRules(epoch, Decimal(alpha), l, Decimal(theta), least, delta, counters)
    kept = tuple(KeptColumn(name, sensitive=True) for name in sensitive)
    return Table("people", ("id",), tuple(attributes), kept, k, individual, live=False, sealed=rules)


def numbers_of(table: Table) -> list[NumericAttribute]:
    """The attributes of such a table."""
    return [attribute for attribute in table.attributes if isinstance(attribute, NumericAttribute)]


class Event(NamedTuple):
    """What happens to a person; None: stays as it is. An insertion has all, a deletion nothing."""

    kind: str  # insert, delete, modify
    name: str
    codes: tuple[int, ...] | None = None
    values: tuple[str, ...] | None = None
    individual: str | None = None


def event(text: str) -> Event:
    """`p3 30 flu` inserts p3, `p3 -` deletes it, `p3 =60 =` and `p3 = =asthma` change one of the two."""
    name, *rest = text.split()
    if rest == ["-"]:
        return Event("delete", name)
    kind = "modify" if rest[0].startswith("=") else "insert"
    age, value = (word.removeprefix("=") for word in rest)
    return Event(kind, name, (int(age),) if age else None, (value,) if value else None)


def events_of(line: str) -> list[Event]:
    """`p3 30 flu; p3 -`."""
    return [event(text) for text in line.split(";") if text.strip()]


class People:
    """The rows that are there; says what an event does to them."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def change(self, one: Event) -> RowChange:
        there = self.rows.pop(one.name, None)
        before = None if there is None else there.values
        if one.kind == "delete":
            return RowChange(one.name, before, None)
        codes = one.codes if one.codes is not None else there.codes if there else ()
        texts = tuple(map(msgspec.json.encode, one.values)) if one.values is not None else there.values if there else ()
        self.rows[one.name] = Row(codes, texts, individual=there.individual if there else one.individual)
        return RowChange(one.name, before, self.rows[one.name])


def publisher(table: Table, secret: bytes = b"a secret") -> Sealed:
    """With median cuts, which a reader can do by hand."""
    return Sealed(table, 0, median_cuts(table.space, table.k), drawn_by(secret))


class Stored:
    """What a store keeps of a publisher."""

    def __init__(self) -> None:
        self.mark = NO_MARK
        self.places: dict[str, SealedPlace] = {}
        self.cohorts: dict[int, StoredCohort] = {}

    def take(self, sealed: Sealed) -> None:
        """A commit."""
        changes = sealed.drain()
        self.mark = changes.mark
        for kept, changed in ((self.places, changes.places), (self.cohorts, changes.cohorts)):
            kept.update(changed)  # type: ignore[arg-type]
            for name in [name for name, value in changed.items() if value is None]:
                del kept[name]  # type: ignore[arg-type]

    def give(self, sealed: Sealed, rows: Mapping[str, Row]) -> Sealed:
        """Has a new publisher go on, in whatever order a store hands out what it keeps."""
        places, cohorts = (
            Random(len(self.places)).sample([*kept.items()], len(kept)) for kept in (self.places, self.cohorts)
        )
        sealed.restore(self.mark, StoredSealed(places, cohorts), lambda keys: [rows[key] for key in keys])
        return sealed


def told(sealed: Sealed, epochs: Iterable[Iterable[Event]]) -> list[list[SealedRecord]]:
    """The records of each epoch of a stream that begins with nobody."""
    people, records = People(), []
    for number_of, events in enumerate(epochs, start=1):
        for one in events:
            sealed.apply(people.change(one))
        records.append(sealed.end_epoch(number_of * MINUTE))
    return records


def as_log(epochs: Iterable[Iterable[SealedRecord]]) -> list[Written]:
    return [encode(record) for records in epochs for record in records]


class InWords:
    """Records in words: cohorts are c1, c2 ... in the order of their epochs, and of their boxes within one."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, records: Sequence[SealedRecord]) -> list[str]:
        adds = sorted((one for one in records if isinstance(one, Add)), key=self._box)
        self._names |= {one.cohort: f"c{len(self._names) + i}" for i, one in enumerate(adds, start=1)}
        others = [one for one in records if isinstance(one, Live | Retire)]
        return sorted(map(self._other, others)) + [self._add(one) for one in adds]

    def _other(self, one: Live | Retire) -> str:
        name = self._names[one.cohort]
        return f"RETIRE {name}" if isinstance(one, Retire) else f"LIVE {name} {one.live}"

    @staticmethod
    def _box(one: Add) -> list[int]:
        return [*msgspec.json.decode(one.box).values()]

    def _add(self, one: Add) -> str:
        shown = "null"
        if one.sensitive is not None:
            shown = ",".join("/".join(msgspec.json.decode(text) for text in row) for row in one.sensitive)
        return f"ADD {self._names[one.cohort]} {self._box(one)} {one.n} {shown}"


def ended(records: Sequence[SealedRecord]) -> EpochEnd:
    """The record that ends an epoch."""
    last = records[-1]
    if not isinstance(last, EpochEnd):
        raise TypeError("an epoch has no end")
    return last


class Weights(NamedTuple):
    """How often a stream does what."""

    insert: int = 10
    delete: int = 3
    move: int = 2  # other quasi-identifiers
    change: int = 2  # other values
    both: int = 1


USUAL = Weights()


def stream(
    rng: Random,
    table: Table,
    epochs: int,
    events: int,
    values: Sequence[str],
    weights: Weights = USUAL,
    cells: int = 100,
) -> list[list[Event]]:
    """Random events; a person that changes its values really has other ones, and individuals have several rows."""
    there: dict[str, tuple[str, ...]] = {}
    made, result = 0, list[list[Event]]()

    def codes() -> tuple[int, ...]:
        return tuple(rng.randrange(min(cells, attribute.n_cells)) for attribute in numbers_of(table))

    def drawn(but: tuple[str, ...] | None = None) -> tuple[str, ...]:
        while (found := tuple(rng.choice(values) for _ in table.kept)) == but:
            pass
        return found

    for _ in range(epochs):
        happened = []
        for _ in range(events):
            kind = rng.choices([*Weights.__annotations__], weights)[0] if there else "insert"
            name = rng.choice([*there]) if kind != "insert" else f"p{made}"
            if kind == "insert":
                made, there[name] = made + 1, drawn()
                who = f"i{rng.randrange(1 + made // 2)}" if table.individual else None
                happened.append(Event("insert", name, codes(), there[name], who))
            elif kind == "delete":
                del there[name]
                happened.append(Event("delete", name))
            else:
                there[name] = there[name] if kind == "move" else drawn(there[name])
                to = codes() if kind != "change" else None
                happened.append(Event("modify", name, to, None if kind == "move" else there[name]))
        result.append(happened)
    return result
