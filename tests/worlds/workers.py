"""Workers as processes on a table of their own, and what they must have published in the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.incremental.checks.changelog import ChangelogLaws, LiveRecord, in_releases
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.release.fold import parse_part
from streamer.incremental.release.records import OUTSIDE
from streamer.incremental.shard.input import Message
from streamer.incremental.store.base import Meta, State
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS, outputs_of
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.table.schema import ROWS
from streamer.table.yaml.loading import load_table
from worlds.checkout import ROOT
from worlds.kafka_and_redis import (
    RedisCopy,
    copy_of,
    delete_topics,
    fresh_name,
    make_topics,
    make_topics_again,
    read,
    write,
)
from worlds.patients import CANARY, COLUMNS, Changes, expected, folded, smallest_group, write_csv, write_table
from worlds.shards import Driven

SHARDS = 4

PATIENCE = 8
"""What is waited for takes longer on a machine that has other work; one that is idle waits no longer for it."""

ENDS_SECONDS_MAX = 30.0 * PATIENCE

FRAGILE = """
import os
from streamer.cli.main import main
from streamer.incremental.engine.engine import Engine

apply = Engine.apply

def fragile(self, change):
    outcome = apply(self, change)
    source_key = getattr(change, "source_key", "")
    if source_key.startswith("killer"):
        os._exit(9)
    if source_key.startswith("hungry"):
        bytearray(1 << 60)
    if source_key.startswith("poison"):
        raise KeyError(source_key)
    return outcome

Engine.apply = fragile
main()
"""
"""A worker whose engine some source keys break; some end the process, as the system does that lacks memory, and for
some it asks for more memory than there is."""

WORKER_COMMANDS = {
    "streamer": [sys.executable, "-m", "streamer.cli.main", "worker", "--log-level", "debug"],
    "faust": [sys.executable, "-m", "faust", "-A", "agents.app", "worker", "--loglevel", "info"],
    "fragile": [sys.executable, "-c", FRAGILE, "worker"],
}


class Worker:
    """One worker process and its log. more: arguments that go behind the others."""

    def __init__(
        self, log: Path, environment: Mapping[str, str], command: str = "streamer", more: Sequence[str] = ()
    ) -> None:
        self.log = log
        arguments = WORKER_COMMANDS[command]
        if command != "faust":
            arguments = [*arguments, "--table", environment["STREAMER_TABLE"], *more]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                arguments, cwd=ROOT, env={**os.environ, **environment}, stdout=file, stderr=subprocess.STDOUT
            )

    def ended(self) -> int:
        """Exit code of a worker that ends by itself."""
        return self.process.wait(ENDS_SECONDS_MAX)

    def terminate(self) -> tuple[int, float]:
        """Exit code after SIGTERM, and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.ended(), time.monotonic() - began

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ended()

    def taken_over(self) -> list[int]:
        """Numbers of the shards taken over so far, in order."""
        return self._shards_said("taken over")

    def ours_again(self) -> list[int]:
        """Numbers of the shards that a rebalance gave back to it, and that it did not load."""
        return self._shards_said("is assigned here again")

    def _shards_said(self, what: str) -> list[int]:
        return [int(number) for number in re.findall(rf"shard (\d+) of \S+ {what}", self.log.read_text())]


