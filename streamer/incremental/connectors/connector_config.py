"""A connector's configuration as it was read, and where it sends the rows of a captured table.

A configuration is what Connect's REST interface gives or takes: a JSON object of settings, alone or under `config`
beside its `name`. Values are texts; numbers and booleans of a file become what Connect makes of them. What Java's
regular expressions and Python's have in common is all that names of topics need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from streamer.errors import UsageError

UNSET = "not set"
SOURCE, SINK = "source", "sink"
ROUTERS = {"RegexRouter": ("regex", "replacement"), "ByLogicalTableRouter": ("topic.regex", "topic.replacement")}
"""Transforms that rename topics, and the settings that say how."""

_ESCAPED = re.compile(r"\\(.)")
_META = re.compile(r"[\\^$*+?()\[\]{}|]")
_GROUP = re.compile(r"\$(\d)|\$\{(\w+)\}")


class ConnectorConfig:
    """The settings of one connector."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)

    @property
    def connector_class(self) -> str:
        return self.get("connector.class")

    @property
    def kind(self) -> str:
        """SOURCE or SINK: every sink says which topics it reads, and no source does."""
        return SINK if self.get("topics") or self.get("topics.regex") else SOURCE

    def get(self, name: str, default: str = "") -> str:
        """A setting's value, without the spaces around it."""
        return self.settings.get(name, default).strip()

    def has(self, name: str, wanted: str, default: str = "") -> bool:
        """Whether a setting has a value, in any case."""
        return self.get(name, default).lower() == wanted.lower()

    def shown(self, name: str) -> str:
        """A setting's value for people."""
        return self.get(name) or UNSET

    def listed(self, name: str) -> list[str]:
        """The parts of a comma-separated setting."""
        return [part.strip() for part in self.get(name).split(",") if part.strip()]

    def transforms(self) -> dict[str, str]:
        """Simple class names by alias, in order; of an inner class (`ReplaceField$Value`) the outer one."""
        types = {alias: self.get(f"transforms.{alias}.type") for alias in self.listed("transforms")}
        return {alias: name.rpartition(".")[2].partition("$")[0] for alias, name in types.items()}

    def owner(self, name: str) -> str:
        """The kind of the transform, or the class of the converter, that a setting is for."""
        owner, part = name.split(".")[:2]
        return self.transforms().get(part, "") if owner == "transforms" else self.get(f"{owner}.{part}")

    def relations(self) -> list[str] | None:
        """The captured tables by their full names; None if the list is missing, or holds more than names."""
        listed = self.listed("table.include.list")
        plain = [_ESCAPED.sub(r"\1", name) for name in listed if not _META.search(_ESCAPED.sub("", name))]
        return plain if listed and len(plain) == len(listed) else None

    def topic_of(self, relation: str) -> str | None:
        """The topic that a table's rows come to; None if that cannot be told."""
        topic = f"{self.get('topic.prefix')}.{relation}"
        for alias, kind in self.transforms().items():
            if kind in ROUTERS:
                pattern, replacement = (self.get(f"transforms.{alias}.{name}") for name in ROUTERS[kind])
                try:
                    found = re.fullmatch(pattern, topic)
                    topic = topic if found is None else found.expand(_GROUP.sub(r"\\g<\1\2>", replacement))
                except (re.error, IndexError):
                    return None
        return topic


def config_of(said: object) -> tuple[str, ConnectorConfig]:
    """Name ("" if none is said) and settings out of a JSON value. Raises UsageError, which repeats nothing of it."""
    if not isinstance(said, dict):
        raise UsageError("a connector's configuration is a JSON object of its settings, or has one under `config`")
    inner = said.get("config")
    settings = inner if isinstance(inner, dict) else said
    if not settings.get("connector.class"):
        raise UsageError("the configuration has no connector.class: it is none of a connector")
    name = said.get("name") or settings.get("name") or ""
    return str(name), ConnectorConfig({str(key): _text(value) for key, value in settings.items()})


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def names_matched(patterns: list[str], names: list[str]) -> set[str]:
    """The names that a regular expression matches whole, in any case; one that Python cannot read matches nothing.

    >>> names_matched([r"public\\.people", "("], ["public.people", "("])
    {'public.people'}
    """
    found = set()
    for pattern in patterns:
        try:
            found |= {name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)}
        except re.error:
            continue
    return found
