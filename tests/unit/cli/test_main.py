"""The command `streamer` itself: what a failure looks like to people and to programs."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from streamer.cli.main import COMMANDS, Listed, main
from streamer.errors import LawViolated, ServerUnreachable, ShardRefused, StreamerError, UsageError
from streamer.incremental.shard.outlet import POSITION_FORMAT
from streamer.incremental.shard.requests import FORMAT
from streamer.incremental.store.codec import FORMAT_READ_FIRST, FORMAT_VERSION
from streamer.table.schema import ENGINE_VERSION, REPAIR_VERSION
from worlds.calls import streamer
from worlds.checkout import PATIENTS

MODULES_MAX = 450
"""300 and some are enough; a command with its libraries imports 700 and more."""

TOLD = {"ok": False, "error": "what is wrong, and what to do"}


def failing(error: BaseException) -> click.Command:
    @click.command(name="failing")
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        raise error

    return command


def run(monkeypatch: pytest.MonkeyPatch, error: BaseException, *arguments: str) -> Result:
    monkeypatch.setitem(main.commands, "failing", failing(error))
    return streamer("failing", *arguments)


@pytest.mark.parametrize(
    ("kind", "code"), [(UsageError, 2), (ShardRefused, 2), (LawViolated, 1), (ServerUnreachable, 3)]
)
def test_an_error_is_one_line_the_exit_code_of_whose_fault_it_is_and_an_object_for_programs(
    monkeypatch: pytest.MonkeyPatch, kind: type[StreamerError], code: int
) -> None:
    for words in ((), ("--json",)):
        result = run(monkeypatch, kind("what is wrong, and what to do"), *words)
        assert (result.exit_code, result.stderr) == (code, "streamer: what is wrong, and what to do\n")
        wanted = {**TOLD, "hint": kind.hint, "kind": kind.__name__, "exit_code": code}
        assert result.stdout == "" if not words else json.loads(result.stdout) == wanted


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("canary"),
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, "canary"),
        ImportError("libcanary.so: failed to map segment from shared object"),
        type("OutOfMemoryException", (Exception,), {})("canary"),  # DuckDB's
    ],
)
def test_a_lack_of_memory_is_a_sentence_and_an_exit_code(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Before: "an unexpected error", which asked for a report, with the lines of code."""
    result = run(monkeypatch, error, "--json")
    assert (result.exit_code, json.loads(result.stdout)["kind"]) == (2, "OutOfMemory")
    assert result.stderr.startswith("streamer: streamer failing: the system gives no more memory or threads; ")
    assert ("canary" in result.output, result.stderr.count("\n")) == (False, 1)


@pytest.mark.slow
def test_a_whole_table_that_is_larger_than_the_memory_ends_in_a_sentence(tmp_path: Path) -> None:
    head, *people = (PATIENTS / "rows.csv").read_text().splitlines()
    many = [f"{number},{people[number % len(people)].partition(',')[2]}" for number in range(200_000)]
    (tmp_path / "rows.csv").write_text("\n".join([head, *many]))
    command = f"{sys.executable} -m streamer.cli.main anonymize --table {PATIENTS} rows.csv -o out.csv"
    said = subprocess.run(["sh", "-c", f"ulimit -v 600000; {command}"], cwd=tmp_path, capture_output=True, text=True)
    assert (said.returncode, "the system gives no more memory or threads" in said.stderr) == (2, True), said.stderr
    assert ("Traceback" in said.stderr, [*tmp_path.glob("*out*")]) == (False, [])


