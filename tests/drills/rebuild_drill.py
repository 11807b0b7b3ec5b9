"""A table under load that operators rebuild at random moments, its workers, and a judgement when all is quiet again.

The judge is the source itself, which knows its rows without any engine: a table that is rebuilt has other QI groups
than one that is not, so there is no transcript to compare. Every release is held to the laws, by a reader beside the
workers and once more at the end; every message is counted once, every refused one has its one letter; every request has
its answer.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from drills.crew import Crew
from drills.drill import DRAIN_SECONDS_MAX, EXITS_ALLOWED, KILLED, SHARDS, START_SECONDS_MAX, WORKERS
from drills.load import EVENTS_PER_SECOND, SourceLoad
from drills.models import ask_for_model
from drills.source import COLUMNS as SOURCE_COLUMNS
from drills.source import SourceTable
from drills.witness import Witness
from servers.broker.servers import Servers
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.rebuild import how_it_ended
from streamer.incremental.shard.requests import CancelRebuild, FullRebuild
from streamer.incremental.store.base import Progress
from streamer.incremental.topics import CONTROL, DEAD_LETTERS, POSITIONS, topic_name
from worlds.kafka_and_redis import write
from worlds.patients import CANARY
from worlds.workers import WorkedTable

FIRST_ROWS = 1_600
ANSWER_SECONDS_MAX = 240.0
LOOK_SECONDS = 0.1
ENDED = {0, -signal.SIGTERM, KILLED}
"""How workers may have ended: by the signals, where a killed one is not replaced yet, or the next has only begun."""

PATIENCE = 4
"""What is waited for takes longer on a machine that has other work."""

ALGORITHMS = ("", "ordered", "mondrian", "emp")
COLUMNS = "drill events sent/s all/s releases outside rebuilds stopped cancelled refused kills rows"
LINE = "{:34} {:>7} {:>6} {:>6} {:>8} {:>7} {:>8} {:>7} {:>9} {:>7} {:>5} {:>6}"


class RebuildDrill:
    """What is asked of the shards and done to their workers, and what must hold at the end."""

    def __init__(
        self, name: str, servers: Servers, directory: Path, model: str, form: str, events: int = EVENTS_PER_SECOND
    ) -> None:
        self.name, self.served = name, WorkedTable(servers, directory, SHARDS, form)
        ask_for_model(self.served.table, model)
        self.rng = random.Random(name)
        self.source = SourceTable(SHARDS, self.rng.randrange(1_000))
        self.figures = ""
        self._kafka = servers.kafka_bootstrap
        self._crew = Crew(self.served.environment, directory, WORKERS)
        self._load = SourceLoad(self._kafka, self.served.input, self.source, events)
        self._witness = Witness(self.served.table, self._kafka)
        self._asked: list[tuple[int, str]] = []
        self._ends: dict[tuple[int, str], Progress] = {}
        self.kills = 0

    # -- its course -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when the first rows are published; the changes have begun then."""
        self._witness.start()
        self._crew.start()
        self._load.come(FIRST_ROWS)
        self._until("the first rows are there", START_SECONDS_MAX, lambda: min(self._reached()) > FIRST_ROWS // 8)
        self._began = time.monotonic()
        self._load.start()

    def go_on(self, seconds_max: float) -> None:
        """Lets a while of random length pass."""
        time.sleep(self.rng.uniform(0, seconds_max))

    def ask(self, shards: Sequence[int] = tuple(range(SHARDS)), algorithm: str = "") -> None:
        """A rebuild of some shards, as `streamer rebuild` asks for it."""
        id_ = f"{self.rng.getrandbits(64):x}"
        self._send([(shard, FullRebuild(shard, id_, int(time.time()), algorithm)) for shard in shards])

    def ask_at_random(self) -> None:
        """A rebuild of one shard or all, by any of the quicker algorithms; now and then twice at once."""
        shards = self.rng.choice([tuple(range(SHARDS)), (self.rng.randrange(SHARDS),)])
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            self.ask(shards, self.rng.choice(ALGORITHMS))

    def cancel(self) -> None:
        id_ = f"{self.rng.getrandbits(64):x}"
        self._send([(shard, CancelRebuild(shard, id_, int(time.time()))) for shard in range(SHARDS)])

    def talk_nonsense(self) -> None:
        """Records that no one can read, one for another shard, one for a shard that does not exist, one twice."""
        shard, id_, now = self.rng.randrange(SHARDS), f"{self.rng.getrandbits(64):x}", int(time.time())
        astray = [FullRebuild(number, f"{id_}-{number}", now) for number in ((shard + 1) % SHARDS, SHARDS + 5)]
        twice = FullRebuild(shard, id_, now)
        unreadable = [b"nonsense", b'{"command":"rebuild","shard":0}', b"", CANARY.encode()]
        write(self._kafka, topic_name(self.served.name, CONTROL), [(shard, None, value) for value in unreadable])
        self._send([(shard, request) for request in (*astray, twice, twice)])

    def until_all_are_answered(self) -> None:
        """Until every request has ended, well or not, in every shard."""
        self._until("every request has its answer", ANSWER_SECONDS_MAX, lambda: not self._waiting())

    def kill_worker(self) -> None:
        self.kills += 1
        self._crew.kill_one(self.rng)

    def finish(self) -> None:
        """Has all shards rebuilt once more, in quiet, waits until all is done, and judges.

        On a busy machine a region has changed so much when its new QI groups come that it gains nothing by them, and
        stays as it is: without that last rebuild nothing might have been replaced.
        """
        sent = self._load.stop()
        sending = time.monotonic() - self._began
        wanted = self.source.messages
        assert sent == sum(wanted)
        self._until("all is published", DRAIN_SECONDS_MAX, lambda: self._reached() == wanted)
        seconds = time.monotonic() - self._began
        self.ask()
        self.until_all_are_answered()
        codes = self._crew.stop()
        assert set(codes) <= ENDED, f"{codes}: {self._crew.last_words()}"
        verified = self.served.verify(self.source.rows.values(), SOURCE_COLUMNS)
        assert verified["rows"] == len(self.source.rows)
        self._witness.stop(verified["releases"])
        assert self._witness.outside, "no region was replaced: nothing is said about rebuilds"
        for shard in range(SHARDS):
            self._judge_shard(shard)
        assert CANARY not in self._crew.log()
        self._sum_up(sent, sending, seconds, verified["rows"])

    def abandon(self) -> None:
        """Leaves nothing running, whatever has happened."""
        self._crew.abandon()
        self._load.abandon()
        self._witness.abandon()

    # -- the judgement ----------------------------------------------------------------------------------------------

    def _judge_shard(self, shard: int) -> None:
        """Nothing was applied, published or answered twice, or not at all."""
        positions = [Position.from_json(one.value()) for one in self.served.read(POSITIONS, shard)]
        assert all(a.commit < b.commit and a.next <= b.next for a, b in pairwise(positions))
        store, meta = self.served.store(shard), self.served.meta(shard)
        assert (meta.commit, meta.digest) == (positions[-1].commit, positions[-1].digest)
        assert list(store.outbox()) == []
        assert (meta.counts.messages, meta.next) == (self.source.messages[shard],) * 2
        letters = [one.key() for one in self.served.read(DEAD_LETTERS, shard)]
        assert len(set(letters)) == len(letters) == self.source.letters[shard]
        assert meta.rebuild is None

    def _sum_up(self, sent: int, sending: float, seconds: float, rows: int) -> None:
        ends = Counter(one.state for one in self._ends.values())
        witness = self._witness
        rates = f"{(sent - FIRST_ROWS) / sending:.0f}", f"{(sent - FIRST_ROWS) / seconds:.0f}"
        states = [ends[state] for state in ("done", "stopped", "cancelled", "refused")]
        self.figures = LINE.format(
            self.name, sent, *rates, witness.releases, witness.outside, *states, self.kills, rows
        )  # fmt: skip

    # -- looking ----------------------------------------------------------------------------------------------------

    def _send(self, requests: Sequence[tuple[int, FullRebuild | CancelRebuild]]) -> None:
        records = [(shard, b"rebuild", request.to_json()) for shard, request in requests]
        write(self._kafka, topic_name(self.served.name, CONTROL), records)
        self._asked += dict.fromkeys((shard, request.id) for shard, request in requests)

    def _waiting(self) -> list[tuple[int, str]]:
        metas = self.served.metas()
        for shard, id_ in self._asked:
            ended = how_it_ended(metas[shard], id_)
            if ended is not None:
                self._ends[shard, id_] = ended
        return [asked for asked in self._asked if asked not in self._ends]

    def _until(self, what: str, seconds_max: float, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE * seconds_max
        while not holds():
            assert set(self._crew.exits) <= EXITS_ALLOWED, f"{dict(self._crew.exits)}: {self._crew.last_words()}"
            far = f"{self._reached()} of {self.source.messages}, unanswered: {self._waiting()}"
            assert time.monotonic() < deadline, f"not until {what}: {far}; {self._crew.last_words()}"
            time.sleep(LOOK_SECONDS)

    def _reached(self) -> list[int]:
        return [meta.next for meta in self.served.metas()]
