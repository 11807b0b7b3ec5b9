"""`streamer demo`: a script of commands over invented people.

The commands that are shown really run, in this process, and `streamer worker` runs in another one. In the end `streamer
verify` checks the laws of every release, and at the last one also those that need the source table. A command that
fails ends the demo with its exit code.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from importlib.resources import files
from io import StringIO
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import click
import msgspec
import pandas as pd
from rich.console import Console

from streamer.cli.batch import audit, check, verify
from streamer.cli.operate import dead_letters, index, status
from streamer.cli.stream import produce, subscribe, topics
from streamer.cli.support.options import command_named, kafka_option, redis_option
from streamer.cli.support.outputs import OutputPath
from streamer.errors import ServerUnreachable, StreamerError, UsageError
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.topics import published_kinds
from streamer.kafka.embedded import SHARDS, embedded_servers
from streamer.reader import Subscription
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

# -- people: invented from a seed, the same in every run --------------------------------------------------------------

SEED = 7
PEOPLE_INITIAL, ARRIVALS = 3_183, 1_000

EDUCATION = {
    "grade school": 1, "high school": 33, "some college": 36, "college graduate": 17, "some graduate school": 8,
    "advanced degree": 5,
}  # fmt: skip
OCCUPATION = {
    "student": 2, "unskilled or farming": 14, "white-collar": 43, "skilled or teaching": 28, "managerial": 11,
    "professional": 2,
}  # fmt: skip
MARRIAGE = {"very good": 42, "good": 35, "fair": 16, "poor": 5, "very poor": 2}  # percentages, as above

AGES = (17.5, 22.0, 27.0, 32.0, 37.0, 42.0)
YEARS_MARRIED = (0.5, 2.5, 6.0, 9.0, 13.0, 16.5, 23.0)

Event = Mapping[str, Any]


class Register:
    """The source table: its present rows by id, and the events that change it."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self._random = random.Random(SEED)
        self._arrived = 0

    def insert(self) -> Event:
        self._arrived += 1
        age = self._random.choice(AGES)
        years = self._random.choice([years for years in YEARS_MARRIED if years < age - 15])
        person = {
            "id": self._arrived,
            "age": age,
            "years_married": years,
            "children": min(5, int(self._random.triangular(0, 1 + years / 3, 0))),
            "education": self._one_of(EDUCATION),
            "occupation": self._one_of(OCCUPATION),
            "spouse": self._one_of(OCCUPATION),
            "marriage": self._one_of(MARRIAGE),
        }
        self.rows[self._arrived] = person
        return {"op": "insert", "row": person}

    def delete(self, person_id: int) -> Event:
        del self.rows[person_id]
        return {"op": "delete", "key": person_id}

    def modify(self, person_id: int, **changed: object) -> Event:
        self.rows[person_id] = {**self.rows[person_id], **changed}
        return {"op": "modify", "key": person_id, "row": changed}

    def initial(self) -> list[Event]:
        return [self.insert() for _ in range(PEOPLE_INITIAL)]

    def mixed(self) -> Iterator[Event]:
        """Arrivals (half), departures (a quarter) and changes (a quarter) in random order."""
        kinds = ["insert"] * ARRIVALS + ["delete", "modify"] * (ARRIVALS // 2)
        self._random.shuffle(kinds)
        for kind in kinds:
            person_id = self._random.choice(list(self.rows))
            if kind == "insert":
                yield self.insert()
            elif kind == "delete":
                yield self.delete(person_id)
            else:
                yield self._change(person_id)

    def _change(self, person_id: int) -> Event:
        what = self._random.choice(("marriage", "occupation", "age"))
        now = self.rows[person_id][what]
        if what == "age":
            return self.modify(person_id, age=next((age for age in AGES if age > now), now))
        others = MARRIAGE if what == "marriage" else OCCUPATION
        return self.modify(person_id, **{what: self._random.choice([one for one in others if one != now])})

    def _one_of(self, shares: Mapping[str, int]) -> str:
        return self._random.choices(list(shares), list(shares.values()))[0]


WRONG_MESSAGES = (
    b'{"op": "insert", "row": {"id": 90001, "age": ',
    b'{"op": "modify", "key": 90002, "row": {"marriage": "complicated"}}',
    b'{"op": "delete", "key": 90003}',
)
"""Messages that must be refused: broken JSON, an unknown category, an unknown person."""


def write_table(directory: Path, name: str, *, embedded: bool) -> Path:
    """Writes the demo's table.yaml and its hierarchies; returns the path of table.yaml."""
    source = files("streamer.cli.demo")
    for file in source.iterdir():
        if file.name.endswith(".csv"):
            (directory / file.name).write_text(file.read_text("utf-8"), "utf-8")
    text = source.joinpath("table.yaml").read_text("utf-8").replace("table: survey\n", f"table: {name}\n")
    if embedded:
        text += "durability: stated             # the embedded Redis keeps nothing, which is fine for a demo\n"
    path = directory / "table.yaml"
    path.write_text(text, "utf-8")
    return path


# -- workers ----------------------------------------------------------------------------------------------------------

DEMO_END_SECONDS_MAX, METRICS_SECONDS_MAX = 15, 10
LOG_LINES_SHOWN = 5
_METRIC = re.compile(r'^streamer_(\w+)\{.*\bshard="\d+".*\} (\S+)$', re.M)


@dataclass(frozen=True, slots=True)
class Worker:
    """A `streamer worker` process and its log file."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        """The address of its web service, from its log; "" before it listens. Raises StreamerError if it has ended."""
        text = self.log.read_text("utf-8", "replace")
        if (code := self.process.poll()) is not None:
            last = text.splitlines()[-LOG_LINES_SHOWN:]
            raise StreamerError("\n  ".join([f"a worker has ended (exit code {code}); the end of its log:", *last]))
        found = re.search(r"web: (http://\S+)", text)
        return found[1] if found else ""

    def metrics(self) -> str:
        """/metrics in Prometheus' text format; "" before it listens."""
        if not (url := self.url):
            return ""
        try:
            with urlopen(f"{url.rstrip('/')}/metrics", timeout=METRICS_SECONDS_MAX) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            return ""


@contextmanager
def running(number: int, table: Path, kafka: str, redis: str) -> Iterator[Worker]:
    """A worker that ends with the block. It has a session of its own, so that Ctrl-C does not reach it."""
    log = table.parent / f"worker-{number}.log"
    words = ["worker", "--table", str(table), "--kafka", kafka, "--redis", redis, "--web", "127.0.0.1:0"]
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamer.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            cwd=table.parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        yield Worker(process, log)
    finally:
        ends = (signal.SIGINT, signal.SIGTERM)
        handlers = [signal.signal(end, signal.SIG_IGN) for end in ends]  # for DEMO_END_SECONDS_MAX at most
        process.terminate()
        try:
            process.wait(DEMO_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for end, handler in zip(ends, handlers, strict=True):
            signal.signal(end, handler)


def summed(metrics: Iterable[str]) -> Counter[str]:
    """The sums over all workers and shards, by the metric's name; metrics: the text of each worker."""
    found: Counter[str] = Counter()
    for text in metrics:
        for name, value in _METRIC.findall(text):
            found[name] += int(float(value))
    return found


# -- the script -------------------------------------------------------------------------------------------------------

WORKERS_REAL = 2
MESSAGES_PER_SECOND = "2000"
DEMO_POLL_SECONDS = 0.2
DEMO_SILENCE_SECONDS_MAX = 300.0  # a tenth of a processor takes 40 to begin; a worker that ends is noticed at once
RECORDS_SHOWN_MAX = 12
SCREEN_WIDTH = "140"  # of a file or a pipe

WHAT_COUNTS = (
    "A QI group that reaches 2k = 10 rows is split; one that falls below k = 5 takes rows of its neighbours, or merges "
    "with the nearest. The counts come from the worker's /metrics."
)
LEAK = (
    "Every table here is k-anonymous. Their difference is not: a reader who knows that only she changed may learn her "
    "value from the records. `live` is for readers who may know its history (docs/explanation/guarantees.md)."
)
KNOWN_FOR_CERTAIN = (
    "`known` counts whose value is certain to a reader who keeps all releases and knows everybody's other columns. The "
    "price of `sealed` is in `delay` (events) and `loss` (docs/how-to/sealed.md)."
)
SENT = ("load", "changes", "she-comes", "she-thinks-again", "she-leaves")
EMBEDDED = (
    "Kafka and Redis ran inside this process. That shows the events, the engine and the laws, but nothing of crashes: "
    "this broker keeps nothing, and its transactions do not isolate. `make demo REAL=1` runs the same on a real Kafka "
    "and a real Redis, with two workers."
)
WHERE_NEXT = """\
  README.md                  ten minutes with a table of your own
  examples/patients          a small table to change: streamer check --table examples/patients
  streamer/ARCHITECTURE.md   how it works, and why"""


@command_named("demo", "streamer demo", "streamer demo --real")
@click.option("--real", is_flag=True, help="Use the Kafka and Redis named below, with two workers.")
@kafka_option
@redis_option
@click.option(
    "--out", metavar="DIR", type=OutputPath(folder=True), help="Keep the demo's files here: table, logs, changelog."
)
def command(real: bool, kafka: str, redis: str, out: Path | None) -> None:
    """Shows everything at work with invented people: load, changes, one person's records, and the result of `verify`.

    Without --real, Kafka and Redis run inside this process and nothing has to be installed. With it, topics and keys of
    a table with a new name are created there, and stay for you to look at.
    """
    with ExitStack() as stack:
        if out is None:
            made = tempfile.TemporaryDirectory(prefix="streamer-demo-", ignore_cleanup_errors=True)
            out = Path(stack.enter_context(made))
        elif out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: is not empty, and nothing in it is overwritten; name another folder")
        out.mkdir(parents=True, exist_ok=True)
        if not sys.stdout.isatty():
            os.environ.setdefault("COLUMNS", SCREEN_WIDTH)  # for the commands that run
        play(stage_in(out.resolve(), stack, (kafka, redis) if real else None), stack)


@dataclass(frozen=True)
class DemoStage:
    """The demo's table, its servers and workers. Its files are in the folder of table.yaml."""

    path: Path
    table: Table
    kafka: str
    redis: str = field(repr=False)  # may hold a password
    workers: list[Worker] = field(default_factory=list)
    register: Register = field(default_factory=Register)
    read: dict[int, int] = field(default_factory=dict)  # the last release that was read, by shard

    def run(self, command: click.Command, name: str, *words: str, silent: bool = False) -> None:
        """Runs a command of `streamer` and shows it; silent: without what it prints."""
        words = ("--table", str(self.path), *words)
        click.secho(f"$ streamer {name} {' '.join(words)}".replace(str(self.path.parent), "DIR"), fg="cyan")
        with redirect_stdout(StringIO()) if silent else nullcontext():
            code = command.main(list(words), prog_name=f"streamer {name}", standalone_mode=False)
        if code:
            click.get_current_context().exit(code)

    def file(self, name: str) -> str:
        return str(self.path.with_name(name))


def stage_in(directory: Path, stack: ExitStack, servers: tuple[str, str] | None) -> DemoStage:
    """Kafka and Redis inside this process; or running servers, where the table gets a new name."""
    name = "survey" if servers is None else f"survey-{secrets.token_hex(4)}"
    path = write_table(directory, name, embedded=servers is None)
    if servers is None:
        embedded = stack.enter_context(embedded_servers(name, published_kinds(load_table(path))))
        servers = embedded.kafka, embedded.redis
    return DemoStage(path, load_table(path), *servers)


def play(stage: DemoStage, stack: ExitStack) -> None:
    """The script. Raises the errors of the commands."""
    began = monotonic()
    is_real = stage.table.name != "survey"
    numbers, total = count(1), 8 if is_real else 7

    def begin(part: str) -> None:
        headline(f"{next(numbers)}/{total}, {monotonic() - began:.0f} s: {part}")

    kafka, redis = ("--kafka", stage.kafka), ("--redis", stage.redis)
    begin("A table of people, and what is published of it")
    stage.run(check.command, "check")
    if is_real:
        begin("Topics on your Kafka")
        stage.run(topics.create, "topics create", *kafka, "--shards", str(SHARDS))
    for number in range(WORKERS_REAL if is_real else 1):
        stage.workers.append(stack.enter_context(running(number + 1, stage.path, stage.kafka, stage.redis)))
    reader = stack.enter_context(Subscription(stage.table, stage.kafka))

    begin(f"The initial load, as insertions: {SHARDS} shards, {len(stage.workers)} worker(s)")
    click.echo(WHAT_COUNTS)
    send(stage, reader, "load", stage.register.initial())
    begin("Then the table changes: insertions, deletions, modifications; and three messages that cannot be applied")
    send(stage, reader, "changes", stage.register.mixed(), WRONG_MESSAGES)

    begin("One person's records: what a reader of the changelog sees")
    arrival = stage.register.insert()
    person = arrival["row"]
    rating = "poor" if person["marriage"] != "poor" else "fair"
    follow(stage, reader, "she-comes", arrival)
    follow(stage, reader, "she-thinks-again", stage.register.modify(person["id"], marriage=rating))
    follow(stage, reader, "she-leaves", stage.register.delete(person["id"]))
    click.echo(LEAK)

    begin("The sealed changelog: the same people, in cohorts that no change alters")
    stage.run(subscribe.command, "subscribe", "--sealed", *kafka, "--csv", stage.file("cohorts.csv"), silent=True)
    stage.run(audit.command, "audit", "topic", *kafka)
    source = Path(stage.file("events.jsonl"))
    source.write_bytes(b"".join(Path(stage.file(f"{what}.jsonl")).read_bytes() for what in SENT))
    stage.run(audit.command, "audit", "--compare", "--source", str(source))
    click.echo(KNOWN_FOR_CERTAIN)

    begin("The state of every shard")
    stage.run(status.command, "status", *kafka, *redis)
    stage.run(dead_letters.command, "dead-letters", *kafka)
    begin("Is it true? Another reader takes the whole changelog, and `verify` checks the laws")
    pd.DataFrame(list(stage.register.rows.values())).to_csv(rows := stage.file("rows.csv"), index=False)
    stage.run(index.command, "index", *redis, "--out", stage.file("index.csv"))
    files = ("--live", live := stage.file("live.jsonl"), "--csv", stage.file("table.csv"))
    stage.run(subscribe.command, "subscribe", *kafka, *files, silent=True)
    stage.run(verify.command, "verify", live, "--source", rows, "--index", stage.file("index.csv"))

    headline("What stays" if is_real else "What this was not")
    name = stage.table.name
    left = f"The topics {name}.* at {stage.kafka}, and the keys {{{name}:0-3}}:* in Redis."
    click.echo(left if is_real else EMBEDDED)
    click.echo(f"The demo took {monotonic() - began:.0f} s.")
    headline("Where to go next")
    click.echo(WHERE_NEXT)


def headline(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def send(
    stage: DemoStage, reader: Subscription, what: str, events: Iterable[Event], wrong: Iterable[bytes] = ()
) -> list[FoldedRelease]:
    """Sends events, waits until all are published, prints counts; returns the new releases."""
    before = summed(worker.metrics() for worker in stage.workers)["messages_total"]
    lines = [*map(msgspec.json.encode, events), *wrong]
    Path(stage.file(f"{what}.jsonl")).write_bytes(b"\n".join(lines) + b"\n")
    words = (stage.file(f"{what}.jsonl"), "--kafka", stage.kafka, "--rate", MESSAGES_PER_SECOND)
    stage.run(produce.command, "produce", *words)
    releases: list[FoldedRelease] = []
    last, moved_at = None, monotonic()
    with Console(stderr=True).status("") as shown:
        while True:
            while came := reader.poll(DEMO_POLL_SECONDS):  # some hundred records each time
                releases += came
                stage.read.update({release.shard: release.number for release in came})
            found = summed(worker.metrics() for worker in stage.workers)
            counts = counted(found)
            shown.update(f"{what}  {counts}")
            all_read = sum(stage.read.values()) == found["last_release_number"]
            if all_read and found["messages_total"] - before >= len(lines):
                break
            if counts != last:
                last, moved_at = counts, monotonic()
            elif monotonic() - moved_at > DEMO_SILENCE_SECONDS_MAX:
                raise ServerUnreachable(f"no progress for {DEMO_SILENCE_SECONDS_MAX:.0f} s before all was published")
            sleep(DEMO_POLL_SECONDS)
    click.echo(f"{what}:  {counts}")
    return releases


def counted(found: Mapping[str, int]) -> str:
    names = {"rows": "rows", "pending": "pending_rows", "QI groups": "qi_groups", "splits": "splits_total"}
    names |= {"merges": "merges_total", "records": "published_records_total"}
    return "  ".join(f"{shown} {found[name]:,}" for shown, name in names.items())


def follow(stage: DemoStage, reader: Subscription, what: str, event: Event) -> None:
    """Sends one event, and shows the records of its releases."""
    click.echo()
    records = [record for release in send(stage, reader, what, [event]) for record in release.records]
    for key, value in records[:RECORDS_SHOWN_MAX]:
        click.echo(f"  {key.decode()}  {'(removed)' if value is None else value.decode()}")
    if len(records) > RECORDS_SHOWN_MAX:
        click.echo(f"  and {len(records) - RECORDS_SHOWN_MAX} more")
