"""The laws of a sealed changelog from its bytes alone: lawful logs pass, and each forgery is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from streamer.audit.sealed_log import SealedLaws, SealedLine, read_sealed, sealed_facts, what_ids_show
from streamer.errors import LawViolated, UsageError
from streamer.incremental.sealed.records import Written, log_line
from streamer.table.codes import Diversity
from worlds.sealed_logs import SEALED_PEOPLE, SmallPublisher, as_file, busy_publisher

Lines = list[SealedLine]


@pytest.fixture
def log() -> Lines:
    """Epoch 1 adds two cohorts (records 0, 1), 2 says that one has lost a row (3), 3 retires it (5), 4 adds one (7)."""
    publisher = SmallPublisher()
    people = [
        ("insert", f"p{i}", year, value) for i, (year, value) in enumerate(zip([1, 2, 7, 8], "abac", strict=True))
    ]
    publisher.epoch(*people)
    publisher.epoch(("delete", "p0", None, None))
    publisher.epoch(("delete", "p1", None, None))
    publisher.epoch(("insert", "p5", 3, "a"), ("insert", "p6", 4, "b"))
    return publisher.lines


def followed(lines: Sequence[SealedLine], known: bool = True) -> SealedLaws:
    laws = SealedLaws(SEALED_PEOPLE if known else None)
    for _ in laws.follow(lines):
        pass
    return laws


def changed(log: Lines, number: int, **members: Any) -> Lines:
    """The log with other members in one record's value."""
    value = json.loads(log[number].value or b"")
    text = json.dumps({**value, **members}, separators=(",", ":")).encode()
    return [*log[:number], log[number]._replace(value=text), *log[number + 1 :]]


@pytest.mark.parametrize("known", [True, False], ids=["with table.yaml", "bytes alone"])
def test_lawful_logs_hold_every_law(log: Lines, known: bool) -> None:
    assert sealed_facts(followed(log, known)) == {
        "records": 9, "cohorts": 2, "rows": 4, "ghosts": 0, "withheld_rows": 0,
    }  # fmt: skip
    for seed in range(20):
        followed(busy_publisher(seed).lines, known)


def test_ghosts_and_withheld_rows_are_counted() -> None:
    publisher = SmallPublisher()
    publisher.epoch(*(("insert", f"p{i}", 1, "a") for i in range(3)))
    publisher.epoch(("delete", "p1", None, None))
    facts = sealed_facts(followed(publisher.lines))
    assert (facts["rows"], facts["ghosts"], facts["withheld_rows"]) == (3, 1, 3)


def two_adds_as_one_cohort(log: Lines) -> Lines:
    forged = changed(log, 7, cohort=log[0].key)
    return [*forged[:7], forged[7]._replace(key=log[0].key), *forged[8:]]


def ids_in_order_of_arrival(log: Lines) -> Lines:
    """Every cohort has the next number as its id."""
    names: dict[str, str] = {}
    forged = []
    for line in busy_publisher(1).lines:
        key = line.key if line.key.startswith("epoch") else names.setdefault(line.key, f"{len(names):032x}")
        forged.append(line._replace(key=key, value=(line.value or b"").replace(line.key.encode(), key.encode())))
    return _sorted_again(forged)


def _sorted_again(lines: Lines) -> Lines:
    """The records of each epoch in the order of their ids."""
    again: Lines = []
    for line in lines:
        at = len(again)
        while line.key < "epoch" and at and again[at - 1].timestamp == line.timestamp and again[at - 1].key > line.key:
            at -= 1
        again.insert(at, line)
    return again


def with_another(log: Lines, number: int, **parts: Any) -> Lines:
    return [*log[:number], log[number]._replace(**parts), *log[number + 1 :]]


