"""The status page of a real worker in a real Chromium: what is seen, that it is escaped, and that silence is noticed.

What the page says of which facts is tested without a browser (tests/unit/agents/web/test_service.py). Pictures of the
page are left in STREAMER_SCREENSHOTS, or else in pytest's folder of the run.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from agents.web.service import page
from servers.broker.servers import free_ports
from servers.browser import CONTRAST_MIN, Browser
from worlds.patients import CANARY
from worlds.status_facts import facts, server
from worlds.status_facts import shard_as_json as shard
from worlds.workers import SHARDS, WorkedTable

pytestmark = pytest.mark.night


def test_a_worker_is_seen_at_work_and_missed_while_it_does_not_answer(
    world: WorkedTable, chromium: Browser, tmp_path: Path
) -> None:
    port = free_ports(1)[0]
    world.environment |= {"STREAMER_WEB": f"127.0.0.1:{port}"}
    worker = world.serve(160)
    chromium.see()
    chromium.open(f"http://127.0.0.1:{port}/")
    chromium.has(f"Of {SHARDS}: {SHARDS} held.")
    messages = sum(len(shard) for shard in world.changes.messages)
    chromium.has(f"messages {messages:,} = ", "it adds up", of="#counts")
    assert chromium.texts("#letters tbody")
    assert CANARY not in chromium.driver.page_source
    for scheme in ("light", "dark"):
        chromium.see(scheme=scheme)
        chromium.picture(scheme, tmp_path)
        assert [found for found in chromium.contrasts() if found[0] < CONTRAST_MIN] == []
    chromium.see(width=400)
    assert chromium.width_of_all() == 400
    chromium.picture("400-pixels", tmp_path)
    assert chromium.complaints() == []
    before = chromium.text("header")
    chromium.run("document.getElementById('table-of-shards').focus()")
    chromium.lacks(before, of="header")
    assert chromium.run("return document.activeElement.id") == "table-of-shards", "a reader loses no place"

    worker.process.send_signal(signal.SIGSTOP)
    chromium.has("No connection to the worker since", of="#lost")
    assert float(chromium.run("return getComputedStyle(document.querySelector('main')).opacity")) < 1
    worker.process.send_signal(signal.SIGCONT)
    chromium.lacks("No connection")
    assert float(chromium.run("return getComputedStyle(document.querySelector('main')).opacity")) == 1
    worker.kill()
    chromium.has("No connection to the worker since", of="#lost")


# Of each row of tiles: how far its last one is from the right edge, and how many it has.
ROWS_OF_TILES = """
const edge = document.querySelector("dl").getBoundingClientRect().right, rows = new Map();
for (const tile of document.querySelectorAll("dl > div")) {
  const box = tile.getBoundingClientRect();
  rows.set(box.top, [edge - box.right, (rows.get(box.top)?.[1] ?? 0) + 1]);
}
return [...rows.values()];
"""


@pytest.mark.parametrize(
    ("width", "tiles"), [(1280, [5]), (1000, [5]), (800, [3, 2]), (400, [2, 2, 1]), (320, [1] * 5)]
)
def test_tiles_fill_every_row_and_what_is_old_can_be_read(
    width: int, tiles: list[int], chromium: Browser, tmp_path: Path
) -> None:
    frozen = facts(shard(0), shard(1, lag=1_204), servers=[server("Kafka", 8.0), server("Redis")])
    (tmp_path / "page.html").write_text(page(frozen), "utf-8")
    for scheme in ("light", "dark"):
        chromium.see(width, scheme)
        chromium.open((tmp_path / "page.html").as_uri())
        chromium.has("Not known while Kafka does not answer", "8 s ago", of="#verdict")
        rows = chromium.run(ROWS_OF_TILES)
        assert [n for _, n in rows] == tiles
        assert all(abs(gap) < 1 for gap, _ in rows), "no hole"
        assert chromium.width_of_all() == width
        assert [found for found in chromium.contrasts() if found[0] < CONTRAST_MIN] == []


def test_a_name_is_shown_as_it_is_written_and_never_as_html(chromium: Browser, tmp_path: Path) -> None:
    hostile = shard(0, worker="<img src=x onerror=alert(1)>", reason="`<b>`", state="standing still")
    (tmp_path / "page.html").write_text(page(facts(hostile, table="<b>bold</b>")), "utf-8")
    chromium.open((tmp_path / "page.html").as_uri())
    chromium.has("<b>bold</b>", "<img src=x onerror=alert(1)>", "<b>")
    assert chromium.run("return document.querySelectorAll('main img, body b').length") == 0
