"""What a shell is offered: tables, algorithms, QI groups, and the commands' own names."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from socket import create_server
from time import monotonic

import click
import pytest
from click.shell_completion import BashComplete

from streamer.cli.main import COMMANDS, Listed, main
from streamer.cli.support.options import COMPLETION_SECONDS_MAX, chosen_shards, tables
from streamer.errors import UsageError
from streamer.incremental.engine.stored_state import QIGroupState
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.recoding.algorithms.catalog import ALGORITHMS
from worlds.checkout import PATIENTS, ROOT
from worlds.quick_streamer import quick_streamer
from worlds.redis_on_a_port import redis_on_a_port


def offered(args: list[str], incomplete: str) -> list[str]:
    """What the shell offers after these words."""
    found = BashComplete(main, {}, "streamer", "_STREAMER_COMPLETE").get_completions(args, incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.fixture
def _two_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "others/clinic", "others/deep/down/below", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("mine", "others/clinic", "others/deep/down/below"):
        (tmp_path / name / "table.yaml").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_two_tables")
def test_tables_near_by_are_offered_by_their_folders() -> None:
    assert offered(["status", "--table"], "") == ["mine", "others/clinic"]


@pytest.mark.usefixtures("_two_tables")
def test_what_is_written_already_narrows_the_tables() -> None:
    assert offered(["status", "--table"], "oth") == ["others/clinic"]
    assert offered(["dead-letters", "--table"], "mine/") == ["mine/table.yaml"]
    assert offered(["status", "--table"], "empty") == []


@pytest.mark.usefixtures("_two_tables")
def test_where_tables_are_near_the_shell_is_told_of_nothing_else() -> None:
    """Click's script for zsh takes an empty text for none, and what follows it for something else."""
    found = tables(click.Context(click.Command("status")), click.Option(["--table"]), "")
    assert [(item.type, item.value) for item in found] == [("plain", "mine"), ("plain", "others/clinic")]


def test_folders_are_left_to_the_shell_where_no_table_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = click.Command("status")
    found = tables(click.Context(command), click.Option(["--table"]), "")
    assert [(item.type, item.value) for item in found] == [("dir", "")]


@pytest.mark.parametrize("command", ["anonymize", "rebuild"])
def test_every_algorithm_is_offered(command: str) -> None:
    assert set(offered([command, "--algorithm"], "")) == set(ALGORITHMS)
    assert offered([command, "--algorithm"], "mon") == ["mondrian"]


def test_a_command_whose_libraries_are_missing_offers_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What stands on stderr would stand in the middle of the line that is being typed."""
    monkeypatch.setitem(COMMANDS, "status", Listed("no_such_library", "Not installed.", "stream"))
    assert "--table" not in offered(["status"], "--")
    assert "status" in offered([], "sta")
    assert capfd.readouterr() == ("", "")


def test_commands_are_offered_by_name() -> None:
    assert {"rebuild", "reload"} <= set(offered([], "re"))


NOWHERE = "redis://127.0.0.1:1/0"

ASKING = [["explain", "--table", str(PATIENTS), "--group"], ["groups", "--table", str(PATIENTS), "--nearest"]]
"""Commands with a QI group, typed as far as this."""


@pytest.mark.parametrize("words", ASKING)
def test_the_qi_groups_that_redis_has_are_offered(words: list[str]) -> None:
    state = QIGroupState((0,), (1,), ("ann",), ((),))
    with redis_on_a_port() as url:
        for shard, numbers in enumerate(([1, 2, 10], [7])):
            store = RedisStore(connect(url), "patients", shard)
            store.commit(store.take_over(), 0, Commit(Meta(1), qi_groups=dict.fromkeys(numbers, state)))
        words = [words[0], "--redis", url, *words[1:]]
        assert offered(words, "") == ["0-1", "0-2", "0-10", "1-7"]
        assert offered(words, "0-1") == ["0-1", "0-10"]
        assert offered(words, "2") == []


@pytest.mark.parametrize("words", ASKING)
def test_nothing_is_offered_or_said_where_redis_does_not_answer(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert offered([words[0], "--redis", NOWHERE, *words[1:]], "") == []
    assert offered([words[0], "--table", "nowhere", words[-1]], "") == []
    assert capfd.readouterr() == ("", "")


def test_a_shell_waits_for_redis_a_moment_only() -> None:
    with create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        began = monotonic()
        assert offered([ASKING[0][0], "--redis", url, *ASKING[0][1:]], "") == []
        assert monotonic() - began < COMPLETION_SECONDS_MAX + 3.0


# -- in the shells themselves ----------------------------------------------------------------------------------------

# Each completes the words that its arguments are; the functions that only work on a terminal are replaced.
BY_BASH = """
eval "$(_STREAMER_COMPLETE=bash_source streamer)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_streamer_completion streamer 2> /dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""
BY_ZSH = """
compdef() { : }
compadd() { print -l -- ${(P)@[-1]} }
_describe() { print -l -- ${${(P)@[-2]}%%:*} }
_path_files() { print -l -- *(/) }
eval "$(_STREAMER_COMPLETE=zsh_source streamer)"
words=("$@") CURRENT=$#
_streamer_completion
"""
BY_FISH = """
_STREAMER_COMPLETE=fish_source streamer | source
complete -C "$argv" | string replace -r '\\t.*' ''; true
"""
SHELLS = {"bash": ["-c", BY_BASH, "bash"], "zsh": ["-f", "-c", BY_ZSH, "zsh"], "fish": ["-N", "-c", BY_FISH]}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_by_what_the_tutorial_puts_into_its_file(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion is untested")

    def completed(*words: str) -> set[str]:
        shown = subprocess.run(
            [shell, *SHELLS[shell], *words],
            cwd=ROOT / "examples",
            env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert shown.stderr == ""
        return set(shown.stdout.splitlines())

    with quick_streamer(tmp_path / "bin") as folder:
        assert completed("streamer", "anonymize", "--algorithm", "") == set(ALGORITHMS)
        assert completed("streamer", "status", "--table", "") == {"eight", "patients", "pipeline"}
        assert "reload" in completed("streamer", "rel")


@pytest.mark.parametrize(("text", "found"), [("0", [0]), ("0-2", [0, 1, 2]), ("5,0-1,1", [0, 1, 5]), (" 7 ", [7])])
def test_shards_are_named_by_numbers_and_ranges(text: str, found: list[int]) -> None:
    assert chosen_shards(text) == found


@pytest.mark.parametrize("text", ["", "2-1", "a", "-1", "0,", "1-", "\u0663"])
def test_shards_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--shards: numbers of shards such as"):
        chosen_shards(text)
