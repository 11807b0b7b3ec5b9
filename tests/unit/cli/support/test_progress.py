"""How far a command is: the seconds of every stage, and no bar where a program reads."""

from __future__ import annotations

import click
import pytest
from rich.progress import Progress

from streamer.cli.support.options import json_option
from streamer.cli.support.progress import Seconds, Stages, stages


@pytest.mark.parametrize("words", [["--json"], []])
def test_nothing_is_drawn_into_a_pipe_or_beside_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @json_option
    def command() -> None:
        with stages() as work, work.stage("reading") as tick:
            tick(0.5)
            tick(1.0)

    command.main(words, standalone_mode=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "reading" not in captured.err


def test_each_stage_has_its_seconds_once_it_is_over() -> None:
    now = [10.0]
    work = Stages(Progress(disable=True, get_time=lambda: now[0]))
    for name, seconds in (("reading", 2.34567), ("grouping", 0.5)):
        with work.stage(name):
            assert name not in work.seconds
            now[0] += seconds
    assert work.seconds == {"reading": 2.346, "grouping": 0.5}


def test_a_stage_that_fails_lets_the_error_through() -> None:
    with pytest.raises(ZeroDivisionError), stages() as work, work.stage("reading"):
        raise ZeroDivisionError


def test_a_clock_in_tenths_moves_where_nobody_knows_how_far_the_work_is() -> None:
    now = [100.0]
    progress = Progress(get_time=lambda: now[0])
    progress.add_task("reading", total=None)
    (task,) = progress.tasks
    shown = []
    for time in (100.0, 100.1, 112.34):
        now[0] = time
        shown.append(Seconds().render(task).plain)
    assert shown == ["0.0 s", "0.1 s", "12.3 s"]


def test_a_part_of_a_stage_begins_anew_and_is_not_timed() -> None:
    progress = Progress(disable=True)
    work = Stages(progress)
    with work.stage("replay"):
        work.next("read")(0.5)
        assert (progress.tasks[0].description, progress.tasks[0].completed) == ("read", 0.5)
        late = work.next("read")
        work.next("load")
        late(0.9)
        assert (progress.tasks[0].description, progress.tasks[0].total) == ("load", None)
    assert [*work.seconds] == ["replay"]


def test_what_is_printed_while_a_bar_is_drawn_goes_where_it_was_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    with stages() as work, work.stage("reading"):
        print("a row")
    assert capsys.readouterr().out == "a row\n"
