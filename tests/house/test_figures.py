"""The figures of the house do not rise in silence: tests/house/figures.json says what each may be."""

from __future__ import annotations

from house.figures import allowed, counted

SLACK = 20
"""A figure that has fallen by more than one part in so many is written down, so that it does not rise again."""


def test_no_figure_rises_without_a_reason_in_figures_json() -> None:
    before = allowed()
    risen = [
        f"{what}: {figure.now:,}, allowed {before.get(what, {}).get('now', 0):,}"
        for what, figure in counted().items()
        if figure.now > before.get(what, {}).get("now", 0)
    ]
    assert not risen, "take something away, or say why: make house WHY='...'\n" + "\n".join(risen)


def test_what_has_fallen_is_held() -> None:
    now = {what: figure.now for what, figure in counted().items()}
    loose = [
        f"{what}: {now.get(what, 0):,}, allowed {one['now']:,}"
        for what, one in allowed().items()
        if one["now"] - now.get(what, 0) > one["now"] // SLACK
    ]
    assert not loose, "hold it: make house WHY='...'\n" + "\n".join(loose)


def test_every_figure_has_the_reason_of_its_last_change() -> None:
    assert [what for what, one in allowed().items() if not one["why"].strip()] == []