def test_an_interrupt_is_no_violated_law(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, KeyboardInterrupt()).exit_code == 130


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["failing", "--json", "--no-such-option"], "NoSuchOption"),
        (["check", "--json"], "MissingParameter"),
        (["topics", "check", "--json"], "MissingParameter"),
        (["no-such-command", "--json"], "UsageError"),
    ],
)
def test_a_program_gets_an_object_for_a_wrong_command_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], kind: str
) -> None:
    monkeypatch.setitem(main.commands, "failing", failing(UsageError("not reached")))
    result = streamer(*arguments)
    assert result.exit_code == 2
    report = json.loads(result.stdout)
    assert (report["ok"], report["kind"], report["exit_code"]) == (False, kind, 2)
    assert "Usage: streamer" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "canary.csv")
    result = run(monkeypatch, full, *arguments)
    assert (result.exit_code, result.exception.__class__) == (2, SystemExit)
    assert result.stderr.startswith("streamer: not everything could be written: No space left on device")
    assert "canary" not in result.output


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
@pytest.mark.parametrize("number", ["²", "٨٠", "9" * 5000])
def test_what_is_no_plain_number_sets_no_width_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, name: str, number: str
) -> None:
    """Before: `str.isdigit` took it for a number, here and in rich, and `int` did not."""
    monkeypatch.setenv(name, number)
    printed = CliRunner().invoke(main, ["config", "--table", str(PATIENTS)])
    assert (printed.exit_code, printed.exception) == (0, None)


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_output_is_no_error(closed: str) -> None:
    """A service manager may start a command with no output at all; Python has none of it then."""
    call = "import sys; from streamer.cli.main import main; "
    call += f"sys.{closed} = None; main(['check', '--table', {str(PATIENTS)!r}])"
    ended = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_unexpected_error_says_where_it_came_from_and_quotes_nobody(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    result = run(monkeypatch, KeyError("canary"), *words)
    assert result.exit_code == 1
    assert "raise error" in result.stderr, "the lines of code"
    assert "an unexpected error (KeyError)" in result.stderr
    assert "canary" not in result.output
    if words:
        report = json.loads(result.stdout)
        assert (report["ok"], report["kind"], report["exit_code"]) == (False, "KeyError", 1)


def test_who_stops_reading_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert (result.exit_code, result.output) == (1, "")


def test_a_command_that_ended_with_a_code_of_its_own_has_said_all(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, click.exceptions.Exit(1), "--json")
    assert (result.exit_code, result.stdout) == (1, "")


HELP = "import sys; sys.argv = ['streamer', {}]; from streamer.cli.main import main; main(standalone_mode=False); {}"


def test_the_list_of_commands_imports_none_of_them() -> None:
    """A person sees the list at once, and a shell that completes does, too."""
    count = "print(sorted({'numpy', 'pandas', 'kafka', 'redis', 'faust'} & set(sys.modules)), len(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", HELP.format("'--help'", count)], capture_output=True, text=True, check=True
    )
    heavy, n_modules = said.stdout.splitlines()[-1].rsplit(" ", 1)
    assert heavy == "[]"
    assert int(n_modules) < MODULES_MAX


LINE_MAX = 45


def test_commands_are_listed_by_what_they_are_for_each_in_one_short_line() -> None:
    said = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout
    listed = said.partition("Whole tables:\n")[2].splitlines()
    headings = [line for line in listed if line.endswith(":")]
    assert headings == ["Set up a live table:", "Run it:", "Look at it:", "Remedy:"]
    lines = [line for line in listed if line and line not in headings]
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    for line in lines:
        help_ = line[len("  end-snapshot  ") :]
        assert line[len("  end-snapshot") : len("  end-snapshot  ")] == "  ", "the second column begins in one line"
        assert help_.endswith(".")
        assert len(help_) <= LINE_MAX


@pytest.mark.parametrize("command", ["topics", "connect", "dead-letters"])
def test_commands_below_a_command_are_listed_whole(command: str) -> None:
    lines = streamer(command, "--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert lines
    assert not [line for line in lines if not line.endswith(".") or line.endswith("...")]


def test_a_command_whose_libraries_are_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "status", Listed("no_such_library", "Not installed.", "stream"))
    result = streamer("status", "--table", "mine")
    assert result.exit_code == 2
    assert result.stderr == "streamer: no_such_library is not installed: `pip install 'streamer[stream]'` brings it\n"


def test_the_version_says_which_stored_formats_it_reads() -> None:
    """The formats are those of a stored table: whoever upgrades compares the second line of both versions."""
    said = streamer("--version")
    assert said.exit_code == 0
    first, second = said.stdout.splitlines()
    assert first == f"streamer, version {metadata.version('streamer')}"
    assert second == (
        f"formats: Redis {FORMAT_READ_FIRST} to {FORMAT_VERSION}, positions {POSITION_FORMAT}, control {FORMAT}; "
        f"engine: {ENGINE_VERSION}, with repair {ENGINE_VERSION}.{REPAIR_VERSION}"
    )


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(one, marks=pytest.mark.night) for one in ("cp1252", "iso-8859-1"))]
)
def test_a_terminal_that_knows_few_letters_gets_the_others_as_codes(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "table.yaml").write_text(
        "table: people\nkey: id\ncolumns:\n"
        "  \u0142\u00f3d\u017a: {role: quasi-identifier, type: integer, domain: [0, 9]}\n"
        "privacy: {k: 2}\npublish:\n  live: {form: rows}\n",
        "utf-8",
    )
    (tmp_path / "rows.csv").write_text("id,\u0142\u00f3d\u017a\n1,1\n2,2\n3,x\n", "utf-8")
    words = ["check", "--table", str(tmp_path), "--data", str(tmp_path / "rows.csv"), "--no-costs"]
    call = f"import sys; sys.argv[1:] = {words!r}; from streamer.cli.main import main; main()"
    variables = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    ended = subprocess.run([sys.executable, "-c", call], capture_output=True, env=variables, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    said = ended.stdout.decode(encoding)
    assert "\\u0142" in said and "2 of 3 rows would be accepted" in said
    assert "\\u25" not in said, "no line of a table is a code"
