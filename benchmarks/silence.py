"""The longest time in which a command shows nothing new: every command, on a terminal, watched.

A command runs under a terminal of its own. `silence` is the longest time without anything new on it, from the command's
start to its end, with the text before it. Colours are ignored, and a bar drawn again as it was is nothing new; the
running clock of a stage is.

The people are made up, of seven columns, with a hierarchy for three of them. Commands that need no server run on
`--rows`, those of Kafka and Redis (`--live`) beside a worker with a table of the same size.

    python benchmarks/silence.py [--rows 300000] [--only WORD ...] [--live] [--seconds-max 600] [--quick] [--json]

--only picks commands whose line has one of these words. Beside servers: tests/servers/broker/with python ... --live.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).resolve().parents[1]
STREAMER = (sys.executable, "-m", "streamer.cli.main")
LINES, COLUMNS = 50, 100
SEED = 5
EVENTS = 20_000
WORKER_SECONDS = 15
ALGORITHMS = ("mondrian", "emp", "ola", "degree-first", "bottom-up", "top-down", "ordered")
QUADRATIC, QUADRATIC_ROWS_MAX = "gdppr", 20_000
MODELS = {"rows": "", "l": ", l: 3", "beta": ", l: 2, beta: 0.5"}

CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]")


@dataclass
class Watched:
    """The output of one command; seconds; said: the last text before the longest silence, "" before the first."""

    command: str
    code: int | None
    seconds: float
    silence: float
    silent_after: str


# -- watching ---------------------------------------------------------------------------------------------------------


class Longest:
    """The longest time between two texts that are not the same, and the text before it."""

    def __init__(self, now: float) -> None:
        self.seconds, self.after = 0.0, ""
        self._since, self._text = now, ""

    def see(self, text: str, now: float) -> None:
        if text != self._text:
            self.end(now)
            self._since, self._text = now, text

    def end(self, now: float) -> None:
        if now - self._since > self.seconds:
            self.seconds, self.after = now - self._since, self._text


def watch(named: str, command: Sequence[str], seconds_max: float, environment: dict[str, str]) -> Watched:
    """Runs a command on a terminal until it ends; killed after seconds_max, and then without a code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    began = monotonic()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment, start_new_session=True
    )
    os.close(slave)
    silence, decode = Longest(began), codecs.getincrementaldecoder("utf-8")("replace")
    ended = False
    while monotonic() - began < seconds_max:
        ready, _, _ = select.select([master], [], [], 0.5)
        if not ready:
            continue
        try:
            chunk = os.read(master, 65536)
        except OSError:
            chunk = b""
        if not chunk:
            ended = True
            break
        for text in texts(decode.decode(chunk)):
            silence.see(text, monotonic())
    code = process.wait() if ended else _killed(process)
    os.close(master)
    now = monotonic()
    silence.end(now)
    return Watched(named, code, now - began, silence.seconds, silence.after)


def texts(shown: str) -> Iterator[str]:
    """Lines of what was written to a terminal, without control characters."""
    for line in re.split(r"[\r\n]+", CONTROL.sub("", shown)):
        if line.strip():
            yield line.strip()


