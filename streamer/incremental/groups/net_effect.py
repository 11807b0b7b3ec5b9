"""What a batch of changes comes to, as values: rows, QI groups, similarity lists and published groups.

The core has netted the batch, checked every touched QI group and exported the rest as numbers; here they become what a
store keeps and a changelog is written from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias, cast

from streamer.incremental.core.record_types import NONE
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.kept import HOW, How, QIGroupState, SimilarityList
from streamer.incremental.groups.record_columns import RecordColumns
from streamer.incremental.groups.rows import Rows
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.row import Values

Seen: TypeAlias = tuple[int, PublishedGroup | None, PublishedGroup | None]
"""Number of a QI group, and the group as readers see it before and after."""


Changed: TypeAlias = dict[int, QIGroupState | None]
"""QI groups by number; None for one that is gone."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The net effect of all changes since the drain before; None stands for a removal.

    published: (number, before, after) per QI group whose published rows differ, by number. formed: how, of each QI
    group that was formed anew.
    """

    records: RecordColumns = field(repr=False)
    qi_groups: Changed = field(repr=False)
    similarity: dict[int, SimilarityList | None]
    published: list[Seen] = field(repr=False)
    formed: dict[int, How]
    statement_ids: list[str]
    qi_group_next: int
    merges: int
    splits: int


def net_effect(rows: Rows, held: Held, source_keys: Iterable[str], statement_ids: list[str]) -> Drained:
    """What the core has exported; source_keys: of the rows that changes named, those that are gone among them."""
    export = held.arrays.export
    rows_end = 1 + 4 * int(export.numbers[0])
    gone = [source_key for source_key in source_keys if source_key not in rows.place_of]
    records = rows.records(export.numbers[1:rows_end], gone)
    numbers: list[int] = export.numbers[rows_end : held.say("n_numbers")].tolist()
    scores: list[float] = export.scores[: held.say("n_scores")].tolist()
    qi_groups, published, formed, groups_end = _groups(rows, numbers, 0)
    return Drained(
        records=records,
        qi_groups=qi_groups,
        similarity=_similarity(numbers, groups_end, scores),
        published=published,
        formed=formed,
        statement_ids=statement_ids,
        qi_group_next=held.say("qi_group_next"),
        merges=held.say("merges"),
        splits=held.say("splits"),
    )


def _groups(rows: Rows, numbers: list[int], at: int) -> tuple[Changed, list[Seen], dict[int, How], int]:
    """The touched QI groups by number, as they are; those in which readers see a difference; how they were formed.

    And where the numbers end.
    """
    values_of = cast(Callable[[int], Values], rows.values.things.__getitem__)
    key_of = rows.source_keys.__getitem__
    d = rows.d
    qi_groups: Changed = {}
    published: list[Seen] = []
    formed: dict[int, How] = {}
    n, at = numbers[at], at + 1
    for _ in range(n):
        number, seen, n_before, n_now, origin = numbers[at : at + 5]
        at += 5
        before = after = None
        if seen and n_before:
            slots, box_end = at + 2 * d, at + d
            end = slots + n_before
            before = PublishedGroup(
                tuple(numbers[at:box_end]), tuple(numbers[box_end:slots]), tuple(map(values_of, numbers[slots:end]))
            )
            at = end
        if n_now:
            slots, box_end = at + 2 * d, at + d
            members = slots + n_now
            end = members + n_now
            after = PublishedGroup(
                tuple(numbers[at:box_end]), tuple(numbers[box_end:slots]), tuple(map(values_of, numbers[slots:members]))
            )
            qi_groups[number] = QIGroupState(after.lo, after.hi, tuple(map(key_of, numbers[members:end])), after.slots)
            at = end
            if origin:
                formed[number] = HOW[origin - 1]
        elif n_before:
            qi_groups[number] = None
        if seen:
            published.append((number, before, after))
    published.sort(key=itemgetter(0))
    return qi_groups, published, formed, at


def _similarity(numbers: list[int], at: int, scores: list[float]) -> dict[int, SimilarityList | None]:
    """The similarity lists that differ from before the batch; None for those that are gone."""
    effect: dict[int, SimilarityList | None] = {}
    n, at, floor = numbers[at], at + 1, 0
    for _ in range(n):
        number, length = numbers[at], numbers[at + 1]
        at += 2
        if length == NONE:
            effect[number] = None
            continue
        end = floor + 1 + length
        neighbours = tuple(zip(numbers[at : at + length], scores[floor + 1 : end], strict=True))
        effect[number] = SimilarityList(neighbours, scores[floor])
        at, floor = at + length, end
    return effect
