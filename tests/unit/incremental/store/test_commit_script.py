"""One commit as the keys and arguments of the script: every count in front is that of the values behind it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.groups.kept import STATEMENT_IDS_MAX, QIGroupState, Record, SimilarityList
from streamer.incremental.release.records import Entry
from streamer.incremental.store import codec, commit_script
from streamer.incremental.store.base import Commit, Meta
from streamer.table.row import Row

ANN, GROUP = Record(Row((3,), (b'"flu"',)), 1), QIGroupState((0,), (4,), ("ann",), ((b'"flu"',),))
LISTED = SimilarityList(((4, 1 / 3), (9, 0.5)), 0.1)
LETTER = Entry("dead-letters", b"k", b"{}")

FULL = Commit(
    Meta(commit=8),
    records={"ann": ANN, "bob": None},
    qi_groups={1: GROUP, 2: None},
    similarity={1: LISTED, 2: None},
    statement_ids=["s-1", "s-2"],
    outbox=[LETTER],
)

HEAD, SECTIONS = 5, 8


def sections_of(arguments: list[object], n_lists: int) -> list[list[object]]:
    """The arguments cut by their own counts; nothing may be left over."""
    counts = [int(str(count)) for count in arguments[HEAD : HEAD + SECTIONS + n_lists]]
    values = arguments[HEAD + SECTIONS + n_lists :]
    cut, start = [], 0
    for count in counts:
        cut.append(values[start : start + count])
        start += count
    assert start == len(values)
    return cut


def test_the_comparisons_stand_first() -> None:
    head = commit_script.arguments("3-token", 7, FULL)[:HEAD]
    assert head == ["3-token", 7, 8, codec.encode_meta(FULL.meta), STATEMENT_IDS_MAX]


def test_every_section_holds_the_arguments_of_its_command() -> None:
    assert sections_of(commit_script.arguments("3-token", 7, FULL), 2) == [
        ["ann", codec.encode_record(ANN)],
        ["bob"],
        [1, codec.encode_qi_group(GROUP)],
        [2],
        [1, repr(0.1)],
        [2],
        [codec.encode_entry(8, LETTER)],
        ["s-1", "s-2"],
        [repr(0.5), 9, repr(1 / 3), 4],  # nearest first
        [],  # a list that is gone
    ]


def test_an_empty_commit_is_a_head_and_eight_empty_sections() -> None:
    assert commit_script.arguments("3-token", 7, Commit(Meta(8)))[HEAD:] == [0] * SECTIONS


def test_every_changed_list_has_a_key_of_its_own_behind_the_shards() -> None:
    shard_keys = [f"{{t:0}}:{kind}" for kind in ("meta", "records", "groups", "similarity", "outbox", "statements")]
    assert commit_script.keys(shard_keys, "{t:0}:similarity", FULL) == [
        *shard_keys, "{t:0}:similarity:1", "{t:0}:similarity:2",
    ]  # fmt: skip


def test_what_a_commit_writes_is_counted_by_kind() -> None:
    assert commit_script.entries(FULL) == {
        "records": 2, "groups": 2, "floors": 2, "outbox": 1, "statements": 2, "meta": 1,
    }  # fmt: skip


NUMBERS = st.integers(1, 50)
SCORES = st.floats(0, 1e6, allow_nan=False)
NEIGHBOURS = st.dictionaries(NUMBERS, SCORES, max_size=4).map(lambda degrees: tuple(degrees.items()))
LISTS = st.builds(SimilarityList, NEIGHBOURS, SCORES)


@given(
    st.dictionaries(st.text("ab", max_size=3), st.none() | st.just(ANN), max_size=4),
    st.dictionaries(NUMBERS, st.none() | LISTS, max_size=4),
    st.lists(st.just(LETTER), max_size=3),
)
def test_the_counts_cut_the_values_wherever_they_stand(
    records: dict[str, Record | None], similarity: dict[int, SimilarityList | None], outbox: list[Entry]
) -> None:
    commit = Commit(Meta(8), records=records, similarity=similarity, outbox=outbox)
    cut = sections_of(commit_script.arguments("f", 7, commit), len(similarity))
    assert len(cut[0]) == 2 * sum(record is not None for record in records.values())
    assert set(cut[1]) == {key for key, record in records.items() if record is None}
    for listed, found in zip(similarity.values(), cut[SECTIONS:], strict=True):
        neighbours = () if listed is None else listed.neighbours
        read = zip(map(str, found[::2]), found[1::2], strict=True)
        assert {(number, float(degree)) for degree, number in read} == set(neighbours)
