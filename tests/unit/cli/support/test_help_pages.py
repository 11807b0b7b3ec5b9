"""The help that is kept: for a call that asks for it and says nothing else; no command is imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from streamer.cli.support.help_pages import page_asked_for
from worlds.checkout import ROOT

HEAVY = {"numpy", "pandas", "faust", "confluent_kafka", "redis", "pydantic", "rich", "msgspec"}
"""What takes longer to import than a tenth of a second, and what is no help to a page of help."""


@pytest.mark.parametrize("words", [["anonymize", "--help"], ["topics", "create", "-h"], ["connect", "--help"]])
def test_a_call_for_help_is_answered_from_the_file(words: list[str]) -> None:
    page = page_asked_for(words)
    assert page is not None
    assert page.name == " ".join(words[:-1])


@pytest.mark.parametrize(
    "words", [["anonymize"], ["no-such-command", "--help"], ["check", "--table", "mine", "--help"]]
)
def test_any_other_call_is_the_commands_own(words: list[str]) -> None:
    assert page_asked_for(words) is None


def test_help_imports_no_library() -> None:
    code = (
        "import json, sys; from streamer.cli.main import main; main(['worker', '--help'], standalone_mode=False);"
        "print(json.dumps([name for name in sys.modules if '.' not in name]))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "Usage:" in said
    assert set(json.loads(said.splitlines()[-1])) & HEAVY == set()
