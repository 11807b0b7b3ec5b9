"""The pictures of a report: SVG, the same bytes every time, and no markup out of a column's name."""

from __future__ import annotations

from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest

from streamer.recoding.report.pictures import BINS_MAX, group_sizes, largest_shares, losses

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


def test_every_attribute_has_its_bar_and_its_name() -> None:
    shown = texts(losses(["age", "zip"], [0.25, 1.0]))
    assert "age" in shown
    assert "zip" in shown


def test_a_name_is_text_whatever_is_in_it() -> None:
    shown = texts(losses(["<b>&", "a$b$c"], [0.1, 0.2]))
    assert "<b>&" in shown
    assert "a$b$c" in shown


def test_shares_are_drawn_between_nothing_and_everything() -> None:
    uri = largest_shares(np.array([0.2, 1.0, 1.0]))
    assert "share of the most frequent sensitive value" in texts(uri)
    assert uri == largest_shares(np.array([0.2, 1.0, 1.0]))


def test_a_picture_has_no_date() -> None:
    assert not [element for element in drawn(losses(["age"], [0.5])).iter() if element.tag.endswith("}date")]
