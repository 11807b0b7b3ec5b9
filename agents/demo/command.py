"""`streamer demo`: the order of events.

Nothing is staged: messages go out by the code of `streamer produce`, a `streamer worker` process takes them in, the
changelog is read by `streamer.incremental.reader`. The commands whose lines are shown are run, in this process. The
end is the verdict of `streamer verify`: over every published release the laws of the changelog, and over the last one
those that need the source table too. Exit code 1 where one does not hold. Embedded or real, the same messages give the
same counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import click
import msgspec

from agents.demo.beside import EnginesBeside
from agents.demo.reader import Look, Reader, Shards, touched_by
from agents.demo.screen import Screen, Show
from agents.demo.stage import Stage, embedded_stage, real_stage
from agents.demo.survey import ARRIVALS, PEOPLE_INITIAL, Event, Register, people, wrong_messages
from agents.embedded import SHARDS
from streamer.cli import check, dead_letters, status, subscribe, topics, verify
from streamer.cli.background import is_coming, warm_in_background
from streamer.cli.options import examples, kafka_option, redis_option
from streamer.cli.routing import Router, RowMessage
from streamer.cli.sender import Sender
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.release.fold import Release
from streamer.incremental.topics import CHANGES, topic_name

MESSAGES_PER_SECOND = 1_000  # slow enough to be looked at
BURST_MESSAGES = 100
POLL_SECONDS = 0.1
SILENCE_SECONDS_MAX = 60.0
ROWS_SHOWN_MAX = 24

COUNTS_NOTE = (
    "A QI group that reaches 2k = 10 rows is split; one that falls below k = 5 is merged with its nearest. Splits and "
    "merges are those of an engine in this process that takes the same messages; its table and the worker's must agree."
)
COLD_NOTE = (
    "Nothing is compiled on this machine yet. That is done once, now, beside this. Until it is done the worker is "
    "slower; splits and merges are counted, and the tables compared, when it is done."
)
LEAK_NOTE = (
    "Every table here is k-anonymous. Their difference is not: whoever knows that only she changed reads her value off "
    "the line marked +. `live` is for readers who are trusted with its history (docs/explanation/guarantees.md)."
)
EMBEDDED_NOTE = (
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
    """Shows the whole way with real people's data: load, changes, a change to follow, and the verdict of `verify`.

    Without --real, Kafka and Redis run inside this process and nothing has to be installed. With it, the topics and the
    keys of a table of a fresh name are made there, and left for you to look at.
    """
    with ExitStack() as stack:
        if out is None:
            out = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="streamer-demo-", ignore_cleanup_errors=True))
            )
        elif out.exists() and any(out.iterdir()):
            raise UsageError(f"--out {out}: is not empty")
        out.mkdir(parents=True, exist_ok=True)
        stage = real_stage(out.resolve(), kafka, redis) if real else embedded_stage(out.resolve(), stack)
        compiler = warm_in_background(stage.table, niceness=0)  # all wait for it
        Demo(stage, stack, lambda: is_coming(stage.table, compiler)).play()


class Demo:
    """One run."""

    def __init__(self, stage: Stage, stack: ExitStack, compiling: Callable[[], bool]) -> None:
        self._stage = stage
        self._stack = stack
        self._screen = Screen()
        self._register = Register(people())
        self._router = Router(stage.table)
        self._beside = EnginesBeside(stage.table, SHARDS, compiling)

    def play(self) -> None:
        self._introduce()
        self._open()
        self._load()
        self._change()
        self._follow()
        self._account()
        self._judge()
        self._close()

    # -- the scenes -----------------------------------------------------------------------------------------------

    def _introduce(self) -> None:
        self._screen.headline("A table of people, and what is published of it")
        self._screen.say(
            "6,366 women told a magazine in 1974 how they rate their marriage (statsmodels' data set `fair`)."
        )
        self._run(check.command, "check", [])

    def _open(self) -> None:
        stage = self._stage
        if stage.real:
            self._screen.headline("Topics on your Kafka")
            self._run(topics.create, "topics create", ["--kafka", stage.kafka, "--shards", str(SHARDS)])
        stage.start_workers(self._stack)
        self._sender = Sender(stage.kafka, topic_name(stage.table.name, CHANGES), None, self._stack)
        self._reader = Reader(stage.table, stage.kafka, self._stack)
        self._shards = Shards(stage.table, stage.redis, SHARDS)

    def _load(self) -> None:
        count = len(self._stage.workers)
        self._screen.headline(f"The initial load, as insertions: {SHARDS} shards, {count} worker{'s' * (count > 1)}")
        self._screen.say(COUNTS_NOTE)
        self._screen.say(f"As long as this lasts, a worker shows itself at {self._page()}")
        if self._beside.waits:
            self._screen.say(COLD_NOTE)
        self._send_all("load", self._register.initial(), PEOPLE_INITIAL)

    def _change(self) -> None:
        self._screen.headline("Then the table changes: insertions, deletions, modifications")
        self._send_all("changes", self._register.mixed(), 2 * ARRIVALS)
        self._screen.say("Three messages that nobody can apply: each becomes a dead letter, and nothing stops.")
        for message in wrong_messages():
            self._send(message)
        self._sender.flush()
        with self._screen.progress("all", self._sender.sent.messages) as show:
            self._await_all(show, compared=True)

    def _follow(self) -> None:
        self._screen.headline("One person's way: what a reader of the changelog sees")
        arrival = self._register.insert()
        person = arrival["row"]
        told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in person.items() if name != "id")
        self._follow_one(f"She comes: {told}", arrival)
        rating = "poor" if person["marriage"] != "poor" else "fair"
        self._follow_one(f"She thinks again: marriage {rating}", self._register.modify(person["id"], marriage=rating))
        self._follow_one("She leaves", self._register.delete(person["id"]))
        self._screen.say(LEAK_NOTE)

    def _account(self) -> None:
        stage = self._stage
        self._screen.headline("Where every shard stands")
        self._run(status.command, "status", ["--kafka", stage.kafka, "--redis", stage.redis])
        self._run(dead_letters.command, "dead-letters", ["--kafka", stage.kafka])

    def _judge(self) -> None:
        stage, where = self._stage, self._stage.directory
        self._screen.headline("Is it true? Another reader takes the whole changelog, and `verify` holds it to the laws")
        self._register.frame().to_csv(where / "rows.csv", index=False)
        self._shards.write_index(where / "index.csv")
        live, table = str(where / "live.jsonl"), str(where / "table.csv")
        self._run(subscribe.command, "subscribe", ["--kafka", stage.kafka, "--live", live, "--csv", table], silent=True)
        source = ["--source", str(where / "rows.csv"), "--index", str(where / "index.csv")]
        self._run(verify.command, "verify", [live, *source])

    def _close(self) -> None:
        stage, screen = self._stage, self._screen
        if stage.real:
            screen.headline("What stays")
            screen.say(
                f"The topics {stage.table.name}.* at {stage.kafka}, and the keys {{{stage.table.name}:0-3}}:* in Redis."
            )
        else:
            screen.headline("What this was not")
            screen.say(EMBEDDED_NOTE)
        screen.headline("Where to go next")
        screen.say(WHERE_NEXT)

    # -- what they are made of ------------------------------------------------------------------------------------

    def _run(self, command: click.Command, name: str, words: list[str], silent: bool = False) -> None:
        """Runs a command of `streamer` and shows it; `silent`: without what it prints."""
        words = ["--table", self._stage.table_path, *words]
        self._screen.command(" ".join([name, *words]).replace(str(self._stage.directory), "DIR"))
        with redirect_stdout(StringIO()) if silent else nullcontext():
            command.main(words, prog_name=f"streamer {name}", standalone_mode=False)

    def _page(self) -> str:
        """Where the first worker shows itself, as soon as it listens."""
        began, (worker, *_) = monotonic(), self._stage.workers
        while not worker.url:
            self._stage.check_workers()
            if monotonic() - began > SILENCE_SECONDS_MAX:
                raise ServerUnreachable(f"the worker has not begun to listen in {SILENCE_SECONDS_MAX:.0f} s")
            sleep(POLL_SECONDS)
        return worker.url

    def _send(self, value: bytes) -> None:
        for message in self._router.route(None, value):
            self._sender.send(message)
            if isinstance(message, RowMessage):
                self._beside.apply(message)

    def _send_all(self, what: str, events: Iterable[Event], total: int) -> None:
        """Sends events in bursts and shows what becomes of them, until all are published."""
        before = self._sender.sent.messages
        encode = msgspec.json.Encoder().encode
        began = monotonic()
        with self._screen.progress(what, total) as show:
            for number, event in enumerate(events, start=1):
                self._send(encode(event))
                if number % BURST_MESSAGES == 0:
                    self._sender.flush()
                    self._look(show, before)
                    sleep(max(0.0, began + number / MESSAGES_PER_SECOND - monotonic()))
            self._sender.flush()
            self._await_all(show, before)

    def _await_all(self, show: Show, before: int = 0, compared: bool = False) -> list[Release]:
        """Reads until everything that was sent is published and read; returns the releases that came meanwhile.

        compared: waits for the comparison with the engines in this process, too, where these wait for the compiler.
        """
        moved_at, last, releases = monotonic(), None, []
        while True:
            looked, came = self._look(show, before)
            releases += came
            all_processed = looked.processed == self._sender.sent.messages and not looked.outbox
            if all_processed and looked.releases == self._reader.last_release and not (compared and self._beside.waits):
                if not self._beside.waits:
                    self._beside.check(looked.digests)
                return releases
            if looked != last or came or self._beside.waits:
                moved_at, last = monotonic(), looked
            elif monotonic() - moved_at > SILENCE_SECONDS_MAX:
                raise ServerUnreachable(f"nothing has moved for {SILENCE_SECONDS_MAX:.0f} s, and there is more to do")

    def _look(self, show: Show, before: int) -> tuple[Look, list[Release]]:
        """One look at Redis and at the changelog, and a line about both."""
        self._stage.check_workers()
        looked, came, reader = self._shards.look(), self._reader.poll(POLL_SECONDS), self._reader
        self._beside.learn(self._shards.secrets(self._beside.unknown))
        splits, merges = f"splits {self._beside.splits:,}", f"merges {self._beside.merges:,}"
        show(
            looked.processed - before,
            f"rows {looked.rows:,}  pending {looked.pending:,}  QI groups {len(reader.qi_groups):,}  "
            f"{'(compiling)' if self._beside.waits else f'{splits}  {merges}'}  {reader.records:,} records in "
            f"{reader.releases:,} releases",
        )
        return looked, came

    def _follow_one(self, what: str, event: Event) -> None:
        """Sends one event and shows the published rows that it changed, before and after."""
        before: dict[str, Any] = self._reader.rows_of(set(self._reader.qi_groups))
        self._send(msgspec.json.encode(event))
        self._sender.flush()
        touched = touched_by(self._await_all(lambda done, counts: None))
        self._screen.say(what)
        was = {name: before.get(name, {}) for name in touched}
        self._screen.change(self._stage.table, was, self._reader.rows_of(touched), ROWS_SHOWN_MAX)
