"""Whether a worker is well: what is wrong with it, in sentences, by what it knows of itself.

The rules of this file
----------------------
* Pure: facts in, sentences out. Every one names the shard or the server, and says for how long.
* What mends itself within seconds is no reason; a shard is allowed its take-over, a snapshot its algorithm.
* A worker that does not answer at all is not well either: its prober has to have a limit of time. One that a refused
  shard ends again and again answers in between, and then says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from agents.web.facts import HeldFacts, ServerFacts, WorkerFacts

SILENCE_SECONDS_MAX = 10.0
"""How long a server may leave us without an answer."""

STILL_SECONDS_MAX = 10.0
"""How long messages may wait while none is applied, and how long one error may follow the other. What a shard computes
for the first of them, as for a statement about every row, comes on top, and its wait for its turn to."""

LONG_SECONDS_MAX = 120.0
"""How long one call may take where no message waits for it, the shard is being taken over, which loads it whole, or it
computes."""

UNJOINED_SECONDS_MAX = 60.0
"""How long Kafka may take to give out the shards: it waits for workers that have died until their sessions end."""

RELEASE_SECONDS_MAX = 600.0
"""How long all rows of a first snapshot may take."""

FAULT_SECONDS = 30.0
"""How long it is told that a message could not be applied."""


def reasons(facts: WorkerFacts) -> list[str]:
    """What is wrong; nothing where the worker is well."""
    return [
        *(sentence for server in facts.servers for sentence in _of_server(server)),
        *_joining(facts),
        *(f"shard {number}: was refused: {reason}" for number, reason in sorted(facts.refused.items())),
        *(sentence for shard in facts.shards for sentence in of_shard(shard)),
    ]


def _of_server(server: ServerFacts) -> Iterator[str]:
    if server.silent_seconds > SILENCE_SECONDS_MAX:
        yield f"{server.name} has not answered for {server.silent_seconds:.0f} s"
    elif server.full:
        yield f"{server.name} is full, so that nothing can be committed: raise its maxmemory"


def _joining(facts: WorkerFacts) -> Iterator[str]:
    if facts.unjoined_seconds > UNJOINED_SECONDS_MAX:
        yield (
            f"Kafka has given this worker no shards for {facts.unjoined_seconds:.0f} s, not even none: a member of its "
            "consumer group does not take part in giving them out; is it a worker?"
        )


def of_shard(shard: HeldFacts) -> list[str]:
    """What is wrong with one shard."""
    return [f"shard {shard.shard}: {sentence}" for sentence in (*_standing(shard), *_fault(shard))]


def _standing(shard: HeldFacts) -> Iterator[str]:
    """Whether it goes on; at most one reason, the one that says most."""
    if shard.lost:
        yield "another worker has taken it over, and Kafka has not given it away yet"
    elif shard.error and shard.error_seconds > STILL_SECONDS_MAX:
        yield f"cannot go on for {shard.error_seconds:.0f} s: {shard.error}"
    elif shard.taken_over and shard.still_seconds > _patience(shard):
        call = f"; its thread is in one call for {shard.busy_seconds:.0f} s" if shard.busy_seconds >= 1 else ""
        yield f"{shard.lag:,} messages wait, and none was applied for {shard.still_seconds:.0f} s{call}"
    elif shard.busy_seconds > max(LONG_SECONDS_MAX, _patience(shard)):
        yield f"its thread is in one call for {shard.busy_seconds:.0f} s"


def _patience(shard: HeldFacts) -> float:
    if shard.releases:
        return RELEASE_SECONDS_MAX
    return min(LONG_SECONDS_MAX, STILL_SECONDS_MAX + shard.computing_seconds)


def _fault(shard: HeldFacts) -> Iterator[str]:
    if shard.fault_seconds is not None and shard.fault_seconds <= FAULT_SECONDS:
        yield (
            f"a message could not be applied {shard.fault_seconds:.0f} s ago, in a way nobody foresaw, and was passed "
            "over: `streamer dead-letters` says which"
        )


def is_ready(facts: WorkerFacts) -> bool:
    """Whether Kafka has given the worker its shards, be it none, and it has taken over each of them."""
    return not waits_for(facts)


def waits_for(facts: WorkerFacts) -> list[str]:
    """Why a worker is not ready; nothing where it is."""
    if not facts.joined:
        return ["Kafka has not given shards to this worker yet"]
    missing = {shard.shard: shard.lost for shard in facts.shards if shard.lost or not shard.taken_over}
    return [
        f"shard {number}: {'another worker has it' if lost else 'is being taken over'}"
        for number, lost in missing.items()
    ]