FORGERIES: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "fewer rows than k": (lambda log: changed(log, 0, n=1, sensitive=[["a"]]), "'size'.* record 0 "),
    "a value above alpha": (lambda log: changed(log, 0, sensitive=[["a"], ["a"]]), "'sealed'.* record 0 .* 2 of 2"),
    "values in order of arrival": (lambda log: changed(log, 1, sensitive=[["c"], ["a"]]), "'sealed'.* record 1 "),
    "a value for a row that is not there": (lambda log: changed(log, 0, n=3), "'sealed'.* record 0 "),
    "a cohort added twice": (two_adds_as_one_cohort, "'once'.* record 7 "),
    "the same ADD again": (lambda log: [log[0], *log], "'order'.* record 1 "),
    "a box of other columns": (lambda log: changed(log, 0, box={"age_lo": 1, "age_hi": 2}), "'box'.* record 0 "),
    "a box off the grid": (lambda log: changed(log, 0, box={"years_lo": 1.5, "years_hi": 2}), "'box'.* record 0 "),
    "a row of its own": (
        lambda log: with_another(log, 0, value=b'{"qi_group":"0-1","years_lo":1,"years_hi":2,"problem":"a"}'),
        "'records'.* record 0 ",
    ),
    "a header": (lambda log: with_another(log, 2, headers=1), "'records'.* record 2 .*headers"),
    "a row id in a cohort": (lambda log: changed(log, 0, offset=812), "'records'.* record 0 "),
    "a record of another version": (lambda log: changed(log, 3, record="LEFT"), "'records'.* record 3 "),
    "members in another order": (
        lambda log: with_another(
            log, 3, value=(log[3].value or b"").replace(b'"epoch":2,"live":1', b'"live":1,"epoch":2')
        ),
        "'records'.* record 3 ",
    ),
    "spaces": (
        lambda log: with_another(log, 3, value=(log[3].value or b"").replace(b",", b", ")),
        "'records'.* record 3 ",
    ),
    "a tombstone": (lambda log: with_another(log, 0, value=None), "'records'.* record 0 "),
    "a QI group in a key": (lambda log: with_another(log, 0, key='{"qi_group":"0-17"}'), "'records'.* record 0 "),
    "the key of another cohort": (lambda log: with_another(log, 0, key="0" * 32), "'records'.* record 0 "),
    "the time of an event": (lambda log: with_another(log, 0, timestamp=log[0].timestamp + 1), "'moment'.* record 0 "),
    "an epoch before the one before": (
        lambda log: [
            *log[:4],
            *(
                line._replace(timestamp=log[2].timestamp - 60_000)
                for line in changed(log, 4, time="2026-11-26T10:09:00Z")[4:5]
            ),
            *log[5:],
        ],
        "'moment'.* record 3 ",
    ),
    "records in another order": (lambda log: [log[1], log[0], *log[2:]], "'order'.* record 1 "),
    "ids in order of arrival": (ids_in_order_of_arrival, "'ids'"),
    "an epoch left out": (lambda log: [*log[:3], *log[5:]], "'epochs'.* record 3 "),
    "a first epoch left out": (lambda log: log[3:], "'epochs'.* record 0 "),
    "a record left out": (lambda log: log[1:], "'epochs'.* record 1 .*2, 0, 0.*1, 0, 0"),
    "the end cut off": (lambda log: log[:-1], "'epochs'.* record 8 .*ends within an epoch"),
    "another k from some epoch on": (lambda log: changed(log, 8, k=3), "'settings'|'size'.* record 7"),
    "another alpha from some epoch on": (lambda log: changed(log, 4, alpha="0.6"), "'settings'.* record 4 "),
    "an alpha of no table": (lambda log: changed(log, 2, alpha="half"), "'settings'.* record 2 "),
    "no number as alpha": (lambda log: changed(log, 2, alpha="NaN"), "'settings'.* record 2 "),
    "a text as time": (
        lambda log: [line._replace(timestamp=-1) for line in [*changed(log[:3], 2, time="canary-9052 came"), *log[3:]]],
        "'moment'.* record 2 .*not written as",
    ),
    "a time that is written in another way": (
        lambda log: changed(log, 2, time=json.loads(log[2].value or b"")["time"].replace("26T", "026T")),
        "'moment'.* record 2 .*not written as",
    ),
    "a column of a box twice": (
        lambda log: with_another(log, 0, value=(log[0].value or b"").replace(b'{"years', b'{"years_lo":9,"years', 1)),
        "'box'.* record 0 .*not written as",
    ),
    "spaces in a box": (
        lambda log: with_another(log, 0, value=(log[0].value or b"").replace(b'_lo":', b'_lo": ')),
        "'box'.* record 0 .*not written as",
    ),
    "a row in a box": (
        lambda log: changed(log, 0, box={"years_lo": {"id": "p1"}, "years_hi": 2}),
        "'box'.* record 0 ",
    ),
    "bytes that are no text": (
        lambda log: with_another(log, 0, value=(log[0].value or b"").replace(b"years_lo", b"years_\xff")),
        "'records'.* record 0 .*not JSON",
    ),
    "one value written in two ways": (
        lambda log: with_another(log, 0, value=(log[0].value or b"").replace(b'[["a"],["b"]]', b'[["\\u0062"],["b"]]')),
        "'sealed'.* record 0 .*not written as",
    ),
    "more left than there were": (lambda log: changed(log, 3, live=2), "'live'.* record 3 "),
    "nobody left, and not retired": (lambda log: changed(log, 3, live=0), "'live'.* record 3 "),
    "a cohort that lives after its end": (
        lambda log: _sorted_again([*log[:7], _live_after_retirement(log), *changed(log, 8, lives=1)[7:]]),
        "'once'.* retired before",
    ),
    "a cohort that never was": (
        lambda log: with_another(
            log, 3, key="f" * 32, value=(log[3].value or b"").replace(log[3].key.encode(), b"f" * 32)
        ),
        "'once'.* record 3 ",
    ),
}


