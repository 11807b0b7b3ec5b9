"""A shard's arrays and the core: they grow, a broken law raises, a net effect is read before the next batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamer.errors import LawViolated
from streamer.incremental.core import layout
from streamer.incremental.core.layout import HI
from streamer.incremental.engine.core_arrays import BROKEN_LAWS, CoreArrays
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Delete, Insert
from worlds.engine_tables import OF_PEOPLE, OF_TWO, engine_with, row_of
from worlds.small_tables import YEARS, asking, table


def test_every_law_has_a_sentence_that_names_the_group_and_no_value() -> None:
    laws = (
        layout.NOTHING_TO_MERGE_WITH,
        layout.MISCOUNTED,
        layout.BELOW_K,
        layout.OUTSIDE_ITS_BOX,
        layout.BREAKS_MODEL,
        layout.WIDER_THAN_ITS_ROWS,
    )
    assert BROKEN_LAWS.keys() == set(laws)
    assert all("QI group 7" in sentence.format(7, 2) for sentence in BROKEN_LAWS.values())


def test_fields_of_the_state_are_read_by_name() -> None:
    core = CoreArrays(table(YEARS, k=4))
    assert (core.field("k"), core.field("qi_group_next"), core.field("root")) == (4, 1, layout.NONE)


def break_count(engine: Engine) -> None:
    engine.arrays.groups.group.count += 1


def break_box(engine: Engine) -> None:
    engine.arrays.groups.box[:] = 8


def widen_box(engine: Engine) -> None:
    engine.arrays.groups.box[:, HI] += 1


def break_k(engine: Engine) -> None:
    engine.arrays.state.k = 9


def break_members(engine: Engine) -> None:
    engine.arrays.groups.group.members[0] = engine.arrays.groups.group["count"][0] = 1


def break_cells(engine: Engine) -> None:
    engine.arrays.rows.cells[engine.rows.index_of["b"]] += 1


def break_tree(engine: Engine) -> None:
    """The state counts another group, which is in no tree."""
    engine.arrays.state.n_groups += 1
    for source_key in "ab":
        engine.apply(Delete(source_key))


BROKEN: dict[str, tuple[Callable[[Engine], None], str]] = {
    "count": (break_count, r"QI group 1 miscounts its rows or individuals"),
    "k": (break_k, r"QI group 1 holds fewer than the k = 2 it needs"),
    "box": (break_box, r"QI group 1 has a row outside its box"),
    "wide box": (widen_box, r"QI group 1 has a box that is wider than its rows"),
    "members": (break_members, r"QI group 1 holds fewer than the k = 2 it needs"),
    "cells": (break_cells, r"QI group 1 has a row outside its box"),
    "tree": (break_tree, r"QI group 1 has nothing to merge with, and is not the only one"),
}


@pytest.mark.parametrize(("break_it", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_law_raises_and_the_shard_is_of_no_use_any_more(break_it: Callable[[Engine], None], said: str) -> None:
    engine = engine_with({"a": 3, "b": 4})
    engine.apply(Insert("c", row_of(3)))
    engine.run()
    break_it(engine)
    for _ in range(2):
        with pytest.raises(LawViolated, match=f"^{said}$"):
            engine.drain()
    engine.apply(Insert("late", row_of(3)))
    with pytest.raises(LawViolated):
        engine.run()


def break_who(engine: Engine) -> None:
    row = engine.arrays.rows.row
    row.who[1] = row.who[0]


@pytest.mark.parametrize("break_it", [break_count, break_who])
def test_individuals_that_are_miscounted_are_found(break_it: Callable[[Engine], None]) -> None:
    engine = engine_with({"a": 3, "b": 4}, OF_PEOPLE)
    engine.apply(Insert("c", row_of(3, individual="a")))
    engine.run()
    break_it(engine)
    with pytest.raises(LawViolated, match="QI group 1 miscounts"):
        engine.drain()


ASKING = asking(YEARS, l=2, beta="0.7")


def engine_of_two_values() -> Engine:
    """One QI group, and a change to it that has not been drained."""
    engine = Engine(ASKING)
    for source_key, problem in (("a", "flu"), ("b", "cough"), ("c", "flu")):
        engine.apply(Insert(source_key, row_of(3, problem)))
    engine.run()
    return engine


def break_tops(engine: Engine) -> None:
    engine.arrays.demands.reached[1].top += 1


def break_model(engine: Engine) -> None:
    engine.arrays.demands.demand.least = 3


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (break_tops, "miscounts its rows or individuals"),
        (break_model, "holds k and breaks the rest of the privacy model"),
    ],
)
def test_a_group_that_breaks_the_model_beyond_k_is_not_drained(break_it: Callable[[Engine], None], said: str) -> None:
    engine = engine_of_two_values()
    break_it(engine)
    with pytest.raises(LawViolated, match=f"QI group 1 {said}"):
        engine.drain()


def test_a_net_effect_can_be_asked_for_again_until_it_is_read() -> None:
    engine = Engine(OF_TWO)
    engine.apply(Insert("a", row_of(0)))
    engine.apply(Insert("b", row_of(1)))
    engine.compute()
    engine.compute()
    assert len(engine.drain().published) == 1
    assert engine.drain().published == []


def test_a_batch_that_begins_before_the_last_one_was_read_raises() -> None:
    engine = Engine(OF_TWO)
    engine.apply(Insert("a", row_of(0)))
    engine.compute()
    engine.apply(Insert("b", row_of(1)))
    with pytest.raises(LawViolated, match="before the net effect of the one before it was read"):
        engine.drain()
