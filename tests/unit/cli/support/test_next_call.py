"""The calls that a command ends with: on a terminal only, whole, and ready to be copied."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from docs.generate.commands import all_commands
from streamer.cli.main import main
from streamer.cli.support.next_call import CONTINUED, KAFKA, REDIS, WAYS, say_next
from streamer.cli.support.options import json_option, kafka_option, redis_option
from worlds.checkout import PATIENTS
from worlds.documents import check_whole
from worlds.golden_files import FOLDER, cases_in, without_next
from worlds.screens import COLUMNS, in_pipes, on_a_screen

TERMINAL = {"TERM": "xterm-256color"}
CALL = ["load", "my rows.csv", "--table", "mine", KAFKA, REDIS]


@click.group()
@json_option
def group() -> None: ...


@group.command()
@kafka_option
@redis_option
def first(kafka: str, redis: str) -> None:
    click.echo("done")
    say_next(CALL, ["worker", "--table", "mine", KAFKA])


def test_a_person_at_a_terminal_is_told_what_comes_next() -> None:
    shown = on_a_screen(group, ["first"], TERMINAL)
    assert shown.lines == [
        "done",
        "next: streamer load 'my rows.csv' --table mine",
        "  or: streamer worker --table mine",
    ]


@pytest.mark.parametrize("words", [["--json", "first"], ["first"]], ids=["as JSON", "in a pipe"])
def test_a_program_is_not(words: list[str]) -> None:
    if "--json" in words:
        assert on_a_screen(group, words, TERMINAL).lines == ["done"]
    assert in_pipes(group, words, {})[1:] == ("done\n", "")


def test_from_a_file_to_its_report_no_call_comes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, seen, said = ["init", str(PATIENTS / "rows.csv"), "--out", "mine"], list[str](), ""
    while not said.startswith("read ") and call[0] not in seen:
        seen.append(call[0])
        shown = on_a_screen(main, call, TERMINAL)
        assert shown.exit_code == 0, shown.lines
        said = " ".join(line.strip().removesuffix(CONTINUED.strip()) for line in shown.lines)
        said = said[said.rindex(WAYS[0]) + len(WAYS[0]) :].partition(WAYS[1].strip())[0]
        call = shlex.split(said)[1:]
    assert (seen, said) == (["init", "check", "compare", "anonymize"], "read report.html")


def test_a_category_that_stays_flat_has_a_call_that_joins_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    countries = [country for n, country in enumerate("ABCDEF") for _ in range(2**n)]
    Path("rows.csv").write_text("id,country\n" + "".join(f"p{n},{country}\n" for n, country in enumerate(countries)))
    said = " ".join(line.strip().removesuffix("\\") for line in on_a_screen(main, ["init", "rows.csv"], TERMINAL).lines)
    call = shlex.split(said[said.rindex(WAYS[1].strip()) + len(WAYS[1].strip()) :])
    assert call[1:6] == ["hierarchy", "rows.csv", "--column", "country", "--by"]
    assert on_a_screen(main, call[1:], TERMINAL).exit_code == 0
    assert "F;F;F;*" in Path("hierarchies", "country.csv").read_text()


def test_a_command_that_another_one_calls_does_not_say_it() -> None:
    assert on_a_screen(first, [], TERMINAL).lines == ["done"]


def test_the_servers_that_were_named_are_named_again_but_no_password() -> None:
    shown = on_a_screen(group, ["first", "--kafka", "k:1", "--redis", "redis://u:secret@r/0"], TERMINAL)
    assert "--table mine --kafka k:1 --redis URL" in " ".join(shown.lines)
    assert "secret" not in "".join(shown.lines)


def test_a_long_call_is_one_that_a_shell_can_be_given() -> None:
    long = ["check", *(f"--option-{number}" for number in range(20))]
    ended = click.Command("ended", callback=lambda: say_next(long))
    shown = on_a_screen(click.Group("all", {"ended": ended}), ["ended"], TERMINAL)
    assert len(shown.lines) > 2
    assert max(map(len, shown.lines)) <= COLUMNS
    text = "\n".join(shown.lines).removeprefix(WAYS[0]).replace(f"{CONTINUED}\n", " ")
    assert shlex.split(text) == ["streamer", *long]


def test_every_next_call_of_the_golden_files_is_whole() -> None:
    found = [
        line
        for path in FOLDER.glob("*.txt")
        for text in cases_in(path).values()
        for line in text.replace(f"{CONTINUED}\n", " ").splitlines()
        if line.startswith(WAYS) and line.split()[1] == "streamer"
    ]
    for line in found:
        check_whole(line.partition(": ")[2])
    assert len(found) >= 12
    assert {line.split()[2] for line in found} <= {name.split()[0] for name, _ in all_commands()}


def test_what_a_pipe_gets_is_held_against_the_rest_of_the_screen() -> None:
    assert without_next(["done", "next: streamer status"]) == ["done"]
