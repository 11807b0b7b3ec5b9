"""`streamer audit`: what it prints and where it ends, over files as `replay` writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from worlds.calls import answer, streamer
from worlds.checkout import PATIENTS
from worlds.sealed_logs import SmallPublisher, as_file, busy_publisher

ROWS, EVENTS = PATIENTS / "rows.csv", PATIENTS / "events.jsonl"
SOURCE = ["--source", EVENTS, "--initial", ROWS]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The changelog of the example, change by change."""
    folder = tmp_path_factory.mktemp("replayed")
    answer("replay", "--table", PATIENTS, EVENTS, "--initial", ROWS, "--batch", 1, "--out", folder)
    return folder / "live.jsonl"


def audit(*words: object) -> Result:
    return streamer("audit", "--table", PATIENTS, *words)


def test_a_packed_live_log_is_audited_like_the_log(live: Path) -> None:
    packed = live.with_name("live.jsonl.gz")
    packed.write_bytes(gzip.compress(live.read_bytes()))
    one, other = (answer("audit", "--table", PATIENTS, log, *SOURCE) for log in (live, packed))
    assert {**one, "log": packed.name} == other


def test_a_live_log_of_other_bytes_is_refused_with_2(live: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_bytes(live.with_name("secret.txt").read_bytes())
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(live.read_bytes().replace(b'"qi_group":"', b'"qi_group":"\xff', 3))
    result = audit(broken, *SOURCE)
    assert (result.exit_code, "line 1: is not of the form" in result.output) == (2, True)


def test_the_beta_of_table_yaml_is_the_bound_of_a_live_log(live: Path, tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text().replace("hierarchies/", f"{PATIENTS}/hierarchies/")
    (tmp_path / "table.yaml").write_text(text.replace("{k: 3}", "{k: 3, beta: 0.6}"))
    answer("replay", "--table", tmp_path, EVENTS, "--initial", ROWS, "--batch", 1, "--out", tmp_path / "out")
    result = streamer("audit", "--table", tmp_path, tmp_path / "out" / "live.jsonl", *SOURCE, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["ok"], found["bound"]) == (False, 0.6)


def secrets_of_the_example() -> set[str]:
    """The sensitive values of the example, as they might show."""
    lines = ROWS.read_text().splitlines()
    column = lines[0].split(",").index("problem")
    return {line.split(",")[column] for line in lines[1:]}


def test_values_and_source_keys_are_shown_only_to_those_who_ask_for_them(live: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    shown = audit(live, *SOURCE, "--html", page).stdout + answer_text(live) + page.read_text().split("<pre>")[0]
    assert not [value for value in secrets_of_the_example() if value in shown]
    raw = answer("audit", "--table", PATIENTS, live, *SOURCE, "--raw")
    assert {json.loads(one["value"]) for one in raw["examples"]} <= secrets_of_the_example() | {"bronchitis"}
    assert all(one["row"].isdigit() for one in raw["examples"])


def answer_text(live: Path) -> str:
    return audit(live, *SOURCE, "--json").stdout


def test_the_page_shows_attacks_and_pictures(live: Path, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    found = json.loads(audit(live, *SOURCE, "--html", page, "--json").stdout)
    html = page.read_text()
    assert html.count("data:image/svg+xml;base64,") == 2
    assert all(attack in html for attack in found["attacks"])
    assert f"{found['pinned']:,} of {found['episodes']:,} published values can be known for certain" in html
    assert audit(live, *SOURCE, "--html", page).exit_code == 2  # it exists


@pytest.fixture
def sealed(tmp_path: Path) -> dict[str, Path]:
    """A table.yaml and a sealed log with its events and members."""
    publisher = busy_publisher(4)
    (tmp_path / "table.yaml").write_text(
        "table: people\nkey: id\ncolumns:\n"
        "  years: {role: quasi-identifier, type: integer, domain: [0, 9], grid: 1}\n"
        "  problem: {role: sensitive}\nprivacy: {k: 2}\npublish:\n  live: {form: rows}\n  sealed: {epoch: 10 events}\n"
    )
    return written(tmp_path, publisher)


def written(folder: Path, publisher: SmallPublisher) -> dict[str, Path]:
    files = {name: folder / f"{name}.jsonl" for name in ("sealed", "events", "members")}
    files["sealed"].write_bytes(as_file(publisher.lines))
    files["events"].write_bytes(b"".join((message.value or b"") + b"\n" for message in publisher.messages))
    files["members"].write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in publisher.members))
    return files | {"table": folder}


def test_a_sealed_log_is_audited_from_its_bytes_alone(sealed: dict[str, Path]) -> None:
    found = answer("audit", sealed["sealed"])
    assert found["ok"]
    assert found["sealed"]["cohorts"] > 0
    assert found["sealed"]["rows"] > found["sealed"]["ghosts"] > 0
    assert "bytes alone" in streamer("audit", sealed["sealed"]).stdout


def test_of_a_sealed_log_nothing_is_known_for_certain(sealed: dict[str, Path], tmp_path: Path) -> None:
    words = ["--source", sealed["events"], "--members", sealed["members"], "--html", tmp_path / "page.html"]
    found = answer("audit", "--table", sealed["table"], sealed["sealed"], *words)
    assert (found["ok"], found["pinned"], found["attacks"], found["alpha"]) == (True, 0, {}, "0.5")
    assert found["episodes"] > 5
    assert "The sealed changelog" in (tmp_path / "page.html").read_text()


def test_a_sealed_log_that_was_cut_is_refused_with_1(sealed: dict[str, Path]) -> None:
    lines = sealed["sealed"].read_bytes().splitlines(keepends=True)
    sealed["sealed"].write_bytes(b"".join(lines[1:]))
    result = streamer("audit", sealed["sealed"], "--json")
    assert result.exit_code == 1
    error: dict[str, Any] = json.loads(result.stdout)
    assert "is broken by record" in error["error"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(["live"], "only beside its events", id="a live log alone"),
        pytest.param(["live", "--initial", ROWS], "need --source", id="a table before no events"),
        pytest.param([], "name one LOG.jsonl, or --compare", id="nothing"),
        pytest.param(["live", "--compare", *SOURCE], "name one LOG.jsonl, or --compare", id="a log and a comparison"),
        pytest.param(["--compare", *SOURCE, "--html", "a.html"], "goes with none of", id="a page of a comparison"),
        pytest.param(["live", "--source", "-"], "more than once", id="events of a pipe"),
        pytest.param(["-", *SOURCE], "more than once", id="a log of a pipe"),
        pytest.param(["live", "--bound", 0.5], "need --source", id="a bound that nobody would look at"),
        pytest.param(["--compare", *SOURCE, "--bound", 0.5], "goes with none of", id="a bound of a comparison"),
        pytest.param(["live", *SOURCE, "--kind", "sealed"], "has no publish.sealed", id="no table of a sealed log"),
        pytest.param(["live", *SOURCE, "--secret", "nowhere"], "there is no nowhere", id="no secret"),
        pytest.param([ROWS, *SOURCE], "no record of a live or sealed changelog", id="another file"),
    ],
)
def test_what_cannot_be_audited_is_refused_with_2(live: Path, words: list[object], says: str) -> None:
    result = audit(*(live if word == "live" else word for word in words))
    assert result.exit_code == 2
    assert says in result.output


def test_a_page_needs_a_table(sealed: dict[str, Path], tmp_path: Path) -> None:
    result = streamer("audit", sealed["sealed"], "--html", tmp_path / "a.html")
    assert (result.exit_code, "--html needs --table" in result.output) == (2, True)


@pytest.fixture
def replayed(sealed: dict[str, Path]) -> dict[str, Path]:
    """What `replay` makes of the same events and two statements, in epochs that end within these."""
    statements = [
        {"op": "modify", "where": "years < 5", "set": {"years": "years + 1"}},
        {"op": "delete", "where": "years > 3"},
    ]
    with open(sealed["events"], "a") as file:
        file.writelines(json.dumps(statement) + "\n" for statement in statements)
    rows = [f"r{i},{i % 10},{'abcde'[i % 5]}" for i in range(12)]
    initial = sealed["table"] / "rows.csv"
    initial.write_text("\n".join(["id,years,problem", *rows]) + "\n")
    out = sealed["table"] / "out"
    answer("replay", "--table", sealed["table"], sealed["events"], "--initial", initial, "--out", out)
    return {**sealed, "sealed": out / "sealed.jsonl", "initial": initial}


def words_of(files: dict[str, Path]) -> list[object]:
    return ["--table", files["table"], files["sealed"], "--source", files["events"], "--initial", files["initial"]]


def test_a_sealed_log_of_replay_is_compared_with_its_events_by_its_secret(replayed: dict[str, Path]) -> None:
    found = answer("audit", *words_of(replayed))
    assert (found["ok"], found["pinned"]) == (True, 0)
    assert found["kinds"]["untouched"]["episodes"] > 0
    assert found["kinds"]["deleted"]["episodes"] > 5
    assert found["sealed"]["records"] == len(replayed["sealed"].read_text().splitlines())


def test_a_sealed_log_of_other_events_or_of_another_secret_is_refused_with_1(replayed: dict[str, Path]) -> None:
    secret = replayed["sealed"].with_name("secret.txt")
    kept = secret.read_text()
    secret.write_text("ab" * 32 + "\n")
    assert "law 'members' is broken at epoch 1" in audited_with_1(replayed)
    secret.write_text(kept)
    text = replayed["sealed"].read_text()
    values = next(line for line in text.splitlines() if '"sensitive":[[' in line).partition('"sensitive":[["')[2]
    first = values[0]
    replayed["sealed"].write_text(text.replace(f'"sensitive":[["{first}"', f'"sensitive":[["{" " + first}"', 1))
    assert "law 'cohort values' is broken at epoch 1" in audited_with_1(replayed)


def audited_with_1(files: dict[str, Path]) -> str:
    result = streamer("audit", *words_of(files))
    assert result.exit_code == 1
    return result.output
