"""The calls whose output golden files hold and that need no server: they work on files, or end before anything is done.

They are made in a folder of their own, in which the example table is `patients`. One call may read what another wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from docs.generate.commands import all_commands
from servers.broker.servers import Servers
from streamer.incremental.replay import NAME, secret_text
from worlds.checkout import PATIENTS
from worlds.golden_files import Case
from worlds.workers import WorkedTable

TABLE = ("--table", "patients")
ROWS, EVENTS = "patients/rows.csv", "patients/events.jsonl"

NEEDED = {
    "audit": ("--table", "cohorts", "topic"),
    "erase": ("71",),
    "explain": ("71",),
    "index": ("--out", "private.csv"),
    "load": (ROWS,),
    "produce": (ROWS,),
    "skip": ("--shard", "0", "--offset", "1"),
    "reload": ("--from-source", ROWS),
}
"""What a command needs besides its table."""

ASK_NO_SERVER = {"config", "connect source", "connect view", "demo"}
"""Commands that have options for servers and ask none; the demo has servers of its own."""

WRONG = {
    "anonymize": (*TABLE, ROWS, "-o", ROWS),
    "audit": (*TABLE, "replayed/live.jsonl"),
    "check": ("--table", "nowhere"),
    "compare": (*TABLE, "nowhere.csv"),
    "config": ("--table", "broken"),
    "connect sink": (*TABLE, "--system", "oracle"),
    "connect source": ("--connector", "mysql"),
    "connect view": (*TABLE, "--dialect", "oracle"),
    "dead-letters": (*TABLE, "--limit", "few"),
    "dead-letters acknowledge": (*TABLE, "--shard", "-1"),
    "dead-letters retry": (*TABLE, "--offset", "7"),
    "demo": ("--out", "patients"),
    "end-snapshot": (*TABLE, "--shard", "-1"),
    "erase": TABLE,
    "explain": TABLE,
    "forecast": (*TABLE, ROWS, "--shards", "0"),
    "groups": (*TABLE, "--limit", "0"),
    "index": TABLE,
    "hierarchy": (ROWS, "--column", "sex", "--by", "prefix"),
    "init": ("one-row.csv",),
    "distribution": (ROWS, *TABLE, "--column", "age"),
    "doctor": ("--table", "nowhere"),
    "load": ("topic", *TABLE),
    "produce": ("table-of-what.txt", *TABLE),
    "pseudonym": ("7",),
    "rebuild": (*TABLE, "--dry-run", "--wait"),
    "replay": (*TABLE, "nowhere.jsonl"),
    "skip": (*TABLE, "--shard", "0"),
    "reload": (*TABLE, "--from-source", ROWS, "--from-offset", "soon"),
    "status": (*TABLE, "--dead-letters-max", "2"),
    "subscribe": (*TABLE, "--sql", "SELECT 1", "--query", "age = 30"),
    "topics check": (*TABLE, "--shard", "4"),
    "topics create": (*TABLE, "--shards", "0"),
    "verify": (*TABLE, "replayed/live.jsonl", "--source", ROWS),
    "worker": (*TABLE, "--log-format", "xml"),
}
"""A call of each command that cannot be meant."""

TIME_OF_ANONYMIZE = (r"^( +time  ).*", r"\1<seconds>, of <seconds> in all")
TIME_OF_REPLAY = (r"^( +seconds  ).*", r"\1<seconds>")
SECONDS_OF_COMPARE = (r"^([a-z-]+) +[0-9.e-]+ ", r"\1 <seconds> ")
DETAILS = (r'"(evaluated|seconds|milliseconds)": [0-9.e-]+', r'"\1": "<figure>"')
STAGES = (r'"(read|encode|anonymize|measure|trade-offs|write)": [0-9.e-]+', r'"\1": "<seconds>"')
MEASURED = (
    (r"^( *a change, repair [0-9a-z%]+  ).*", r"\1<µs>"),
    (r"^( +worker  )[0-9.,]+ MB", r"\1<size>"),
    (r"^( +a shard takes  )[0-9,]+", r"\1<figure>"),
    (r'"(microseconds|bytes_of_a_shard|of_a_shard)": [0-9.e+-]+', r'"\1": "<figure>"'),
    (r'("bytes_of_a_shard": .*,\n *"bytes_of_a_row"): [0-9.e-]+', r'\1: "<figure>"'),
)

MESSY = """\
id,name,age,zip,bmi,sex,problem
1,A,31,14969,21.7,Male,flu
2,B,200,11476,19.9,Female,flu
3,C,,11476,19.9,x,flu
"""
COHORTS = (
    "table: cohorts\nkey: id\ncolumns:\n  age: {role: quasi-identifier, type: integer, domain: [0, 119]}\n"
    "  problem: {role: sensitive}\nprivacy: {k: 3}\npublish: {sealed: {epoch: 10m}}\n"
)
BROKEN = "table: broken\nkey: id\ncolumns:\n  age: {role: quasi-identifer, type: integer}\nprivacy: {k: 1}\n"


def furnish(folder: Path) -> None:
    """What the calls read."""
    shutil.copytree(PATIENTS, folder / "patients")
    (folder / "messy.csv").write_text(MESSY + "".join(f"{n},N,{n},1{n}00,20.0,Male,flu\n" for n in range(30, 50)))
    (folder / "one-row.csv").write_text("id,age\n1,30\n")
    (folder / "table-of-what.txt").write_text("id\n1\n")
    (folder / "readers.key").write_text("5e" * 32)
    (folder / "readers.key").chmod(0o600)
    (folder / "replayed").mkdir()
    (folder / "replayed" / NAME).write_bytes(secret_text(bytes(32)))  # which `replay` would draw
    for name, text in (("broken", BROKEN), ("cohorts", COHORTS)):
        (folder / name).mkdir()
        (folder / name / "table.yaml").write_text(text)


def break_changelog() -> None:
    """A changelog that a row has been taken out of."""
    *lines, _ = Path("replayed/live.jsonl").read_text().splitlines()
    Path("torn.jsonl").write_text("\n".join([line for line in lines if '"slot":0' not in line]) + "\n")


def forget_outputs() -> None:
    """Removes what was written before: nothing is overwritten."""
    shutil.rmtree("drafted", ignore_errors=True)
    replayed = {*Path("replayed").glob("*")} - {Path("replayed", NAME)}
    for path in (Path("anonymous.csv"), Path("private.csv"), *replayed):
        path.unlink(missing_ok=True)


def cases() -> Iterator[Case]:
    """All of them, those first that others read the files of."""
    yield from _of_files()
    yield from _that_break_a_law()
    for name, words in WRONG.items():
        yield Case(name, "what cannot be meant", words, exit_code=2)
    for name, command in all_commands():
        options = {parameter.name for parameter in command.params}
        if options & {"kafka", "redis"} and name not in ASK_NO_SERVER:
            away = [*TABLE, *NEEDED.get(name, ())]
            away += ["--kafka", "127.0.0.1:1"] * ("kafka" in options)
            away += ["--redis", "redis://127.0.0.1:1/0"] * ("redis" in options)
            exit_code = 1 if name == "doctor" else 3  # it reports what it finds
            yield Case(name, "no server answers", tuple(away), exit_code=exit_code, apart=name == "worker")


def _of_files() -> Iterator[Case]:
    seed = ("--seed", "1")
    anonymized = (*TABLE, ROWS, "-o", "anonymous.csv", *seed)
    replayed = (*TABLE, EVENTS, "--initial", ROWS, "--out", "replayed")
    yield Case("anonymize", "a table is written", anonymized, rules=(TIME_OF_ANONYMIZE, STAGES), before=forget_outputs)
    yield Case("check", "what a table means", TABLE)
    yield Case("check", "what it does to data", (*TABLE, "--data", ROWS))
    yield Case("check", "what is refused of messy data", (*TABLE, "--data", "messy.csv"))
    yield Case("compare", "every algorithm", (*TABLE, ROWS, *seed), rules=(SECONDS_OF_COMPARE, DETAILS))
    yield Case("config", "where every setting comes from", TABLE)
    yield Case("connect sink", "a sink's configuration", TABLE, verbatim=True)
    yield Case("connect source", "a source's configuration", TABLE, verbatim=True)
    yield Case("connect view", "a view", TABLE, verbatim=True)
    yield Case("forecast", "what a live table costs", (*TABLE, ROWS, "--events-per-second", "9"), rules=MEASURED)
    ways = {
        "intervals": ("age", "--fan", "4"),
        "prefix": ("zip",),
        "order": ("problem", "--fan", "5"),
        "frequency": ("problem",),
    }
    for by, words in ways.items():
        yield Case("hierarchy", f"by {by}", (ROWS, "--by", by, "--column", *words))
    yield Case("distribution", "of a sensitive column", (ROWS, *TABLE, "--column", "problem"))
    yield Case("init", "a first table.yaml", (ROWS, "-o", "drafted"), before=forget_outputs)
    yield Case("pseudonym", "of values", ("--key-file", "readers.key", "7", "7.0", "Ann"))
    yield Case("replay", "a changelog is written", replayed, rules=(TIME_OF_REPLAY,), before=forget_outputs)
    yield Case("verify", "every law holds", (*TABLE, "replayed/live.jsonl"))
    source = ("--source", EVENTS, "--initial", ROWS)
    yield Case("audit", "what a history gives away", (*TABLE, "replayed/live.jsonl", *source))
    yield Case("audit", "ways to publish", (*TABLE, "--compare", *source, "--secret", f"replayed/{NAME}"))


def _that_break_a_law() -> Iterator[Case]:
    yield Case("verify", "a law is broken", (*TABLE, "torn.jsonl"), exit_code=1, before=break_changelog)
    bounded = ("replayed/live.jsonl", "--source", EVENTS, "--initial", ROWS, "--bound", "0.5")
    yield Case("audit", "a bound is broken", (*TABLE, *bounded), exit_code=1)


SHARDS = 2
SECRET = bytes(32)
BAD = '{"op": "insert", "row": {"id": "canary-2"}}\ncanary-1\n{"op": "delete", "key": "canary-3"}\n'

NAME_OF_TABLE = (r"\bp[0-9a-f]{7}\b", "patients")
WHEN = (r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|\+00:00)?", "####-##-##T##:##:##Z")
REQUEST = (r"\b[0-9a-f]{16}\b", "<request's id  >")
STATEMENT = (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<statement's id>")
RATE = (r"\(([0-9,]+) a second\)", "(<rate> a second)")
RULES = (NAME_OF_TABLE, WHEN, STATEMENT, REQUEST, RATE)


class ServedTable:
    """The table `patients`, at rest, and others in folders beside it, all below the folder that commands are called in.

    Its name is as long as `patients`, which stands for it in the files, so that every line is broken at the same place.
    `changed` is the same table by a table.yaml of another k; `unread` has messages that no one has read; `fresh` is a
    table that no one has used, made again whenever it is asked for.
    """

    def __init__(self, servers: Servers, folder: Path) -> None:
        self._servers, self._folder = servers, folder
        table = self._made("patients", SHARDS)
        self.name = table.name
        self.environment = {"KAFKA_BOOTSTRAP": servers.kafka_bootstrap, "REDIS_URL": servers.redis_url}
        shutil.copytree(folder / "patients", folder / "changed")
        changed = folder / "changed" / "table.yaml"
        changed.write_text(changed.read_text().replace("{k: 3}", "{k: 4}"))
        (folder / "bad.jsonl").write_text(BAD)
        for file in ("patients/rows.csv", "patients/events.jsonl", "bad.jsonl"):
            table.must("produce", folder / file)
        table.work(secret=SECRET)
        self._made("unread", SHARDS).must("produce", folder / "unread" / "rows.csv")

    def before(self, case: Case) -> Callable[[], None]:
        """What has to be done before a call."""
        if "fresh" not in case.words:
            return forget_outputs
        shards = 0 if case.command in ("topics check", "topics create", "worker") else SHARDS

        def make() -> None:
            self._made("fresh", shards)

        return make

    def _made(self, folder: str, shards: int) -> WorkedTable:
        """A table with a name of its own."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)
        return WorkedTable(self._servers, self._folder / folder, shards, name=f"p{uuid4().hex[:7]}")


