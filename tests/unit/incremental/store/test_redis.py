"""One commit as the keys and arguments of the script: every count in front is that of the values behind it."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.engine.stored_state import STATEMENT_IDS_MAX, Origin, QIGroupState, Record, SimilarityList
from streamer.incremental.events.source_positions import SourcePosition
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import SealedChanges, SealedMark, SealedPlace, StoredCohort
from streamer.incremental.store import codec, redis
from streamer.incremental.store.base import Commit, Meta
from streamer.table.row import Row

ANN, GROUP = Record(Row((3,), (b'"flu"',)), 1), QIGroupState((0,), (4,), ("ann",), ((b'"flu"',),))
LISTED = SimilarityList(((9, 0.5), (4, 1 / 3)), 8)
LETTER = OutboxEntry("dead-letters", b"k", b"{}")
MARK, COHORT = SealedMark(2, 120, 5, 9, b"digest"), StoredCohort(bytes(16), 5, 4, touched=True)
CHANGED_AT = SourcePosition("postgresql people clinic lsn", (310,))

FULL = Commit(
    Meta(commit=8, sealed=MARK),
    records={"ann": ANN, "bob": None},
    qi_groups={1: GROUP, 2: None},
    similarity={1: LISTED, 2: None},
    statement_ids=["s-1", "s-2"],
    outbox=[LETTER],
    origins={1: Origin("split", 8), 2: None},
    sealed=SealedChanges(MARK, {"ann": SealedPlace(3), "bob": None}, {3: COHORT, 4: None}),
    last_changes={-5: (2, CHANGED_AT), 6: None},
)

HEAD, SECTIONS = 6, 16


def numbers(packed: object) -> list[int]:
    assert isinstance(packed, bytes)
    return [int.from_bytes(packed[i : i + 4], "big") for i in range(0, len(packed), 4)]


def slices_of(arguments: list[str | int | bytes]) -> list[list[bytes]]:
    """The values of every slice, cut by their lengths; nothing may be left over."""
    cut = []
    for lengths, values in zip(arguments[::2], arguments[1::2], strict=True):
        assert isinstance(values, bytes)
        ends = list(accumulate(numbers(lengths), initial=0))
        assert ends[-1] == len(values)
        cut.append([values[start:end] for start, end in pairwise(ends)])
    return cut


def sections_of(arguments: list[str | int | bytes]) -> list[list[bytes]]:
    """The values of the sixteen sections."""
    counts, slices = arguments[HEAD : HEAD + SECTIONS], slices_of(arguments[HEAD + SECTIONS :])
    sections = []
    for count in counts:
        assert isinstance(count, int)
        sections.append([value for some in slices[:count] for value in some])
        del slices[:count]
    assert not slices
    return sections


def test_the_comparisons_stand_first() -> None:
    head = redis.arguments("3-token", 7, FULL)[:HEAD]
    assert head == ["3-token", 7, 8, codec.encode_meta(FULL.meta), STATEMENT_IDS_MAX, 0]
    assert redis.arguments("3-token", 7, replace(FULL, replaces=True))[HEAD - 1] == 1
    unsealed = replace(FULL, meta=Meta(commit=8), sealed=None, replaces=True)
    assert redis.arguments("3-token", 7, unsealed)[HEAD - 1] == 2


def test_every_section_holds_the_arguments_of_its_command() -> None:
    assert sections_of(redis.arguments("3-token", 7, FULL)) == [
        [b"ann", codec.encode_record(ANN)],
        [b"bob"],
        [b"1", codec.encode_qi_group(GROUP)],
        [b"2"],
        [b"1", codec.encode_similarity(LISTED)],
        [b"2"],
        codec.encode_outbox(8, [LETTER]),
        [b"s-1", b"s-2"],
        [b"1", codec.encode_origin(Origin("split", 8))],
        [b"2"],
        [b"ann", codec.encode_place(SealedPlace(3))],
        [b"bob"],
        [b"3", codec.encode_cohort(COHORT)],
        [b"4"],
        [b"-5", codec.encode_remembered((2, CHANGED_AT))],
        [b"6"],
    ]


def test_an_empty_commit_is_a_head_and_as_many_empty_sections() -> None:
    assert redis.arguments("3-token", 7, Commit(Meta(8)))[HEAD:] == [0] * SECTIONS


def test_a_slice_is_no_longer_than_the_script_can_take_and_parts_no_field_from_its_value() -> None:
    records = {f"person {i}": ANN for i in range(6_001)}
    arguments = redis.arguments("3-token", 7, Commit(Meta(8), records=records))
    slices = slices_of(arguments[HEAD + SECTIONS :])
    assert [len(some) for some in slices] == [5_000, 5_000, 2_002]
    assert all(some[0].startswith(b"person") for some in slices)


def test_what_a_commit_writes_is_counted_by_kind() -> None:
    assert redis.entries(FULL) == {
        "records": 2, "groups": 2, "similarity": 2, "outbox": 1, "statements": 2, "origins": 2, "sealed": 2,
        "cohorts": 2, "changed": 2, "meta": 1,
    }  # fmt: skip


@given(
    st.dictionaries(st.text("ab", max_size=3), st.none() | st.just(ANN), max_size=4),
    st.dictionaries(st.integers(1, 50), st.none() | st.just(LISTED), max_size=4),
    st.lists(st.just(LETTER), max_size=3),
)
def test_the_counts_cut_the_values_wherever_they_stand(
    records: dict[str, Record | None], similarity: dict[int, SimilarityList | None], outbox: list[OutboxEntry]
) -> None:
    commit = Commit(Meta(8), records=records, similarity=similarity, outbox=outbox)
    cut = sections_of(redis.arguments("f", 7, commit))
    assert len(cut[0]) == 2 * sum(record is not None for record in records.values())
    assert set(cut[1]) == {key.encode() for key, record in records.items() if record is None}
    assert len(cut[4]) == 2 * sum(listed is not None for listed in similarity.values())
    assert cut[6] == codec.encode_outbox(8, outbox)
