"""`streamer reload` and `streamer load` on a real Kafka and Redis: they repair what a worker refuses, as it says.

Here are the tests of streamer.cli.operate.reload and streamer.cli.stream.load, and of streamer.loading, by which
both run.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
from pathlib import Path
from socket import gethostname
from time import monotonic, sleep
from typing import Any

import pandas as pd
import pytest

from streamer.incremental import remedies
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.store.redis_lookups import shards_of
from streamer.incremental.topics import LIVE, topics_of
from streamer.kafka.shard_input import KafkaReading
from streamer.loading.shards import LEASE_SECONDS, claimed, found_shards
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from worlds.kafka_and_redis import expire, grow, wait_until_deleted
from worlds.patients import CANARY, smallest_group
from worlds.served_patients import as_csv, inserted, rows, send, wait_until_read
from worlds.workers import PATIENCE, SHARDS, WorkedTable, wait_until


def reload(world: WorkedTable, source: object, *more: str) -> list[dict[str, int]]:
    found: list[dict[str, int]] = world.report("reload", "--from-source", source, *more)["shards"]
    return found


def assert_holds(world: WorkedTable, wanted: set[str]) -> None:
    """Redis and the output hold these rows and no others, each where its messages come."""
    found = world.source_keys()
    assert set().union(*found) == wanted
    assert all(shard_of(key.encode(), len(found)) == shard for shard, keys in enumerate(found) for key in keys)
    assert world.laws().n_rows == len(wanted)


def test_a_first_load_is_release_0_and_what_is_written_meanwhile_follows(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(300)
    world.must("load", as_csv(tmp_path / "rows.csv", people))
    assert_holds(world, set(people))
    assert {record.release for shard in range(SHARDS) for record in world.changelog(shard)} == {0}
    assert all(record.outside for shard in range(SHARDS) for record in world.changelog(shard))
    send(world, ("7", {"op": "delete", "key": "7"}), *inserted(rows(3, 1000)))
    world.start()
    wait_until_read(world)
    assert_holds(world, (set(people) | {"1000", "1001", "1002"}) - {"7"})


def test_categories_that_table_yaml_does_not_list_are_counted_in_the_end(world: WorkedTable, tmp_path: Path) -> None:
    listed = "problem: {role: sensitive, hierarchy: hierarchies/problem.csv"
    world.edit_yaml(listed, f"{listed}, other: '*'")
    people = rows(300)
    for key in ("3", "5", "8"):
        people[key]["problem"] = CANARY
    done = world.must("load", as_csv(tmp_path / "rows.csv", people))
    assert done.stdout.splitlines()[-1].startswith("warning: 3 of 300 rows have a problem that its hierarchy does not")
    send(world, *inserted(people))
    again = world.must("reload", "--from-source", "topic", "--json")
    (warning,) = json.loads(again.stdout)["warnings"]
    assert warning.startswith("3 of 300 applied messages have a problem that its hierarchy does not list")
    assert CANARY not in done.output + again.output


def test_a_table_that_has_begun_is_not_loaded(world: WorkedTable, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(100))
    world.must("load", file)
    assert "streamer reload --from-source" in world.refused("load", file)
    assert_holds(world, set(rows(100)))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ({"but": "zip"}, "the data has no column 'zip'"),
        ({"age": -3}, "data row 5: "),
        ({"id": "2"}, "data row 5: an earlier row has the same key"),
    ],
)
def test_a_source_that_is_wrong_is_said_with_its_line_and_changes_nothing(
    world: WorkedTable, tmp_path: Path, spoil: dict[str, object], says: str
) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(100)))
    before = world.ends("live")
    people = rows(50, 500)
    but = str(spoil.pop("but", ""))
    people["504"] |= spoil
    if "id" in spoil:
        people["501"]["id"] = "2"
    said = world.refused("reload", "--from-source", as_csv(tmp_path / "wrong.csv", people, but))
    assert says in said
    assert "-3" not in said
    assert_holds(world, set(rows(100)))
    assert world.ends("live") == before


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ({"but": "zip"}, "the data has no column 'zip'"),
        ({"id": "2"}, "data row 5: an earlier row has the same key"),
        ({"age": "many"}, "data row 5: "),
    ],
)
def test_a_first_load_of_a_wrong_file_leaves_the_table_as_empty_as_it_was(
    world: WorkedTable, tmp_path: Path, spoil: dict[str, object], says: str
) -> None:
    people = rows(50)
    but = str(spoil.pop("but", ""))
    people["4"] |= spoil
    said = world.refused("load", as_csv(tmp_path / "wrong.csv", people, but))
    assert says in said
    assert "many" not in said
    assert world.source_keys() == [set()] * SHARDS
    assert not any(world.ends("live") + world.ends("positions"))
    world.must("load", as_csv(tmp_path / "right.csv", rows(50)))
    assert_holds(world, set(rows(50)))


@pytest.mark.slow
def test_another_table_yaml_is_begun_from_a_file_as_the_refusal_says(world: WorkedTable, tmp_path: Path) -> None:
    send(world, *inserted(rows(200)))
    world.start()
    wait_until_read(world)
    world.kill()
    world.edit_yaml("k: 3", "k: 6")
    assert remedies.reload(world.name) in world.refusal()
    begun = reload(world, as_csv(tmp_path / "rows.csv", rows(150, 100)))
    assert sum(shard["removed"] for shard in begun) == 200
    send(world, *inserted(rows(10, 700)))
    world.start()
    wait_until_read(world)
    assert_holds_since_begun(world, set(rows(150, 100)) | set(rows(10, 700)))


def assert_holds_since_begun(world: WorkedTable, wanted: set[str]) -> None:
    """The same; the laws of now hold from the first release that came from outside on."""
    assert set().union(*world.source_keys()) == wanted
    for shard in range(world.shards):
        rows = world.rows(shard)
        assert smallest_group(rows) >= load_table(world.table).k
        assert len(rows) == len(world.source_keys()[shard])


@pytest.mark.slow
def test_the_input_is_read_again_under_another_table_yaml(world: WorkedTable) -> None:
    world.serve(800)
    world.kill()
    before = world.source_keys()
    world.edit_yaml("k: 3", "k: 5")
    assert remedies.reload(world.name) in world.refusal()
    reload(world, "topic")
    assert world.source_keys() == before
    world.write(300)
    world.start()
    wait_until_read(world)
    assert_holds_since_begun(world, set().union(*world.source_keys()))


@pytest.mark.slow
def test_an_emptied_redis_is_no_loss_where_the_source_is_there(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(200)
    world.must("load", as_csv(tmp_path / "rows.csv", people))
    world.lose_redis()
    assert remedies.reload(world.name) in world.refusal()
    reload(world, as_csv(tmp_path / "rows.csv", people))
    assert_holds(world, set(people))
    world.start()
    send(world, ("7", {"op": "delete", "key": "7"}))
    wait_until_read(world)
    assert_holds(world, set(people) - {"7"})


@pytest.mark.slow
def test_a_grown_input_is_begun_from_a_file_as_the_refusal_says(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(200)
    world.must("load", as_csv(tmp_path / "rows.csv", people))
    grow(world.bootstrap, world.input, 6)
    assert remedies.keep_new_partitions(world.name) in world.refusal()
    others = ("live", "positions", "dead-letters", "control")
    world.delete_topics(*others)
    wait_until_deleted(world.bootstrap, world.name, *others)
    world.must("topics create")
    world.shards = 6
    reload(world, as_csv(tmp_path / "rows.csv", people))
    send(world, ("7", {"op": "delete", "key": "7"}), *inserted(rows(5, 900)))
    world.start()
    wait_until_read(world)
    assert_holds(world, (set(people) | set(rows(5, 900))) - {"7"})


@pytest.mark.slow
def test_an_input_recreated_with_fewer_partitions_leaves_no_shard_behind(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(200)
    file = as_csv(tmp_path / "rows.csv", people)
    world.must("load", file)
    world.shards = 2
    world.recreate_topics(*(topic.kind for topic in topics_of(world.name, [LIVE])))
    assert remedies.reload_from_file(world.name) in world.refusal()
    assert "streamer reload --from-source" in world.refused("load", file)
    reload(world, file)
    assert_holds(world, set(people))
    assert shards_of(world.redis, world.name) == [0, 1]
    assert not list(world.redis.scan_iter(match=f"{{{world.name}:[23]}}:*"))
    world.must("status")


@pytest.mark.slow
def test_a_worker_that_runs_is_shut_out_and_comes_back_to_the_new_table(world: WorkedTable, tmp_path: Path) -> None:
    worker = world.start()
    send(world, *inserted(rows(100)))
    wait_until_read(world)
    reload(world, as_csv(tmp_path / "rows.csv", rows(120, 50)))
    send(world, *inserted(rows(5, 900)))
    assert worker.ended() != 0
    world.start()
    wait_until_read(world)
    assert_holds(world, set(rows(120, 50)) | set(rows(5, 900)))


@pytest.mark.slow
def test_killed_at_any_moment_the_command_leaves_a_table_or_is_named_by_the_refusal(
    world: WorkedTable, tmp_path: Path
) -> None:
    rng, killed, people = random.Random(7), 0, rows(1200)
    world.must("load", as_csv(tmp_path / "rows.csv", people))
    for turn in range(5):
        people = rows(1200, 100 * turn)
        file = as_csv(tmp_path / "rows.csv", people)
        with world.begun("reload", "--from-source", file, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            process.stderr.readline()  # the rows are read
            if turn % 2:
                process.stdout.readline()  # a shard has its table
            sleep(rng.random())
            process.kill()
        world.claim_ends()
        killed += process.returncode < 0
        world.laws()
        if turn == 2:
            worker = world.start()
            wait_until(lambda w=worker: w.process.poll() is not None or len(w.taken_over()) == SHARDS, 40, world.logs)  # type: ignore[misc]
            if worker.process.poll() is not None:
                said = worker.log.read_text()
                assert remedies.PARTLY_LOADED in said or remedies.reload(world.name) in said
            world.kill()
    assert killed
    reload(world, as_csv(tmp_path / "rows.csv", people))
    assert_holds(world, set(people))


def said_first(process: subprocess.Popen[Any]) -> bytes:
    """Waits until a command says that it has read its rows; nothing is written then."""
    assert process.stderr is not None
    line: bytes = process.stderr.readline()
    return line


@pytest.mark.gate("two loads at once")
def test_of_two_loads_at_once_one_fills_the_table_and_the_other_is_told_who_does(
    world: WorkedTable, tmp_path: Path
) -> None:
    """Before: both found the table empty, and it held some shards of the one and some of the other."""
    files = [as_csv(tmp_path / f"{n}.csv", rows(400, n)) for n in (0, 1_000)]
    begun = [world.begun("load", file, stderr=subprocess.PIPE, text=True) for file in files]
    said = [process.communicate(timeout=PATIENCE * 30)[1] for process in begun]
    assert sorted(process.returncode for process in begun) == [0, 2], said
    winner = [process.returncode for process in begun].index(0)
    process = begun[winner].pid
    assert re.search(rf"{world.name} is being loaded by `streamer load` \(\S+:{process}\) since ", said[1 - winner]), (
        said
    )
    assert_holds(world, set(rows(400, (0, 1_000)[winner])))


def test_a_reload_beside_another_is_refused_at_once_and_after_a_kill_until_the_claim_has_ended(
    world: WorkedTable, tmp_path: Path
) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(300)))
    other = as_csv(tmp_path / "other.csv", rows(300, 500))
    with world.begun("reload", "--from-source", other, stderr=subprocess.PIPE) as process:
        said_first(process)
        refused = world.refused("reload", "--from-source", tmp_path / "rows.csv")
        process.kill()
    assert f"`streamer reload` ({gethostname()}:{process.pid})" in refused
    again = world.refused("reload", "--from-source", other)
    found = re.search(r"if that process is dead, call this again in (\d+) s", again)
    assert found is not None
    assert 0 < int(found[1]) <= LEASE_SECONDS
    assert_holds(world, set(rows(300)))
    sleep(int(found[1]) + 1)
    reload(world, other)
    assert_holds(world, set(rows(300, 500)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_load_of_many_rows_ends_within_two_seconds_of_a_signal_at_any_moment(
    world: WorkedTable, tmp_path: Path, number: signal.Signals
) -> None:
    """Before: after the algorithm of every shard."""
    file = as_csv(tmp_path / "rows.csv", rows(400_000))
    began = monotonic()
    reload(world, file)
    seconds, took, published = monotonic() - began, {}, world.ends(LIVE)
    for moment in (0.2, 0.4, 0.6, 0.8, 0.95):
        with world.begun("reload", "--from-source", file, stderr=subprocess.PIPE) as process:
            sleep(moment * seconds)
            process.send_signal(number)
            sent = monotonic()
            _, said = process.communicate()
        took[moment] = monotonic() - sent
        if process.returncode and (not said or b"nothing was published: call it again" in said):  # "": it was imported
            assert world.ends(LIVE) == published, moment
        elif process.returncode:
            assert b"stopped while it wrote: call it again" in said, moment
        assert moment > 0.2 or not said or b"stopped; nothing was published" in said
        published = world.ends(LIVE)
        assert process.returncode in (0, -number if number == signal.SIGTERM else 130), (moment, said)
        if world.store(0).custody().beginning:
            assert remedies.PARTLY_LOADED in world.refusal()
    assert max(took.values()) < 2, took
    # a command that had no second left to give its claim back leaves it for half a minute, and the refusal says so
    wait_until(lambda: world.call("reload", "--from-source", file).exit_code == 0, 60, world.logs)


def test_a_source_without_anybody_is_taken_for_a_mistake(world: WorkedTable, tmp_path: Path) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(50)))
    for source, says in ((as_csv(tmp_path / "none.csv", {}), "holds no rows"), ("topic", "holds no message")):
        assert says in world.refused("reload", "--from-source", source)
    assert_holds(world, set(rows(50)))


def trim(world: WorkedTable) -> list[int]:
    """Deletes the first half of every partition of the input; what is left begins at these offsets."""
    begins = [end // 2 for end in world.ends()]
    expire(world.bootstrap, world.input, dict(enumerate(begins)))
    return begins


def test_an_input_that_has_lost_its_beginning_is_no_source_unless_someone_says_so(world: WorkedTable) -> None:
    """Before: a warning among other lines, and a table without the rows that had expired."""
    send(world, *inserted(rows(60)))
    begins = trim(world)
    said = world.refused("reload", "--from-source", "topic")
    for shard, earliest in enumerate(begins):
        assert f"shard {shard}: {earliest} offsets, 0 to {earliest - 1}" in said
    assert "--although-trimmed" in said
    assert world.source_keys() == [set()] * SHARDS, "nothing was touched"
    reload(world, "topic", "--although-trimmed")
    assert [len(keys) for keys in world.source_keys()] == world.ends()


def test_behind_a_truncation_an_input_that_has_lost_its_beginning_says_all_rows(world: WorkedTable) -> None:
    send(world, *inserted(rows(60)))
    trim(world)
    world.send((n, None, b'{"op": "truncate"}') for n in range(SHARDS))
    send(world, *inserted(rows(40, 100)))
    reload(world, "topic")
    assert_holds(world, set(rows(40, 100)))


def test_that_an_input_may_be_trimmed_is_said_of_no_file(world: WorkedTable, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(50))
    assert "--although-trimmed" in world.refused("reload", "--from-source", file, "--although-trimmed")


def test_an_offset_that_means_nothing_is_refused(world: WorkedTable, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(50))
    for said in ("7", "beginning", "9" * 19, "9" * 5_000):
        assert "--from-offset" in world.refused("load", file, "--from-offset", said)
    assert world.source_keys() == [set()] * SHARDS


def test_several_hosts_load_their_shards_at_the_same_time(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(400)
    file = as_csv(tmp_path / "rows.csv", people)
    begun = [world.begun("load", file, "--shards", own, stderr=subprocess.PIPE, text=True) for own in ("0,2", "1,3")]
    said = [process.communicate(timeout=PATIENCE * 30)[1] for process in begun]
    assert [process.returncode for process in begun] == [0, 0], said
    assert_holds(world, set(people))
    assert "shard 1 of" in world.refused("load", file, "--shards", "1")
    found = reload(world, as_csv(tmp_path / "other.csv", rows(400, 500)), "--shards", "3")
    assert [one["shard"] for one in found] == [3]
    assert [{int(key) >= 500 for key in keys} for keys in world.source_keys()] == [{False}, {False}, {False}, {True}]
    assert_no_shard(world, file)


def assert_no_shard(world: WorkedTable, file: Path) -> None:
    assert "there is no shard 4" in world.refused("reload", "--from-source", file, "--shards", "2-4")
    assert "not with topic" in world.refused("reload", "--from-source", "topic", "--shards", "0")


def test_of_two_commands_with_a_shard_in_common_the_second_is_refused_and_others_go_on(
    world: WorkedTable, tmp_path: Path
) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(200))
    settings = WorkerSettings(load_table(world.table), world.bootstrap, world.environment["REDIS_URL"])
    with claimed(settings, "streamer load", [1, 2]):
        assert f"shard 1 of {world.name} is being loaded by" in world.refused("load", file)
        assert f"shard 2 of {world.name} is being loaded by" in world.refused("load", file, "--shards", "2-3")
        world.must("load", file, "--shards", "0,3")
    world.must("load", file, "--shards", "1-2")
    assert_holds(world, set(rows(200)))


def test_some_shards_alone_are_read_and_checked_and_together_they_are_the_table(
    world: WorkedTable, tmp_path: Path
) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(300)))
    found = []
    for own in ("0-1", "2,3"):
        live, copy = tmp_path / f"{own}.jsonl", tmp_path / f"{own}.csv"
        world.must("subscribe", "--shards", own, "--live", live, "--csv", copy)
        found.append(pd.read_csv(copy))
        checked = world.report("verify", live)
        assert (checked["rows"], checked["shards"]) == (len(found[-1]), 2)
        one = world.report("verify", live, "--shards", own[0])
        assert 0 < one["rows"] < checked["rows"] and one["shards"] == 1
    whole = tmp_path / "whole.csv"
    world.must("subscribe", "--csv", whole)
    together = pd.concat(found).sort_values(list(found[0].columns), ignore_index=True)
    pd.testing.assert_frame_equal(together, pd.read_csv(whole).sort_values(list(together.columns), ignore_index=True))
    assert "no such shard: it has 0 to 3" in world.refused("subscribe", "--shards", "4")
    assert "there is no record" in world.refused("verify", tmp_path / "0-1.jsonl", "--shards", "3")


def test_what_is_only_prepared_is_checked_and_changes_nothing(world: WorkedTable, tmp_path: Path) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(200)))
    world.start()
    settings = WorkerSettings(load_table(world.table), world.bootstrap, world.environment["REDIS_URL"])
    other = as_csv(tmp_path / "other.csv", rows(300, 500))
    with claimed(settings, "streamer reload"):  # another command's claims are not in the way
        report = world.report("reload", "--from-source", other, "--prepare")
    assert (report["written"], sum(shard["rows"] for shard in report["shards"])) == (False, 300)
    other.write_text(other.read_text() + other.read_text().splitlines()[1] + "\n")
    assert "an earlier row has the same key" in world.refused("reload", "--from-source", other, "--prepare")
    send(world, *inserted(rows(1, 1000)))
    wait_until_read(world)
    assert_holds(world, {*rows(200), "1000"})


def test_an_input_is_read_to_the_end_that_it_had_and_no_further(world: WorkedTable) -> None:
    send(world, *inserted(rows(60)))
    settings = WorkerSettings(load_table(world.table), world.bootstrap, world.environment["REDIS_URL"])
    with claimed(settings, "streamer reload") as claim:
        shards = found_shards(settings, claim)
    send(world, *inserted(rows(60, 100)))
    for shard, state in enumerate(shards.states):
        messages = [one for batch in KafkaReading(world.bootstrap, world.name, shard).messages(state) for one in batch]
        assert [message.offset for message in messages] == list(range(state.end))
    assert sum(state.end for state in shards.states) == 60
