"""The shape of table.yaml: which settings there are, and what each may look like by itself.

Every scalar arrives as the text that stands in the file: a number is read exactly, never as a binary float, and a
category called `no` stays one. What is not a setting is refused, and so is a setting whose work is not built yet: a
file never promises in silence what nobody does. Every fault is one sentence: place, what is wrong, what is allowed.
All faults are found in one go. What settings mean together (a grid and its step, a column and its hierarchy file) is
`yaml_loading`'s part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    InstanceOf,
    StringConstraints,
    Tag,
    ValidationError,
)

from streamer.table.calendar_cells import Span, read_span
from streamer.table.moments import CLOCKS
from streamer.table.scalars import read_decimal
from streamer.table.schema import ROW_BYTES_MAX, Limits, Rebuilding

WHOLE_DIGITS_MAX, FRACTION_DIGITS_MAX = 18, 9
"""Digits of a number of table.yaml before and after the point: sums and multiples of such numbers stay exact."""

REPAIR_MAX = 100
NEVER = "never"
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DURATION_LEAST, DURATION_MOST = 60, 3_650 * 86_400
WORDS_MAX = 100
"""Words that are nulls."""

DRIFT_LEAST, DRIFT_MOST = Decimal("1.01"), Decimal(100)
"""The loss cannot be told more exactly than by a percent or so."""


def _number(text: object) -> Decimal:
    number = read_decimal(text) if isinstance(text, str) else None
    if number is None:
        raise ValueError("must be a number")
    if abs(number) >= 10**WHOLE_DIGITS_MAX or number != round(number, FRACTION_DIGITS_MAX):
        raise ValueError(
            f"must have at most {WHOLE_DIGITS_MAX} digits before the point, {FRACTION_DIGITS_MAX} after it"
        )
    return number


def _price(text: object) -> Decimal:
    if text == "off":
        return Decimal(0)
    number = read_decimal(text) if isinstance(text, str) else None
    if number is None or not 0 < number <= REPAIR_MAX or number != round(number, FRACTION_DIGITS_MAX):
        raise ValueError(
            f"must be `off`, or what a row must save that is published again: a number above 0, {REPAIR_MAX} at most,"
            " where 1 is the whole domain of one column"
        )
    return number


def _duration(text: object) -> int | None:
    """Seconds of a duration such as 90s, 30m, 24h, 7d; None for `never`."""
    if text == NEVER:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"must be a duration such as 30m, 24h or 7d, or `{NEVER}`")
    seconds = int(found[1]) * UNIT_SECONDS[found[2]]
    if not DURATION_LEAST <= seconds <= DURATION_MOST:
        raise ValueError(f"must be 1m at least and 3650d at most, or `{NEVER}`")
    return seconds


def _drift(text: object) -> Decimal | None:
    """How much more than a fresh table may be lost, as a factor; None for `never`."""
    if text == NEVER:
        return None
    factor = _number(text)
    if not DRIFT_LEAST <= factor <= DRIFT_MOST:
        raise ValueError(f"must be {DRIFT_LEAST} at least and {DRIFT_MOST} at most, or `{NEVER}`")
    return factor


def _span(text: object) -> Span:
    span = read_span(text)
    if span is None:
        raise ValueError("must be a length such as 1 day, 7 days, 3 months, 5 years, 1 hour or 15 minutes")
    return span


def _listed(names: object) -> object:
    return [names] if isinstance(names, str) else names


Number = Annotated[Decimal, BeforeValidator(_number)]
Price = Annotated[Decimal, BeforeValidator(_price)]
Algorithm = Literal["mondrian", "emp", "ola", "degree-first", "gdppr", "bottom-up", "top-down", "ordered"]
REBUILD_ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
LevelUnit = Literal["minute", "hour", "day", "month", "quarter", "year", "decade", "century", "millennium"]
Duration = Annotated[int | None, BeforeValidator(_duration)]
Drift = Annotated[Decimal | None, BeforeValidator(_drift)]
Length = Annotated[InstanceOf[Span], BeforeValidator(_span)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Words = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(max_length=WORDS_MAX)]
TableName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QuasiIdentifierSettings(_Settings):
    """A numeric quasi-identifier (`type` and `domain`) or a categorical one (`hierarchy`)."""

    role: Literal["quasi-identifier"]
    type: Literal["integer", "decimal", "date", "timestamp", "local-timestamp"] | None = None  # the last: see below
    domain: tuple[Number, Number] | None = None
    grid: Number | None = None
    step: Number | None = None
    unit: Number | None = None
    hierarchy: Name | None = None
    null_as: str | None = None
    null: Literal["own-category"] | None = None
    other: Name | None = None
    na: Words | None = None
    written: Name | None = None


class TemporalSettings(_Settings):
    """A quasi-identifier of dates or timestamps."""

    role: Literal["quasi-identifier"]
    type: Literal["date", "timestamp", "local-timestamp"]
    domain: tuple[str, str]
    grid: Length
    unit: Length | None = None
    levels: tuple[LevelUnit, ...] | None = None
    null_as: str | None = None
    na: Words | None = None
    written: Name | None = None


class SensitiveSettings(_Settings):
    role: Literal["sensitive"]
    type: Literal["text", "integer", "decimal", "boolean", "date", "timestamp", "local-timestamp"] | None = None
    hierarchy: Name | None = None
    other: Name | None = None
    na: Words | None = None
    written: Name | None = None


class KeepSettings(_Settings):
    role: Literal["keep"]
    type: Literal["text", "integer", "decimal", "boolean", "date", "timestamp", "local-timestamp"] | None = None
    acknowledge_linkable: bool = False
    na: Words | None = None
    written: Name | None = None


_TEMPORAL = "quasi-identifier in time"


def _kind_of_column(raw: Any) -> str | None:
    """Which settings a column has: by its role, and by its type where that counts time."""
    role, type_ = (raw.get(name) if isinstance(raw, Mapping) else None for name in ("role", "type"))
    if not isinstance(role, str):
        return None
    return _TEMPORAL if role == "quasi-identifier" and isinstance(type_, str) and type_ in CLOCKS else role


ColumnSettings = Annotated[
    Annotated[QuasiIdentifierSettings, Tag("quasi-identifier")]
    | Annotated[TemporalSettings, Tag(_TEMPORAL)]
    | Annotated[SensitiveSettings, Tag("sensitive")]
    | Annotated[KeepSettings, Tag("keep")],
    Discriminator(_kind_of_column),
]


class PrivacySettings(_Settings):
    """What every QI group owes: k, and of the sensitive columns l (with nulls or not), alpha, beta, r at a level."""

    k: int = Field(ge=2, le=1_000_000)
    l: int | None = Field(default=None, ge=2, le=1_000_000)  # noqa: E741 - the field writes it so
    alpha: Number | None = Field(default=None, gt=0, le=1)
    beta: Number | None = Field(default=None, gt=0, le=1)
    r: Number | None = Field(default=None, gt=0, le=1)
    level: int = Field(default=1, ge=0, le=100)
    null_counts: bool = False


class EngineSettings(_Settings):
    """How QI groups are kept; repair: the NCP that a row must save which local repair publishes again, 0 for none.

    Without a word it has its usual price; under a form that publishes no boxes, and so no loss, there is none.
    """

    recut: bool = True
    shrink: bool = True
    repair: Price | None = None


class LiveSettings(_Settings):
    form: Literal["rows", "groups", "lossy-join"]
    format: Literal["json", "connect-json", "avro"] = "json"


class PublishSettings(_Settings):
    live: LiveSettings


class InputSettings(_Settings):
    """What the messages do not say themselves.

    form: a message that is a row without any mark is an upsert, and null its removal. decimals: without a schema they
    are never bytes. partitioner: all messages of a row share a shard, though not the one that murmur2 gives.
    """

    form: Literal["rows"] | None = None
    decimals: Literal["text"] | None = None
    partitioner: Literal["stated"] | None = None


class LimitsSettings(_Settings):
    """Bounds of `streamer.table.schema.Limits`; Kafka's own default for a message is 1 MB."""

    batch_events_max: int = Field(default=Limits.batch_events_max, ge=1, le=100_000)
    batch_ms_max: int = Field(default=Limits.batch_ms_max, ge=1, le=60_000)
    transaction_rows_max: int = Field(default=Limits.transaction_rows_max, ge=100, le=1_000_000)
    statement_rows_max: int = Field(default=Limits.statement_rows_max, ge=1, le=100_000_000)
    event_bytes_max: int = Field(default=Limits.event_bytes_max, ge=1_000, le=100_000_000)
    row_bytes_max: int = Field(default=Limits.row_bytes_max, ge=1_000, le=ROW_BYTES_MAX)
    dead_letters_share_max: float = Field(default=Limits.dead_letters_share_max, ge=0, le=1)


