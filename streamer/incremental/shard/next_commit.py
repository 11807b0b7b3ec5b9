"""The commit after the last one: what a batch came to, with the records that tell readers of it."""

from __future__ import annotations

from dataclasses import replace

from streamer.incremental.groups.kept import Origin
from streamer.incremental.groups.net_effect import Drained
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import DIGEST_MASK
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.holding_back import held_after
from streamer.incremental.shard.steps import Tally
from streamer.incremental.store.base import Commit, Meta


def next_commit(meta: Meta, drained: Drained, tally: Tally, changelog: Changelog) -> Commit:
    """The commit that follows `meta`; its outbox has the records by QI group, then the dead letters."""
    outbox: list[Entry] = []
    digest = meta.digest
    for number, before, after in drained.published:
        records, change = changelog.diff(number, before, after)
        outbox += records
        digest += change
    following = replace(
        meta,
        commit=meta.commit + 1,
        next=tally.next,
        release=meta.release + bool(outbox),
        qi_group_next=drained.qi_group_next,
        digest=digest & DIGEST_MASK,
        counts=meta.counts + tally.counts,
        key_form=tally.key_form,
        skipped=(*meta.skipped, *tally.skipped),
        retried=(*meta.retried, *tally.retried),
        snapshot=held_after(meta.snapshot, tally.marks),
        truncated=tally.truncated,
        log_seen=tally.log_seen,
    )
    outbox += tally.letters
    statement_ids = tuple(drained.statement_ids)
    return Commit(
        following,
        drained.records,
        drained.qi_groups,
        drained.similarity,
        statement_ids,
        outbox,
        origins=origins_of(drained, following.commit),
    )


def origins_of(drained: Drained, commit: int) -> dict[int, Origin | None]:
    """What is new of how QI groups came to be; None of those that are gone."""
    gone = [number for number, state in drained.qi_groups.items() if state is None]
    return {**{number: Origin(how, commit) for number, how in drained.formed.items()}, **dict.fromkeys(gone)}
