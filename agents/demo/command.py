"""`streamer demo`: the order of events.

Nothing is staged: the commands whose lines are shown are run, in this process; a `streamer worker` process takes in
what they send, and counts splits and merges itself. The end is the verdict of `streamer verify`: over every published
release the laws of the changelog, and over the last one those that need the source table too. A command that ends with
another code than 0 ends the demo with it.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from time import monotonic, sleep

import click
import msgspec
from rich.console import Console

from agents.demo.people import WRONG_MESSAGES, Event, Register, write_table
from agents.demo.workers import Worker, figures, running
from agents.embedded import SHARDS, embedded_servers
from streamer.cli import check, dead_letters, index, produce, status, subscribe, topics, verify
from streamer.cli.options import examples, kafka_option, redis_option
from streamer.compiling import wait_while_coming, warm_in_background
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.reader import Subscription
from streamer.incremental.release.fold import Release
from streamer.table.schema import Table
from streamer.table.yaml_loading import load_table

WORKERS_REAL = 2
MESSAGES_PER_SECOND = "1000"
POLL_SECONDS, SILENCE_SECONDS_MAX = 0.2, 60.0
RECORDS_SHOWN_MAX = 12
WIDTH = "140"  # of a file or a pipe

COUNTS = (
    "A QI group that reaches 2k = 10 rows is split; one that falls below k = 5 takes rows of its neighbours, or merges "
    "with the nearest. The counts are the worker's own, as its /metrics tells them."
)
COLD = "Nothing is compiled on this machine yet: that is done once, now, and takes a minute or two."
LEAK = (
    "Every table here is k-anonymous. Their difference is not: whoever knows that only she changed may read her value "
    "off the records. `live` is for readers who are trusted with its history (docs/explanation/guarantees.md)."
)
EMBEDDED = (
    "Kafka and Redis ran inside this process. That shows the way of the events, the engine and the laws, and nothing "
    "about crashes: this broker keeps nothing, and its transactions do not isolate. `make demo REAL=1` plays the same "
    "on a real Kafka and a real Redis, with two workers."
)
WHERE_NEXT = """\
  README.md                  ten minutes with a table of your own
  examples/patients          a small table to change: streamer check --table examples/patients
  streamer/ARCHITECTURE.md   how it works, and why"""


@click.command(name="demo", epilog=examples("streamer demo", "streamer demo --real"))
@click.option("--real", is_flag=True, help="On the Kafka and Redis named below, with two workers.")
@kafka_option
@redis_option
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), help="Keep the demo's files here: table, logs, changelog."
)
def command(real: bool, kafka: str, redis: str, out: Path | None) -> None:
    """Shows the whole way with invented people: load, changes, one person's way, and the verdict of `verify`.

    Without --real, Kafka and Redis run inside this process and nothing has to be installed. With it, the topics and the
    keys of a table of a fresh name are made there, and left for you to look at.
    """
    if not sys.stdout.isatty():
        os.environ.setdefault("COLUMNS", WIDTH)  # for the commands that are run
    with ExitStack() as stack:
        if out is None:
            made = tempfile.TemporaryDirectory(prefix="streamer-demo-", ignore_cleanup_errors=True)
            out = Path(stack.enter_context(made))
        elif out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: is not empty")
        out.mkdir(parents=True, exist_ok=True)
        play(stage_in(out.resolve(), stack, (kafka, redis) if real else None), stack)


@dataclass(frozen=True)
class Stage:
    """A table of the demo, the servers that it lives on, and what follows it. Its files lie beside table.yaml."""

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


def stage_in(directory: Path, stack: ExitStack, servers: tuple[str, str] | None) -> Stage:
    """Kafka and Redis inside this process; or servers that run, where the table gets a name that nobody has used."""
    name = "survey" if servers is None else f"survey-{secrets.token_hex(4)}"
    path = write_table(directory, name, embedded=servers is None)
    if servers is None:
        embedded = stack.enter_context(embedded_servers(name))
        servers = embedded.kafka, embedded.redis
    return Stage(path, load_table(path), *servers)


def play(stage: Stage, stack: ExitStack) -> None:
    """The scenes. Raises the errors of the commands that are run."""
    is_real = stage.table.name != "survey"
    kafka, redis = ("--kafka", stage.kafka), ("--redis", stage.redis)
    headline("A table of people, and what is published of it")
    stage.run(check.command, "check")
    if is_real:
        headline("Topics on your Kafka")
        stage.run(topics.create, "topics create", *kafka, "--shards", str(SHARDS))
    compiler = warm_in_background(stage.table, niceness=0)
    if compiler is not None:
        click.echo(COLD)
        wait_while_coming(stage.table, compiler)
    for number in range(WORKERS_REAL if is_real else 1):
        stage.workers.append(stack.enter_context(running(number + 1, stage.path, stage.kafka, stage.redis)))
    reader = stack.enter_context(Subscription(stage.table, stage.kafka))

    headline(f"The initial load, as insertions: {SHARDS} shards, {len(stage.workers)} worker(s)")
    click.echo(COUNTS)
    send(stage, reader, "load", stage.register.initial())
    headline("Then the table changes: insertions, deletions, modifications; and three messages that nobody can apply")
    send(stage, reader, "changes", stage.register.mixed(), WRONG_MESSAGES)

    headline("One person's way: what a reader of the changelog sees")
    arrival = stage.register.insert()
    person = arrival["row"]
    rating = "poor" if person["marriage"] != "poor" else "fair"
    follow(stage, reader, "she-comes", arrival)
    follow(stage, reader, "she-thinks-again", stage.register.modify(person["id"], marriage=rating))
    follow(stage, reader, "she-leaves", stage.register.delete(person["id"]))
    click.echo(LEAK)

    headline("Where every shard stands")
    stage.run(status.command, "status", *kafka, *redis)
    stage.run(dead_letters.command, "dead-letters", *kafka)
    headline("Is it true? Another reader takes the whole changelog, and `verify` holds it to the laws")
    stage.register.frame().to_csv(rows := stage.file("rows.csv"), index=False)
    stage.run(index.command, "index", *redis, "--out", stage.file("index.csv"))
    files = ("--live", live := stage.file("live.jsonl"), "--csv", stage.file("table.csv"))
    stage.run(subscribe.command, "subscribe", *kafka, *files, silent=True)
    stage.run(verify.command, "verify", live, "--source", rows, "--index", stage.file("index.csv"))

    headline("What stays" if is_real else "What this was not")
    name = stage.table.name
    click.echo(
        f"The topics {name}.* at {stage.kafka}, and the keys {{{name}:0-3}}:* in Redis." if is_real else EMBEDDED
    )
    headline("Where to go next")
    click.echo(WHERE_NEXT)


def headline(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def send(
    stage: Stage, reader: Subscription, what: str, events: Iterable[Event], wrong: Iterable[bytes] = ()
) -> list[Release]:
    """Sends events, waits until all are published, and says what became of them; the releases that came meanwhile."""
    before = figures(stage.workers)["messages_total"]
    lines = [*map(msgspec.json.encode, events), *wrong]
    Path(stage.file(f"{what}.jsonl")).write_bytes(b"\n".join(lines) + b"\n")
    words = (stage.file(f"{what}.jsonl"), "--kafka", stage.kafka, "--rate", MESSAGES_PER_SECOND)
    stage.run(produce.command, "produce", *words)
    releases: list[Release] = []
    last, moved_at = None, monotonic()
    with Console(stderr=True).status("") as shown:
        while True:
            releases += (came := reader.poll(POLL_SECONDS))
            stage.read.update({release.shard: release.number for release in came})
            found = figures(stage.workers)
            counts = counted(found)
            shown.update(f"{what}  {counts}")
            if found["messages_total"] - before >= len(lines) and sum(stage.read.values()) == found["release"]:
                break
            if counts != last:
                last, moved_at = counts, monotonic()
            elif monotonic() - moved_at > SILENCE_SECONDS_MAX:
                raise ServerUnreachable(f"nothing has moved for {SILENCE_SECONDS_MAX:.0f} s, and there is more to do")
            sleep(POLL_SECONDS)
    click.echo(f"{what}:  {counts}")
    return releases


def counted(found: dict[str, int]) -> str:
    names = {"rows": "rows", "pending": "pending_rows", "QI groups": "qi_groups", "splits": "splits_total"}
    names |= {"merges": "merges_total", "records": "records_published_total"}
    return "  ".join(f"{shown} {found[name]:,}" for shown, name in names.items())


def follow(stage: Stage, reader: Subscription, what: str, event: Event) -> None:
    """Sends one event, and shows the records of the releases that it came to."""
    click.echo()
    records = [record for release in send(stage, reader, what, [event]) for record in release.records]
    for key, value in records[:RECORDS_SHOWN_MAX]:
        click.echo(f"  {key.decode()}  {'(removed)' if value is None else value.decode()}")
    if len(records) > RECORDS_SHOWN_MAX:
        click.echo(f"  and {len(records) - RECORDS_SHOWN_MAX} more")
