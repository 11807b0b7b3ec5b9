"""How far a command is: the seconds of every stage, and no bar where a program reads."""

from __future__ import annotations

import pytest

from streamer.cli.progress import stages


@pytest.mark.parametrize("as_json", [True, False])
def test_nothing_is_drawn_into_a_pipe_or_beside_json(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with stages(as_json) as work, work.stage("reading") as tick:
        tick(0.5)
        tick(1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "reading" not in captured.err


def test_each_stage_has_its_seconds_once_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.cli.progress.perf_counter", iter([10.0, 12.34567, 20.0, 20.5]).__next__)
    with stages(True) as work:
        with work.stage("reading"):
            assert work.seconds == {}
        with work.stage("grouping"):
            pass
    assert work.seconds == {"reading": 2.346, "grouping": 0.5}


def test_a_stage_that_fails_lets_the_error_through() -> None:
    with pytest.raises(ZeroDivisionError), stages(True) as work, work.stage("reading"):
        raise ZeroDivisionError
