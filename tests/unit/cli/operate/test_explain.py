"""`streamer explain` over an embedded Redis; its figures are tested with `engine.explained`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from streamer.incremental import remedies
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import Origin
from streamer.incremental.events.changes import Insert
from streamer.incremental.shard.steps import similarity_of
from streamer.incremental.store.base import Adopted, Commit, Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.table.row import Row
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.redis_on_a_port import redis_on_a_port

TABLE_YAML = """
table: people
key: id
columns:
  age:     {role: quasi-identifier, type: integer, domain: [0, 99]}
  problem: {role: sensitive}
privacy: {k: 2}
publish: {live: {form: rows}}
"""
ROWS = {"ann": (20, "flu"), "bob": (21, "canary"), "cy": (60, "flu"), "dee": (63, "flu"), "eve": (66, "ulcer")}


class Explained:
    """A table of five people in one shard."""

    def __init__(
        self,
        folder: Path,
        redis: str,
        people: dict[str, tuple[int, str]],
        text: str = TABLE_YAML,
        has_origins: bool = True,
        adopted: tuple[Adopted, ...] = (),
        ages: int = 1,
    ) -> None:
        self.redis = redis
        self.path = folder / "table.yaml"
        self.path.write_text(text)
        table = load_table(self.path)
        engine = Engine(table)
        for key, (age, problem) in people.items():
            engine.apply(Insert(key, Row((age,) * ages, (json.dumps(problem).encode(),))))
        drained = engine.drain()
        meta = Meta(1, len(people), 1, drained.qi_group_next, fingerprint=table.fingerprint, adopted=adopted)
        store = RedisStore(connect(redis), "people", 0)
        origins = {number: Origin(how, 1) for number, how in drained.formed.items()} if has_origins else {}
        kept = drained.records, drained.qi_groups, similarity_of(drained, 1)
        store.commit(store.take_over(), 0, Commit(meta, *kept, origins=origins))

    def run(self, *arguments: str) -> Result:
        return self.call("explain", *arguments)

    def call(self, command: str, *arguments: str) -> Result:
        return streamer(command, "--table", self.path, "--redis", self.redis, *arguments)

    def report(self, *arguments: str) -> dict[str, Any]:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        report: dict[str, Any] = json.loads(result.stdout)
        return report


@pytest.fixture
def redis() -> Iterator[str]:
    with redis_on_a_port() as url:
        yield url


@pytest.fixture
def people(tmp_path: Path, redis: str) -> Explained:
    return Explained(tmp_path, redis, ROWS)


def test_a_row_is_explained_by_its_own_group_and_the_nearest_others(people: Explained) -> None:
    report = people.report("dee")
    own, other = report["similarity"]
    assert own["qi_group"] == report["qi_group"]["name"]
    assert (own["contains"], own["terms"], other["contains"]) == (True, {"age": 1.0}, False)
    assert other["terms"] == {"age": pytest.approx(0.5 / (63 - 20.5))}
    assert report["qi_group"]["slack"] == [{"what": "rows", "has": 3, "needs": 2, "spare": 1}]
    assert report["next_loss"]["may_break_the_model"] is False
    assert report["next_loss"]["nearest"][0]["qi_group"] == other["qi_group"]


def test_a_group_that_can_spare_nobody_is_merged_by_the_next_loss(people: Explained) -> None:
    name = people.report("ann")["qi_group"]["name"]
    report = people.report("--group", name)
    assert "similarity" not in report
    assert report["next_loss"]["may_break_the_model"] is True
    assert report["next_loss"]["nearest"][0]["qi_group"] == people.report("dee")["qi_group"]["name"]
    page = people.run("--group", name).stdout
    assert "rows to spare: 0" in page
    assert "the next loss may merge it with" in page


def test_keys_and_values_are_shown_with_raw_alone(people: Explained) -> None:
    for arguments in (["bob"], ["bob", "--json"], ["--group", people.report("bob")["qi_group"]["name"]]):
        quiet, raw = people.run(*arguments).stdout, people.run(*arguments, "--raw").stdout
        assert "canary" not in quiet
        assert "ann" not in quiet.replace("cannot", "")
        assert "ann" in raw
    assert "canary" in people.run("bob", "--raw").stdout


def test_a_group_that_an_older_engine_formed_is_told_with_its_adoption(tmp_path: Path, redis: str) -> None:
    """The first adoption after its commit says which version formed it."""
    adopted = (Adopted("3", 2, 1), Adopted("4", 2, 2), Adopted("5", 2, 3))
    shown = Explained(tmp_path, redis, ROWS, adopted=adopted)
    assert shown.report("ann")["qi_group"]["adopted"] == {"version": "4", "qi_groups": 2, "commit": 2}
    assert "engine version 4 formed it; a newer one adopted it, in commit 2" in shown.run("ann").stdout


def test_of_a_group_that_an_earlier_version_formed_nothing_is_made_up(tmp_path: Path, redis: str) -> None:
    old = Explained(tmp_path, redis, ROWS, has_origins=False)
    assert old.report("ann")["qi_group"]["origin"] is None
    assert "how it was formed: not known" in old.run("ann").stdout


TEN = [f"Verwaltungsbezirk_{n}" for n in range(10)]


@pytest.mark.parametrize("arguments", [("explain", "ann"), ("explain", "--group", "0-1"), ("groups",)])
def test_ten_columns_are_read_on_eighty(
    tmp_path: Path, redis: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """Before: every heading and every figure was cut (`Gebur...`, `1.000...`)."""
    monkeypatch.setenv("COLUMNS", "80")
    column = "{role: quasi-identifier, type: integer, domain: [0, 99]}"
    more = "".join(f"  {name}: {column}\n" for name in TEN)
    wide = Explained(tmp_path, redis, ROWS, TABLE_YAML.replace("  age: ", f"{more}  age: "), ages=11)
    lines = wide.call(*arguments).stdout.splitlines()
    assert not [line for line in lines if "\u2026" in line]
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in TEN)


def test_a_pending_row_is_in_no_group(tmp_path: Path, redis: str) -> None:
    lonely = Explained(tmp_path, redis, {"ann": (20, "flu")})
    assert lonely.report("ann") == {
        "table": "people",
        "shard": 0,
        "commit": 1,
        "row": {"pending": True},
        "similarity": [],
    }
    assert "the row is pending" in lonely.run("ann").stdout


def test_a_single_group_has_nothing_to_merge_with(tmp_path: Path, redis: str) -> None:
    two = Explained(tmp_path, redis, {"ann": (20, "flu"), "bob": (21, "flu")})
    assert two.report("ann")["next_loss"]["nearest"] == []
    assert "its rows become pending: there is no other QI group" in two.run("ann").stdout


def test_without_local_repair_nothing_is_told_of_it(tmp_path: Path, redis: str) -> None:
    plain = Explained(tmp_path, redis, ROWS, TABLE_YAML + "engine: {repair: off}\n")
    assert plain.report("ann")["next_loss"]["local_repair"] is None
    assert "local repair" not in plain.run("ann").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name either a row by its KEY, or a QI group by --group"),
        (["ann", "--group", "0-1"], "name either a row by its KEY, or a QI group by --group"),
        (["nobody"], "no shard of people holds a row with this key"),
        (["--group", "17"], "like 0-17"),
        (["--group", "0-999"], r"shard 0 has no QI group 0-999"),
        (["--group", "5-1"], "Redis holds no shard 5"),
    ],
)
def test_what_cannot_be_explained_is_a_usage_error(people: Explained, arguments: list[str], says: str) -> None:
    result = people.run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize("command", [["explain", "ann"], ["explain", "--group", "0-1"], ["groups"]])
@pytest.mark.parametrize(("was", "is_now"), [("domain: [0, 99]", "domain: [0, 99], grid: 10"), ("k: 2", "k: 3")])
def test_what_was_written_for_another_table_yaml_is_not_read_by_this_one(
    people: Explained, command: list[str], was: str, is_now: str
) -> None:
    people.path.write_text(TABLE_YAML.replace(was, is_now))
    refused = people.call(*command)
    assert refused.exit_code == 2
    assert "table.yaml has changed since this state was written" in refused.stderr
    assert remedies.reload("people") in refused.stderr