def served_cases() -> Iterator[Case]:
    """The calls that are answered by servers."""
    table, changed, fresh = (("--table", name) for name in ("patients", "changed", "fresh"))
    rows = "patients/rows.csv"
    by_problem = "SELECT problem, count(*) AS n FROM t GROUP BY 1 ORDER BY 1"
    asked: list[tuple[str, str, tuple[str, ...]]] = [
        ("dead-letters", "what was refused", table),
        ("dead-letters retry", "what a retry would do", (*table, "--dry-run")),
        ("dead-letters retry", "messages are tried again", table),
        ("dead-letters acknowledge", "nothing was refused", fresh),
        ("erase", "a row that is gone", (*table, "canary-3", "--no-send", "--count", "--reference", "case 17")),
        ("explain", "a row", (*table, "1")),
        ("explain", "a QI group", (*table, "--group", "0-1")),
        ("groups", "the QI groups", (*table, "--limit", "3")),
        ("groups", "the nearest of one", (*table, "--nearest", "0-1", "--limit", "3")),
        ("index", "the private index is written", (*table, "--out", "private.csv")),
        ("doctor", "all is there", TABLE),
        ("load", "the first rows", (rows, *fresh)),
        ("produce", "rows are sent", (rows, *fresh)),
        ("produce", "statements are sent", ("patients/events.jsonl", *fresh)),
        ("rebuild", "a rebuild is asked for", table),
        ("rebuild", "what one would gain", (*table, "--dry-run")),
        ("skip", "a message is passed over", ("--table", "unread", "--shard", "0", "--offset", "1")),
        ("reload", "a table is begun anew", (*fresh, "--from-source", rows)),
        ("status", "everything fits", (*table, "--dead-letters-max", "1")),
        ("subscribe", "the published table", table),
        ("subscribe", "an estimate", (*table, "--query", "age = 30 and problem = 'flu'")),
        ("subscribe", "an answer in SQL", (*table, "--sql", by_problem)),
        ("topics check", "all topics are as they must be", table),
        ("topics create", "topics are made", (*fresh, "--shards", "2")),
    ]  # fmt: skip
    for command, name, words in asked:
        yield Case(command, name, words, rules=RULES)
    yield Case("status", "a shard does not fit", changed, exit_code=1, rules=RULES)
    yield Case("erase", "no such row", (*table, "999"), exit_code=2, rules=RULES)
    yield Case("rebuild", "nobody takes it up", (*table, "--wait"), exit_code=1, rules=RULES)
    yield Case("end-snapshot", "nothing is held back", table, exit_code=2, rules=RULES)
    yield Case("topics check", "topics are missing", fresh, exit_code=2, rules=RULES)
    yield Case("worker", "topics are missing", fresh, exit_code=2, rules=RULES, apart=True)
