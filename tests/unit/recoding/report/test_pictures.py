"""The pictures of a report: SVG, the same bytes every time, and no markup out of a column's name."""

from __future__ import annotations

from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest

from streamer.recoding.report.pictures import (
    BINS_MAX,
    NAME_MAX,
    SEEN_BESIDE,
    bars,
    group_sizes,
    largest_shares,
    tradeoff,
)
from streamer.recoding.report.tradeoffs import Curve

PREFIX = "data:image/svg+xml;base64,"


def drawn(uri: str) -> ElementTree.Element:
    assert uri.startswith(PREFIX)
    return ElementTree.fromstring(b64decode(uri.removeprefix(PREFIX)))


def texts(uri: str) -> str:
    return " ".join(drawn(uri).itertext())


@pytest.mark.parametrize("sizes", [[3], [3, 3, 4, 9], list(range(1, 10 * BINS_MAX)), [2, 10**6]])
def test_sizes_of_any_spread_are_drawn(sizes: list[int]) -> None:
    uri = group_sizes(np.array(sizes))
    assert "QI groups" in texts(uri)
    assert uri == group_sizes(np.array(sizes))


@pytest.mark.parametrize(("most", "says"), [(SEEN_BESIDE, False), (SEEN_BESIDE + 1, True)])
def test_one_group_is_seen_beside_very_many_of_another_size(most: int, says: bool) -> None:
    assert ("powers of ten" in texts(group_sizes(np.array([5] * most + [60])))) == says


@pytest.mark.parametrize(("demand", "now"), [("k", 5), ("l", None), ("alpha", 0.5), ("beta", None)])
def test_a_curve_names_its_demand_and_what_is_asked_now(demand: str, now: float | None) -> None:
    shown = texts(tradeoff(Curve(demand, (0.3, 0.5), (0.2, 0.1), now)))
    assert f"{demand}: " in shown and "NCP" in shown
    assert ("asked for now" in shown) == (now is not None)


def test_every_attribute_has_its_bar_and_its_name() -> None:
    shown = texts(bars(["age", "zip"], [0.25, 1.0], "NCP of the attribute"))
    assert "age" in shown
    assert "zip" in shown


def test_a_name_is_text_whatever_is_in_it() -> None:
    shown = texts(bars(["<b>&", "a$b$c"], [0.1, 0.2], "NCP of the attribute"))
    assert "<b>&" in shown
    assert "a$b$c" in shown


@pytest.mark.filterwarnings("error")
def test_a_long_name_leaves_room_for_its_bar() -> None:
    shown = texts(bars(["a" * 255, "zip"], [0.1, 0.2], "NCP of the attribute"))
    assert "a" * (NAME_MAX - 1) + "…" in shown
    assert "a" * NAME_MAX not in shown


def test_what_no_picture_can_hold_of_a_name_is_shown_as_such() -> None:
    assert "x\ufffdy" in texts(bars(["x\ufffey"], [0.1], "NCP of the attribute"))


def test_shares_are_drawn_between_nothing_and_everything() -> None:
    uri = largest_shares(np.array([0.2, 1.0, 1.0]))
    assert "share of the most frequent sensitive value" in texts(uri)
    assert uri == largest_shares(np.array([0.2, 1.0, 1.0]))


def test_a_picture_has_no_date() -> None:
    assert not [element for element in drawn(bars(["age"], [0.5], "NCP")).iter() if element.tag.endswith("}date")]
