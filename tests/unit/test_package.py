"""What `import streamer` gives: its calls and a version, each loaded when it is asked for."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pandas as pd
import pytest

import streamer
from streamer.errors import UsageError

SCREEN_LINES = 40


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("init", "streamer.table.draft.drafting"),
        ("check", "streamer.checking"),
        ("compare", "streamer.recoding.comparison"),
        ("anonymize", "streamer.recoding.frame"),
        ("report", "streamer.recoding.report.head"),
        ("Subscription", "streamer.reader"),
        ("verify", "streamer.incremental.verification"),
    ],
)
def test_a_name_is_what_its_module_has(name: str, home: str) -> None:
    assert getattr(streamer, name).__module__ == home


def test_any_other_name_is_missing_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match="module 'streamer' has no attribute 'nobody'"):
        _ = streamer.nobody


def test_the_version_is_that_of_the_installed_package() -> None:
    assert streamer.__version__ == version("streamer")


def test_help_shows_what_there_is_with_its_sentence() -> None:
    shown = pydoc.plain(pydoc.render_doc(streamer))
    for sentence in (
        "The published table of a DataFrame of people",
        "The published table of `table` at the brokers",
        "Checks what was published against every law",
        "\nVERSION\n    " + streamer.__version__,
    ):
        assert sentence in shown


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("anonymize", ([{"age": 3}], "mine"), "takes a pandas DataFrame of people, not list"),
        ("init", ([{"age": 3}],), "init takes a pandas DataFrame of people, not list"),
        ("check", (None, "mine"), "check takes a pandas DataFrame of people, not NoneType"),
        ("compare", (pd.Series([1]), "mine"), "compare takes a pandas DataFrame of people, not Series"),
        ("report", (3,), "report takes the DataFrame that `streamer.anonymize` returned, .* not int"),
        ("audit", ("live.jsonl", 5), "must be a Table or the path of a table.yaml, not int"),
        ("anonymize", (pd.DataFrame(), 5), "must be a Table or the path of a table.yaml, not int"),
        ("Subscription", (None, "127.0.0.1:1"), "must be a Table or the path .* not NoneType"),
        ("verify", ([], "live.jsonl"), "must be a Table or the path of a table.yaml, not list"),
    ],
)
def test_an_argument_of_the_wrong_type_gets_a_sentence(name: str, arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        getattr(streamer, name)(*arguments)


@pytest.mark.parametrize("name", sorted({*streamer.__all__} - {"__version__", "Subscription"}))
def test_the_help_of_a_call_fits_on_a_screen(name: str) -> None:
    assert len(pydoc.plain(pydoc.render_doc(getattr(streamer, name))).splitlines()) <= SCREEN_LINES


def test_audit_is_a_call_and_a_room_whichever_is_asked_for_first() -> None:
    calls = ("import streamer; streamer.audit", "import streamer.audit.found, streamer; streamer.audit.found.KINDS")
    for first in calls:
        program = f"{first}\ntry: streamer.audit([], {{}})\nexcept streamer.errors.StreamerError: print('called')"
        ran = subprocess.run(
            [sys.executable, "-c", f"import streamer.errors; {program}"], capture_output=True, text=True
        )
        assert ran.stdout == "called\n", ran.stderr


def test_neither_numpy_nor_kafka_is_loaded_before_it_is_asked_for() -> None:
    names = ("numpy", "pandas", "kafka", "click")
    loaded = f"import streamer, sys; print([name for name in {names} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"
