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
    WIDTH,
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


def numbers(uri: str, tag: str, *names: str) -> list[tuple[float, ...]]:
    """Attributes of all elements of a kind, in order."""
    found = (element for element in drawn(uri).iter() if element.tag.endswith(f"}}{tag}"))
    return [tuple(float(element.attrib[name]) for name in names) for element in found]


def test_a_bar_is_as_long_as_its_value_is_large() -> None:
    uri = bars(["age", "zip", "city"], [0.25, 1.0, 0.0], "NCP of the attribute")
    (begin, age), (_, zip_), (_, city) = numbers(uri, "rect", "x", "width")
    assert (age, city) == (pytest.approx(zip_ / 4, abs=0.1), 0)
    assert begin < begin + zip_ < WIDTH


def test_a_bar_is_as_high_as_there_are_groups_of_its_size_and_stands_where_the_size_is() -> None:
    two, one, nine = numbers(group_sizes(np.array([3, 3, 4, 9])), "rect", "x", "y", "width", "height")
    assert two[3] == pytest.approx(2 * one[3], abs=0.2) and one[3] == nine[3]
    assert two[1] + two[3] == pytest.approx(one[1] + one[3], abs=0.2), "all stand on one axis"
    assert nine[0] - two[0] == pytest.approx(6 * (one[0] - two[0]), abs=0.2)


def test_in_powers_of_ten_a_bar_of_one_group_has_a_height() -> None:
    many, one = numbers(group_sizes(np.array([5] * 1000 + [6])), "rect", "height")
    assert 0 < one[0] < many[0] < 20 * one[0]


@pytest.mark.parametrize(("demand", "rises"), [("k", True), ("beta", False)])
def test_a_curve_goes_through_its_points_and_gets_stricter_to_the_right(demand: str, rises: bool) -> None:
    points = numbers(tradeoff(Curve(demand, (0.2, 0.4, 0.8), (0.1, 0.2, 0.3), 0.4)), "circle", "cx", "cy")
    across, down = zip(*points, strict=True)
    assert list(across) == sorted(across, reverse=not rises)
    assert across[2] - across[1] == pytest.approx(2 * (across[1] - across[0]), abs=0.2)
    assert down[0] - down[1] == pytest.approx(down[1] - down[2], abs=0.2)
    assert down[0] > down[2] > 0, "what loses more stands higher"


def test_numbers_beside_an_axis_are_round_and_reach_from_end_to_end() -> None:
    shown = texts(largest_shares(np.array([0.2, 1.0, 1.0]))).split()
    assert shown[:6] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    shown = texts(tradeoff(Curve("k", (2, 100), (0.0, 0.0), None))).split()
    assert shown[:5] == ["20", "40", "60", "80", "100"]


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


def test_without_a_name_there_is_no_bar() -> None:
    assert not numbers(bars([], [], "NCP of the attribute"), "rect", "width")


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
