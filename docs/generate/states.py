"""The states of a shard as a picture, drawn from the table of its machine."""

from __future__ import annotations

from streamer.incremental.shard.machine import TABLE
from streamer.incremental.shard.ready import Failed, Revoked
from streamer.incremental.shard.states import Phase


def mermaid() -> str:
    """A state diagram in mermaid's words: every arrow names the events that lead along it.

    Two arrows are left out because all states have them: `Failed` and `Revoked` lead to Idle, and what no repetition
    changes leads to Refused.
    """
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, event), transition in TABLE.items():
        if event in (Failed, Revoked) or (event.__name__ == "Assigned" and state not in (Phase.IDLE, Phase.REFUSED)):
            continue
        for leads in transition.leads:
            if leads is not state:
                arrows.setdefault((state.value, leads.value), []).append(event.__name__)
    lines = [f"    {state} --> {leads}: {', '.join(events)}" for (state, leads), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> Idle", *lines])


def events_by_state() -> str:
    """A table in markdown: in each state the events that mean something there, and where they may lead."""
    lines = ["| state | event | leads to |", "|---|---|---|"]
    for state in Phase:
        for (of, event), transition in TABLE.items():
            if of is state and event not in (Failed, Revoked):
                leads = ", ".join(one.value for one in transition.leads)
                lines.append(f"| {state.value} | {event.__name__} | {leads} |")
    return "\n".join(lines)


def page() -> str:
    """The page of the documentation that shows both."""
    return f"""# The states of a shard

One shard is one state machine (`streamer/incremental/shard/machine.py`); these are its states and what leads on.

From every state `Revoked` (the shard was given back) and `Failed` (a server did not answer, or another worker has the
shard) lead to Idle, and `Assigned` begins the take-over again. What no repetition changes leads to Refused, and the
message names the remedy.

```mermaid
{mermaid()}
```

{events_by_state()}
"""
