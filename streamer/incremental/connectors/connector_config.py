"""A connector's configuration as it was read, and what is found in it.

The rules of this file
----------------------
* A configuration is what Connect's REST interface gives or takes: a JSON object of settings, alone or under `config`
  beside its `name`. Values are texts; numbers and booleans of a file become what Connect makes of them.
* A finding names a setting, what was found, what comes of it, and the mend. Values are shown of settings that this room
  looks at, none of which holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from streamer.errors import UsageError

UNSET = "not set"

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Finding:
    """A setting by which something would be lost or misread; what comes of it, and how it is mended."""

    setting: str
    found: str
    consequence: str
    mend: str

    def __str__(self) -> str:
        return f"{self.setting} ({self.found}): {self.consequence}; {self.mend}"


@dataclass(frozen=True)
class Transform:
    """One single message transform of a connector, in its place in the chain."""

    alias: str
    type: str
    settings: Mapping[str, str]

    @property
    def simple_type(self) -> str:
        """The class without its package; of an inner class (`ReplaceField$Value`) the outer one."""
        return self.type.rpartition(".")[2].partition("$")[0]

    def setting(self, name: str) -> str:
        """A setting's full name in the connector's configuration."""
        return f"transforms.{self.alias}.{name}"


class ConnectorConfig:
    """The settings of one connector."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)

    @property
    def connector_class(self) -> str:
        return self.settings.get("connector.class", "")

    def get(self, name: str, default: str = "") -> str:
        """A setting's value, without the spaces around it."""
        return self.settings.get(name, default).strip()

    def shown(self, name: str) -> str:
        """A setting's value for people."""
        return self.get(name) or UNSET

    def listed(self, name: str) -> list[str]:
        """The parts of a comma-separated setting."""
        return [part.strip() for part in self.get(name).split(",") if part.strip()]

    def is_on(self, name: str, default: bool) -> bool:
        """A boolean setting."""
        return self.get(name, str(default)).lower() == "true"

    def transforms(self) -> list[Transform]:
        """The chain of single message transforms, in order."""
        return [self._transform(alias) for alias in self.listed("transforms")]

    def _transform(self, alias: str) -> Transform:
        prefix = f"transforms.{alias}."
        own = {
            name.removeprefix(prefix): text.strip() for name, text in self.settings.items() if name.startswith(prefix)
        }
        return Transform(alias, own.get("type", ""), own)


def config_of(said: object) -> tuple[str, ConnectorConfig]:
    """Name ("" where none is said) and settings out of a JSON value. Raises UsageError, which repeats nothing of it."""
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
    """The names that one of Debezium's regular expressions matches whole, whatever the case."""
    return {name for name in names for pattern in patterns if matches(pattern, name)}


def matches(pattern: str, name: str) -> bool:
    """Whether a regular expression matches a name whole; one that Python cannot read matches nothing.

    >>> matches(r"public\\.people", "public.people"), matches("(", "x")
    (True, False)
    """
    try:
        return re.fullmatch(pattern, name, re.IGNORECASE) is not None
    except re.error:
        return False
