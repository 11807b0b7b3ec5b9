"""The page of an audit: every attack is explained, pictures say what was found, nothing in it is markup."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace

from streamer.audit.found import TOGETHER, Example, Found, Share
from streamer.audit.history import ATTACKS
from streamer.audit.page import HOW, LINE_POINTS_MAX, audit_page
from streamer.recoding.report.page import Provenance

PROVENANCE = Provenance("2026-11-26 10:00 UTC", "0.1.0", "live.jsonl", "table: people\n")
FACTS = {"table": "people", "verdict": "3 of 8 published values can be known for certain."}
FOUND = Found(
    episodes=8, pinned=3, kinds={"inserted": Share(4, 2)}, attacks={"insert delta": 2, TOGETHER: 1},
    candidates={"1": 3}, worst=1.0, mean=0.625, exact=7, linked_rows=1, published_rows=6,
    bars=[0] * 10 + [5] + [0] * 8 + [3], timeline=[(0, 4, 0), (1, 8, 3)],
    examples=[Example("f00d", "insert delta", 1), Example("<b>", TOGETHER, None, "<script>")],
)  # fmt: skip


def pictures(page: str) -> list[str]:
    return [b64decode(uri).decode() for uri in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", page)]


def test_every_attack_is_explained() -> None:
    assert HOW.keys() == {*ATTACKS.values(), TOGETHER}


def test_the_page_says_what_was_found_and_how_sure_it_is() -> None:
    page = audit_page(FACTS, FOUND, PROVENANCE)
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))
    for said in (
        "3 of 8 published values",
        "37.5 %",
        "exact for 7 values",
        "inserted 2 of 4 50 %",
        "f00d 1 insert delta",
    ):
        assert said in text
    assert "<script>" not in page
    assert "&lt;b&gt;: &lt;script&gt;" in page


def test_one_picture_is_the_course_of_what_is_known_and_one_how_sure_guesses_are() -> None:
    course, guesses = pictures(audit_page(FACTS, FOUND, PROVENANCE))
    (line,) = re.findall('points="([^"]+)"', course)
    (first, low), (last, high) = (map(float, point.split(",")) for point in line.split())
    assert first < last and low > high  # upwards, from nothing to 3 of 8
    assert guesses.count("<rect") == 2


def test_a_long_history_is_drawn_with_fewer_points() -> None:
    long = replace(FOUND, timeline=[(i, 8, 3) for i in range(2 * LINE_POINTS_MAX + 1)])
    course, _ = pictures(audit_page(FACTS, long, PROVENANCE))
    (line,) = re.findall('points="([^"]+)"', course)
    assert len(line.split()) <= LINE_POINTS_MAX
    assert "release, in steps of 3" in course


def test_a_log_without_a_source_has_laws_and_no_pictures() -> None:
    page = audit_page({**FACTS, "sealed": {"withheld_rows": 1_234}}, None, PROVENANCE)
    assert "withheld rows" in page
    assert "1,234" in page
    assert pictures(page) == []
