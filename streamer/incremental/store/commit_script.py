"""The call of `commit.lua`: one commit as the keys and arguments of the script.

The script changes six keys and one sorted set per similarity list. Its values come as eight sections, each the
arguments of one Redis command, then the sorted sets; the counts in front say where each begins. Floats go as their
shortest exact text: Redis reads it back to the same double.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from streamer.incremental.groups.kept import STATEMENT_IDS_MAX, SimilarityList
from streamer.incremental.store import codec
from streamer.incremental.store.base import Commit

FENCED, CONFLICT = -1, -2
"""What the script answers where it wrote nothing; 0: this very commit is stored already."""

Value = TypeVar("Value")
Arguments = list[Any]


def arguments(fence: str, commit_before: int, commit: Commit) -> Arguments:
    """All arguments of the script: the comparisons, meta, the counts, the values."""
    sections, lists = _sections(commit), _sorted_sets(commit)
    head = (fence, commit_before, commit.meta.commit, codec.encode_meta(commit.meta), STATEMENT_IDS_MAX)
    return [*head, *map(len, sections), *map(len, lists), *chain(*sections, *lists)]


def keys(shard_keys: Sequence[str], similarity_key: str, commit: Commit) -> list[str]:
    """The shard's six keys and those of the changed similarity lists."""
    return [*shard_keys, *(f"{similarity_key}:{qi_group}" for qi_group in commit.similarity)]


def entries(commit: Commit) -> dict[str, int]:
    """How many fields and list entries a commit writes, by kind; of similarity lists the script itself keeps count."""
    return {
        "records": len(commit.records),
        "groups": len(commit.qi_groups),
        "floors": len(commit.similarity),
        "outbox": len(commit.outbox),
        "statements": len(commit.statement_ids),
        "meta": 1,
    }


def _sections(commit: Commit) -> list[Arguments]:
    """The values of the script's eight sections, each as the arguments of its command."""
    number = commit.meta.commit
    floors = {n: None if similar is None else similar.floor for n, similar in commit.similarity.items()}
    return [
        *_put_and_gone(commit.records, codec.encode_record),
        *_put_and_gone(commit.qi_groups, codec.encode_qi_group),
        *_put_and_gone(floors, repr),
        [codec.encode_entry(number, entry) for entry in commit.outbox],
        list(commit.statement_ids),
    ]


def _put_and_gone(
    changes: Mapping[Any, Value | None], encode: Callable[[Value], bytes | str]
) -> tuple[Arguments, Arguments]:
    """Field and value of what is there afterwards, one after the other; the fields of what is not."""
    put: Arguments = []
    for name, value in changes.items():
        if value is not None:
            put += (name, encode(value))
    return put, [name for name, value in changes.items() if value is None]


def _sorted_sets(commit: Commit) -> list[Arguments]:
    """Per changed similarity list score and member of each neighbour; nothing for a list that is gone."""
    return [[] if similar is None else _scores(codec.in_order(similar)) for similar in commit.similarity.values()]


def _scores(similar: SimilarityList) -> Arguments:
    return [part for number, degree in similar.neighbours for part in (repr(degree), number)]
