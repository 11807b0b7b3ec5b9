"""One region of a worker at a time, and a rest after each."""

from __future__ import annotations

from agents.anonymizer import Pace


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_one_region_of_a_worker_is_in_work_at_a_time() -> None:
    pace = Pace(Clock())
    assert pace.begins("one")
    assert not pace.begins("other")
    assert not pace.begins("one")
    pace.ends("other")  # it has none
    assert not pace.begins("other")
    pace.ends("one")
    assert pace.begins("other")


def test_after_a_region_changes_have_as_long_to_themselves_as_it_was_in_work() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.begins("one")
    clock.seconds = 10.0
    pace.ends("one")
    clock.seconds = 19.0
    assert not pace.begins("one")
    assert not pace.begins("other")
    clock.seconds = 20.0
    assert pace.begins("other")
    pace.ends("other")  # it took no time
    assert pace.begins("one")
