"""`streamer reload` and `streamer load` on a real Kafka and Redis: what a worker refuses, they mend as it says.

Here are the tests of streamer.cli.operate.reload and streamer.cli.stream.load and of what both run by:
streamer.cli.stream.bootstrap finds, streamer.cli.stream.bootstrap reads and streamer.cli.stream.bootstrap writes.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import sleep

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from streamer.cli.main import main
from streamer.cli.stream.bootstrap import found_shards
from streamer.incremental import remedies
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.release.fold import parse_part
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import shards_of as shards_of_redis
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import topics_of
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaReading
from streamer.table.schema import ROWS
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from worlds.checkout import ROOT
from worlds.kafka_and_redis import make_topics, read, write
from worlds.patients import CANARY
from worlds.workers import SHARDS, WorkedTable, wait_until

COLUMNS = ("id", "age", "zip", "bmi", "sex", "problem")


def rows(n: int, first: int = 0) -> dict[str, dict[str, object]]:
    """Rows of the example table by source key."""
    return {
        str(i): {
            "id": str(i),
            "age": i * 7 % 100,
            "zip": 10_000 + i * 37 % 90 * 100,
            "bmi": 15 + i % 40 / 2,
            "sex": ("Female", "Male")[i % 2],
            "problem": ("flu", "asthma", "ulcer", "burn")[i % 4],
        }
        for i in range(first, first + n)
    }


def as_csv(path: Path, people: Mapping[str, Mapping[str, object]], but: str = "") -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in COLUMNS if name != but], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(people.values())
    return str(path)


def run(world: WorkedTable, command: str, *arguments: str) -> Result:
    servers = ["--kafka", world.bootstrap, "--redis", world.environment["REDIS_URL"]]
    return CliRunner().invoke(main, [command, *arguments, "--table", str(world.table), *servers])


def reload(world: WorkedTable, source: str, *more: str) -> list[dict[str, int]]:
    done = run(world, "reload", "--from-source", source, "--json", *more)
    assert done.exit_code == 0, done.output
    found: list[dict[str, int]] = json.loads(done.stdout)["shards"]
    return found


def shards_of(world: WorkedTable) -> int:
    topics = AdminClient({"bootstrap.servers": world.bootstrap}).list_topics(timeout=20).topics
    return len(topics[f"{world.name}.changes"].partitions)


def changelog(world: WorkedTable, shard: int) -> list[LiveRecord]:
    found = []
    for record in read(world.bootstrap, world.name, "live", shard):
        headers = dict(record.headers())
        numbers = int(headers["release"]), int(headers["through"])
        part, outside = parse_part(headers["part"]), OUTSIDE in record.headers()
        found.append(LiveRecord(shard, *numbers, record.key(), record.value(), part, outside=outside))
    return found


def laws(world: WorkedTable) -> ChangelogLaws:
    """Every release of every shard, from the first record of the topic on."""
    held = ChangelogLaws(load_table(world.table))
    for shard in range(shards_of(world)):
        for release in in_releases(changelog(world, shard)):
            held.check(release)
    return held


def stored(world: WorkedTable) -> list[set[str]]:
    """Source keys, shard by shard."""
    client = connect(world.environment["REDIS_URL"])
    states = [RedisStore(client, world.name, shard).load() for shard in range(shards_of(world))]
    return [set() if state is None else {key for key, _ in state.kept.records} for state in states]


def assert_holds(world: WorkedTable, wanted: set[str]) -> None:
    """Redis and the output hold these rows and no others, each where its messages come."""
    found = stored(world)
    assert set().union(*found) == wanted
    assert all(shard_of(key.encode(), len(found)) == shard for shard, keys in enumerate(found) for key in keys)
    assert laws(world).n_rows == len(wanted)


def send(world: WorkedTable, *messages: tuple[str, dict[str, object] | None]) -> None:
    shards = shards_of(world)
    records = [
        (shard_of(key.encode(), shards), key.encode(), None if value is None else json.dumps(value).encode())
        for key, value in messages
    ]
    write(world.bootstrap, f"{world.name}.changes", records)


def inserted(people: Mapping[str, dict[str, object]]) -> list[tuple[str, dict[str, object] | None]]:
    return [(key, {"op": "insert", "row": row}) for key, row in people.items()]


def wait_until_read(world: WorkedTable) -> None:
    def is_read() -> bool:
        shards = range(shards_of(world))
        positions = [KafkaOutlet(world.bootstrap, world.name, shard).position() for shard in shards]
        ends = [len(read(world.bootstrap, world.name, "changes", shard)) for shard in shards]
        return [position.next if position else 0 for position in positions] == ends

    wait_until(is_read, 40, world.logs)


def stop(world: WorkedTable) -> None:
    for worker in world.workers:
        worker.kill()
    world.workers.clear()


def refused(world: WorkedTable) -> str:
    worker = world.start()
    assert worker.ended() == 2, world.logs()
    return worker.log.read_text()


def test_a_first_load_is_release_0_and_what_is_written_meanwhile_follows(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(300)
    done = run(world, "load", as_csv(tmp_path / "rows.csv", people))
    assert done.exit_code == 0, done.output
    assert_holds(world, set(people))
    assert {record.release for shard in range(SHARDS) for record in changelog(world, shard)} == {0}
    assert all(record.outside for shard in range(SHARDS) for record in changelog(world, shard))
    send(world, ("7", {"op": "delete", "key": "7"}), *inserted(rows(3, 1000)))
    world.start()
    wait_until_read(world)
    assert_holds(world, (set(people) | {"1000", "1001", "1002"}) - {"7"})


def test_categories_that_table_yaml_does_not_list_are_counted_in_the_end(world: WorkedTable, tmp_path: Path) -> None:
    listed = "problem: {role: sensitive, hierarchy: hierarchies/problem.csv"
    world.table.write_text(world.table.read_text().replace(listed, f"{listed}, other: '*'"))
    people = rows(300)
    for key in ("3", "5", "8"):
        people[key]["problem"] = CANARY
    done = run(world, "load", as_csv(tmp_path / "rows.csv", people))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].startswith("warning: 3 of 300 rows have a problem that its hierarchy does not")
    send(world, *inserted(people))
    again = run(world, "reload", "--from-source", "topic", "--json")
    (warning,) = json.loads(again.stdout)["warnings"]
    assert warning.startswith("3 of 300 applied messages have a problem that its hierarchy does not list")
    assert CANARY not in done.output + again.output


def test_a_table_that_has_begun_is_not_loaded(world: WorkedTable, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(100))
    assert run(world, "load", file).exit_code == 0
    again = run(world, "load", file)
    assert again.exit_code == 2
    assert "streamer reload --from-source" in again.stderr
    assert_holds(world, set(rows(100)))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        ({"but": "zip"}, "the data has no column 'zip'"),
        ({"age": -3}, "data row 5: "),
        ({"id": "2"}, "data row 5: an earlier row has the same key"),
    ],
)
def test_a_source_that_is_wrong_is_told_with_its_line_and_changes_nothing(
    world: WorkedTable, tmp_path: Path, spoil: dict[str, object], says: str
) -> None:
    assert run(world, "load", as_csv(tmp_path / "rows.csv", rows(100))).exit_code == 0
    before = [len(changelog(world, shard)) for shard in range(SHARDS)]
    people = rows(50, 500)
    but = str(spoil.pop("but", ""))
    people["504"] |= spoil
    if "id" in spoil:
        people["501"]["id"] = "2"
    done = run(world, "reload", "--from-source", as_csv(tmp_path / "wrong.csv", people, but))
    assert done.exit_code == 2
    assert says in done.stderr
    assert "-3" not in done.stderr
    assert_holds(world, set(rows(100)))
    assert [len(changelog(world, shard)) for shard in range(SHARDS)] == before


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
    done = run(world, "load", as_csv(tmp_path / "wrong.csv", people, but))
    assert done.exit_code == 2
    assert says in done.stderr
    assert "many" not in done.stderr
    assert stored(world) == [set()] * SHARDS
    assert not any(read(world.bootstrap, world.name, kind, s) for kind in ("live", "positions") for s in range(SHARDS))
    assert run(world, "load", as_csv(tmp_path / "right.csv", rows(50))).exit_code == 0
    assert_holds(world, set(rows(50)))


@pytest.mark.slow
def test_another_table_yaml_is_begun_from_a_file_as_the_refusal_says(world: WorkedTable, tmp_path: Path) -> None:
    send(world, *inserted(rows(200)))
    world.start()
    wait_until_read(world)
    stop(world)
    world.table.write_text(world.table.read_text().replace("k: 3", "k: 6"))
    assert remedies.begin_anew(world.name) in refused(world)
    begun = reload(world, as_csv(tmp_path / "rows.csv", rows(150, 100)))
    assert sum(shard["removed"] for shard in begun) == 200
    send(world, *inserted(rows(10, 700)))
    world.start()
    wait_until_read(world)
    assert_holds_since_begun(world, set(rows(150, 100)) | set(rows(10, 700)))


def assert_holds_since_begun(world: WorkedTable, wanted: set[str]) -> None:
    """The same; the laws of now hold from the first release that came from outside on."""
    assert set().union(*stored(world)) == wanted
    for shard in range(shards_of(world)):
        folded: dict[bytes, bytes] = {}
        groups: dict[str, int] = {}
        for record in changelog(world, shard):
            folded.pop(record.key, None)
            if record.value is not None:
                folded[record.key] = record.value
        for value in folded.values():
            name = json.loads(value)["qi_group"]
            groups[name] = groups.get(name, 0) + 1
        assert min(groups.values()) >= load_table(world.table).k
        assert len(folded) == len(stored(world)[shard])


@pytest.mark.slow
def test_the_input_is_read_again_under_another_table_yaml(world: WorkedTable) -> None:
    world.start()
    world.write(800)
    world.wait_until_published()
    stop(world)
    before = stored(world)
    world.table.write_text(world.table.read_text().replace("k: 3", "k: 5"))
    assert remedies.begin_anew(world.name) in refused(world)
    reload(world, "topic")
    assert stored(world) == before
    world.write(300)
    world.start()
    wait_until_read(world)
    assert_holds_since_begun(world, set().union(*stored(world)))


@pytest.mark.slow
def test_an_emptied_redis_is_no_loss_where_the_source_is_there(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(200)
    assert run(world, "load", as_csv(tmp_path / "rows.csv", people)).exit_code == 0
    client = connect(world.environment["REDIS_URL"])
    client.delete(*client.scan_iter(match=f"{{{world.name}:*"))
    assert remedies.begin_anew(world.name) in refused(world)
    reload(world, as_csv(tmp_path / "rows.csv", people))
    assert_holds(world, set(people))
    world.start()
    send(world, ("7", {"op": "delete", "key": "7"}))
    wait_until_read(world)
    assert_holds(world, set(people) - {"7"})


@pytest.mark.slow
def test_a_grown_input_is_begun_from_a_file_as_the_refusal_says(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(200)
    assert run(world, "load", as_csv(tmp_path / "rows.csv", people)).exit_code == 0
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    admin.create_partitions([NewPartitions(f"{world.name}.changes", 6)])[f"{world.name}.changes"].result(20)
    assert remedies.after_growth(world.name) in refused(world)
    others = [f"{world.name}.{kind}" for kind in ("live", "positions", "dead-letters", "control")]
    for answer in admin.delete_topics(others).values():
        answer.result(20)
    wait_until(lambda: not set(others) & set(admin.list_topics(timeout=20).topics), 20, lambda: "not deleted")
    made = CliRunner().invoke(main, ["topics", "create", "--table", str(world.table), "--kafka", world.bootstrap])
    assert made.exit_code == 0, made.output
    reload(world, as_csv(tmp_path / "rows.csv", people))
    send(world, ("7", {"op": "delete", "key": "7"}), *inserted(rows(5, 900)))
    world.start()
    wait_until_read(world)
    assert_holds(world, (set(people) | set(rows(5, 900))) - {"7"})


@pytest.mark.slow
def test_an_input_made_anew_with_fewer_partitions_leaves_no_shard_behind(world: WorkedTable, tmp_path: Path) -> None:
    people = rows(200)
    file = as_csv(tmp_path / "rows.csv", people)
    assert run(world, "load", file).exit_code == 0
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    topics = [topic.name for topic in topics_of(world.name, ROWS)]
    for answer in admin.delete_topics(topics).values():
        answer.result(20)
    wait_until(lambda: not set(topics) & set(admin.list_topics(timeout=20).topics), 20, lambda: "not deleted")
    make_topics(world.bootstrap, world.name, 2)
    assert remedies.begin_from_file(world.name) in refused(world)
    not_empty = run(world, "load", file)
    assert not_empty.exit_code == 2
    assert "streamer reload --from-source" in not_empty.stderr
    reload(world, file)
    assert_holds(world, set(people))
    assert shards_of_redis(connect(world.environment["REDIS_URL"]), world.name) == [0, 1]
    assert not list(connect(world.environment["REDIS_URL"]).scan_iter(match=f"{{{world.name}:[23]}}:*"))
    told = run(world, "status")
    assert told.exit_code == 0, told.output


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
    assert run(world, "load", as_csv(tmp_path / "rows.csv", people)).exit_code == 0
    servers = ["--kafka", world.bootstrap, "--redis", world.environment["REDIS_URL"]]
    for turn in range(5):
        people = rows(1200, 100 * turn)
        command = ["reload", "--from-source", as_csv(tmp_path / "rows.csv", people), "--table", str(world.table)]
        arguments = [sys.executable, "-m", "streamer.cli.main", *command, *servers]
        with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            process.stderr.readline()  # the rows are read
            if turn % 2:
                process.stdout.readline()  # a shard has its table
            sleep(rng.random())
            process.kill()
        killed += process.returncode < 0
        laws(world)
        if turn == 2:
            worker = world.start()
            wait_until(lambda w=worker: w.process.poll() is not None or len(w.taken_over()) == SHARDS, 40, world.logs)  # type: ignore[misc]
            if worker.process.poll() is not None:
                said = worker.log.read_text()
                assert remedies.BEGUN_IN_PART in said or remedies.begin_anew(world.name) in said
            stop(world)
    assert killed
    reload(world, as_csv(tmp_path / "rows.csv", people))
    assert_holds(world, set(people))


def test_a_source_without_anybody_is_taken_for_a_mistake(world: WorkedTable, tmp_path: Path) -> None:
    assert run(world, "load", as_csv(tmp_path / "rows.csv", rows(50))).exit_code == 0
    for source, says in ((as_csv(tmp_path / "none.csv", {}), "holds no rows"), ("topic", "holds no message")):
        done = run(world, "reload", "--from-source", source)
        assert done.exit_code == 2
        assert says in done.stderr
    assert_holds(world, set(rows(50)))


def trim(world: WorkedTable) -> list[int]:
    """Deletes the first half of every partition of the input; what is left begins at these offsets."""
    ends = [len(read(world.bootstrap, world.name, "changes", shard)) for shard in range(SHARDS)]
    places = [TopicPartition(f"{world.name}.changes", shard, end // 2) for shard, end in enumerate(ends)]
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    for answer in admin.delete_records(places).values():
        answer.result(20)
    return [place.offset for place in places]


def test_an_input_that_has_lost_its_beginning_is_no_source_unless_somebody_says_so(world: WorkedTable) -> None:
    """Before: a warning among other lines, and a table without the rows that had expired."""
    send(world, *inserted(rows(60)))
    begins = trim(world)
    done = run(world, "reload", "--from-source", "topic")
    assert done.exit_code == 2, done.output
    for shard, earliest in enumerate(begins):
        assert f"shard {shard}: {earliest} offsets, 0 to {earliest - 1}" in done.stderr
    assert "--although-trimmed" in done.stderr
    assert stored(world) == [set()] * SHARDS, "nothing was touched"
    reload(world, "topic", "--although-trimmed")
    assert [len(keys) for keys in stored(world)] == [
        len(read(world.bootstrap, world.name, "changes", shard)) for shard in range(SHARDS)
    ]


def test_behind_a_truncation_an_input_that_has_lost_its_beginning_says_all_rows(world: WorkedTable) -> None:
    send(world, *inserted(rows(60)))
    trim(world)
    write(world.bootstrap, f"{world.name}.changes", [(n, None, b'{"op": "truncate"}') for n in range(SHARDS)])
    send(world, *inserted(rows(40, 100)))
    reload(world, "topic")
    assert_holds(world, set(rows(40, 100)))


def test_that_an_input_may_be_trimmed_is_said_of_no_file(world: WorkedTable, tmp_path: Path) -> None:
    done = run(world, "reload", "--from-source", as_csv(tmp_path / "rows.csv", rows(50)), "--although-trimmed")
    assert done.exit_code == 2 and "--although-trimmed" in done.stderr


def test_an_offset_that_means_nothing_is_refused(world: WorkedTable, tmp_path: Path) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(50))
    for said in ("7", "beginning"):
        done = run(world, "load", file, "--from-offset", said)
        assert done.exit_code == 2
        assert "--from-offset" in done.stderr
    assert stored(world) == [set()] * SHARDS


def test_an_input_is_read_to_the_end_that_it_had_and_no_further(world: WorkedTable) -> None:
    send(world, *inserted(rows(60)))
    settings = WorkerSettings(load_table(world.table), world.bootstrap, world.environment["REDIS_URL"])
    shards = found_shards(settings)
    send(world, *inserted(rows(60, 100)))
    for shard, state in enumerate(shards.states):
        messages = [one for batch in KafkaReading(world.bootstrap, world.name, shard).messages(state) for one in batch]
        assert [message.offset for message in messages] == list(range(state.end))
    assert sum(state.end for state in shards.states) == 60