class WorkedTable:
    """A table of patients on the servers: what is written to it, its workers, and what its operator calls."""

    def __init__(
        self, servers: Servers, directory: Path, shards: int = SHARDS, form: str = ROWS, name: str | None = None
    ) -> None:
        self.name, self.shards, self.folder = name or fresh_name(), shards, directory
        self.bootstrap = servers.kafka_bootstrap
        self.table = write_table(directory, self.name, form)
        self.changes = Changes(shards)
        self.workers: list[Worker] = []
        self.environment = {
            "STREAMER_TABLE": str(self.table),
            "KAFKA_BOOTSTRAP": servers.kafka_bootstrap,
            "REDIS_URL": servers.redis_url,
        }
        self._form = form
        if shards:
            make_topics(self.bootstrap, self.name, shards, form=form)

    def edit_yaml(self, before: str, after: str) -> None:
        text = self.table.read_text()
        assert before in text
        self.table.write_text(text.replace(before, after))

    # -- workers --------------------------------------------------------------------------------------------------

    def start(self, command: str = "streamer", more: Sequence[str] = ()) -> Worker:
        worker = Worker(self.folder / f"worker-{len(self.workers)}.log", self.environment, command, more)
        self.workers.append(worker)
        return worker

    def serve(self, count: int) -> Worker:
        """A worker that has published so many random changes."""
        worker = self.start()
        self.write(count)
        self.wait_until_published()
        return worker

    def stop(self) -> None:
        """Ends all workers by SIGTERM; each has to end well."""
        for worker in self.workers:
            if worker.process.poll() is None:
                assert worker.terminate()[0] == 0, self.logs()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    def refusal(self) -> str:
        """The log of a worker that refuses the table."""
        worker = self.start()
        assert worker.ended() == 2, self.logs()
        return worker.log.read_text()

    def logs(self) -> str:
        return "\n".join(worker.log.read_text() for worker in self.workers)

    def work(self, make_outlet: Callable[..., KafkaOutlet] = KafkaOutlet, secret: bytes | None = None) -> list[Driven]:
        """Takes every shard over in this process, as a worker does, and reads its input to the end."""
        publishers = []
        for shard in range(self.shards):
            outlet = make_outlet(self.bootstrap, self.name, shard)
            publisher = Driven(load_table(self.table), shard, self.store(shard), outlet, secret)
            start = publisher.take_over(KafkaInput(self.bootstrap, self.name, shard, outputs=outputs_of(self._form)))
            read = self.read(CHANGES, shard)
            messages = [Message(one.offset(), one.key(), one.value(), one.timestamp()[1]) for one in read]
            publisher.step([message for message in messages if message.offset >= start])
            publishers.append(publisher)
        return publishers

    # -- topics ---------------------------------------------------------------------------------------------------

    @property
    def input(self) -> str:
        return f"{self.name}.{CHANGES}"

    def write(self, count: int) -> None:
        """So many random changes."""
        self.send(self.changes.more(count))

    def send(self, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> None:
        """Records of the input, by partition."""
        write(self.bootstrap, self.input, records)

    def read(self, kind: str, shard: int) -> list[Record]:
        return read(self.bootstrap, self.name, kind, shard)

    def ends(self, kind: str = CHANGES) -> list[int]:
        """How many records every partition has."""
        return [len(self.read(kind, shard)) for shard in range(self.shards)]

    def rows(self, shard: int) -> dict[bytes, bytes]:
        """The published rows of a shard, as readers fold them."""
        return folded([(record.key(), record.value()) for record in self.read(LIVE, shard)])

    def n_rows(self) -> int:
        """Rows that readers see."""
        return sum(len(self.rows(shard)) for shard in range(self.shards))

    def letters(self, *shards: int) -> list[dict[str, Any]]:
        """The dead letters of some shards, or of all."""
        letters = [self.read(DEAD_LETTERS, shard) for shard in shards or range(self.shards)]
        return [json.loads(letter.value() or b"") for of_shard in letters for letter in of_shard]

    def delete_topics(self, *kinds: str) -> None:
        delete_topics(self.bootstrap, self.name, *kinds)

    def make_topics_again(self, *kinds: str) -> None:
        make_topics_again(self.bootstrap, self.name, *kinds, shards=self.shards, form=self._form)

    def recreate_topics(self, *kinds: str) -> None:
        self.delete_topics(*kinds)
        self.make_topics_again(*kinds)

    def reached(self) -> list[int]:
        """The published `next` of every shard."""
        outputs = outputs_of(self._form)
        positions = [KafkaOutlet(self.bootstrap, self.name, shard, outputs).position() for shard in range(self.shards)]
        return [position.next if position else 0 for position in positions]

    def lag(self) -> int:
        """Messages written and not read, as Kafka's tools see it by the group's offsets."""
        group = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"streamer-{self.name}"})
        places = [TopicPartition(self.input, shard) for shard in range(self.shards)]
        read_to = [max(place.offset, 0) for place in group.committed(places, timeout=20)]
        group.close()
        return sum(len(messages) for messages in self.changes.messages) - sum(read_to)

    def wait_until_published(self, seconds: float = 40.0, to: Sequence[int] | None = None) -> None:
        """Until all random changes are published, or the input up to these offsets."""
        wanted = [len(messages) for messages in self.changes.messages] if to is None else list(to)
        wait_until(lambda: self.reached() == wanted, seconds, lambda: f"{self.reached()} of {wanted}: {self.logs()}")

    # -- Redis ----------------------------------------------------------------------------------------------------

    @property
    def redis(self) -> Any:
        """A client."""
        return connect(self.environment["REDIS_URL"])

    def store(self, shard: int = 0) -> RedisLookups:
        return RedisLookups(self.redis, self.name, shard)

    def meta(self, shard: int = 0) -> Meta:
        """Of a shard that has committed."""
        meta = self.store(shard).meta()
        assert meta is not None, f"shard {shard} has never committed"
        return meta

    def metas(self) -> list[Meta]:
        """Of every shard; an empty one of those that have not committed."""
        return [self.store(shard).meta() or Meta() for shard in range(self.shards)]

    def state(self, shard: int) -> State:
        state = self.store(shard).load()
        assert state is not None, f"shard {shard} has never committed"
        return state

    def source_keys(self) -> list[set[str]]:
        """What Redis has, shard by shard."""
        states = [self.store(shard).load() for shard in range(self.shards)]
        return [set() if state is None else {key for key, _ in state.kept.records} for state in states]

    def lose_redis(self, shard: str = "*") -> None:
        """The keys of the table's shards, or of one, are gone."""
        self.redis.delete(*self.redis.scan_iter(match=f"{{{self.name}:{shard}}}:*"))

    def claim_ends(self) -> None:
        """Time passes: a command that was killed has no claim of a shard any longer."""
        for custody in self.redis.scan_iter(f"{{{self.name}:*}}:custody"):
            self.redis.hset(custody, "claimed_until", 0)

    def copy_redis(self, shard: str = "*") -> RedisCopy:
        """What the table's shards, or one, keep, as an operator's backup holds it."""
        return copy_of(self.environment["REDIS_URL"], f"{{{self.name}:{shard}}}:*")

    # -- commands -------------------------------------------------------------------------------------------------

    def call(self, command: str, *words: object, stdin: str | None = None) -> Result:
        """Calls a command of streamer for this table."""
        return CliRunner().invoke(main, [*command.split(), *map(str, words)], input=stdin, env=self.environment)

    def begun(self, command: str, *words: object, **pipes: Any) -> subprocess.Popen[Any]:
        """Begins the same in a process of its own, with stdout in a pipe."""
        call = [sys.executable, "-m", "streamer.cli.main", *command.split(), *map(str, words)]
        environment = {**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(call, cwd=ROOT, env=environment, stdout=subprocess.PIPE, **pipes)

    def must(self, command: str, *words: object, stdin: str | None = None) -> Result:
        """Calls a command that has to succeed."""
        done = self.call(command, *words, stdin=stdin)
        assert done.exit_code == 0, f"{done.output}\n{self.logs()}"
        return done

    def report(self, command: str, *words: object, code: int = 0, stdin: str | None = None) -> dict[str, Any]:
        """What a command says as JSON."""
        done = self.call(command, *words, "--json", stdin=stdin)
        assert done.exit_code == code, f"{done.output}\n{self.logs()}"
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def status(self) -> dict[str, Any]:
        """What `streamer status` says, whether all is well or not."""
        said: dict[str, Any] = json.loads(self.call("status", "--json").stdout)
        return said

    def refused(self, command: str, *words: object, stdin: str | None = None) -> str:
        """What a command says that has to be refused."""
        done = self.call(command, *words, stdin=stdin)
        assert done.exit_code == 2, done.output
        return done.stderr

    # -- judgement ------------------------------------------------------------------------------------------------

    def changelog(self, shard: int) -> list[LiveRecord]:
        """What a shard has published, from the first record of the topic on."""
        found = []
        for record in self.read(LIVE, shard):
            headers = dict(record.headers())
            numbers, part = (int(headers["release"]), int(headers["through"])), parse_part(headers["part"])
            outside, whole = OUTSIDE in record.headers(), int(headers.get("whole", 0))
            found.append(LiveRecord(shard, *numbers, record.key(), record.value(), part, LIVE, outside, whole))
        return found

    def laws(self) -> ChangelogLaws:
        """Every release of every shard is lawful."""
        held = ChangelogLaws(load_table(self.table))
        for shard in range(self.shards):
            for release in in_releases(self.changelog(shard)):
                held.check(release)
        return held

    def verify(self, people: Iterable[Mapping[str, object]], columns: Sequence[str] = COLUMNS) -> dict[str, Any]:
        """Holds every release, and the last one against these people, to the laws; what `verify` says."""
        live, index = self.folder / "live.jsonl", self.folder / "index.csv"
        self.must("subscribe", "--live", live, "--force")
        self.must("index", "--out", index, "--force")
        assert CANARY not in live.read_text()
        source = write_csv(self.folder / "people.csv", people, columns)
        return self.report("verify", live, "--source", source, "--index", index)

    def assert_published_as_expected(self) -> None:
        for shard, messages in enumerate(self.changes.messages):
            meta = self.meta(shard)
            rows, n_letters = expected(self.table, shard, messages, self.shards, meta.secret)
            assert self.rows(shard) == rows
            assert smallest_group(rows) >= 3
            letters = self.read(DEAD_LETTERS, shard)
            assert len({letter.key() for letter in letters}) == len(letters) == n_letters > 0
            assert meta.counts.messages == meta.next == len(messages)
            assert meta.counts.dead_letters == n_letters
            records = [*self.read(LIVE, shard), *letters]
            assert not any(CANARY.encode() in ((record.value() or b"") + record.key()) for record in records)
            self._assert_kept_secret(meta.secret, [*records, *self.read(POSITIONS, shard)])
        assert CANARY not in self.logs()

    def _assert_kept_secret(self, secret: bytes, records: Iterable[Record]) -> None:
        """Neither Kafka nor a log has the secret of a shard, however it would be written."""
        written = [secret, secret.hex().encode(), b64encode(secret), repr(secret)[2:-1].encode()]
        said = [self.logs().encode(), *(record.value() or b"" for record in records)]
        assert len(secret) >= 16
        assert not any(text in one for text in written for one in said)


def inserts(names: Iterable[str], shard: int = 0) -> list[tuple[int, bytes, bytes]]:
    """One insert per name, each under a source key of that beginning that belongs to the shard."""
    records = []
    for name in names:
        numbered = (f"{name}-{number}" for number in range(1000))
        source_key = next(one for one in numbered if shard_of(one.encode(), SHARDS) == shard)
        row = {"id": source_key, "age": 30, "zip": 12345, "bmi": 20.5, "sex": "Female", "problem": "flu"}
        value = json.dumps({"op": "insert", "row": row}).encode()
        records.append((shard, source_key.encode(), value))
    return records


def wait_until(holds: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE * seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {PATIENCE * seconds} s: {otherwise()}")
        time.sleep(0.2)
