"""table.yaml as texts: read from its file, with what the environment says instead of it.

The rules of this file
----------------------
* A variable wins over table.yaml for what an operator sets per deployment: the sections of BY_VARIABLE, a setting each,
  `STREAMER_LIMITS_BATCH_MS_MAX=20` for `limits: {batch_ms_max: 20}`.
* What a table says of people (its columns, its privacy, its form) stands in the file alone: a variable that means one
  of those sections is refused, because a shell that happens to lack it would publish another table.
* Variables that begin otherwise are not ours: a cluster gives every program some after the names of its services.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from streamer.errors import ConfigError

FILE_NAME = "table.yaml"

PREFIX = "STREAMER_"
BY_VARIABLE = ("limits", "rebuild")
BY_FILE = ("columns", "privacy", "engine", "publish", "input")


def file_of(path: str | Path) -> Path:
    """table.yaml itself, where a directory that holds one may be named."""
    return Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)


def read_yaml(path: Path) -> object:
    """The content of a table.yaml, all scalars as text. Raises ConfigError."""
    try:
        return yaml.load(path.read_text("utf-8-sig"), _TextLoader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path}: not valid YAML") from None


class _TextLoader(yaml.BaseLoader):
    """YAML whose scalars all stay text, and whose mappings name each setting once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode):
                if name.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{name.value!r} comes twice", name.start_mark)
                seen.add(name.value)
        return super().construct_mapping(node, deep)


# -- the environment ----------------------------------------------------------------------------------------------


def settings_by_variable(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings, as `limits.batch_ms_max`, by the variables that say them. Raises ConfigError."""
    found = {}
    for variable in sorted(environment):
        section, _, setting = variable.removeprefix(PREFIX).lower().partition("_")
        if not variable.startswith(PREFIX) or not setting or not environment[variable]:
            continue
        if section in BY_FILE:
            raise ConfigError(
                f"{variable}: what a table says of people stands in {FILE_NAME} alone; variables can set "
                f"{' and '.join(BY_VARIABLE)}"
            )
        if section in BY_VARIABLE:
            found[variable] = f"{section}.{setting}"
    return found


def with_variables(raw: object, environment: Mapping[str, str]) -> object:
    """A file's content with what variables say instead. Raises ConfigError."""
    if not isinstance(raw, Mapping):
        return raw
    said = dict(raw)
    for variable, place in settings_by_variable(environment).items():
        section, _, setting = place.partition(".")
        inside = said.get(section, {})
        if isinstance(inside, Mapping):  # else what is wrong with the file is told
            said[section] = {**inside, setting: environment[variable]}
    return said
