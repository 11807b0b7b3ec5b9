"""What every store must do, as one suite that is run on each kind of store.

A subclass says with the fixture `open_store` how to reach a server; every call is a client of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import Conflict, Fenced, ShardRefused
from streamer.incremental.engine.last_changes import FORGOTTEN
from streamer.incremental.engine.stored_state import STATEMENT_IDS_MAX, Origin, QIGroupState, Record, SimilarityList
from streamer.incremental.events.changes import Counts
from streamer.incremental.events.source_positions import SourcePosition
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.store.base import Commit, Meta, Store
from streamer.table.row import Row

OpenStore = Callable[[str, int], Store]


def record(qi_group: int = 1, age: int = 30, problem: bytes = b'"flu"', individual: str | None = None) -> Record:
    """One line of an index table with two attributes."""
    return Record(Row((age, 2), (problem,), (), individual), qi_group)


def commit_number(number: int, **changes: Any) -> Commit:
    """Commit `number` of a shard, whose input stands at ten times that offset."""
    return Commit(Meta(commit=number, next=10 * number, shards=2, topic_ids={"changes": "t"}), **changes)


def live(*names: str) -> list[OutboxEntry]:
    """Entries of the live topic with these keys."""
    return [OutboxEntry("live", name.encode(), b"{}") for name in names]


def everything(store: Store) -> tuple[Any, ...]:
    """All that a store holds, comparable."""
    state, outbox = store.load(), list(store.outbox())
    if state is None:
        return None, outbox
    return (
        state.meta,
        dict(state.kept.records),
        dict(state.kept.qi_groups),
        dict(state.kept.similarity),
        tuple(state.kept.statement_ids),
        dict(state.kept.last_changes),
        outbox,
    )


def keys_of(outbox: Iterable[tuple[int, OutboxEntry]]) -> list[tuple[int, str]]:
    return [(commit, entry.key.decode()) for commit, entry in outbox]


READ_AT = SourcePosition("postgresql people clinic lsn", (310,), 1_700_000_000_000)
A_GROUP = QIGroupState((1, 0), (3, 4), ("a", "b"), ((b'"flu"',), (b"null",)))


class StoreContract:
    """The suite; `shard` is shard 0 of a table that no one used before."""

    rows_of_a_large_commit = 100_000

    @pytest.fixture
    def open_store(self) -> OpenStore:
        raise NotImplementedError

    @pytest.fixture
    def shard(self, open_store: OpenStore) -> Store:
        return open_store("patients", 0)

    # -- an empty shard -------------------------------------------------------------------------------------------

    def test_a_shard_that_never_committed_has_no_state(self, shard: Store) -> None:
        assert (shard.meta(), shard.load(), list(shard.outbox())) == (None, None, [])

    def test_taking_over_does_not_make_a_state(self, shard: Store) -> None:
        shard.check_fence(shard.take_over())
        assert (shard.meta(), shard.load(), list(shard.outbox())) == (None, None, [])

    def test_an_empty_commit_makes_an_empty_state(self, shard: Store) -> None:
        shard.commit(shard.take_over(), 0, commit_number(1))
        assert everything(shard) == (commit_number(1).meta, {}, {}, {}, (), {}, [])

    # -- what comes back ------------------------------------------------------------------------------------------

    def test_everything_committed_is_loaded_by_the_next_client(self, open_store: OpenStore) -> None:
        commit = Commit(
            Meta(
                3,
                99,
                2,
                18,
                1,
                2**64 - 1,
                Counts(7, 8, 9, 2),
                4,
                "fingerprint",
                {"changes": "t"},
                "bare",
                (7,),
                b"secret",
            ),
            records={
                "7": Record(Row((0, 2**62), (b'"flu"', b"null"), ("1.50", "-3"), "ssn"), 17),
                '["a","b"]': Record(Row((-5, 0), (b"", b"1")), 0),
            },
            qi_groups={17: A_GROUP},
            similarity={17: SimilarityList(((4, 1 / 3), (9, 0.1)), 2)},
            statement_ids=["s-1", "s-2"],
            outbox=[OutboxEntry("live", b"k", b"v"), OutboxEntry("dead-letters", b"", None)],
            last_changes={-7: (1, READ_AT), FORGOTTEN: (0, READ_AT)},
        )
        writer = open_store("patients", 0)
        writer.commit(writer.take_over(), 0, commit)

        assert everything(open_store("patients", 0)) == (
            commit.meta,
            commit.records,
            commit.qi_groups,
            commit.similarity,
            ("s-1", "s-2"),
            commit.last_changes,
            [(3, commit.outbox[0]), (3, commit.outbox[1])],
        )

    @pytest.mark.parametrize(
        "degree", [0.0, 0.1, 1 / 3, 2.0000000000000004, 5e-324, 1.7976931348623157e308, 12345678.000000002]
    )
    def test_similarity_degrees_come_back_to_the_last_bit(self, shard: Store, degree: float) -> None:
        shard.commit(shard.take_over(), 0, commit_number(1, similarity={1: SimilarityList(((2, degree),), 1)}))
        state = shard.load()
        assert state is not None
        assert dict(state.kept.similarity) == {1: SimilarityList(((2, degree),), 1)}

    def test_any_text_is_a_source_key(self, open_store: OpenStore) -> None:
        @given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=5))
        def round_trip(names: list[str]) -> None:
            store = open_store("any-text", 0)
            meta = store.meta()
            number = 0 if meta is None else meta.commit
            fence = store.take_over()
            store.commit(fence, number, commit_number(number + 1, records={name: record() for name in names}))
            state = store.load()
            assert state is not None
            assert dict(state.kept.records) == {name: record() for name in names}
            gone: Mapping[str, None] = dict.fromkeys(names)
            store.commit(fence, number + 1, commit_number(number + 2, records=gone))

        round_trip()

    def test_none_removes_and_a_new_value_replaces(self, shard: Store) -> None:
        fence = shard.take_over()
        neighbours = SimilarityList(((5, 0.5), (6, 0.25)), 1)
        shard.commit(
            fence,
            0,
            commit_number(
                1,
                records={"a": record(1), "b": record(1)},
                qi_groups={1: A_GROUP, 2: A_GROUP},
                similarity={1: neighbours, 2: neighbours},
            ),
        )
        fewer = SimilarityList(((6, 0.75),), 2)
        grown = QIGroupState((0, 0), (9, 9), ("a",), ((b"1",),))
        shard.commit(
            fence,
            1,
            commit_number(
                2,
                records={"a": None, "b": record(2), "never there": None},
                qi_groups={1: None, 2: grown},
                similarity={1: None, 2: fewer},
            ),
        )
        assert everything(shard) == (commit_number(2).meta, {"b": record(2)}, {2: grown}, {2: fewer}, (), {}, [])

    def test_how_a_group_came_to_be_stays_until_it_is_formed_anew_or_goes(self, open_store: OpenStore) -> None:
        shard = open_store("patients", 0)
        fence = shard.take_over()
        first = {number: Origin("split", 1) for number in (1, 2, 3)}
        shard.commit(fence, 0, commit_number(1, qi_groups=dict.fromkeys(first, A_GROUP), origins=first))
        changed = {1: Origin("merged", 2), 2: None, 17: None}
        shard.commit(fence, 1, commit_number(2, qi_groups={2: None, 3: A_GROUP}, origins=changed))
        wanted = [Origin("merged", 2), None, Origin("split", 1), None]
        assert [open_store("patients", 0).origin(number) for number in (1, 2, 3, 17)] == wanted

    def test_of_a_table_that_is_replaced_no_group_is_remembered(self, shard: Store) -> None:
        fence = shard.take_over()
        shard.commit(fence, 0, commit_number(1, origins={1: Origin("split", 1), 2: Origin("split", 1)}))
        shard.commit(fence, 1, commit_number(2, replaces=True, origins={2: Origin("loaded", 2)}))
        assert (shard.origin(1), shard.origin(2)) == (None, Origin("loaded", 2))

    def test_a_commit_that_replaces_leaves_nothing_of_before_but_statement_ids_and_last_changes(
        self, open_store: OpenStore
    ) -> None:
        shard = open_store("people", 0)
        fence = shard.take_over()
        former = commit_number(
            1,
            records={"a": record(1), "b": record(2)},
            qi_groups={1: A_GROUP, 2: A_GROUP},
            similarity={1: SimilarityList(((2, 0.5),), 1), 2: SimilarityList(((1, 0.5),), 1)},
            statement_ids=["s-1"],
            outbox=live("a", "b"),
            last_changes={1: (1, READ_AT), 2: (2, READ_AT)},
        )
        shard.commit(fence, 0, former)
        new = {
            "records": {"c": record(7)},
            "qi_groups": {7: A_GROUP},
            "outbox": live("c"),
            "replaces": True,
            "last_changes": {1: None},
        }
        listed = {7: SimilarityList(((8, 2.0),), 9)}
        shard.commit(fence, 1, commit_number(9, **new, similarity=listed, statement_ids=["s-2"]))
        shard.commit(fence, 1, commit_number(9, **new, similarity=listed, statement_ids=["s-2"]))
        meta = commit_number(9).meta
        outbox = [(9, entry) for entry in live("c")]
        wanted = (meta, {"c": record(7)}, {7: A_GROUP}, listed, ("s-1", "s-2"), {2: (2, READ_AT)}, outbox)
        assert everything(open_store("people", 0)) == wanted
        assert shard.statement_ids() == ("s-1", "s-2")

    def test_the_last_statement_ids_are_kept_oldest_first(self, shard: Store) -> None:
        fence = shard.take_over()
        ids = [f"s-{i}" for i in range(STATEMENT_IDS_MAX + 5)]
        shard.commit(fence, 0, commit_number(1, statement_ids=ids[:8]))
        shard.commit(fence, 1, commit_number(2, statement_ids=ids[8:]))
        state = shard.load()
        assert state is not None
        assert list(state.kept.statement_ids) == ids[5:]

    def test_a_large_commit_is_one_commit(self, shard: Store) -> None:
        fence, n = shard.take_over(), self.rows_of_a_large_commit
        records = {str(i): record(i) for i in range(n)}
        entries = [OutboxEntry("live", b"%d" % i, b"{}") for i in range(n // 5 + 1)]
        shard.commit(fence, 0, commit_number(1, records=records, outbox=entries))
        state = shard.load()
        assert state is not None
        assert dict(state.kept.records) == records
        assert list(shard.outbox()) == [(1, entry) for entry in entries]

        shard.trim(fence, 1)
        shard.commit(fence, 1, commit_number(2, records=dict.fromkeys(records)))
        assert everything(shard) == (commit_number(2).meta, {}, {}, {}, (), {}, [])

    # -- whole or not at all --------------------------------------------------------------------------------------

    def test_a_repeated_commit_is_done_once(self, shard: Store) -> None:
        fence = shard.take_over()
        commit = commit_number(1, records={"a": record()}, statement_ids=["s"], outbox=live("x", "y"))
        shard.commit(fence, 0, commit)
        before = everything(shard)
        shard.commit(fence, 0, commit)
        assert everything(shard) == before
        assert keys_of(shard.outbox()) == [(1, "x"), (1, "y")]

    def test_a_commit_number_that_another_fence_stored_is_a_conflict(self, shard: Store) -> None:
        shard.commit(shard.take_over(), 0, commit_number(1, outbox=live("x")))
        with pytest.raises(Conflict):
            shard.commit(shard.take_over(), 0, commit_number(1, outbox=live("other")))
        assert keys_of(shard.outbox()) == [(1, "x")]

    @pytest.mark.parametrize("before", [0, 1, 3])
    def test_a_commit_on_top_of_another_one_than_the_store_holds_is_a_conflict(self, shard: Store, before: int) -> None:
        fence = shard.take_over()
        shard.commit(fence, 0, commit_number(1, records={"a": record()}))
        shard.commit(fence, 1, commit_number(2, records={"b": record()}))
        held = everything(shard)
        with pytest.raises(Conflict):
            shard.commit(fence, before, commit_number(9, records={"a": None, "c": record()}, outbox=live("x")))
        assert everything(shard) == held

    def test_a_first_commit_on_top_of_one_that_is_not_there_is_a_conflict(self, shard: Store) -> None:
        with pytest.raises(Conflict):
            shard.commit(shard.take_over(), 1, commit_number(2))
        assert shard.load() is None

    def test_a_commit_may_take_over_a_published_number(self, shard: Store) -> None:
        fence = shard.take_over()
        shard.commit(fence, 0, commit_number(1))
        shard.commit(fence, 1, commit_number(700))
        shard.commit(fence, 700, commit_number(12))
        assert shard.meta() == commit_number(12).meta

    def test_a_commit_with_the_number_before_it_is_refused(self, shard: Store) -> None:
        with pytest.raises(ValueError, match="on top of itself"):
            shard.commit(shard.take_over(), 4, commit_number(4))

    @pytest.mark.parametrize(
        "changes",
        [
            {"records": {"a": None, "\ud800": record()}},
        ],
        ids=["a source key without an encoding"],
    )
    def test_what_cannot_be_stored_leaves_the_store_as_it_was(self, shard: Store, changes: dict[str, Any]) -> None:
        fence = shard.take_over()
        shard.commit(fence, 0, commit_number(1, records={"a": record()}, qi_groups={1: A_GROUP}))
        held = everything(shard)
        with pytest.raises(ValueError):
            shard.commit(fence, 1, commit_number(2, qi_groups={1: None}, outbox=live("x"), **changes))
        assert everything(shard) == held

    # -- who may write --------------------------------------------------------------------------------------------

    def test_every_take_over_gives_another_fence(self, open_store: OpenStore) -> None:
        fences = [open_store("patients", 0).take_over() for _ in range(5)]
        assert len(set(fences)) == 5

    def test_a_former_owner_may_write_nothing(self, open_store: OpenStore) -> None:
        former, owner = open_store("patients", 0), open_store("patients", 0)
        old = former.take_over()
        former.commit(old, 0, commit_number(1, records={"a": record()}, outbox=live("x")))
        new = owner.take_over()
        held = everything(owner)

        with pytest.raises(Fenced):
            former.commit(old, 1, commit_number(2, records={"a": None}))
        with pytest.raises(Fenced):
            former.commit(old, 0, commit_number(1, records={"a": record()}, outbox=live("x")))
        with pytest.raises(Fenced):
            former.trim(old, 1)
        with pytest.raises(Fenced):
            former.check_fence(old)
        assert everything(owner) == held

        owner.check_fence(new)
        owner.commit(new, 1, commit_number(2, records={"a": None}))
        assert keys_of(owner.outbox()) == [(1, "x")]

    def test_who_takes_over_again_shuts_out_its_own_delayed_calls(self, shard: Store) -> None:
        old = shard.take_over()
        new = shard.take_over(again=True)
        with pytest.raises(Fenced):
            shard.commit(old, 0, commit_number(1))
        shard.commit(new, 0, commit_number(1))

    def test_who_takes_over_again_does_not_take_a_shard_back(self, open_store: OpenStore) -> None:
        former, owner = open_store("patients", 0), open_store("patients", 0)
        former.take_over()
        fence = owner.take_over()
        for _ in range(2):
            with pytest.raises(Fenced):
                former.take_over(again=True)
        owner.check_fence(fence)

    def test_nobody_writes_a_shard_that_was_never_taken_over(self, shard: Store) -> None:
        writes: list[Callable[[], None]] = [
            lambda: shard.commit("1-guess", 0, commit_number(1)),
            lambda: shard.trim("1-guess", 1),
            lambda: shard.check_fence("1-guess"),
        ]
        for write in writes:
            with pytest.raises(Fenced):
                write()
        assert shard.load() is None

    def test_shards_and_tables_do_not_see_each_other(self, open_store: OpenStore) -> None:
        places = [("patients", 0), ("patients", 1), ("patients", 10), ("patients2", 0)]
        for i, (table_name, number) in enumerate(places, start=1):
            store = open_store(table_name, number)
            store.commit(store.take_over(), 0, commit_number(i, records={f"{i}": record(i)}, outbox=live(f"{i}")))
        for i, (table_name, number) in enumerate(places, start=1):
            assert everything(open_store(table_name, number)) == (
                commit_number(i).meta, {f"{i}": record(i)}, {}, {}, (), {}, [(i, live(f"{i}")[0])],
            )  # fmt: skip

    # -- which command loads the whole table ------------------------------------------------------------------------

    def test_of_two_commands_the_second_is_told_who_loads_the_table_and_since_when(self, open_store: OpenStore) -> None:
        ann, bob = open_store("patients", 0), open_store("patients", 0)
        claim = ann.claim("`streamer load` (ann:7)", 60)
        with pytest.raises(Conflict) as refused:
            bob.claim("`streamer reload` (bob:8)", 60)
        said = r"patients is being loaded by `streamer load` \(ann:7\) since [-\d]+ [:\d]+ UTC: .* in (60|59) s"
        assert re.search(said, str(refused.value))
        ann.renew(claim, 0)
        bob.claim("`streamer reload` (bob:8)", 60)

    def test_a_clock_that_was_set_back_keeps_a_claim_for_no_longer(self, open_store: OpenStore) -> None:
        """Before: whose command was killed then waited for as long as the clock had gone back."""
        ann, bob = open_store("patients", 0), open_store("patients", 0)
        ann.claim("ann", 3600)  # by a clock that was an hour ahead
        with pytest.raises(Conflict, match="in 30 s"):
            bob.claim("bob", 30)
        with pytest.raises(Conflict, match=r"in (30|29) s"):
            bob.claim("bob", 60)

    def test_a_claim_that_is_not_renewed_ends_by_itself(self, open_store: OpenStore) -> None:
        ann, bob = open_store("patients", 0), open_store("patients", 0)
        claim = ann.claim("ann", 0)
        ann.renew(claim, 0)  # as long as no one else came
        later = bob.claim("bob", 60)
        with pytest.raises(Fenced, match="has begun with"):
            ann.renew(claim, 60)
        bob.renew(later, 60)
        with pytest.raises(Conflict, match="being loaded by bob"):
            ann.claim("ann", 60)

    def test_the_mark_of_a_command_keeps_everyone_else_out(self, open_store: OpenStore) -> None:
        worker, command = open_store("patients", 1), open_store("patients", 1)
        former = worker.take_over()
        claim = open_store("patients", 0).claim("ann", 60)
        command.shut_out_older(claim)
        worker.check_fence(former)
        for _ in range(2):
            command.tell_beginning(claim)
            with pytest.raises(Fenced):
                worker.commit(former, 0, commit_number(1, records={"a": record()}))
        for again in (False, True):
            with pytest.raises(ShardRefused, match="the table is not loaded in all its shards yet"):
                worker.take_over(again)
        fence = command.take_over()
        command.tell_beginning(claim)  # a repeated call
        command.commit(fence, 0, commit_number(1, records={"b": record()}))
        for _ in range(2):
            command.tell_begun(claim)
        worker.commit(worker.take_over(), 1, commit_number(2))

    def test_a_command_that_comes_back_behind_a_later_one_writes_nothing(self, open_store: OpenStore) -> None:
        first, old, new = open_store("patients", 0), open_store("patients", 1), open_store("patients", 1)
        earlier = first.claim("ann", 0)
        later = first.claim("bob", 0)
        new.shut_out_older(later)
        for call in (old.shut_out_older, old.tell_beginning, old.tell_begun):
            with pytest.raises(Fenced):
                call(earlier)
        new.tell_beginning(later)
        new.tell_begun(later)
        open_store("patients", 1).take_over()

    def test_the_mark_of_a_command_that_died_is_removed_by_the_next_one_alone(self, open_store: OpenStore) -> None:
        first, old, new = open_store("patients", 0), open_store("patients", 1), open_store("patients", 1)
        earlier = first.claim("ann", 0)
        old.tell_beginning(earlier)
        fence = old.take_over()
        later = first.claim("bob", 0)
        new.shut_out_older(later)
        with pytest.raises(Fenced):
            old.commit(fence, 0, commit_number(1, records={"a": record()}))
        with pytest.raises(Fenced):
            old.take_over()
        with pytest.raises(Fenced):
            old.tell_begun(earlier)
        with pytest.raises(ShardRefused):
            open_store("patients", 1).take_over()
        new.tell_beginning(later)
        new.commit(new.take_over(), 0, commit_number(1))
        new.tell_begun(later)
        open_store("patients", 1).take_over()

    # -- the outbox -----------------------------------------------------------------------------------------------

    def test_the_outbox_keeps_its_order_over_commits(self, shard: Store) -> None:
        fence = shard.take_over()
        expected = []
        for number, size in ((1, 3), (2, 0), (3, 2_500)):
            names = [f"{number}.{i}" for i in range(size)]
            shard.commit(fence, number - 1, commit_number(number, outbox=live(*names)))
            expected += [(number, name) for name in names]
        assert keys_of(shard.outbox()) == expected

    @pytest.mark.parametrize(("published", "left"), [(0, 3_003), (1, 2_003), (2, 2_003), (3, 2), (4, 0), (9, 0)])
    def test_trimming_goes_by_commit_number(self, shard: Store, published: int, left: int) -> None:
        fence = shard.take_over()
        for number, size in ((1, 1_000), (2, 0), (3, 2_001), (4, 2)):
            shard.commit(fence, number - 1, commit_number(number, outbox=live(*map(str, range(size)))))
        whole = list(shard.outbox())
        shard.trim(fence, published)
        shard.trim(fence, min(published, 1))  # one that arrives late cuts nothing more
        assert list(shard.outbox()) == whole[len(whole) - left :]
