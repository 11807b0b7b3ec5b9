"""What `status` says of Redis, of a vocabulary that drifts, and of what workers measured.

Of the rest, tests/servers/test_status.py tells.
"""

from __future__ import annotations

from dataclasses import replace

from streamer.cli.operate.status import measured_line, redis_lines, shards_by, unlisted_lines
from streamer.incremental.events.changes import Counts
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import Measured, Ownership, Sizes
from streamer.incremental.store.redis_server import Durability, Kind
from streamer.status.facts import InRedis, ShardFacts, of_table
from worlds.small_tables import CITIES, CITY, table

SERVER = Durability(Kind.SERVER, masters=1)
DRIFT = 1.2


def test_the_sort_of_redis_is_told_with_what_it_keeps() -> None:
    assert list(redis_lines(SERVER)) == ["Redis: one server, keeps what it confirms"]
    lax = replace(SERVER, lax=("Redis a:1: appendonly is no",))
    assert list(redis_lines(lax)) == ["Redis: one server, could lose what it confirms"]
    assert list(redis_lines(replace(SERVER, shown=False))) == ["Redis: one server, does not show its settings"]


def test_of_redis_that_fails_over_it_is_told_what_becomes_of_what_it_loses() -> None:
    cluster = Durability(Kind.CLUSTER, masters=3, replicas_min=1)
    assert list(redis_lines(cluster)) == [
        "Redis: a cluster of 3 masters, keeps what it confirms",
        "what a failover loses is noticed and read again (min-replicas-to-write: 1)",
    ]
    hidden = Durability(Kind.SENTINEL, masters=1, shown=False)
    assert list(redis_lines(hidden)) == [
        "Redis: a master found by Sentinel, does not show its settings",
        "what a failover loses is noticed and read again",
    ]


def test_shards_are_counted_by_worker_and_those_that_nobody_holds_are_left_out() -> None:
    assert shards_by(["b:2", "a:1", "", "b:2"]) == {"a:1": [1], "b:2": [0, 3]}


def test_categories_that_are_not_listed_are_one_line_for_a_column_of_all_shards() -> None:
    people = table(replace(CITY, other_code=CITIES.code_of["d1"]))
    seen: tuple[tuple[int, dict[str, int]], ...] = ((900, {"city": 2}), (100, {}), (0, {"city": 1}))
    metas = [Meta(counts=Counts(applied=n, unlisted=some)) for n, some in seen]
    (line,) = unlisted_lines(people, metas)
    assert line.startswith("3 of 1,000 applied messages have a city that its hierarchy does not list: `other` takes")
    assert list(unlisted_lines(people, metas[1:2])) == []


def of_rows(rows: int, measured: Measured) -> ShardFacts:
    """A shard of so many rows, all of them published."""
    return ShardFacts(0, InRedis(sizes=Sizes(rows, 1, 0, 0), custody=Ownership("a:1", 1, measured=measured)))


def test_what_workers_measured_is_one_line_over_the_rows_of_all_shards() -> None:
    shards = [of_rows(100, Measured(0.3, 0.2, 50, 200, 9)), of_rows(300, Measured(0.1, 0.1, 150, 100, 8))]
    table = of_table(shards)
    assert (table.ncp, table.ncp_fresh, table.at) == (0.15, 0.125, 8)
    told = "15% of the detail is given up (a fresh table: 12%); published records per event: 1.50"
    assert measured_line(table, 68.0, DRIFT) == told


def test_what_no_worker_has_measured_yet_is_said_not_guessed() -> None:
    """A shard without a look for drift leaves that of the whole table unknown."""
    nothing = measured_line(of_table([of_rows(100, Measured())]), 1e9, DRIFT)
    assert nothing == (
        "the loss is known once a worker holds published rows; published records per event: known after a worker's "
        "next message"
    )
    some = of_table([of_rows(100, Measured(0.3, 0.2, 50, 200, 9)), of_rows(300, Measured(0.1, None, 50, 100, 9))])
    assert measured_line(some, 9.0, DRIFT) == (
        "15% of the detail is given up; a fresh table: not measured yet (every 5 min, if enough rows have changed); "
        "published records per event: 3.00"
    )
    assert "a fresh table: not measured, as `drift` is `never`" in measured_line(some, 9.0, None)


def test_figures_of_a_worker_that_is_gone_are_told_with_their_age() -> None:
    """Before: they stood there like those of a running one for as long as nobody took the shard over."""
    figures = of_table(
        [of_rows(100, Measured(0.3, 0.2, 50, 200, 1_000)), of_rows(100, Measured(0.1, 0.1, 50, 100, 8_190))]
    )
    assert measured_line(figures, 8_200.0, DRIFT).endswith("published records per event: 3.00, as of 2 h ago")
    assert "ago" not in measured_line(of_table([of_rows(100, Measured(0.3, 0.2, 50, 200, 8_190))]), 8_200.0, DRIFT)


def test_a_shard_without_figures_does_not_hide_when_the_others_were_measured() -> None:
    assert of_table([of_rows(100, Measured(0.3, 0.2, 50, 200, 9)), of_rows(0, Measured())]).at == 9


def test_a_table_that_loses_nothing_loses_as_much_as_a_fresh_one() -> None:
    """Before: it was not measured yet for ever."""
    nothing_lost = of_table([of_rows(9, Measured(0.0, 0.0, 5, 5, 9))])
    assert "0% of the detail is given up (a fresh table: 0%)" in measured_line(nothing_lost, 9.0, DRIFT)