def _killed(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# -- people -----------------------------------------------------------------------------------------------------------

TREES = {
    "education": {"low": ["none", "primary", "lower"], "high": ["upper", "college", "university", "doctor"]},
    "job": {
        "hand": ["builder", "driver", "farmer", "cook"],
        "desk": ["clerk", "teacher", "judge"],
        "idle": ["student", "retired"],
    },
    "problem": {
        "lung": ["flu", "cough", "asthma"],
        "stomach": ["ulcer", "gastritis"],
        "heart": ["angina", "arrhythmia", "infarct"],
    },
}


def write_table(folder: Path, privacy: str) -> Path:
    """A folder with a table.yaml that asks for k = 5 and more."""
    (folder / "hierarchies").mkdir(parents=True, exist_ok=True)
    for name, tree in TREES.items():
        lines = [f"{leaf};{node};*" for node, leaves in tree.items() for leaf in leaves]
        (folder / "hierarchies" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "table.yaml").write_text(
        "table: people\nkey: id\ncolumns:\n"
        "  age: {role: quasi-identifier, type: integer, domain: [0, 99], grid: 5}\n"
        "  zip: {role: quasi-identifier, type: integer, domain: [0, 99999], grid: 1000}\n"
        "  hours: {role: quasi-identifier, type: integer, domain: [0, 79], grid: 4}\n"
        "  education: {role: quasi-identifier, hierarchy: hierarchies/education.csv}\n"
        "  job: {role: quasi-identifier, hierarchy: hierarchies/job.csv}\n"
        "  problem: {role: sensitive, hierarchy: hierarchies/problem.csv}\n"
        f"privacy: {{k: 5{privacy}}}\npublish: {{live: {{form: rows}}}}\n"
    )
    return folder


def people(rows: int) -> pd.DataFrame:
    random = np.random.default_rng(SEED)
    frame = {
        "id": np.arange(rows),
        "age": np.clip(random.normal(45, 18, rows), 0, 99).astype(int),
        "zip": random.integers(0, 100, rows) ** 2 * 10 + random.integers(0, 10, rows),
        "hours": random.integers(0, 80, rows),
    }
    for name, tree in TREES.items():
        leaves = [leaf for node in tree.values() for leaf in node]
        shares = random.dirichlet(np.full(len(leaves), 3.0))
        frame[name] = random.choice(leaves, rows, p=shares)
    return pd.DataFrame(frame)


def write_people(folder: Path, rows: int) -> tuple[Path, Path]:
    """rows.csv, and events.jsonl with changes of these rows."""
    csv, events = folder / "rows.csv", folder / "events.jsonl"
    people(rows).to_csv(csv, index=False)
    random = np.random.default_rng(SEED)
    lines = (
        json.dumps({"op": "modify", "key": int(key), "row": {"age": int(age)}})
        for key, age in zip(random.integers(0, rows, EVENTS), random.integers(0, 99, EVENTS), strict=True)
    )
    events.write_text("\n".join(lines) + "\n")
    return csv, events


# -- commands ---------------------------------------------------------------------------------------------------------


def commands(folder: Path, rows: int) -> Iterator[tuple[str, list[str]]]:
    """A name and the arguments of every command that needs no server, in an order in which they have their files."""
    tables = {name: write_table(folder / name, more) for name, more in MODELS.items()}
    csv, events = map(str, write_people(folder, rows))
    plain, out, page = str(tables["rows"]), str(folder / "out.csv"), str(folder / "page.html")
    yield "--help", ["--help"]
    yield "init", ["init", csv, "-o", str(folder / "drafted")]
    yield "check", ["check", "--table", plain]
    yield "check --data", ["check", "--table", plain, "--data", csv]
    yield "check --data --no-costs", ["check", "--table", plain, "--data", csv, "--no-costs"]
    for name in (*ALGORITHMS, QUADRATIC):
        if name == QUADRATIC and rows > QUADRATIC_ROWS_MAX:
            continue
        for model in ("rows", "beta"):
            line = ["anonymize", "--table", str(tables[model]), csv, "-o", out, "--force", "--algorithm", name]
            yield f"anonymize {name}, {model}", line
    yield "anonymize ordered, l", ["anonymize", "--table", str(tables["l"]), csv, "-o", out, "--force"]
    yield "anonymize --report --index", ["anonymize", "--table", plain, csv, "-o", out, "--force", "--report", page,
        "--index", str(folder / "index.csv")]  # fmt: skip
    yield "anonymize --form lossy-join", ["anonymize", "--table", str(tables["l"]), csv, "-o", out,
        "--form", "lossy-join"]  # fmt: skip
    if rows <= QUADRATIC_ROWS_MAX:
        yield "compare", ["compare", "--table", plain, csv]
        yield "compare --report", ["compare", "--table", str(tables["beta"]), csv, "--report", page, "--force"]
    replayed = folder / "replayed"
    line = ["replay", "--table", plain, events, "--initial", csv, "--out", str(replayed)]
    yield "replay --initial", line
    live = str(replayed / "live.jsonl")
    yield "verify", ["verify", "--table", plain, live]
    yield "verify --events", ["verify", "--table", plain, live, "--initial", csv, "--events", events]


def live_commands(folder: Path, rows: int) -> Iterator[tuple[str, list[str]]]:
    """The same of those that need Kafka and Redis, which the environment names; most of them beside a worker."""
    table = str(write_table(folder / "live", ""))
    csv, events = map(str, write_people(folder, rows))
    yield "topics create", ["topics", "create", "--table", table, "--shards", "2"]
    yield "load", ["load", csv, "--table", table]
    with worker(table):
        yield "status", ["status", "--table", table]
        yield "produce events", ["produce", events, "--table", table]
        yield "produce rows", ["produce", csv, "--table", table, "--upsert"]
        yield "groups", ["groups", "--table", table]
        yield "index", ["index", "--table", table, "--out", str(folder / "index.csv")]
        yield "explain", ["explain", "7", "--table", table]
        yield "subscribe --csv", ["subscribe", "--table", table, "--csv", str(folder / "copy.csv")]
        yield "dead-letters", ["dead-letters", "--table", table]
        yield "rebuild --dry-run", ["rebuild", "--table", table, "--dry-run"]
        yield "rebuild --wait", ["rebuild", "--table", table, "--wait"]
        yield "config", ["config", "--table", table]
    yield "reload", ["reload", "--table", table, "--from-source", csv]


@contextmanager
def worker(table: str) -> Iterator[None]:
    """A worker of the table for as long as the block runs; its log is thrown away."""
    line = [*STREAMER, "worker", "--table", table, "--log-level", "error"]
    process = subprocess.Popen(line, cwd=ROOT, env=_environment(), stderr=subprocess.DEVNULL)
    try:
        sleep(WORKER_SECONDS)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=300_000)
    options.add_argument("--only", nargs="+", metavar="WORD", default=[""])
    options.add_argument("--live", action="store_true", help="the commands of Kafka and Redis")
    options.add_argument("--seconds-max", type=float, default=600.0)
    options.add_argument("--quick", action="store_true", help="2,000 rows")
    options.add_argument("--json", action="store_true", help="print the JSON object alone")
    chosen = options.parse_args()
    rows = 2_000 if chosen.quick else chosen.rows
    found = []
    with tempfile.TemporaryDirectory(prefix="streamer-silence-") as directory:
        for name, line in (live_commands if chosen.live else commands)(Path(directory), rows):
            if any(word in name for word in chosen.only):
                found.append(watch(name, [*STREAMER, *line], chosen.seconds_max, _environment()))
                if not chosen.json:
                    print(_line(found[-1]), flush=True)
    if not chosen.json:
        _print(found, rows)
    print(json.dumps({"rows": rows, "commands": [asdict(one) for one in found]}))


def _line(one: Watched) -> str:
    return (
        f"{one.command:<30} code {one.code} {one.seconds:7.1f} s, silent {one.silence:5.1f} s after"
        f" {one.silent_after[:50]!r}"
    )


def _print(found: Sequence[Watched], rows: int) -> None:
    grid = RichTable("command", "s", "silence s", "after", title=f"{rows:,} rows")
    for one in found:
        grid.add_row(one.command, f"{one.seconds:.1f}", f"{one.silence:.1f}", one.silent_after[:40])
    Console(width=150).print(grid)


if __name__ == "__main__":
    main()
