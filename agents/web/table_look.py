"""What `streamer status` sees of the whole table, for a page: in a thread, and only while somebody looks on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import monotonic

from streamer.cli.shard_facts import ShardFacts, TableFacts, look
from streamer.cli.shard_verdict import Verdict
from streamer.cli.table_verdict import judge
from streamer.errors import StreamerError
from streamer.table.schema import Table

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How old a look may be before there is another one."""

OLD_SECONDS = 60.0
"""How old a look may be before it tells nothing any more."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All shards of the table, and what is to be said of them; told: Kafka says who holds which."""

    shards: tuple[ShardFacts, ...] = ()
    verdict: Verdict = field(default_factory=Verdict)
    told: bool = True


def seen_in(table: Table, facts: TableFacts) -> Seen:
    """What one look says, judged as `streamer status` does."""
    _, verdict = judge(table, facts, table.limits.dead_letters_share_max)
    return Seen(tuple(facts.shards), verdict, facts.workers.told)


class TableLook:
    """The last look at one table; clock: of the process."""

    def __init__(self, table: Table, kafka: str, redis: str, clock: Callable[[], float] = monotonic) -> None:
        self._seen = Seen()
        self._table, self._kafka, self._redis, self._clock = table, kafka, redis, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="table-look")
        self._under_way: Future[TableFacts] | None = None
        self._began = -LOOK_SECONDS

    @property
    def seen(self) -> Seen:
        """What it said; nothing where that is long ago, because nobody looked on meanwhile."""
        return self._seen if self._clock() - self._began <= OLD_SECONDS else Seen()

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._under_way is not None and not self._under_way.done()

    def close(self) -> None:
        """Looks no more; a look that is under way is let end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> None:
        """Looks, unless that is under way or was done just now; what fails is a problem that is seen."""
        if self.busy or self._clock() - self._began < LOOK_SECONDS:
            return
        self._seen, self._began = self.seen, self._clock()
        self._under_way = self._thread.submit(look, self._table, self._kafka, self._redis)
        try:
            self._seen = seen_in(self._table, await asyncio.wrap_future(self._under_way))
        except StreamerError as error:
            self._seen = replace(self._seen, verdict=Verdict([str(error)]))
        except Exception as error:  # a client's own, whose text may be anything
            log.warning("the table could not be looked at: %s", type(error).__name__)
            self._seen = replace(
                self._seen, verdict=Verdict(warnings=["the whole table could not be looked at just now"])
            )
