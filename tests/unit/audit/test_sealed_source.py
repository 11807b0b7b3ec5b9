"""A sealed changelog against its source: members, values and boxes, and what an adversary with all of it knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest

from streamer.audit.found import Found
from streamer.audit.sealed_log import SealedLaws, SealedLine
from streamer.audit.sealed_source import SealedAudit, check_twice, read_members
from streamer.audit.source import EpochMembers, members_of, row_changes
from streamer.errors import ConfigError, LawViolated, UsageError
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import RowChange
from streamer.incremental.sealed.formation import median_cuts
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.records import encode
from streamer.incremental.shard.input import Message
from streamer.table.codes import KeptColumn
from streamer.table.row import Row
from streamer.table.schema import EpochLength, SealedRules
from worlds.sealed_logs import SEALED_PEOPLE, SmallPublisher, busy_publisher
from worlds.sealed_people import sealed_table

Forge = Callable[[SmallPublisher], None]


def audited(publisher: SmallPublisher, persistent: bool = False) -> SealedAudit:
    rules = SealedRules(EpochLength(events=10), theta=Decimal(str(publisher.theta)))
    engine = Engine(SEALED_PEOPLE, gathers=True)
    changes = row_changes(SEALED_PEOPLE, engine, publisher.messages, None)
    audit = SealedAudit(replace(SEALED_PEOPLE, sealed=rules), persistent)
    for _ in audit.follow(publisher.lines, changes, publisher.members):
        pass
    return audit


def found(publisher: SmallPublisher, persistent: bool = False) -> Found:
    return audited(publisher, persistent).found(lambda source_key: "token")


@pytest.mark.parametrize("seed", range(25))
def test_of_a_sealed_log_nothing_is_known_for_certain(seed: int) -> None:
    busy = found(busy_publisher(seed))
    assert busy.episodes > 4
    assert busy.pinned == 0
    assert busy.attacks == {}
    assert busy.worst < 1


def test_no_guess_is_better_than_alpha_where_no_value_changes() -> None:
    publisher = SmallPublisher(seed=3)
    for day in range(6):
        publisher.epoch(*(("insert", f"p{day}-{i}", (3 * i + day) % 10, "abcd"[i % 4]) for i in range(8)))
        publisher.epoch(("delete", f"p{day}-1", None, None), ("modify", f"p{day}-2", 9, None))
    audit = audited(publisher)
    everybody = audit.found(lambda source_key: source_key)
    assert everybody.worst == 0.5
    assert everybody.exact == everybody.episodes == 48 - audit.withheld
    assert 0 < everybody.kinds["deleted"].episodes <= 6


def test_a_row_that_comes_back_is_found_by_who_knows_that_its_value_stays() -> None:
    publisher = SmallPublisher()
    publisher.epoch(("insert", "x", 1, "c"), ("insert", "y", 1, "a"), ("insert", "z", 1, "b"))
    publisher.epoch(("delete", "x", None, None))
    publisher.epoch(("insert", "x", 2, "c"), ("insert", "u", 2, "d"), ("insert", "v", 2, "e"))
    assert found(publisher).pinned == 0
    knows = found(publisher, persistent=True)
    assert knows.attacks == {"same value after a return": 2}


def test_a_row_of_which_another_column_changes_is_not_published_again() -> None:
    """Before: its value was the one that two cohorts had in common, and four people were pinned."""
    noted = (*sealed_table().kept, KeptColumn("note", sensitive=False))
    table, lines = replace(sealed_table(), kept=noted, sealed=SealedRules(EpochLength(events=2))), list[SealedLine]()
    people = [
        ("x", "flu", "old"), ("y", "cold", "old"), ("x", "flu", "new"), ("z", "asthma", "old"), ("u", "flu", "old"),
        ("x", "flu", "newer"),
    ]  # fmt: skip
    rows, changes = dict[str, Row](), list[RowChange]()
    for key, *texts in people:
        before = rows[key].values if key in rows else None
        rows[key] = Row((20,), tuple(map(msgspec.json.encode, texts)))
        changes.append(RowChange(key, before, rows[key]))
    form = median_cuts(table.space, table.k)
    for records in Sealed(table, 0, form, drawn_by(b"a secret")).take(changes):
        lines += [SealedLine(0, key.decode(), value, 0) for key, value in map(encode, records)]
    audit = SealedAudit(table)
    for _ in audit.follow(lines, changes, members_of(table, form, b"a secret", None, changes)):
        pass
    assert (audit.found(lambda source_key: source_key).pinned, len(audit.laws.ids)) == (0, 2)


def test_delay_and_loss_are_those_of_what_is_published() -> None:
    publisher = SmallPublisher()
    publisher.epoch(("insert", "x", 0, "a"))  # waits, and is published by change 4
    publisher.epoch(("insert", "y", 9, "b"), ("insert", "u", 3, "c"), ("insert", "v", 6, "d"))
    audit = audited(publisher)
    assert audit.delay == pytest.approx((3 + 2 + 1 + 0) / 4)
    assert audit.loss == pytest.approx(3 / 9)
    assert (audit.waited_max, audit.waiting) == (1, 0)


def _members(publisher: SmallPublisher, change: Callable[[dict[str, list[str]]], object], epoch: int = 1) -> None:
    known = publisher.members[epoch - 1]
    cohorts = {name: list(keys) for name, keys in known.cohorts.items()}
    change(cohorts)
    publisher.members[epoch - 1] = EpochMembers(known.epoch, known.changes, cohorts)


def one_in_two_cohorts(publisher: SmallPublisher) -> None:
    def change(cohorts: dict[str, list[str]]) -> None:
        first, second = cohorts
        cohorts[second][0] = cohorts[first][0]

    _members(publisher, change)


def one_twice(publisher: SmallPublisher) -> None:
    _members(publisher, lambda cohorts: next(iter(cohorts.values())).__setitem__(slice(None), ["p0", "p0"]))


def one_who_is_not_there(publisher: SmallPublisher) -> None:
    _members(publisher, lambda cohorts: next(iter(cohorts.values())).__setitem__(0, "nobody"))


def swapped_members(publisher: SmallPublisher) -> None:
    def change(cohorts: dict[str, list[str]]) -> None:
        first, second = cohorts.values()
        first[0], second[0] = second[0], first[0]

    _members(publisher, change)


def another_cohort(publisher: SmallPublisher) -> None:
    _members(publisher, lambda cohorts: cohorts.update({"0" * 32: cohorts.pop(next(iter(cohorts)))}))


def _replaced(publisher: SmallPublisher, old: bytes, new: bytes) -> None:
    publisher.lines[:] = [line._replace(value=(line.value or b"").replace(old, new)) for line in publisher.lines]


def another_value(publisher: SmallPublisher) -> None:
    _replaced(publisher, b'"b"', b'"z"')
    _replaced(publisher, b'[["z"],["a"]]', b'[["a"],["z"]]')


def a_wider_box(publisher: SmallPublisher) -> None:
    _replaced(publisher, b'"years_hi":2', b'"years_hi":3')


def more_left(publisher: SmallPublisher) -> None:
    publisher.messages[4] = Message(4, None, b'{"op":"delete","key":"p3"}')


def _of_kind(publisher: SmallPublisher, kind: bytes) -> int:
    return next(i for i, line in enumerate(publisher.lines) if kind in (line.value or b""))


def a_missing_live(publisher: SmallPublisher) -> None:
    del publisher.lines[_of_kind(publisher, b'"LIVE"')]
    _replaced(publisher, b'"lives":1', b'"lives":0')


def a_retirement_by_choice(publisher: SmallPublisher) -> None:
    _replaced(publisher, b'"retires":0,"lives":1', b'"retires":1,"lives":0')
    _replaced(publisher, b',"live":1', b"")
    _replaced(publisher, b'"LIVE"', b'"RETIRE"')


def values_withheld_by_choice(publisher: SmallPublisher) -> None:
    at = _of_kind(publisher, b'"sensitive":[[')
    line = publisher.lines[at]
    publisher.lines[at] = line._replace(value=(line.value or b"").partition(b',"sensitive"')[0] + b',"sensitive":null}')


FORGERIES: dict[str, tuple[Forge, str]] = {
    "a member of two cohorts": (one_in_two_cohorts, "'one cohort'|'members'"),
    "a member twice": (one_twice, "'members'"),
    "a member who is not there": (one_who_is_not_there, "'members'"),
    "members of another cohort": (swapped_members, "'cohort values'|'cohort box'"),
    "a cohort without members": (another_cohort, "'members'"),
    "a value that nobody has": (another_value, "'cohort values'"),
    "a box wider than its members": (a_wider_box, "'cohort box'"),
    "a departure from another cohort": (more_left, "'left'"),
    "a departure that is not said": (a_missing_live, "'left'.*no LIVE says so"),
    "a cohort that is retired though many are left": (a_retirement_by_choice, "'left'.*is retired, and 1"),
    "values that alpha and l allow, and nobody sees": (values_withheld_by_choice, "'withheld'"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_the_source_refutes_is_named(forgery: str) -> None:
    publisher = SmallPublisher()
    publisher.epoch(*(("insert", f"p{i}", year, "abcd"[i]) for i, year in enumerate([1, 2, 7, 8])))
    publisher.epoch(("delete", "p0", None, None))
    audited(publisher)
    forge, named = FORGERIES[forgery]
    forge(publisher)
    with pytest.raises(LawViolated, match=named):
        audited(publisher)


def test_a_survivor_of_a_retired_cohort_who_comes_back_with_the_same_value_is_named() -> None:
    publisher = SmallPublisher(theta=0.5)
    publisher.epoch(("insert", "x", 1, "a"), ("insert", "y", 1, "b"))
    publisher.epoch(("delete", "x", None, None))
    publisher.pool["y"] = None  # a publisher that admits her again
    publisher.epoch(("insert", "z", 1, "a"))
    with pytest.raises(LawViolated, match="'one cohort'"):
        audited(publisher)


def test_values_that_alpha_l_or_a_message_forbids_are_rightly_withheld() -> None:
    publisher = SmallPublisher()
    publisher.epoch(("insert", "x", 1, "a"), ("insert", "y", 1, "a"))
    assert audited(publisher).withheld == 2
    publisher = SmallPublisher()
    publisher.epoch(("insert", "x", 1, "a" * 600_000), ("insert", "y", 1, "b" * 600_000))
    values_withheld_by_choice(publisher)
    assert audited(publisher).withheld == 2


def checked(publisher: SmallPublisher) -> None:
    cohorts = [one for epoch in SealedLaws(SEALED_PEOPLE).follow(publisher.lines) for one in epoch.adds.values()]
    engine = Engine(SEALED_PEOPLE, gathers=True)
    check_twice(cohorts, row_changes(SEALED_PEOPLE, engine, publisher.messages, None), SEALED_PEOPLE)


@pytest.mark.parametrize("cut", [0, 3])
def test_without_members_a_cohort_withheld_by_choice_is_found_if_few_rows_are_in_none(cut: int) -> None:
    publisher = SmallPublisher()
    publisher.epoch(*(("insert", f"p{i}", i, "abcdefgh"[i % 8]) for i in range(8 - cut)))
    publisher.epoch(("delete", "p0", None, None), ("insert", "q", 5, "z"))
    checked(publisher)
    values_withheld_by_choice(publisher)
    with pytest.raises(LawViolated, match=r"'withheld'.*: 1 cohorts, at least, withhold values that alpha allows"):
        checked(publisher)


@pytest.mark.parametrize("seed", range(8))
def test_without_members_nobody_is_blamed_for_cohorts_that_are_rightly_withheld(seed: int) -> None:
    checked(busy_publisher(seed))


def test_members_of_another_log_are_refused() -> None:
    publisher = busy_publisher(2)
    del publisher.members[-1]
    with pytest.raises(UsageError, match="members of epoch 12 are missing"):
        audited(publisher)
    publisher = busy_publisher(2)
    del publisher.lines[next(i for i, line in enumerate(publisher.lines) if line.key == "epoch-0") + 1 :]
    with pytest.raises(LawViolated, match=r"'epochs'.*the end of the log was cut off"):
        audited(publisher)


def test_members_of_an_epoch_that_goes_back_are_refused() -> None:
    publisher = busy_publisher(2)
    publisher.members[3] = EpochMembers(4, 0, publisher.members[3].cohorts)
    with pytest.raises(UsageError, match="epoch 4 ends after 0 changes, and there are"):
        audited(publisher)


def test_members_are_read_from_lines_and_a_wrong_one_is_named() -> None:
    lines = [b'{"epoch":1,"changes":9,"cohorts":{"00":["a","b"]}}\n', b"\n", b'{"epoch":2}\n']
    members = read_members(lines)
    assert next(members) == EpochMembers(1, 9, {"00": ["a", "b"]})
    with pytest.raises(ConfigError, match="line 3 of the members"):
        next(members)
