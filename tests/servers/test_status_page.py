"""The status page in a real Chromium: what the person on duty sees, and what it takes to begin a rebuild.

The facts are a test's own (`told_facts`), told by a server that stands in for the worker's. Pictures of the page are
left in STREAMER_SCREENSHOTS, or else in pytest's folder of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.broker.servers import free_ports
from servers.browser import CONTRAST_MIN, Browser
from servers.page_server import PageServer
from servers.told_facts import before, facts, red, shard
from worlds.patients import CANARY
from worlds.workers import WorkedTable

pytestmark = pytest.mark.night

REASON = "input topic patients.changes has 4 partitions, and Redis was filled from 3: `streamer topics check` says how"
REASON_READ = REASON.replace("`", "")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture
def told() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.end()


@pytest.fixture
def page(chromium: Browser, told: PageServer) -> Iterator[Browser]:
    """A page of a calm table of three shards, 1,280 pixels wide, in light colours; its console stays silent."""
    told.facts = facts(shard(0), shard(1), shard(2))
    chromium.see()
    chromium.open(told.address)
    chromium.has("Everything works")
    chromium.complaints()
    yield chromium
    chromium.open("about:blank")


# -- what is seen -------------------------------------------------------------------------------------------------


def test_a_calm_table_says_so_first_and_then_shows_figures_with_words(page: Browser, pictures: Path) -> None:
    page.has("patients", "every QI group has at least 5 rows", "streamer-a1")
    assert page.text().index("Everything works") < page.text().index("Shards")
    assert "123,750" in page.text("#totals")  # rows of three shards
    assert page.texts("#shards .state") == ["● held"] * 3
    assert "2 h ago" in page.text("#shards")
    assert "3 s ago" in page.text("#shards")
    assert page.texts("#letters tbody") == ["unknown-column\t4", "not-json\t1"]
    assert "it adds up" in page.text("#account")
    page.picture("light", pictures)


def test_lines_have_names_and_their_last_values_in_words(page: Browser) -> None:
    assert len(page.texts("#charts figure")) == 4
    assert "fresh, estimated 0.7" in page.text("#charts")
    labels = page.run("return [...document.querySelectorAll('figure > svg')].map((e) => e.getAttribute('aria-label'))")
    assert labels[0].startswith("Lag, messages: lag 0; highest 2,")


def test_what_is_wrong_stands_first_with_its_reason_and_since_when(
    page: Browser, told: PageServer, pictures: Path
) -> None:
    refused = shard(2, state="refused", worker=None, here=False, since=before(600), reason=REASON, lag=1_204_311)
    problem = f"shard 2: refused by streamer-a1 10 min ago: {REASON}"
    told.facts = facts(shard(0), shard(1), refused, verdict=red(problem, warnings=("Redis could lose what it keeps",)))
    page.has("1 problem, 1 warning", problem.replace("`", ""), of="#verdict")
    assert page.texts("#shards tbody")[0].startswith("2\t✖ refused\tnobody\t10 min ago\t1,204,311")
    assert REASON_READ in page.texts("#shards tbody")[0]
    assert page.texts("#shards tbody code") == ["streamer topics check"]
    assert page.text("#states") == "Of 3: 1 refused, 2 held."
    assert page.run("return document.title") == "✖ 1 problem, 1 warning – patients"
    page.picture("red", pictures)


def test_a_hundred_refused_shards_do_not_hide_the_page(page: Browser, told: PageServer) -> None:
    refused = [shard(n, state="refused", worker=None, here=False, reason=REASON) for n in range(100)]
    told.facts = facts(*refused, verdict=red(*(f"shard {n}: refused: {REASON}" for n in range(100))))
    page.has("100 problems", "and 95 more", of="#verdict")
    page.has("Of 100: 100 refused.")
    assert len(page.texts("#shards tbody")) == 100
    assert int(page.run("return document.querySelector('#facts').getBoundingClientRect().top")) < 600
    page.press("#more summary")
    page.has("shard 99: refused", of="#verdict")


def test_shards_without_a_worker_and_shards_of_another_are_told_apart(page: Browser, told: PageServer) -> None:
    elsewhere = [shard(n, state="elsewhere", worker="streamer-b2", here=False) for n in range(10)]
    alone = shard(10, state="nobody", worker=None, here=False, lag=7)
    told.facts = facts(shard(11), *elsewhere, alone)
    page.has("Of 12: 1 held by nobody, 1 held, 10 held elsewhere.")
    assert page.texts("#shards tbody")[0].startswith("10\t✖ nobody\tnobody")


def test_a_worker_that_has_just_begun_says_what_it_does_not_know(page: Browser, told: PageServer) -> None:
    warning = "no shard is held here yet"
    told.facts = facts(history=[], dead_letters={}, verdict={"ok": True, "problems": [], "warnings": [warning]})
    page.has("It works, with 1 warning", "None: Kafka has not told of any shard yet.", "No history yet", "None since")
    page.lacks("Rebuild all shards")
    new = {"release": None, "last_commit": None, "ncp": None, "ncp_fresh": None, "since": None}
    told.facts = facts(shard(0, state="taking over", **new), history=[])
    page.has("◌ taking over\tstreamer-a1 (this one)\t–")
    assert "NaN" not in page.text()
    assert "null" not in page.text()
    assert "undefined" not in page.text()


def test_categories_that_table_yaml_does_not_list_are_told_beside_the_counts(page: Browser, told: PageServer) -> None:
    assert page.texts("#unlisted li") == []
    told.facts = facts(shard(0), unlisted=["3 of 98,700 applied messages have a city: `other` takes it as '(other)'"])
    page.has("3 of 98,700 applied messages have a city: other takes it as '(other)'", of="#unlisted")
    assert page.texts("#unlisted code") == ["other"]


def test_pending_rows_are_shown_with_the_age_of_the_oldest(page: Browser, told: PageServer) -> None:
    told.facts = facts(shard(0, pending=3, pending_oldest=before(125)))
    page.has("3, oldest 2 min", of="#shards")
    page.has("rows, the oldest since 2 min ago", of="#totals")


def test_a_name_is_shown_as_it_is_written_and_never_as_html(page: Browser, told: PageServer) -> None:
    told.facts = facts(shard(0, worker="<img src=x onerror=alert(1)>"), table="<b>bold</b>")
    page.has("<b>bold</b>", "<img src=x onerror=alert(1)>")
    assert page.run("return document.querySelectorAll('main img, h1 b').length") == 0


# -- how it is seen -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(page: Browser, told: PageServer, pictures: Path, scheme: str) -> None:
    page.see(scheme=scheme)
    page.picture(f"{scheme}-calm", pictures)
    ground = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    running = {"algorithm": "ordered", "why": "drift", "began": before(60), "done": 1, "of": 4, "cancelling": False}
    states = ["refused", "standing still", "taking over", "held", "elsewhere", "nobody"]
    shards = [shard(n, state=state, reason="why", rebuild=running) for n, state in enumerate(states)]
    for verdict in (red("a problem"), {"ok": True, "problems": [], "warnings": ["a warning"]}):
        told.facts = facts(*shards, verdict=verdict)
        page.has("a problem" if verdict["problems"] else "a warning")
        pale = [found for found in page.contrasts() if found[0] < CONTRAST_MIN]
        assert not pale
    assert len(page.contrasts()) > 100
    page.picture(scheme, pictures)


@pytest.mark.parametrize("width", [400, 768])
def test_narrow_screens_need_no_scrolling_to_the_side(
    page: Browser, told: PageServer, pictures: Path, width: int
) -> None:
    page.see(width=width)
    long = shard(1, worker="streamer-" + "x" * 80, state="standing still", reason=REASON, lag=1_234_567_890)
    told.facts = facts(shard(0), long, verdict=red(f"shard 1: {REASON}"))
    page.has("1 problem", "standing still", REASON_READ)
    assert page.width_of_all() == width
    assert page.too_long() == []
    page.picture(f"{width}-pixels", pictures)
    page.press("#shards button[aria-label='Rebuild shard 0']")
    page.has("Rebuild shard 0?")
    assert page.width_of_all() == width
    page.picture(f"{width}-pixels-dialog", pictures, whole=False)


def test_the_browser_has_nothing_to_complain_of(page: Browser, told: PageServer) -> None:
    page.open(told.address)
    page.has("Everything works")
    assert page.complaints() == []


# -- when nothing comes any more ----------------------------------------------------------------------------------


def test_a_worker_that_went_greys_everything_and_is_heard_again(
    page: Browser, told: PageServer, pictures: Path
) -> None:
    told.stop()
    page.has("No connection to the worker since 12:00:00 UTC", of="#connection")
    page.has("Not known any more. It was: ✔ Everything works", of="#verdict")
    assert float(page.run("return getComputedStyle(document.querySelector('main')).opacity")) < 1
    assert page.run("return document.querySelector('main').inert")
    page.picture("no-connection", pictures)
    told.start()
    page.lacks("No connection")
    page.lacks("Not known")
    assert page.text("#verdict") == "✔ Everything works"
    assert not page.run("return document.querySelector('main').inert")


def test_a_worker_that_is_frozen_says_nothing_and_that_is_noticed(page: Browser, told: PageServer) -> None:
    told.frozen = True
    page.has("No connection to the worker since 12:00:00 UTC", of="#connection")
    told.frozen = False
    page.lacks("Not known")


def test_a_page_that_never_heard_of_a_worker_says_so(chromium: Browser, told: PageServer) -> None:
    told.frozen = True
    chromium.open(told.address)
    chromium.has("No connection to the worker for", "since this page was opened", "Not known")
    assert chromium.text("main") == ""


# -- a rebuild ----------------------------------------------------------------------------------------------------


def test_a_rebuild_is_asked_for_twice_and_with_the_token(page: Browser, told: PageServer, pictures: Path) -> None:
    page.press("#shards button[aria-label='Rebuild shard 1']")
    page.has("Rebuild shard 1?", "Re-anonymizes shard 1 in regions", "Readers keep a correct table meanwhile")
    page.press("#dialog-go")  # without a token: the browser says that the field is needed
    assert "Rebuild shard 1?" in page.text("#dialog")
    assert "Sure?" not in page.text("#dialog")
    page.type("#token", "open sesame")
    page.press("#dialog-go")
    page.has("This is the second time you are asked", "Yes, rebuild shard 1 now", of="#dialog")
    assert told.asked == []
    assert page.run("return document.activeElement.id") == "dialog-leave"
    page.picture("dialog", pictures, whole=False)
    page.press("#dialog-go")
    page.has("Asked. A worker takes it up within seconds", of="#dialog")
    assert told.asked == [("/rebuild", {"shard": 1, "algorithm": None}, "open sesame")]
    page.press("#dialog-leave")
    page.press("#rebuild-all")  # the token is known now, in this tab
    page.has("Rebuild all shards?", "Re-anonymizes each shard")
    page.press("#dialog-go")
    page.press("#dialog-go")
    page.has("Asked.", of="#dialog")
    assert told.asked[1:] == [("/rebuild", {"shard": None, "algorithm": None}, "open sesame")]


def test_whoever_leaves_at_either_question_has_asked_nothing(page: Browser, told: PageServer) -> None:
    for questions in (0, 1):
        page.press("#shards button[aria-label='Rebuild shard 0']")
        page.type("#token", "open sesame")
        for _ in range(questions):
            page.press("#dialog-go")
        page.press("#dialog-leave")
        page.lacks("Rebuild shard 0?")
    assert told.asked == []
    assert page.run("return Object.keys(sessionStorage).length + Object.keys(localStorage).length") == 0


def test_a_double_click_answers_one_question_only(page: Browser, told: PageServer) -> None:
    page.press("#shards button[aria-label='Rebuild shard 0']")
    page.type("#token", "open sesame")
    page.press_twice("#dialog-go")
    assert "Asking the worker" not in page.text("#dialog")
    assert "Asked" not in page.text("#dialog")
    assert told.asked == []


def test_a_wrong_token_is_told_and_forgotten(page: Browser, told: PageServer) -> None:
    told.answer = (403, {"error": "the token is another one: the worker printed it when it started"})
    page.press("#shards button[aria-label='Rebuild shard 0']")
    page.type("#token", "guessed")
    page.press("#dialog-go")
    page.press("#dialog-go")
    page.has("Refused: the token is another one", of="#dialog")
    assert page.run("return document.getElementById('token').value") == ""
    assert page.run("return sessionStorage.length") == 0


def test_a_running_rebuild_shows_how_far_it_is_and_can_be_stopped(page: Browser, told: PageServer) -> None:
    running = {"algorithm": "ordered", "why": "drift", "began": before(150), "done": 3, "of": 12, "cancelling": False}
    told.facts = facts(shard(0, rebuild=running))
    page.has("3 of 12 regions", of="#shards")
    page.has("running, 3 of 12 regions, begun 2 min ago\tordered\tdrift", of="#rebuilds")
    assert page.run("return document.querySelector('progress').value") == 3
    page.press("#shards button[aria-label='Stop the rebuild of shard 0']")
    page.has("Stop the rebuild of shard 0?", "Regions that are done stay so")
    page.type("#token", "open sesame")
    page.press("#dialog-go")
    page.has("Asked. It stops after the region", of="#dialog")
    assert told.asked == [("/rebuild/cancel", {"shard": 0}, "open sesame")]
    page.press("#dialog-leave")
    told.facts = facts(shard(0, rebuild=running | {"cancelling": True}))
    page.has("stopping", of="#shards")


def test_rebuilds_that_ended_are_remembered_the_latest_first(page: Browser, told: PageServer) -> None:
    ended = {"algorithm": "ordered", "why": "drift", "ncp_before": 0.91, "ncp_after": 0.74, "rows_published": 30_112}
    early = ended | {"at": before(7300), "ended": "cancelled"}
    late = ended | {"at": before(60), "ended": "done"}
    told.facts = facts(shard(0, rebuilds=[early]), shard(1, rebuilds=[late]))
    page.has("cancelled", of="#rebuilds")
    assert page.texts("#rebuilds tbody") == [
        "1\tdone 1 min ago\tordered\tdrift\t0.9100\t0.7400\t30,112",
        "0\tcancelled 2 h ago\tordered\tdrift\t0.9100\t0.7400\t30,112",
    ]


def test_a_button_keeps_the_focus_while_figures_change_around_it(page: Browser, told: PageServer) -> None:
    page.run("document.querySelector('#shards button').focus()")
    told.facts = facts(shard(0, lag=77), shard(1), shard(2))
    page.has("77", of="#shards")
    assert page.run("return document.activeElement.getAttribute('aria-label')") == "Rebuild shard 0"


# -- all of it ----------------------------------------------------------------------------------------------------


def test_a_real_worker_is_seen_at_work_rebuilt_from_its_page_and_missed(
    world: WorkedTable, chromium: Browser, pictures: Path
) -> None:
    port = free_ports(1)[0]
    world.environment |= {"STREAMER_WEB": f"127.0.0.1:{port}", "STREAMER_WEB_TOKEN": "open sesame"}
    worker = world.start()
    world.write(160)
    world.wait_until_published()
    chromium.see()
    chromium.open(f"http://127.0.0.1:{port}/")
    chromium.has("Of 4: 4 held.")
    messages = sum(len(shard) for shard in world.changes.messages)
    chromium.has(f"messages {messages:,} = ", "it adds up", of="#account")
    assert chromium.texts("#letters tbody")
    chromium.press("#shards button[aria-label='Rebuild shard 2']")
    chromium.type("#token", "open sesame")
    chromium.press("#dialog-go")
    chromium.press("#dialog-go")
    chromium.has("Asked.", of="#dialog")
    chromium.press("#dialog-leave")
    chromium.has("2\tdone", of="#rebuilds")
    chromium.picture("real-worker", pictures)
    assert CANARY not in chromium.driver.page_source
    assert chromium.complaints() == []
    worker.kill()
    chromium.has("No connection to the worker since", of="#connection")
