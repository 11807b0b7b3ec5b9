"""The call of `commit.lua`: one commit as the keys and arguments of the script.

The script changes seven keys and one sorted set per similarity list. Its values come as ten sections, each the
arguments of one Redis command, then the sorted sets. They are joined into slices, each an argument that holds the
values and one before it that says how long each is: a dozen values per event as an argument each would cost the client
more than all else about a commit. Floats go as their shortest exact text: Redis reads it back to the same double.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from streamer.incremental.groups.kept import STATEMENT_IDS_MAX, SimilarityList
from streamer.incremental.store import codec
from streamer.incremental.store.base import Commit

FENCED, CONFLICT = -1, -2
"""What the script answers where it wrote nothing; 0: this very commit is stored already."""

SLICE = 5_000
"""Values of a slice: an even number, so that a field and its value stay together; the script can take 8,000."""

Name = TypeVar("Name")
Value = TypeVar("Value")
Texts = list[bytes]


def arguments(fence: str, commit_before: int, commit: Commit) -> list[str | int | bytes]:
    """All arguments of the script: the comparisons, meta, the counts, the slices."""
    lists = _sorted_sets(commit)
    sections = [_slices(section) for section in _sections(commit)]
    state = codec.encode_meta(commit.meta)
    head = (fence, commit_before, commit.meta.commit, state, STATEMENT_IDS_MAX, int(commit.replaces))
    counts = [len(slices) // 2 for slices in sections]
    return [*head, *counts, _packed(list(map(len, lists))), *chain(*sections), *_slices(list(chain(*lists)))]


def _slices(values: Texts) -> Texts:
    """Per slice the lengths of its values, and the values, joined."""
    found: Texts = []
    for first in range(0, len(values), SLICE):
        some = values[first : first + SLICE]
        found += (_packed(list(map(len, some))), b"".join(some))
    return found


def _packed(numbers: Sequence[int]) -> bytes:
    """Numbers of four bytes each, the highest first."""
    return struct.pack(f">{len(numbers)}I", *numbers)


def keys(shard_keys: Sequence[str], similarity_key: str, commit: Commit) -> list[str]:
    """The shard's seven keys and those of the changed similarity lists."""
    return [*shard_keys, *(f"{similarity_key}:{qi_group}" for qi_group in commit.similarity)]


def entries(commit: Commit) -> dict[str, int]:
    """How many fields and list entries a commit writes, by kind; of similarity lists the script itself keeps count."""
    return {
        "records": len(commit.records),
        "groups": len(commit.qi_groups),
        "floors": len(commit.similarity),
        "outbox": len(commit.outbox),
        "statements": len(commit.statement_ids),
        "origins": len(commit.origins),
        "meta": 1,
    }


def _sections(commit: Commit) -> list[Texts]:
    """The values of the script's ten sections, each as the arguments of its command."""
    number = commit.meta.commit
    floors = {n: None if similar is None else similar.floor for n, similar in commit.similarity.items()}
    return [
        *_put_and_gone(commit.records, str.encode, codec.encode_record),
        *_put_and_gone(commit.qi_groups, _number, codec.encode_qi_group),
        *_put_and_gone(floors, _number, _float),
        [codec.encode_entry(number, entry) for entry in commit.outbox],
        [statement_id.encode() for statement_id in commit.statement_ids],
        *_put_and_gone(commit.origins, _number, codec.encode_origin),
    ]


def _put_and_gone(
    changes: Mapping[Name, Value | None], field: Callable[[Name], bytes], encode: Callable[[Value], bytes]
) -> tuple[Texts, Texts]:
    """Field and value of what is there afterwards, one after the other; the fields of what is not."""
    put: Texts = []
    gone: Texts = []
    for name, value in changes.items():
        if value is None:
            gone.append(field(name))
        else:
            put += (field(name), encode(value))
    return put, gone


def _sorted_sets(commit: Commit) -> list[Texts]:
    """Per changed similarity list score and member of each neighbour; nothing for a list that is gone."""
    return [[] if similar is None else _scores(codec.in_order(similar)) for similar in commit.similarity.values()]


def _scores(similar: SimilarityList) -> Texts:
    return [part for number, degree in similar.neighbours for part in (_float(degree), _number(number))]


def _number(number: int) -> bytes:
    return b"%d" % number


def _float(value: float) -> bytes:
    return repr(value).encode()
