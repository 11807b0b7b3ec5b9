"""The last lines of a command: the calls that may come next, ready to be copied.

They are for a person who goes through the commands for the first time: written to stderr, only if stdout and stderr are
both a terminal, never with --json, and not by a command that another one calls.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from textwrap import wrap

import click
from click.core import ParameterSource

from streamer.cli.support.tables import as_json, columns_of

WAYS = ("next: ", "  or: ")
KAFKA, REDIS = "--kafka", "--redis"
"""In the words of a call: the same server again, if this call named one; a URL with a password is not repeated."""

CONTINUED = " \\"  # how a shell continues a call in the next line


def say_next(*calls: list[str]) -> None:
    """Prints one call or two, each as its words after `streamer`."""
    if (context := _is_read()) is not None:
        for way, call in zip(WAYS, calls, strict=False):
            words = chain.from_iterable(_as_given(context, word) for word in ["streamer", *call])
            click.echo(f"{CONTINUED}\n".join(_broken(way, words)), err=True)


def say_read(page: Path) -> None:
    """The same of the end of a way: a page to read."""
    if _is_read() is not None:
        click.echo(f"{WAYS[0]}read {page}", err=True)


def _is_read() -> click.Context | None:
    """The call that a person reads at a terminal; None: nobody does, or another command made the call."""
    context = click.get_current_context(silent=True)
    if context is None or context.parent is None or as_json():
        return None
    return context if sys.stdout.isatty() and sys.stderr.isatty() else None


def _broken(way: str, words: Iterable[str]) -> list[str]:
    """The call in lines of the terminal's width; a quoted word stays whole."""
    text = way + " ".join(shlex.quote(word).replace(" ", "\0") for word in words)
    width = columns_of(sys.stderr) - len(CONTINUED)
    lines = wrap(text, width, subsequent_indent=" " * len(way), break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def _as_given(context: click.Context, word: str) -> Iterator[str]:
    """The word, or what this call named as that server, if it did."""
    if word not in (KAFKA, REDIS):
        yield word
        return
    name = word.removeprefix("--")
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        value = str(context.params[name])
        yield from (word, "URL" if "@" in value else value)
