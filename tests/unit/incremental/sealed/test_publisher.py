"""The sealed publisher: what each epoch publishes, by hand-made examples and against the rules written down plainly."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from random import Random

import msgspec
import numpy as np
import pytest

from streamer.errors import LawViolated
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Insert, RowChange
from streamer.incremental.sealed.publisher import Pool, Sealed, drawn_by
from streamer.incremental.sealed.records import Add, EpochEnd, Live, Retire, SealedRecord, decode, encode
from streamer.table.codes import Diversity, KeptColumn
from streamer.table.row import Row
from streamer.table.schema import NO_REPAIR
from worlds.faust_loops import alive
from worlds.sealed_by_hand import by_hand
from worlds.sealed_people import (
    AGE,
    HOUSE,
    Event,
    InWords,
    People,
    Stored,
    as_log,
    ended,
    events_of,
    number,
    publisher,
    sealed_table,
    stream,
    told,
)

START = "p1 20 flu; p2 22 cold"
C1 = "ADD c1 [20, 22] 2 cold,flu"

SCENARIOS: dict[str, tuple[list[str], list[list[str]]]] = {
    "S1: one newcomer waits": ([START, "p3 30 flu"], [[C1], []]),
    "S2: k newcomers are a cohort": ([START, "p3 30 flu; p4 31 cold"], [[C1], ["ADD c2 [30, 31] 2 cold,flu"]]),
    "S3: one value has too large a share": ([START, "p3 30 flu; p4 31 flu"], [[C1], ["ADD c2 [30, 31] 2 null"]]),
    "S4: a median cut": (
        ["p3 10 a; p4 20 b; p5 30 c; p6 40 a"],
        [["ADD c1 [10, 20] 2 a,b", "ADD c2 [30, 40] 2 a,c"]],
    ),
    "S5: the median goes left": (
        ["p3 10 a; p4 20 b; p5 30 c; p6 40 a; p7 50 b"],
        [["ADD c1 [10, 30] 3 a,b,c", "ADD c2 [40, 50] 2 a,b"]],
    ),
    "S6: no cut is made again because of values": (
        ["p3 10 a; p4 20 a; p5 30 c; p6 40 a", ""],
        [["ADD c1 [10, 20] 2 null", "ADD c2 [30, 40] 2 a,c"], []],
    ),
    "S7: a ghost": ([START, "p1 -"], [[C1], ["LIVE c1 1"]]),
    "S8: nobody is left": ([START, "p1 -; p2 -"], [[C1], ["RETIRE c1"]]),
    "S9: come and gone": ([START, "p3 30 flu; p3 -"], [[C1], []]),
    "S10: a move is not published": ([START, "p1 =60 ="], [[C1], []]),
    "S11: other values": (
        [START, "p1 = =asthma; p5 21 cold"],
        [[C1], ["LIVE c1 1", "ADD c2 [20, 21] 2 asthma,cold"]],
    ),
    "S11b: another spelling is no other value": ([START, "p1 = =Flu; p5 21 cold"], [[C1], []]),
    "S3b: one value in two spellings": (
        [START, "p3 30 flu; p4 31 FLU"],
        [[C1], ["ADD c2 [30, 31] 2 null"]],
    ),
    "S12: a move in the pool": ([START, "p3 30 flu; p3 =35 =; p4 36 cold"], [[C1], ["ADD c2 [35, 36] 2 cold,flu"]]),
    "S18: no cut through ties": (["p3 30 a; p4 30 b; p5 30 c"], [["ADD c1 [30, 30] 3 a,b,c"]]),
}


def epochs_of(lines: list[str]) -> list[list[Event]]:
    return [*map(events_of, lines)]


def in_words(sealed: Sealed, lines: list[str]) -> list[list[str]]:
    return in_words_of(sealed, epochs_of(lines))


def in_words_of(sealed: Sealed, epochs: list[list[Event]]) -> list[list[str]]:
    words = InWords()
    return [words.of(records) for records in told(sealed, epochs)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_publishes_exactly_these_records(name: str) -> None:
    lines, expected = SCENARIOS[name]
    assert in_words(publisher(sealed_table()), lines) == expected


WAYS = {
    "flush all": sealed_table(),
    "k = 3": sealed_table(3, attributes=(AGE, HOUSE)),
    "half left": sealed_table(3, theta="0.5"),
    "waits": sealed_table(2, tau="0.02", delta=3, attributes=(AGE, HOUSE)),
    "two values": sealed_table(3, "0.7", l=2, sensitive=("problem", "drug")),
    "no counters": sealed_table(2, counters=False),
    "people with several rows": sealed_table(2, "0.67", individual="ssn", attributes=(AGE, HOUSE)),
    "coarse": sealed_table(2, attributes=(number("age", 99, 10), HOUSE)),
}


@pytest.mark.parametrize("name", WAYS)
def test_it_publishes_what_the_rules_written_plainly_publish(name: str) -> None:
    table, draw = WAYS[name], drawn_by(b"a secret")
    for seed in range(12):
        epochs = stream(Random(seed), table, 6, 14, "abc", cells=30)
        _, expected = by_hand(table, draw, epochs)
        found = [[encode(one).value for one in records] for records in told(publisher(table), epochs)]
        assert found == expected, (name, seed)


def test_the_streams_of_these_ways_say_everything_that_can_be_said() -> None:
    """Else the comparison would show less than it seems to."""
    said = Counter[str]()
    for name, table in WAYS.items():
        epochs = told(publisher(table), stream(Random(1), table, 6, 14, "abc", cells=30))
        said.update(type(one).__name__ for records in epochs for one in records)
        said.update(
            f"withheld in {name}" for records in epochs for one in records if getattr(one, "sensitive", 0) is None
        )
        assert ended(epochs[-1]).epoch == 6
    assert min(said["Add"], said["Live"], said["Retire"]) > 10
    assert said["withheld in two values"] > 3


def test_a_published_row_stays_as_it_is_until_a_sensitive_value_of_its_changes() -> None:
    """Without a sensitive column any other value makes it leave: nothing is to be hidden."""
    for sensitive, said in ((True, []), (False, [Live])):
        kept = (KeptColumn("problem", sensitive=sensitive), KeptColumn("ward", sensitive=False))
        sealed = publisher(replace(sealed_table(), kept=kept))
        first = {name: Row((20,), (text, b'"a"')) for name, text in (("p1", b'"flu"'), ("p2", b'"cold"'))}
        for name, row in first.items():
            sealed.apply(RowChange(name, None, row))
        sealed.end_epoch(60)
        moved = Row((20,), (b'"flu"', b'"b"'))
        sealed.apply(RowChange("p1", first["p1"].values, moved))
        assert [type(one) for one in sealed.end_epoch(120)[:-1]] == said
        sealed.apply(RowChange("p1", moved.values, Row((20,), (b'"asthma"', b'"b"'))))
        sealed.apply(RowChange("p3", None, Row((21,), (b'"flu"', b'"a"'))))
        assert Add in [type(one) for one in sealed.end_epoch(180)]


def test_s13_survivors_of_a_retired_cohort_are_not_published_again() -> None:
    lines = [START, "p1 -", "p6 23 a; p7 24 b", "p2 = =asthma; p8 50 cold"]
    assert in_words(publisher(sealed_table(theta="0.5")), lines) == [
        [C1],
        ["RETIRE c1"],
        ["ADD c2 [23, 24] 2 a,b"],
        ["ADD c3 [22, 50] 2 asthma,cold"],  # other values: a newcomer
    ]


def test_s14_what_the_table_does_inside_is_not_published() -> None:
    """Rows stay as they are when QI groups are merged, cut or rebuilt, so the publisher is told of nothing."""
    table = replace(sealed_table(), repair=NO_REPAIR)
    engine = Engine(table)
    for number_of, age in enumerate((20, 22, 24, 26)):
        engine.apply(Insert(f"p{number_of}", Row((age,), (b'"flu"',))))
    assert [change.source_key for change in engine.drain().row_changes] == ["p0", "p1", "p2", "p3"]
    region = engine.region(engine.regions(0)[0])
    engine.replace(region, [np.arange(4)])
    assert engine.n_qi_groups == 1
    assert engine.drain().row_changes == []


def test_s15_after_a_crash_the_same_records_are_sent_and_nobody_is_published_twice() -> None:
    table = sealed_table()
    before = publisher(table)
    people, outbox = People(), list[list[SealedRecord]]()
    for number_of, line in enumerate([START, "p3 30 flu; p4 31 cold"], start=1):
        for one in epochs_of([line])[0]:
            before.apply(people.change(one))
        outbox.append(before.end_epoch(number_of * 60))
    stored, kept = Stored(), as_log(outbox[-1:])
    stored.take(before)
    after = stored.give(publisher(table, b"another secret"), people.rows)
    assert [InWords().of([decode(*written) for written in kept])] == [["ADD c1 [30, 31] 2 cold,flu"]]
    assert (after.n_waiting, after.n_cohorts, after.epoch) == (0, 2, 2)
    assert [type(one) for one in after.end_epoch(180)] == [EpochEnd]


def test_s16_who_has_which_value_of_a_cohort_changes_no_byte() -> None:
    one = told(publisher(sealed_table()), epochs_of([START, "p3 30 flu; p4 31 cold"]))
    other = told(publisher(sealed_table()), epochs_of([START, "p3 30 cold; p4 31 flu"]))
    assert as_log(one) == as_log(other)


def test_s17_a_cohort_shows_its_values_up_to_alpha() -> None:
    for values, shown in (("aabcd", "a,a,b,c,d"), ("aaabc", "null")):
        line = "; ".join(f"p{i} {10 * i} {value}" for i, value in enumerate(values))
        assert in_words(publisher(sealed_table(5, "0.4")), [line]) == [[f"ADD c1 [0, 40] 5 {shown}"]]


def test_a_share_of_exactly_alpha_is_shown() -> None:
    """Whatever binary fractions make of it: 0.3 of 10 rows are 3."""
    line = "; ".join(f"p{i} {i} {value}" for i, value in enumerate("aaabbbcccd"))
    shown = "a,a,a,b,b,b,c,c,c,d"
    assert in_words(publisher(sealed_table(10, "0.3")), [line]) == [[f"ADD c1 [0, 9] 10 {shown}"]]


def test_a_cohort_shows_its_values_only_if_they_hold_what_their_column_demands() -> None:
    flu, cold = "p1 10 flu; p2 11 flu; p3 12 cold", "p1 10 flu; p2 11 hip; p3 12 cold"
    for asked in (Diversity(l=3), Diversity(beta=Decimal("0.5"))):
        table = sealed_table(3, "0.7")
        table = replace(table, kept=(replace(table.kept[0], diversity=asked),))
        assert in_words(publisher(table), [flu]) == [["ADD c1 [10, 12] 3 null"]]
        assert in_words(publisher(table), [cold]) == [["ADD c1 [10, 12] 3 cold,flu,hip"]]


def test_a_row_waits_for_delta_epochs_at_most_and_then_takes_its_cohort_along() -> None:
    table = sealed_table(2, tau="0.1", delta=3)
    lines = ["p1 0 a; p2 90 b", "", "", "p3 10 a; p4 11 b"]
    assert in_words(publisher(table), lines) == [[], [], ["ADD c1 [0, 90] 2 a,b"], ["ADD c2 [10, 11] 2 a,b"]]


def test_a_cohort_takes_one_row_of_each_individual_and_the_others_wait_for_others() -> None:
    table = sealed_table(2, individual="ssn")
    rows = [("r1", 10, "a", "ann"), ("r2", 11, "b", "ann"), ("r3", 50, "c", "bob"), ("r4", 12, "d", "ann")]
    epochs = [[Event("insert", name, (age,), (value,), who) for name, age, value, who in rows]]
    words = InWords()
    sealed = publisher(table)
    assert [words.of(records) for records in told(sealed, epochs)] == [["ADD c1 [10, 50] 2 a,c"]]
    assert sealed.n_waiting == 2


def test_a_cohort_whose_values_do_not_fit_into_a_message_shows_its_box_alone() -> None:
    table = sealed_table(2, "1")
    table = replace(table, limits=replace(table.limits, row_bytes_max=1_000))
    epochs = [[Event("insert", f"p{i}", (i,), (letter * 500,)) for i, letter in enumerate("ab")]]
    assert in_words_of(publisher(table), epochs) == [["ADD c1 [0, 1] 2 null"]]


@pytest.mark.parametrize("name", WAYS)
def test_a_publisher_that_is_kept_goes_on_as_if_it_had_not_been(name: str) -> None:
    """At the end of any epoch, and within it."""
    table, rng = WAYS[name], Random(name)
    epochs = stream(rng, table, 8, 14, "abc", cells=30)
    expected, people, stored = as_log(told(publisher(table), epochs)), People(), Stored()
    sealed, found = publisher(table), list[list[SealedRecord]]()
    for number_of, events in enumerate(epochs, start=1):
        for one in events:
            sealed.apply(people.change(one))
            if rng.random() < 0.2:
                stored.take(sealed)
                sealed = stored.give(publisher(table), people.rows)
        found.append(sealed.end_epoch(number_of * 60))
        stored.take(sealed)
        sealed = stored.give(publisher(table), people.rows)
    assert as_log(found) == expected
    assert {*stored.places} == {*people.rows}
    assert sealed.mark == stored.mark


@pytest.mark.parametrize("damage", ["a person is missing", "a cohort is missing", "a cohort counts one more"])
def test_a_store_that_has_lost_people_or_cohorts_is_found_out(damage: str) -> None:
    people, stored, sealed = People(), Stored(), publisher(sealed_table())
    for one in epochs_of([START])[0]:
        sealed.apply(people.change(one))
    sealed.end_epoch(60)
    stored.take(sealed)
    if damage == "a person is missing":
        del stored.places["p1"]
    elif damage == "a cohort is missing":
        stored.cohorts.clear()
    else:
        stored.cohorts = {n: msgspec.structs.replace(one, left=one.left + 1) for n, one in stored.cohorts.items()}
    with pytest.raises(LawViolated, match="not as many people as were counted"):
        stored.give(publisher(sealed_table()), people.rows)


def test_cohorts_whose_people_are_not_known_any_more_are_retired_and_who_is_there_is_not_published() -> None:
    """Until their values are others, or they are deleted and come again as somebody new."""
    sealed, people = publisher(sealed_table()), People()
    for text in ("p1 20 flu; p2 22 cold", ""):
        [people.change(one) for one in epochs_of([text])[0]]
    sealed.lose(7, ["0" * 31 + "a", "0" * 31 + "b"], [*people.rows])
    retired, end = sealed.end_epoch(60)[:2], sealed.epoch
    assert [(type(one), one.epoch) for one in retired] == [(Retire, 8), (Retire, 8)] and end == 8
    for one in epochs_of(["p1 =21 =; p2 = =asthma; p3 50 flu"])[0]:
        sealed.apply(people.change(one))
    assert InWords().of(sealed.end_epoch(120)) == ["ADD c1 [22, 50] 2 asthma,flu"]


def test_the_pool_keeps_no_places_for_all_who_came_and_went() -> None:
    sealed, people = publisher(sealed_table(100)), People()
    for i in range(10_000):
        sealed.apply(people.change(Event("insert", f"p{i}", (i % 100,), ("a",))))
        if i >= 20:
            sealed.apply(people.change(Event("delete", f"p{i - 20}")))
    assert sealed.n_waiting == 20
    assert [pool.places < 2_000 for pool in alive(Pool) if pool.n == sealed.n_waiting] == [True]


def test_a_change_of_a_row_that_cannot_be_is_a_broken_law() -> None:
    sealed, row = publisher(sealed_table()), Row((20,), (b'"flu"',))
    sealed.apply(RowChange("p1", None, row))
    for wrong in (RowChange("p1", None, row), RowChange("p2", row.values, row), RowChange("p2", row.values, None)):
        with pytest.raises(LawViolated, match="cannot be"):
            sealed.apply(wrong)
