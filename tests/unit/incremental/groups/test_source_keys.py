"""What streamer.incremental.groups.source_keys promises: what a dictionary of places and a list of texts would say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from streamer.incremental.core.record_types import NONE
from streamer.incremental.groups import source_keys
from streamer.incremental.groups.source_keys import SourceKeys

TEXTS = st.one_of(
    st.sampled_from([f"{i}" for i in range(40)]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


@pytest.fixture(autouse=True)
def from_little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_keys, "FIRST_ROOM", 4)
    monkeypatch.setattr(source_keys, "KEYS_AT_ONCE", 3)


class OneAfterTheOther(RuleBasedStateMachine):
    """Rows come and go; a dictionary and a list are told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = SourceKeys()
        self.place_of: dict[str, int] = {}
        self.free: list[int] = []
        self.n = 0

    @initialize(texts=st.lists(TEXTS, unique=True))
    def begin(self, texts: list[str]) -> None:
        self.keys.write(0, texts)
        self.keys.found_up_to(len(texts))
        self.place_of, self.n = {text: place for place, text in enumerate(texts)}, len(texts)

    @rule(text=TEXTS)
    def come_or_go(self, text: str) -> None:
        if text in self.place_of:
            place = self.place_of.pop(text)
            self.keys.remove(place)
            self.free.append(place)
            return
        if not self.free:
            self.free, self.n = [self.n], self.n + 1
        self.place_of[text] = self.free.pop()
        self.keys.add(text, self.place_of[text])

    @rule(text=TEXTS)
    def ask(self, text: str) -> None:
        assert self.keys.get(text) == self.place_of.get(text)
        assert (text in self.keys) == (text in self.place_of)

    @rule(texts=st.lists(TEXTS, max_size=9))
    def ask_for_many(self, texts: list[str]) -> None:
        assert self.keys.places_of(texts).tolist() == [self.place_of.get(text, NONE) for text in texts]

    @invariant()
    def all_is_there(self) -> None:
        in_order = sorted(self.place_of, key=self.place_of.__getitem__)
        assert list(self.keys) == in_order
        assert self.keys.places().tolist() == [self.place_of[text] for text in in_order]
        assert len(self.keys) == len(in_order)
        assert all(self.keys[text] == place and self.keys.texts[place] == text for text, place in self.place_of.items())


def test_it_says_what_a_dictionary_and_a_list_would_say() -> None:
    run_state_machine_as_test(OneAfterTheOther)


def test_it_says_so_where_all_keys_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_keys, "HASH_BITS", 1)
    run_state_machine_as_test(OneAfterTheOther)


@given(texts=st.lists(TEXTS, unique=True, min_size=1), data=st.data())
def test_a_key_that_two_rows_have_is_refused_and_not_told(texts: list[str], data: st.DataObject) -> None:
    keys, twice = SourceKeys(), data.draw(st.sampled_from(texts))
    keys.write(0, data.draw(st.permutations([*texts, twice])))
    with pytest.raises(ValueError, match=r"^two rows have one source key$"):
        keys.found_up_to(len(texts) + 1)


def test_a_key_that_is_not_there_is_not_told_either() -> None:
    with pytest.raises(KeyError) as refusal:
        SourceKeys()["ann"]
    assert "ann" not in str(refusal.value)


def test_no_more_than_two_thirds_of_the_slots_are_ever_used() -> None:
    keys = SourceKeys()
    for place in range(200):
        keys.add(f"{place}", place)
        assert 3 * len(keys) <= 2 * len(keys._slots)
