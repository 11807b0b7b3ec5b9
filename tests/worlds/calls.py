"""Calls of `streamer` in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from streamer.cli.main import main


def streamer(*words: object, stdin: str | None = None, **environment: str | None) -> Result:
    """What a call of the command ended with."""
    return CliRunner().invoke(main, [*map(str, words)], input=stdin, env=environment)


def answer(*words: object) -> dict[str, Any]:
    """What a call prints as JSON, which must succeed."""
    result = streamer(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