def _live_after_retirement(log: Lines) -> SealedLine:
    value = b'{"record":"LIVE","cohort":"%b","epoch":4,"live":1}' % log[5].key.encode()
    return log[7]._replace(key=log[5].key, value=value)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_is_named_by_its_first_bad_record(log: Lines, forgery: str) -> None:
    forge, named = FORGERIES[forgery]
    with pytest.raises(LawViolated, match=named):
        followed(forge(log))


@pytest.mark.parametrize("forgery", ["a column of a box twice", "a row in a box", "one value written in two ways"])
def test_a_forgery_of_one_record_is_named_without_table_yaml(log: Lines, forgery: str) -> None:
    forge, named = FORGERIES[forgery]
    with pytest.raises(LawViolated, match=named):
        followed(forge(log), known=False)


def test_no_sentence_about_a_forgery_quotes_a_value(log: Lines) -> None:
    canary = "canary-9052"
    with pytest.raises(LawViolated) as raised:
        followed(changed(log, 0, sensitive=[[canary], [canary]]))
    assert canary not in str(raised.value)


def test_another_k_than_that_of_the_table_is_refused(log: Lines) -> None:
    with pytest.raises(LawViolated, match=r"'settings'.* record 2 .*k is 2, and table.yaml says 3"):
        for _ in SealedLaws(replace(SEALED_PEOPLE, k=3)).follow(log):
            pass


@pytest.mark.parametrize("looser", [{"alpha": "0.9"}, {"l": 2}])
def test_another_alpha_or_l_than_that_of_the_table_is_refused(log: Lines, looser: dict[str, Any]) -> None:
    forged = log
    for number in (2, 4, 6, 8):
        forged = changed(forged, number, **looser)
    followed(forged, known=False)
    with pytest.raises(LawViolated, match=r"'settings'.* record 2 .*table.yaml says 0.5 and 1"):
        followed(forged)


def test_values_that_break_what_their_column_demands_are_named(log: Lines) -> None:
    column = replace(SEALED_PEOPLE.kept[0], diversity=Diversity(l=3))
    with pytest.raises(LawViolated, match=r"'sealed'.*break what table.yaml demands of a column"):
        for _ in SealedLaws(replace(SEALED_PEOPLE, kept=(column,))).follow(log):
            pass


def test_shards_of_other_settings_are_no_one_log(log: Lines) -> None:
    empty = json.loads(log[2].value or b"") | {"shard": 1, "adds": 0, "alpha": "0.9"}
    text = json.dumps(empty, separators=(",", ":")).encode()
    with pytest.raises(LawViolated, match=r"'settings'.* record 0 of partition 1"):
        followed([*log, log[2]._replace(partition=1, key="epoch-1", value=text)], known=False)


@pytest.mark.parametrize("line", [b'{"partition":0,"key":"\xff"}', b'{"partition":0,"key":"","value":' + b"[" * 9_999])
def test_lines_of_other_bytes_are_refused(line: bytes) -> None:
    with pytest.raises(LawViolated, match="line 1 is not a whole record"):
        list(read_sealed([line]))


def test_lines_of_a_file_are_read_back_and_a_cut_one_is_refused(log: Lines) -> None:
    assert list(read_sealed(as_file(log).splitlines(keepends=True))) == log
    with pytest.raises(LawViolated, match="line 9 is not a whole record"):
        list(read_sealed(as_file(log)[:-20].splitlines(keepends=True)))


def test_headers_of_a_topic_are_seen_in_a_file() -> None:
    line = log_line(0, Written(b"epoch-0", b"{}"), 5, headers=2)
    assert list(read_sealed([line])) == [SealedLine(0, "epoch-0", b"{}", 5, headers=2)]


@pytest.mark.parametrize(
    ("published", "is_cut"), [({0: 4}, False), ({0: 1, 1: 0}, False), ({0: 5}, True), ({1: 1}, True)]
)
def test_epochs_that_are_missing_at_the_end_are_told_by_what_was_published(
    log: Lines, published: dict[int, int], is_cut: bool
) -> None:
    laws = followed(log)
    if not is_cut:
        laws.require_end(published)
        return
    with pytest.raises(LawViolated, match=r"'epochs'.*the end was cut off"):
        laws.require_end(published)


def test_a_log_without_a_record_proves_nothing() -> None:
    with pytest.raises(UsageError, match="no record"):
        followed([])


def test_ids_of_chance_pass_and_others_are_told_apart() -> None:
    chance = Random(5)
    ids = [f"{chance.getrandbits(128):032x}" for _ in range(500)]
    assert what_ids_show({name: i // 10 for i, name in enumerate(ids)}) == ""
    assert re.search("follow", what_ids_show({name: i // 10 for i, name in enumerate(sorted(ids))}))
    assert re.search("same", what_ids_show({f"{int(name, 16) | 1:032x}": 1 for name in ids}))
