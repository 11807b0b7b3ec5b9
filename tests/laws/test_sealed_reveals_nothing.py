"""What a sealed changelog promises: who has which value of a cohort changes no byte, so nobody can tell.

Three ways to look at it. Values are swapped within published cohorts: every byte stays. All worlds of tiny streams are
published: whoever has seen one log, knows everything but values, and has this code, holds no published value of anyone
more likely than alpha. And a publisher that breaks one rule is noticed by one of these, or by the laws of a log.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import structs

from streamer.grouping import cohort_formation
from streamer.incremental.events.changes import RowChange
from streamer.incremental.sealed.formation import Formation, median_cuts
from streamer.incremental.sealed.publisher import Draw, Sealed, drawn_by
from streamer.incremental.sealed.records import (
    Add,
    EpochEnd,
    Live,
    Retire,
    SealedRecord,
    SensitiveTexts,
    Written,
    box_json,
    decode,
    sensitive_texts,
)
from streamer.table.arrays import Ints
from streamer.table.row import Row, Values
from streamer.table.schema import Table
from worlds.sealed_by_hand import by_hand
from worlds.sealed_people import (
    AGE,
    HOUSE,
    Event,
    People,
    Stored,
    Weights,
    as_log,
    events_of,
    number,
    sealed_table,
    stream,
    told,
)

Stream = list[list[Event]]
Publisher = Callable[[Table, Formation, Draw], Sealed]

DRAW = drawn_by(b"a secret")

TABLES = {
    "flush all": sealed_table(),
    "k = 3, half left": sealed_table(3, "0.67", theta="0.5", attributes=(AGE, HOUSE)),
    "waits": sealed_table(2, "0.67", tau="0.05", delta=3, attributes=(AGE, HOUSE)),
    "two values": sealed_table(3, "0.67", l=2, sensitive=("problem", "drug")),
    "people with several rows": sealed_table(2, "0.67", individual="ssn", attributes=(AGE, HOUSE)),
    "coarse": sealed_table(3, "0.67", attributes=(number("age", 99, 20),)),
}


def plain(table: Table, form: Formation, draw: Draw) -> Sealed:
    return Sealed(table, 0, form, draw)


def log_of(table: Table, epochs: Stream, publisher: Publisher = plain, form: Formation | None = None) -> list[Written]:
    return as_log(told(publisher(table, form or median_cuts(table.space, table.k), DRAW), epochs))


# -- swaps ------------------------------------------------------------------------------------------------------------


def cohorts_of(table: Table, epochs: Stream, form: Formation | None = None) -> list[tuple[int, ...]]:
    """Of each cohort that shows its values, the events that gave its rows theirs."""
    if form is None:
        twin, _ = by_hand(table, DRAW, epochs)
        return [cohort.set_at for cohort in twin.cohorts.values() if cohort.shown]
    spy = Spy(table, form)
    told(spy, epochs)
    return [members for _, members, shown in spy.members if shown]


class Spy(Sealed):
    """Remembers the events that gave the rows of cohorts their values, by a tag that no one else looks at."""

    def __init__(self, table: Table, form: Formation) -> None:
        super().__init__(table, 0, form, DRAW)
        self.members: list[tuple[str, tuple[int, ...], bool]] = []
        self.set_at: dict[str, int] = {}
        self._n = 0

    def apply(self, change: RowChange) -> None:
        if change.row is not None and change.row.values != change.before:
            self.set_at[change.source_key] = self._n
        self._n += 1
        super().apply(change)

    def _published(self, places: Sequence[int], box: Any) -> Add:
        names = [str(self._persons.texts[self._pool.persons[place]]) for place in places]
        add = super()._published(places, box)
        self.members.append((add.cohort, tuple(self.set_at[name] for name in names), add.sensitive is not None))
        return add


def with_values(epochs: Stream, values: dict[int, tuple[str, ...] | None]) -> Stream:
    """The stream, with other values in some events, by their numbers."""
    numbers = iter(range(sum(map(len, epochs))))
    return [[one._replace(values=values.get(next(numbers), one.values)) for one in events] for events in epochs]


def kinds_of(epochs: Stream) -> Sequence[tuple[object, ...]]:
    """All that is known of the events but their values: whether values change is known, too."""
    people, found = People(), []
    for events in epochs:
        for one in events:
            change = people.change(one)
            changes = change.row is not None and change.row.values != change.before
            found.append((one.kind, one.name, one.codes, one.individual, changes))
    return found


def swapped(rng: Random, epochs: Stream, cohort: Sequence[int]) -> Stream | None:
    """The values of a cohort given to its people in another order; None if the events would not be the same then."""
    all_events = [one for events in epochs for one in events]
    order = list(cohort)
    rng.shuffle(order)
    values = {at: all_events[other].values for at, other in zip(cohort, order, strict=True)}
    if all(values[at] == all_events[at].values for at in cohort):
        return None
    other_world = with_values(epochs, values)
    return other_world if kinds_of(other_world) == kinds_of(epochs) else None


def swaps(table: Table, n: int, seed: object, form: Formation | None = None) -> Iterator[tuple[Stream, Stream]]:
    """n streams, each with one in which a cohort's values are swapped."""
    rng, found = Random(f"swaps {seed}"), 0
    while found < n:
        epochs = stream(rng, table, 5, 14, "abc", cells=30)
        cohorts = cohorts_of(table, epochs, form)
        rng.shuffle(cohorts)
        for cohort in cohorts[: min(8, n - found)]:
            other = swapped(rng, epochs, cohort)
            if other is not None:
                found += 1
                yield epochs, other


