"""What a table.yaml says, or every fault of it: one sentence each, with place, what is wrong and what is allowed.

All faults are found in one go. A setting that does nothing yet is refused like an unknown one: a file never promises in
silence what is not done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from streamer.table.yaml_shape import (
    TEMPORAL,
    EngineSettings,
    InputSettings,
    KeepSettings,
    LimitsSettings,
    LiveSettings,
    PrivacySettings,
    PublishSettings,
    QuasiIdentifierSettings,
    RebuildSettings,
    SensitiveSettings,
    TableSettings,
    TemporalSettings,
)

NOT_BUILT = {
    "publish.sealed": "the sealed form",
}
"""Settings whose place is known and whose work is not done by this version."""

_PUBLISH_HINT = "is missing; nothing is published by default: write `publish: {live: {form: rows}}`"
_ROLES = "quasi-identifier, sensitive or keep"
_MODELS: dict[str, type[BaseModel]] = {
    "": TableSettings,
    "quasi-identifier": QuasiIdentifierSettings,
    TEMPORAL: TemporalSettings,
    "sensitive": SensitiveSettings,
    "keep": KeepSettings,
    "privacy": PrivacySettings,
    "engine": EngineSettings,
    "live": LiveSettings,
    "publish": PublishSettings,
    "input": InputSettings,
    "limits": LimitsSettings,
    "rebuild": RebuildSettings,
}


def read_settings(raw: object) -> tuple[TableSettings | None, list[str]]:
    """Validates the content of a table.yaml whose scalars are texts; the settings, or every fault as one sentence."""
    if not isinstance(raw, Mapping):
        return None, ["the file: must be a mapping that starts with `table: <name>`"]
    known, faults = _without_unbuilt(raw)
    try:
        return TableSettings.model_validate(known), faults
    except ValidationError as error:
        return None, faults + [_sentence(fault) for fault in error.errors()]


def _without_unbuilt(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings this version knows, and one sentence for each of the others it has heard of."""
    known = {name: dict(value) if isinstance(value, Mapping) else value for name, value in raw.items()}
    faults = []
    for place, what in NOT_BUILT.items():
        section, _, name = place.rpartition(".")
        holder = known.get(section) if section else known
        if isinstance(holder, dict) and name in holder:
            del holder[name]
            faults.append(f"{place}: {what} is not built yet; remove this setting")
    return known, faults


def _sentence(fault: Any) -> str:
    """One fault found by pydantic, in the words of this project."""
    where = [str(part) for part in fault["loc"]]
    parent = where[-2] if len(where) > 1 else ""
    if where[0] == "columns" and len(where) > 2:
        del where[2]  # the role, by which the kind of column was told
    place, kind, context = ".".join(where), fault["type"], fault.get("ctx", {})
    if kind == "missing":
        return f"{place}: {_PUBLISH_HINT if where[0] == 'publish' else 'is missing'}"
    if kind == "extra_forbidden":
        return f"{place}: is no setting; there are {', '.join(_MODELS[parent].model_fields)}"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return f"{place}.role: must be {_ROLES}"
    if place == "table":
        return f"{place}: must be letters, digits, dots, dashes and underscores, 200 at most: it names Kafka's topics"
    if kind == "literal_error":
        return f"{place}: must be {context['expected']}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{place}: must be a mapping"
    if kind == "value_error":
        return f"{place}: {context['error']}"
    return f"{place}: {fault['msg'].replace('Input should', 'must').replace('String should', 'must')}"
