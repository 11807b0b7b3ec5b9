"""The only place that writes: a commit is stored, then published, then trimmed from the outbox.

A commit is the effect of some messages on one shard. The **store** (Redis) holds the shard's rows and QI groups, `meta`
and the **outbox**: records that are stored with a commit and still have to be published. `meta` holds the number of the
commit and `next`, the first offset of the input that is not applied. The **output** (Kafka) holds the published records
and the shard's **position**: the last published commit. A **fence** in each of the two lets only the newest owner of
the shard write.

`perform` carries out what one `Ready` of the shard's machine asks for, in this order and in no other:

1. **Check** that the topics are still those that the messages were read from; else nothing is stored (`Conflict`).
2. **Store** the commit in one atomic call. The call compares the fence and the last commit's number, then writes rows,
   QI groups, outbox and `meta`.
3. **Publish** the records of the outbox and the position in one transaction.
4. **Trim** the outbox by the commit's number, so that a call that arrives late removes nothing of a later commit. A
   worker does not wait for its answer, and trims a busy shard once for several commits.

Before a shard's first commit its **secret** goes into the control topic, alone (`Ready.keep`). A take-over that does
not find it there writes it again.

The caller has the next messages applied only after step 3. So the store is never more than one commit ahead of the
output.

Suppose commit n is stored and published, and commit n + 1 is under way. If the worker dies, or an answer is lost, the
next owner first shuts out the old one, in the store and in the output, and then finds:

| died | in the store | in the output | what the next owner does |
|---|---|---|---|
| before 2 | n | n | reads the messages again from `next` and applies them |
| in 2 | n or n + 1, never a part | n | the same as before 2, or as between 2 and 3 |
| between 2 and 3 | n + 1, its records in the outbox | n | publishes the outbox and the position, reads on |
| in 3 | n + 1, its records in the outbox | n or n + 1 | the position says which: publishes, or only trims |
| between 3 and 4 | n + 1, its records in the outbox | n + 1 | trims the outbox, publishes nothing again |
| after 4 | n + 1 | n + 1 | reads on |

The last but one finds less in the outbox than the commit left there, if the output has lost position n + 1 by then: the
whole table is published again (`shard.preflight`).

So each message is applied once, and each record is published once. A worker that was only slow is shut out: its next
call raises `Fenced`.

A store can also lose commits that are published, by a failover or a restored copy. Then the next owner reads the input
again from the stored `next` and does step 2 without step 3, until the rebuilt table is the published one (the machine's
state Replaying).
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from streamer.incremental.shard.input import ShardInput
from streamer.incremental.shard.outlet import Outlet
from streamer.incremental.shard.ready import Performed, Ready, Unwritable
from streamer.incremental.shard.steps import UNWRITABLE, Unforeseen, unforeseen
from streamer.incremental.store.base import Store


def perform(ready: Ready, store: Store, outlet: Outlet, shard_input: ShardInput) -> Performed | Unwritable:
    """Carries out steps 1 to 4 as far as they are asked for; `Unwritable`: a value cannot be stored, and nothing was.

    Raises Fenced, Conflict, ServerUnreachable, ShardRefused. The caller cannot know which steps were done: it has to
    take the shard over again.
    """
    began = perf_counter()
    if ready.keep is not None:
        outlet.keep_secret(ready.keep.secret)
    if ready.commit is not None:
        meta = replace(ready.commit.meta, entries=len(ready.commit.outbox))
        shard_input.check(meta)  # 1
        try:
            with unforeseen(faults=UNWRITABLE):
                store.commit(ready.fence, ready.before, replace(ready.commit, meta=meta))  # 2
        except Unforeseen as fault:
            return Unwritable(fault.what)
    committed = perf_counter()
    if ready.publish is not None:
        outlet.publish(ready.publish.records(), ready.publish.position)  # 3
    if ready.trim is not None:
        store.trim(ready.fence, ready.trim)  # 4
    return Performed(committed - began, perf_counter() - committed)