@pytest.mark.parametrize("name", TABLES)
def test_swapped_values_of_a_cohort_change_no_byte(name: str) -> None:
    for one, other in swaps(TABLES[name], 20, name):
        assert log_of(TABLES[name], one) == log_of(TABLES[name], other)


@pytest.mark.night
@pytest.mark.parametrize("name", TABLES)
def test_a_thousand_swaps_change_no_byte(name: str) -> None:
    for one, other in swaps(TABLES[name], 1_000 // len(TABLES) + 1, ("night", name)):
        assert log_of(TABLES[name], one) == log_of(TABLES[name], other)


@pytest.mark.parametrize("n", [4, pytest.param(8, marks=pytest.mark.night)])
@pytest.mark.parametrize("name", ["flush all", "k = 3, half left", "people with several rows"])
def test_swapped_values_change_no_byte_where_cohorts_are_formed_by_the_default_algorithm(name: str, n: int) -> None:
    table = TABLES[name]
    form = cohort_formation(table)
    for one, other in swaps(table, n, name, form):
        assert log_of(table, one, form=form) == log_of(table, other, form=form)


def test_a_swap_that_makes_one_cohort_unsafe_changes_the_values_of_this_cohort_alone() -> None:
    table, rng = sealed_table(), Random(5)
    for _ in range(20):
        epochs = stream(rng, table, 4, 12, "abc", Weights(change=0, both=0), cells=30)
        shown = cohorts_of(table, epochs)
        unsafe = with_values(epochs, dict.fromkeys(rng.choice(shown), ("a",)))
        one, other = log_of(table, epochs), log_of(table, unsafe)
        (differs,) = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
        assert differs[0].key == differs[1].key
        shown_before, _, _ = differs[0].value.partition(b',"sensitive":')
        assert differs[1].value == shown_before + b',"sensitive":null}'


# -- against the source -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_cohort_says_of_its_people_what_was_true_when_it_was_sealed_and_of_nobody_twice(name: str) -> None:
    """Also that a person is in one cohort until it has other values, even if its cohort is retired."""
    table = TABLES[name]
    for seed in range(10):
        epochs, people = stream(Random(seed), table, 6, 14, "abc", cells=30), People()
        spy, sealed_once, rows = Spy(table, median_cuts(table.space, table.k)), set[int](), dict[int, Row]()
        for number_of, events in enumerate(epochs, start=1):
            for one in events:
                spy.apply(people.change(one))
            before = len(spy.members)
            adds = {one.cohort: one for one in spy.end_epoch(60 * number_of) if isinstance(one, Add)}
            rows |= {spy.set_at[key]: row for key, row in people.rows.items()}
            for cohort, members, _ in spy.members[before:]:
                assert sealed_once.isdisjoint(members)
                assert len({*members}) == len(members) == adds[cohort].n >= table.k
                sealed_once |= {*members}
                those = [rows[at] for at in members]
                assert adds[cohort].sensitive in (None, sensitive_texts(row.values for row in those))
                cells = table.space.cells(np.array([row.codes for row in those]))
                lo, hi = cells.min(axis=0), cells.max(axis=0)
                assert adds[cohort].box == box_json(table, lo.tolist(), hi.tolist())
                if table.individual is not None:
                    assert len({row.individual for row in those}) == len(those)
        assert len(sealed_once) > 20


@pytest.mark.parametrize("name", TABLES)
def test_a_log_holds_no_name_no_individual_and_no_time_of_an_event(name: str) -> None:
    epochs = stream(Random(1), TABLES[name], 6, 14, "abc", cells=30)
    names = {one.name for events in epochs for one in events} | {one.individual for events in epochs for one in events}
    words = {
        word for written in log_of(TABLES[name], epochs) for text in written for word in re.findall(rb"[a-z0-9]+", text)
    }
    assert words.isdisjoint({text.encode() for text in names if text})
    box = {column for a in TABLES[name].attributes for column in (f"{a.name}_lo", f"{a.name}_hi")}
    for key, value in log_of(TABLES[name], epochs):
        record = decode(key, value)
        if isinstance(record, Add):
            assert {*msgspec.json.decode(record.box)} == box


@pytest.mark.parametrize("name", TABLES)
def test_who_is_there_waits_or_was_published_and_who_is_gone_is_not_kept(name: str) -> None:
    table = TABLES[name]
    for seed in range(5):
        epochs, people = stream(Random(seed), table, 6, 14, "abc", cells=30), People()
        sealed, gone, stored = plain(table, median_cuts(table.space, table.k), DRAW), set[str](), Stored()
        for number_of, events in enumerate(epochs, start=1):
            for one in events:
                sealed.apply(people.change(one))
                gone |= {one.name} if one.kind == "delete" else set()
            sealed.end_epoch(60 * number_of)
            stored.take(sealed)
            assert sorted(sealed.source_keys) == sorted(stored.places) == sorted(people.rows)
            assert gone.isdisjoint(stored.places)
            if table.individual is None and table.sealed is not None and table.sealed.tau is None:
                assert sealed.n_waiting < table.k


# -- all worlds -------------------------------------------------------------------------------------------------------

PRIORS = {"even": {"a": 1, "b": 1, "c": 1}, "skewed": {"a": 3, "b": 2, "c": 1}, "two": {"a": 1, "b": 1}}


def worlds_of(epochs: Stream, prior: dict[str, int]) -> Iterator[tuple[Stream, tuple[str, ...], Fraction]]:
    """Each way to give values to those who get any: the stream, the values by event, and how likely it is."""
    all_events = [one for events in epochs for one in events]
    sets = [at for at, one in enumerate(all_events) if one.values is not None]
    total = sum(prior.values())
    for values in product(prior, repeat=len(sets)):
        likely = Fraction(1)
        for value in values:
            likely *= Fraction(prior[value], total)
        yield with_values(epochs, {at: (value,) for at, value in zip(sets, values, strict=True)}), values, likely


def worst_posterior(
    table: Table, epochs: Stream, prior: dict[str, int], publisher: Publisher = plain, form: Formation | None = None
) -> tuple[Fraction, int]:
    """The highest likelihood of a published value, of anyone, in any log that may be; and how many logs may be.

    An adversary sees the whole log, and knows all events but values. Who is in which cohort is known, too: it follows
    from the events.
    """
    seen: dict[tuple[Written, ...], list[tuple[tuple[str, ...], Fraction]]] = defaultdict(list)
    known = kinds_of(epochs)
    for world, values, likely in worlds_of(epochs, prior):
        if kinds_of(world) != known:
            continue
        seen[tuple(log_of(table, world, publisher))].append((values, likely))
    all_events = [one for events in epochs for one in events]
    sets = [at for at, one in enumerate(all_events) if one.values is not None]
    worst = Fraction(0)
    for worlds in seen.values():
        here = with_values(epochs, {at: (value,) for at, value in zip(sets, worlds[0][0], strict=True)})
        total = sum((likely for _, likely in worlds), Fraction(0))
        for cohort in cohorts_of(table, here, form):
            for at in cohort:
                chances: Counter[str] = Counter()
                for values, likely in worlds:
                    chances[values[sets.index(at)]] += likely  # type: ignore[assignment]
                worst = max(worst, Fraction(max(chances.values())) / total)
    return worst, len(seen)


def tiny(rng: Random, table: Table, values: int) -> Stream:
    """A stream in which at most so many get values; nobody gets other ones (T4 is about those)."""
    while True:
        epochs = stream(rng, table, 3, 4, "abc", Weights(4, 2, 1, 0, 0), cells=6)
        if 4 <= sum(one.values is not None for events in epochs for one in events) <= values:
            return epochs


def test_of_somebody_who_is_known_to_have_got_another_value_no_value_is_likelier_than_the_bound_of_such_pairs() -> None:
    """alpha / (1 - alpha + alpha^2): at 1/2 it is 2/3, and it is reached."""
    lines = [
        ["p1 10 a; p2 11 b", "p1 = =c; p3 12 a"],
        ["p1 10 a; p2 11 b", "p3 12 a; p1 = =b; p4 40 c; p5 41 a"],
        ["p1 10 a; p2 11 b; p3 12 c", "p3 = =a; p4 40 c"],
        ["p1 10 a; p2 11 b", "p1 -; p2 = =c; p3 12 a"],
    ]
    found = [worst_posterior(sealed_table(), [*map(events_of, one)], PRIORS["even"])[0] for one in lines]
    assert max(found) == Fraction(2, 3)


TINY = {
    "flush all": sealed_table(),
    "half left": sealed_table(2, "0.5", theta="0.5"),
    "k = 3": sealed_table(3, "0.67"),
    "waits": sealed_table(2, "0.5", tau="0.03", delta=2),
    "people with several rows": sealed_table(2, "0.5", individual="ssn"),
}


def check_worlds(n: int, seed: object, values: int) -> None:
    rng, n_shown = Random(f"worlds {seed}"), 0
    for i in range(n):
        name, prior = [*TINY][i % len(TINY)], [*PRIORS.values()][i // len(TINY) % len(PRIORS)]
        worst, n_logs = worst_posterior(TINY[name], tiny(rng, TINY[name], values), prior)
        assert worst <= Fraction(str(TINY[name].sealed.alpha)), name  # type: ignore[union-attr]
        n_shown += worst > 0 and n_logs > 1
    assert n_shown > n // 4


def test_in_all_worlds_of_tiny_streams_no_published_value_is_likelier_than_alpha() -> None:
    check_worlds(12, "gate", 5)


@pytest.mark.night
def test_in_all_worlds_the_default_way_of_forming_cohorts_says_no_more() -> None:
    table = TINY["flush all"]
    form = cohort_formation(table)

    def publisher(table: Table, _: Formation, draw: Draw) -> Sealed:
        return Sealed(table, 0, form, draw)

    for seed in range(5):
        epochs = tiny(Random(seed), table, 6)
        worst, _ = worst_posterior(table, epochs, PRIORS["two"], publisher, form)
        assert Fraction(1, 4) <= worst <= Fraction(1, 2)


@pytest.mark.night
@pytest.mark.parametrize("part", range(4))
def test_in_all_worlds_of_two_hundred_streams_no_published_value_is_likelier_than_alpha(part: int) -> None:
    check_worlds(50, part, 7)


# -- a publisher that breaks a rule -----------------------------------------------------------------------------------


def broken_laws(table: Table, epochs: Sequence[Sequence[SealedRecord]]) -> list[str]:
    """What is wrong with a log by itself."""
    rules, left = table.sealed, dict[str, int]()
    if rules is None:
        raise ValueError("no rules")
    said = []
    for number_of, records in enumerate(epochs, start=1):
        *others, end = records
        names = [one.cohort for one in others if not isinstance(one, EpochEnd)]
        kinds = Counter(map(type, others))
        if not isinstance(end, EpochEnd) or end.epoch != number_of:
            said.append("epochs are not contiguous")
        elif (end.adds, end.lives, end.retires) != (kinds[Add], kinds[Live], kinds[Retire]):
            said.append("the end of an epoch counts others")
        if names != sorted(set(names)):
            said.append("records are not in the order of their ids")
        for one in others:
            said += _of_record(table, one, left)
    return said


def _of_record(table: Table, one: SealedRecord, left: dict[str, int]) -> Iterator[str]:
    rules = table.sealed
    if rules is None or isinstance(one, EpochEnd):
        return
    if isinstance(one, Add):
        if one.cohort in left:
            yield "a cohort comes twice"
        if one.n < table.k:
            yield "a cohort is smaller than k"
        columns = zip(*one.sensitive, strict=True) if one.sensitive else ()
        for i, column in enumerate(columns):
            counts = Counter(map(bytes, column))
            if i in table.sensitive and (max(counts.values()) > rules.alpha * one.n or len(counts) < rules.l):
                yield "a cohort shows what it has to withhold"
        left[one.cohort] = one.n
    elif not left.get(one.cohort):
        yield "a cohort changes that is not there"
    elif isinstance(one, Retire):
        left[one.cohort] = 0
    else:
        if one.live >= left[one.cohort]:
            yield "a cohort loses nobody"
        left[one.cohort] = one.live


@pytest.mark.parametrize("name", TABLES)
def test_every_log_keeps_the_laws_of_a_log(name: str) -> None:
    assert breaks_laws(plain, TABLES[name], 20) == []


class Hasty(Sealed):
    """R1: nobody waits for k others."""

    def __init__(self, table: Table, shard: int, form: Formation, draw: Draw) -> None:
        super().__init__(replace(table, k=1), shard, median_cuts(table.space, 1), draw)


class Looking(Sealed):
    """R2: cohorts are formed such that values differ."""

    def __init__(self, table: Table, shard: int, form: Formation, draw: Draw) -> None:
        super().__init__(table, shard, self._by_values, draw)

    def _by_values(self, cells: Ints, seed: int) -> list[Ints]:
        order = np.array(sorted(range(len(cells)), key=self._pool.values.__getitem__))
        n = len(cells) // self._table.k
        return [order[i::n] for i in range(n)]


class Careless(Sealed):
    """R3: every cohort shows its values."""

    def _shown(self, rows: Sequence[Values]) -> SensitiveTexts | None:
        return sensitive_texts(rows)


class Retrying(Sealed):
    """R3: those who may not be shown wait for others instead."""

    def _may_go(self, lo: Ints, hi: Ints, since: Sequence[int]) -> Iterator[bool]:
        formed = self._form(self._pool.cells, 0)
        for cohort in formed:
            yield self._shown([self._pool.values[place] for place in cohort.tolist()]) is not None


class Forgetful(Sealed):
    """R4: who leaves is not counted."""

    def _depart(self, person: int) -> None:
        where = self._where[person]
        super()._depart(person)
        if where >= 0:
            self._cohorts.left[where] += 1


class Following(Sealed):
    """R5: who moves is published again, elsewhere."""

    def apply(self, change: RowChange) -> None:
        moved = change.row is not None and change.before is not None
        super().apply(structs.replace(change, before=(b"other",)) if moved else change)


class Readmitting(Sealed):
    """R6: who is left of a retired cohort is published again."""

    def __init__(self, table: Table, shard: int, form: Formation, draw: Draw) -> None:
        super().__init__(table, shard, form, draw)
        self._rows: dict[str, Row] = {}

    def apply(self, change: RowChange) -> None:
        super().apply(change)
        self._rows.pop(change.source_key, None)
        if change.row is not None:
            self._rows[change.source_key] = change.row

    def _departures(self) -> Iterator[Live | Retire]:
        yield from super()._departures()
        for name, row in self._rows.items():
            person = self._persons[name]
            if self._where[person] >= 0 and self._cohorts.retired[self._where[person]]:
                self._arrive(person, row)


class Unsorted(Sealed):
    """R7: values stand in the order in which people came."""

    def _shown(self, rows: Sequence[Values]) -> SensitiveTexts | None:
        there = super()._shown(rows)
        return there and tuple(tuple(map(msgspec.Raw, values)) for values in rows)


class Chronological(Sealed):
    """R7: records stand in the order in which they were made."""

    def end_epoch(self, seconds: int) -> list[SealedRecord]:
        made: list[SealedRecord] = []
        formed, self._formed = self._formed, lambda: (made.append(one) or one for one in formed())  # type: ignore
        *_, end = super().end_epoch(seconds)
        self._formed = formed  # type: ignore[method-assign]
        return [*made, end]


class Crashing(Sealed):
    """R8: after a crash in the second epoch, cohorts are formed again of those who came until then, and later."""

    def __init__(self, table: Table, shard: int, form: Formation, draw: Draw) -> None:
        super().__init__(table, shard, form, draw)
        self._stored, self._rows = Stored(), dict[str, Row]()

    def apply(self, change: RowChange) -> None:
        super().apply(change)
        self._rows.pop(change.source_key, None)
        if change.row is not None:
            self._rows[change.source_key] = change.row

    def end_epoch(self, seconds: int) -> list[SealedRecord]:
        self._stored.take(self)
        records = super().end_epoch(seconds)
        if self.epoch == 2:
            again = self._stored.give(Sealed(self._table, 0, self._form, self._draw), self._rows)
            self.__dict__.update(vars(again), epoch=2)
        return records


class Twice(Sealed):
    """R9: the same people are published a second time, in cohorts of three."""

    def __init__(self, table: Table, shard: int, form: Formation, draw: Draw) -> None:
        super().__init__(table, shard, form, draw)
        other = replace(table, k=3)
        self._other = Sealed(other, 1, median_cuts(table.space, 3), drawn_by(b"another secret"))

    def apply(self, change: RowChange) -> None:
        super().apply(change)
        self._other.apply(change)

    def end_epoch(self, seconds: int) -> list[SealedRecord]:
        return super().end_epoch(seconds) + self._other.end_epoch(seconds)


def breaks_laws(publisher: Publisher, table: Table, streams: int) -> list[str]:
    form = median_cuts(table.space, table.k)
    for seed in range(streams):
        epochs = stream(Random(seed), table, 6, 14, "abc", cells=30)
        said = broken_laws(table, told(publisher(table, form, DRAW), epochs))
        if said:
            return said
    return []


def tells_orders_apart(publisher: Publisher, table: Table) -> bool:
    return any(log_of(table, one, publisher) != log_of(table, other, publisher) for one, other in swaps(table, 20, 0))


def reveals(publisher: Publisher, table: Table, seeds: Iterable[int]) -> bool:
    """Whether someone's value can be told in some world of some tiny stream; seeds: of the streams."""
    alpha = table.sealed.alpha if table.sealed else 0
    streams = (tiny(Random(seed), table, 5) for seed in seeds)
    return any(worst_posterior(table, epochs, PRIORS["skewed"], publisher)[0] > alpha for epochs in streams)


LAWS, SWAPS, WORLDS = "laws", "swaps", "worlds"
HALF_LEFT = TINY["half left"]

BROKEN: dict[type[Sealed], tuple[str, Table]] = {
    Hasty: (LAWS, sealed_table()),
    Looking: (SWAPS, sealed_table()),
    Careless: (LAWS, sealed_table()),
    Retrying: (WORLDS, sealed_table()),
    Forgetful: (LAWS, sealed_table()),
    Following: (WORLDS, sealed_table()),
    Readmitting: (WORLDS, HALF_LEFT),
    Unsorted: (SWAPS, sealed_table()),
    Chronological: (LAWS, sealed_table()),
    Crashing: (WORLDS, sealed_table()),
    Twice: (WORLDS, sealed_table()),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_publisher_that_breaks_one_rule_is_noticed(broken: type[Sealed]) -> None:
    by, table = BROKEN[broken]
    assert is_noticed(lambda *of: broken(of[0], 0, *of[1:]), by, table)


@pytest.mark.parametrize("by", [LAWS, SWAPS, WORLDS])
def test_and_one_that_breaks_none_is_not(by: str) -> None:
    assert not any(is_noticed(plain, by, table) for table in (sealed_table(), HALF_LEFT))


STREAMS = (2, 10, 38)
"""Seeds of tiny streams in which each of the publishers above says too much."""


def is_noticed(publisher: Publisher, by: str, table: Table) -> bool:
    if by == WORLDS:
        return reveals(publisher, table, STREAMS)
    return tells_orders_apart(publisher, table) if by == SWAPS else breaks_laws(publisher, table, 6) != []
