"""What a report counts: columns by themselves, guesses that are exact, rows that only one person can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamer.audit.found import TOGETHER, Episodes, Found, Happened, exact_guesses, linked_rows
from streamer.audit.history import GroupFact, ReleaseFacts, ReleaseHistory
from streamer.table.codes import KeptColumn
from worlds.small_tables import YEARS, table

TWO = replace(table(YEARS, k=2), kept=(KeptColumn("problem", sensitive=True), KeptColumn("cost", sensitive=True)))

Group = Sequence[tuple[str, str]]


class Told:
    """A history of groups of rows with a problem and a cost, all of them there from the first release on."""

    def __init__(self, *releases: Sequence[Sequence[int]], rows: Group) -> None:
        self.episodes, self.history = Episodes(TWO), ReleaseHistory()
        for key, (problem, cost) in enumerate(rows):
            value = self.episodes.value_number((problem.encode(), cost.encode()))
            self.episodes.begin(f"row {key}", value, Happened.NOTHING)
        for number, groups in enumerate(releases):
            facts: dict[int, GroupFact | None] = {
                i: GroupFact(frozenset(group), Counter(self.episodes.values[e] for e in group))
                for i, group in enumerate(groups)
            }
            self.history.add(ReleaseFacts(facts, came=range(len(rows)) if not number else ()))
            self.episodes.note_release(number, self.history)

    def found(self, raw: bool = False) -> Found:
        return self.episodes.found(self.history, lambda source_key: f"token of {source_key}", raw)


def test_a_column_is_known_although_the_others_are_open() -> None:
    found = Told([[0, 1, 2]], rows=[("flu", "1"), ("flu", "2"), ("flu", "3")]).found()
    assert (found.pinned, found.worst) == (3, 1)
    assert found.attacks == {TOGETHER: 3}
    assert found.candidates["1"] == 3


def test_a_guess_is_about_one_column_and_exact_if_worlds_can_be_counted() -> None:
    found = Told([[0, 1, 2, 3]], rows=[("flu", "1"), ("flu", "2"), ("gout", "3"), ("cough", "4")]).found()
    assert (found.pinned, found.exact, found.episodes) == (0, 4, 4)
    assert found.worst == found.mean == 0.5  # two of four have the flu; all costs differ
    assert found.bars[10] == 4
    assert sum(found.bars) == 4


@pytest.mark.parametrize(
    ("later", "facts"),
    [
        ([3, 4, 5], {"returned": {3: 0}}),  # one who is known to have it still: a or b, of a, b, c and a, b, d
        ([3, 6], {"replaced": {3: 0}}),  # one who is known to have another value than a, which two have now
    ],
)
def test_an_exact_guess_knows_who_has_the_same_value_and_who_has_another(
    later: Sequence[int], facts: dict[str, dict[int, int]]
) -> None:
    history, values = ReleaseHistory(), dict(enumerate("abcabda"))
    for groups in ({"came": [0, 1, 2]}, {"came": later, **facts}):
        counts = Counter(ord(values[episode]) for episode in groups["came"])
        history.add(ReleaseFacts({len(history.facts): GroupFact(frozenset(groups["came"]), counts)}, **groups))
    columns = [{ord(letter): letter.encode() for letter in "abcd"}]
    guesses = exact_guesses(history, columns)  # type: ignore[arg-type]
    assert guesses[0] == guesses[1] == 0.5


def test_what_is_too_entangled_has_a_lower_bound() -> None:
    rows = [("flu" if i < 40 else "gout", f"{i}") for i in range(80)]
    first, second = [[*range(50)], [*range(50, 80)]], [[*range(25), *range(50, 80)], [*range(25, 50)]]
    found = Told(first, second, rows=rows).found()
    assert (found.exact, found.episodes) == (0, 80)
    assert 0.5 <= found.mean <= found.worst == 1


@pytest.mark.parametrize(("raw", "row", "value"), [(False, "token of row 0", None), (True, "row 0", "flu, 1")])
def test_an_example_is_a_token_unless_raw_values_are_asked_for(raw: bool, row: str, value: str | None) -> None:
    rows = [("flu", "1"), ("cough", "2"), ("gout", "3"), ("ulcer", "4")]
    told = Told([[0, 1], [2, 3]], [[0, 2], [1, 3]], rows=rows)
    first = told.found(raw).examples[0]
    assert (first.row, first.value, first.release) == (row, value, 1)


def test_a_row_with_a_value_that_one_member_alone_can_have_is_linked() -> None:
    history = ReleaseHistory()
    history.add(ReleaseFacts({1: GroupFact(frozenset((0, 1, 2)), {5: 1, 6: 1, 7: 1})}, came=(0, 1, 2)))
    assert linked_rows(history) == (0, 3)
    history.add(ReleaseFacts({1: GroupFact(frozenset((0, 1, 2, 3)), {5: 1, 6: 1, 7: 2})}, came=(3,)))
    assert linked_rows(history) == (0, 4)  # 7 is known to be that of 3, and one of two rows
    history.add(ReleaseFacts({1: GroupFact(frozenset((0, 1, 2, 3, 4)), {5: 1, 6: 1, 7: 2, 8: 1})}, came=(4,)))
    assert linked_rows(history) == (1, 5)
