"""The one loop that writes: a commit is stored, then published, then trimmed from the outbox.

`perform` does what one `Ready` of a shard's machine asks of store and outlet, in this order and in no other. Worker,
replay, `load`, `reload` and the simulator all write by it.

1. Ask whether the topics are still those that the messages were read from; else nothing is stored (`Conflict`).
2. **Persist**: one atomic call to the store. It compares the fence and the number of the commit before, then writes
   rows, QI groups, the outbox (the records to be published) and `meta` with the new `next`.
3. **Publish**: one transaction with the records of the outbox and the shard's position, which names the commit.
4. **Trim** the outbox, by the commit's number: a call that arrives late cannot remove a later commit's records.
5. Only then the caller reads on. So the store is one commit ahead of the output at most.

What a crash, or a lost answer, leaves behind, and what the next take-over makes of it:

| dies | store | output | next take-over |
|---|---|---|---|
| before 2 | commit n | commit n | reads on from the `next` of n; the batch comes again |
| in 2, answer lost | n or n + 1 | n | whichever it finds: the call is whole or not at all |
| between 2 and 3 | n + 1, its records in the outbox | n | publishes the outbox with the position of n + 1 |
| in 3, answer lost | n + 1 | n or n + 1 | fencing ends the transaction, the position says which |
| between 3 and 4 | n + 1, outbox not trimmed | n + 1 | trims; publishes nothing again |
| after 4 | n + 1 | n + 1 | reads on from the `next` of n + 1 |

A store that lost commits after they were published is behind its output: the input is read again from the stored
`next`, committing without 3, until the published digest is met (`Machine`, state Replaying).
"""

from __future__ import annotations

from time import perf_counter

from streamer.incremental.shard.input import ShardInput
from streamer.incremental.shard.outlet import Outlet
from streamer.incremental.shard.ready import Performed, Ready, Unwritable
from streamer.incremental.shard.steps import UNWRITABLE, Unforeseen, unforeseen
from streamer.incremental.store.base import Store


def perform(ready: Ready, store: Store, outlet: Outlet, shard_input: ShardInput) -> Performed | Unwritable:
    """Carries out steps 1 to 4 as far as they are asked for.

    Raises Fenced, Conflict, ServerUnreachable, ShardRefused: nobody knows how far it came, and the shard has to be
    taken over again.
    """
    began = perf_counter()
    if ready.commit is not None:
        shard_input.check()  # 1
        try:
            with unforeseen(faults=UNWRITABLE):
                store.commit(ready.fence, ready.before, ready.commit)  # 2
        except Unforeseen as fault:
            return Unwritable(fault.what)
    committed = perf_counter()
    if ready.publish is not None:
        outlet.publish(ready.publish.records(), ready.publish.position)  # 3
    if ready.trim is not None:
        store.trim(ready.fence, ready.trim)  # 4
    return Performed(committed - began, perf_counter() - committed)
