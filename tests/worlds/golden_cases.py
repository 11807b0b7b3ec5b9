"""The calls whose output golden files hold and that need no server: they work on files, or end before anything is done.

They are made in a folder of their own, in which the example table is `patients`. One call may read what another wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from docs.generate.commands import all_commands
from streamer.incremental.replay import NAME, secret_text
from worlds.checkout import PATIENTS
from worlds.golden_files import Case

TABLE = ("--table", "patients")
ROWS, EVENTS = "patients/rows.csv", "patients/events.jsonl"

NEEDED = {
    "explain": ("71",),
    "index": ("--out", "private.csv"),
    "load": (ROWS,),
    "produce": (ROWS,),
    "skip": ("--shard", "0", "--offset", "1"),
    "reload": ("--from-source", ROWS),
}
"""What a command must be told beside its table."""

ASK_NO_SERVER = {"config", "connect source", "connect view", "demo"}
"""Commands that name servers and ask none; without them, the demo has its own."""

WRONG = {
    "anonymize": (*TABLE, ROWS, "-o", ROWS),
    "check": ("--table", "nowhere"),
    "compare": (*TABLE, "nowhere.csv"),
    "config": ("--table", "broken"),
    "connect sink": (*TABLE, "--system", "oracle"),
    "connect source": ("--connector", "mysql"),
    "connect view": (*TABLE, "--dialect", "oracle"),
    "dead-letters": (*TABLE, "--limit", "few"),
    "dead-letters retry": (*TABLE, "--offset", "7"),
    "demo": ("--out", "patients"),
    "end-snapshot": (*TABLE, "--shard", "-1"),
    "explain": TABLE,
    "groups": (*TABLE, "--limit", "0"),
    "index": TABLE,
    "init": ("one-row.csv",),
    "load": ("topic", *TABLE),
    "produce": ("table-of-what.txt", *TABLE),
    "rebuild": (*TABLE, "--dry-run", "--wait"),
    "replay": (*TABLE, "nowhere.jsonl"),
    "skip": (*TABLE, "--shard", "0"),
    "reload": (*TABLE, "--from-source", ROWS, "--from-offset", "soon"),
    "status": (*TABLE, "--dead-letters-max", "2"),
    "subscribe": (*TABLE, "--sql", "SELECT 1", "--query", "age = 30"),
    "topics check": (*TABLE, "--shard", "4"),
    "topics create": (*TABLE, "--shards", "0"),
    "verify": (*TABLE, "replayed/live.jsonl", "--source", ROWS),
    "warm": ("--core", "float16"),
    "worker": (*TABLE, "--log-format", "xml"),
}
"""A call of each command that cannot be meant."""

TIME_OF_ANONYMIZE = (r"^( +time  ).*", r"\1<seconds>, of <seconds> in all")
TIME_OF_REPLAY = (r"^( +seconds  ).*", r"\1<seconds>")
SECONDS_OF_COMPARE = (r"^([a-z-]+) +[0-9.e-]+ ", r"\1 <seconds> ")
DETAILS = (r'"(evaluated|seconds|milliseconds)": [0-9.e-]+', r'"\1": "<figure>"')
STAGES = (r'"(read|encode|anonymize|measure|trade-offs|write)": [0-9.e-]+', r'"\1": "<seconds>"')
FOLDER = (r'"folder": ".*"', '"folder": "<folder>"')

MESSY = """\
id,name,age,zip,bmi,sex,problem
1,A,31,14969,21.7,Male,flu
2,B,200,11476,19.9,Female,flu
3,C,,11476,19.9,x,flu
"""
BROKEN = "table: broken\nkey: id\ncolumns:\n  age: {role: quasi-identifer, type: integer}\nprivacy: {k: 1}\n"
SINK = '{"connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": "patients.live"}'


def furnish(folder: Path) -> None:
    """What the calls read."""
    shutil.copytree(PATIENTS, folder / "patients")
    (folder / "messy.csv").write_text(MESSY + "".join(f"{n},N,{n},1{n}00,20.0,Male,flu\n" for n in range(30, 50)))
    (folder / "one-row.csv").write_text("id,age\n1,30\n")
    (folder / "table-of-what.txt").write_text("id\n1\n")
    (folder / "sink.json").write_text(SINK)
    (folder / "replayed").mkdir()
    (folder / "replayed" / NAME).write_bytes(secret_text(bytes(32)))  # which `replay` would draw
    (folder / "broken").mkdir()
    (folder / "broken" / "table.yaml").write_text(BROKEN)


def break_changelog() -> None:
    """A changelog that a row has been taken out of."""
    *lines, _ = Path("replayed/live.jsonl").read_text().splitlines()
    Path("torn.jsonl").write_text("\n".join([line for line in lines if '"slot":0' not in line]) + "\n")


def forget_draft() -> None:
    """`init` overwrites nothing."""
    shutil.rmtree("drafted", ignore_errors=True)


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
            yield Case(name, "no server answers", tuple(away), exit_code=3, apart=name == "worker")


def _of_files() -> Iterator[Case]:
    seed = ("--seed", "1")
    anonymized = (*TABLE, ROWS, "-o", "anonymous.csv", *seed)
    replayed = (*TABLE, EVENTS, "--initial", ROWS, "--out", "replayed")
    yield Case("anonymize", "a table is written", anonymized, rules=(TIME_OF_ANONYMIZE, STAGES))
    yield Case("check", "what a table means", TABLE)
    yield Case("check", "what it does to data", (*TABLE, "--data", ROWS))
    yield Case("check", "what is refused of messy data", (*TABLE, "--data", "messy.csv"))
    yield Case("compare", "every algorithm", (*TABLE, ROWS, *seed), rules=(SECONDS_OF_COMPARE, DETAILS))
    yield Case("config", "where every setting comes from", TABLE)
    yield Case("connect sink", "a sink's configuration", TABLE, verbatim=True)
    yield Case("connect source", "a source's configuration", TABLE, verbatim=True)
    yield Case("connect view", "a view", TABLE, verbatim=True)
    yield Case("init", "a first table.yaml", (ROWS, "-o", "drafted"), before=forget_draft)
    yield Case("replay", "a changelog is written", replayed, rules=(TIME_OF_REPLAY,))
    yield Case("verify", "every law holds", (*TABLE, "replayed/live.jsonl"))
    yield Case("warm", "all is there", ("--core", "float32"), rules=(FOLDER,))


def _that_break_a_law() -> Iterator[Case]:
    yield Case("check", "a connector misreads rows", (*TABLE, "--connector", "sink.json"), exit_code=1)
    yield Case("verify", "a law is broken", (*TABLE, "torn.jsonl"), exit_code=1, before=break_changelog)
