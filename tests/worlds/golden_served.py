"""A table on real servers for golden files: the example, worked on by a publisher whose chances are fixed.

Its name is as long as `patients`, which stands for it in the files, so that every line is broken where it is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from click.testing import CliRunner

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.incremental.shard.input import Message
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS
from worlds.driven import Driven
from worlds.golden_files import Case
from worlds.kafka_side import make_topics, read

SHARDS = 2
SECRET = bytes(32)
BAD = '{"op": "insert", "row": {"id": "canary-2"}}\ncanary-1\n{"op": "delete", "key": "canary-3"}\n'

NAME = (r"\bp[0-9a-f]{7}\b", "patients")
WHEN = (r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|\+00:00)?", "####-##-##T##:##:##Z")
REQUEST = (r"\b[0-9a-f]{16}\b", "<request's id  >")
STATEMENT = (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<statement's id>")
RATE = (r"\(([0-9,]+) a second\)", "(<rate> a second)")
RULES = (NAME, WHEN, STATEMENT, REQUEST, RATE)


class ServedTable:
    """The table `patients`, at rest, and others in folders beside it, all below the folder that commands are called in.

    `changed` is the same table by a table.yaml of another k; `unread` has messages that nobody has read; `fresh` is a
    table that nobody has used, made anew whenever it is asked for.
    """

    def __init__(self, servers: Servers, folder: Path) -> None:
        self._servers, self._folder = servers, folder
        self.environment = {"KAFKA_BOOTSTRAP": servers.kafka_bootstrap, "REDIS_URL": servers.redis_url}
        self.name = self._written("patients")
        shutil.copytree(folder / "patients", folder / "changed")
        changed = folder / "changed" / "table.yaml"
        changed.write_text(changed.read_text().replace("{k: 3}", "{k: 4}"))
        (folder / "bad.jsonl").write_text(BAD)
        make_topics(servers.kafka_bootstrap, self.name, SHARDS)
        for file in ("patients/rows.csv", "patients/events.jsonl", "bad.jsonl"):
            self._produce("patients", file)
        self._work()
        make_topics(servers.kafka_bootstrap, self._written("unread"), SHARDS)
        self._produce("unread", "patients/rows.csv")

    def before(self, case: Case) -> Callable[[], None] | None:
        """What has to be done ahead of a call."""
        if "fresh" not in case.words:
            return None
        return self._make_nothing if case.command in ("topics check", "topics create", "worker") else self._make_fresh

    def _written(self, folder: str) -> str:
        """A table.yaml for a table of a name of its own, which is returned."""
        name = f"p{uuid4().hex[:7]}"
        shutil.rmtree(self._folder / folder, ignore_errors=True)
        shutil.copytree(PATIENTS, self._folder / folder)
        path = self._folder / folder / "table.yaml"
        path.write_text(path.read_text().replace("table: patients", f"table: {name}"))
        return name

    def _make_nothing(self) -> None:
        self._written("fresh")

    def _make_fresh(self) -> None:
        make_topics(self._servers.kafka_bootstrap, self._written("fresh"), SHARDS)

    def _produce(self, table: str, file: str) -> None:
        words = ["produce", str(self._folder / file), "--table", str(self._folder / table)]
        sent = CliRunner().invoke(main, words, env=self.environment)
        assert sent.exit_code == 0, sent.output

    def _work(self) -> None:
        """Lets a worker take every shard over and read its input to the end."""
        for shard in range(SHARDS):
            outlet = KafkaOutlet(self._servers.kafka_bootstrap, self.name, shard)
            store = RedisLookups(connect(self._servers.redis_url), self.name, shard)
            publisher = Driven(load_table(self._folder / "patients"), shard, store, outlet, secret=SECRET)
            start = publisher.take_over(KafkaInput(self._servers.kafka_bootstrap, self.name, shard).state())
            records = read(self._servers.kafka_bootstrap, self.name, CHANGES, shard)
            messages = [Message(record.offset(), record.key(), record.value()) for record in records]
            publisher.step([message for message in messages if message.offset >= start])


def served_cases() -> Iterator[Case]:
    """The calls that are answered by servers."""
    table, changed, fresh = (("--table", name) for name in ("patients", "changed", "fresh"))
    rows = "patients/rows.csv"
    by_problem = "SELECT problem, count(*) AS n FROM t GROUP BY 1 ORDER BY 1"
    asked: list[tuple[str, str, tuple[str, ...]]] = [
        ("dead-letters", "what was refused", table),
        ("dead-letters retry", "what a retry would do", (*table, "--dry-run")),
        ("dead-letters retry", "messages are tried again", table),
        ("explain", "a row", (*table, "1")),
        ("explain", "a QI group", (*table, "--group", "0-1")),
        ("groups", "the QI groups", (*table, "--limit", "3")),
        ("groups", "the nearest of one", (*table, "--nearest", "0-1", "--limit", "3")),
        ("index", "the private index is written", (*table, "--out", "private.csv")),
        ("load", "the first rows", (rows, *fresh)),
        ("produce", "rows are sent", (rows, *fresh)),
        ("produce", "statements are sent", ("patients/events.jsonl", *fresh)),
        ("rebuild", "a rebuild is asked for", table),
        ("rebuild", "what one would gain", (*table, "--dry-run")),
        ("skip", "a message is passed over", ("--table", "unread", "--shard", "0", "--offset", "1")),
        ("reload", "a table is begun anew", (*fresh, "--from-source", rows)),
        ("status", "everything fits", (*table, "--dead-letters-max", "1")),
        ("subscribe", "the published table", table),
        ("subscribe", "an estimate", (*table, "--query", "age = 30 and problem = 'flu'")),
        ("subscribe", "an answer in SQL", (*table, "--sql", by_problem)),
        ("topics check", "all topics are as they must be", table),
        ("topics create", "topics are made", (*fresh, "--shards", "2")),
    ]  # fmt: skip
    for command, name, words in asked:
        yield Case(command, name, words, rules=RULES)
    yield Case("status", "a shard does not fit", changed, exit_code=1, rules=RULES)
    yield Case("rebuild", "nobody takes it up", (*table, "--wait"), exit_code=1, rules=RULES)
    yield Case("end-snapshot", "nothing is held back", table, exit_code=2, rules=RULES)
    yield Case("topics check", "topics are missing", fresh, exit_code=2, rules=RULES)
    yield Case("worker", "topics are missing", fresh, exit_code=2, rules=RULES, apart=True)
