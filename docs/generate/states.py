"""The states of a shard as pictures, drawn from the table of its machine and from that of its tenure at a worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from streamer.incremental.shard.machine import TABLE
from streamer.incremental.shard.ready import Assigned, Failed, Revoked
from streamer.incremental.shard.states import Phase
from streamer.worker import tenure
from streamer.worker.tenure import GivenAway, TenureState

Rows = Iterable[tuple[Enum, type, Sequence[Enum]]]
"""A state, an event, and where it may lead."""


def of_the_machine() -> Rows:
    """Without two events that all states know: `Failed` and `Revoked` lead to Idle."""
    return [(of, event, one.leads) for (of, event), one in TABLE.items() if event not in (Failed, Revoked)]


def of_the_tenure() -> Rows:
    """Without `GivenAway`, which leads from every state to Lost."""
    return [(of, event, one.leads) for (of, event), one in tenure.TABLE.items() if event is not GivenAway]


def mermaid(rows: Rows, first: Enum) -> str:
    """A state diagram in mermaid's words: every arrow names the events that lead along it to another state."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for state, event, leads in rows:
        for to in leads:
            if to is not state:
                arrows.setdefault((_joined(state), _joined(to)), []).append(event.__name__)
    lines = [f"    {state} --> {leads}: {', '.join(events)}" for (state, leads), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {_joined(first)}", *lines])


def _joined(state: Enum) -> str:
    """A state's name as mermaid takes it."""
    name: str = state.value
    return name.replace(" ", "_")


def events_by_state(states: Iterable[Enum], rows: Rows) -> str:
    """A table in markdown: in each state the events that mean something there, and where they may lead."""
    lines = ["| state | event | leads to |", "|---|---|---|"]
    for state in states:
        for of, event, leads in rows:
            if of is state:
                lines.append(f"| {state.value} | {event.__name__} | {', '.join(one.value for one in leads)} |")
    return "\n".join(lines)


def page() -> str:
    """The page of the documentation that shows them."""
    machine, at_worker = of_the_machine(), of_the_tenure()
    # in every other state, too, `Assigned` begins the take-over again
    drawn = [row for row in machine if row[1] is not Assigned or row[0] in (Phase.IDLE, Phase.REFUSED)]
    first, last, retry = tenure.BACKOFF_FIRST_SECONDS, tenure.BACKOFF_LAST_SECONDS, tenure.REFUSED_RETRY_SECONDS
    return f"""# The states of a shard

One shard is one state machine (`streamer/incremental/shard/machine.py`); these are its states and what leads on.

From every state `Revoked` (the shard was given back) and `Failed` (a server did not answer, or another worker has the
shard) lead to Idle, and `Assigned` begins the take-over again. What no repetition changes leads to Refused, and the
message names the remedy.

```mermaid
{mermaid(drawn, Phase.IDLE)}
```

{events_by_state(Phase, machine)}

## A shard at a worker

Around that machine, a worker knows what each of its shards is there (`streamer/worker/tenure.py`), from its assignment
to its loss.

A rebalance takes all shards from all workers, and gives most of them back. A shard that is taken away rests with its
table, and nothing is read; one that is being loaded is loaded on, if the other workers are shut out already. If it
comes back and nobody else had it, it goes on and loads nothing again. If another worker had it meanwhile, it is loaded.
If it goes to another worker, or fails while it rests, it is lost here, and its table is dropped. A shard that waits, or
is refused, does not rest: it begins anew where it is assigned next.

After an error a shard is taken over again. If a server did not answer, that is after {first} s, and twice as long each
time, up to {last:.0f} s. If no retry repairs the error, the shard is taken over once more, and refused if the error
comes again at the same offset. A refused shard is tried again when something has changed, and after {retry:.0f} s or
longer.

From every state `GivenAway` (Kafka assigns the shard to another worker, or this one ends) leads to Lost. Nothing leads
out of Lost: a new assignment begins at Assigned.

```mermaid
{mermaid(at_worker, TenureState.ASSIGNED)}
```

{events_by_state(TenureState, at_worker)}
"""
