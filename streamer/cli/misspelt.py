"""Variables of the environment that begin as ours do and that nothing listens to: they may be misspelt.

A setting that is misspelt sets nothing, and nobody would notice. Whoever meant one of ours is told once, by the name
that is nearest; what is like none of ours may be a cluster's, which gives every program some after the names of its
services. Values may be anything, and are never told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

import click

from streamer.cli.options import VARIABLES
from streamer.cli.tables import say
from streamer.table.yaml_files import BY_VARIABLE, PREFIX

LIKENESS_MIN = 0.7
"""How like one of ours a name is that is taken for it, as difflib counts it, of what follows behind the prefix."""

TELL_THEMSELVES = ("config", "worker")
"""Commands that say it in their own way: among all settings, and in the log."""


def unheard(environment: Mapping[str, str]) -> list[str]:
    """Variables that begin as ours do and that say nothing."""
    by_section = tuple(f"{PREFIX}{section.upper()}_" for section in BY_VARIABLE)  # refused, where they are misspelt
    return sorted(
        variable
        for variable, value in environment.items()
        if value and variable.startswith(PREFIX) and variable not in VARIABLES and not variable.startswith(by_section)
    )


def misspelt_sentences(environment: Mapping[str, str]) -> Iterator[str]:
    """What there is to say of those that are like one of ours."""
    if variables := unheard(environment):
        names = [name.removeprefix(PREFIX) for name in _known()]
        for variable in variables:
            for nearest in get_close_matches(variable.removeprefix(PREFIX), names, 1, LIKENESS_MIN):
                yield f"the variable {variable} is no setting, and sets nothing: is {PREFIX}{nearest} meant?"


def warn_of_misspelt(command: click.Command, environment: Mapping[str, str]) -> None:
    """Says it on stderr, where a command reads settings."""
    if _reads_settings([command]) and command.name not in TELL_THEMSELVES:
        for sentence in misspelt_sentences(environment):
            say(f"streamer: warning: {sentence}", err=True)


def _reads_settings(commands: Iterable[click.Command]) -> bool:
    return any(
        _reads_settings(one.commands.values())
        if isinstance(one, click.Group)
        else any(option.envvar in VARIABLES for option in one.params)
        for one in commands
    )


def _known() -> Iterator[str]:
    from streamer.table.yaml_shape import TableSettings

    yield from VARIABLES
    for section in BY_VARIABLE:
        settings = getattr(TableSettings.model_fields[section].annotation, "model_fields", {})
        yield from (f"{PREFIX}{section}_{setting}".upper() for setting in settings)