class RebuildSettings(_Settings):
    """When a shard is anonymized anew behind the stream; the algorithms are those of `streamer anonymize`."""

    algorithm: Algorithm = "ordered"
    every: Duration = Rebuilding.every
    drift: Drift = Rebuilding.drift


class TableSettings(_Settings):
    """The whole of table.yaml."""

    table: TableName
    key: Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)] = ()
    individual: Name | None = None
    na: Words = ()
    columns: dict[Name, ColumnSettings] = Field(min_length=1)
    privacy: PrivacySettings
    engine: EngineSettings = EngineSettings()
    publish: PublishSettings
    input: InputSettings = InputSettings()
    durability: Literal["stated"] | None = None
    limits: LimitsSettings = LimitsSettings()
    rebuild: RebuildSettings = RebuildSettings()


NOT_BUILT = {
    "publish.sealed": "the sealed form",
}
"""Settings whose place is known and whose work is not done by this version."""

_PUBLISH_HINT = "is missing; nothing is published by default: write `publish: {live: {form: rows}}`"
_ROLES = "quasi-identifier, sensitive or keep"
_MODELS: dict[str, type[_Settings]] = {
    "": TableSettings,
    "quasi-identifier": QuasiIdentifierSettings,
    _TEMPORAL: TemporalSettings,
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
