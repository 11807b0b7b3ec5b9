"""The settings of table.yaml: which there are, and what each may be by itself.

Every value arrives as the text that stands in the file: a number is read exactly, never as a binary float, and a
category called `no` stays one. `yaml.loading` refuses unknown settings and checks what settings mean together. A
docstring explains every setting as `name: what it is`; the reference is made from these.
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
    model_validator,
)

from streamer.table.codes import CLOCKS, Span, read_decimal
from streamer.table.codes.attributes import NO_WEIGHT
from streamer.table.codes.calendar import read_span
from streamer.table.schema import NO_REPAIR, ROW_BYTES_MAX, ROWS, EpochLength, Limits, RebuildRules, Repair, SealedRules
from streamer.table.yaml import K_MAX, K_MIN

WHOLE_DIGITS_MAX, FRACTION_DIGITS_MAX = 18, 9
"""The most digits of a number before and after the point: sums and multiples of such numbers stay exact."""

NOTHING_PUBLISHED = "nothing is published by default: write `publish: {live: {form: rows}}`"

REPAIR_MAX = 100
NEVER = "never"
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DURATION_LEAST, DURATION_MOST = 60, 3_650 * 86_400
EPOCH_MOST = (366 * 86_400, 100_000_000)
"""The longest epoch, in seconds and in row changes."""

WORDS_MAX = 100
"""The most words that are nulls."""

DRIFT_LEAST, DRIFT_MOST = Decimal("1.01"), Decimal(100)
"""Loss is not known more exactly than to about a percent."""


def _number(text: object) -> Decimal:
    number = read_decimal(text) if isinstance(text, str) else None
    if number is None:
        raise ValueError("must be a number")
    if abs(number) >= 10**WHOLE_DIGITS_MAX or number != round(number, FRACTION_DIGITS_MAX):
        raise ValueError(
            f"must have at most {WHOLE_DIGITS_MAX} digits before the point, {FRACTION_DIGITS_MAX} after it"
        )
    return number


def read_repair(text: object) -> Repair:
    if text == "off":
        return NO_REPAIR
    said = text if isinstance(text, str) else ""
    number = read_decimal(said.removesuffix("%").rstrip())
    if number is None or not 0 < number <= REPAIR_MAX or number != round(number, FRACTION_DIGITS_MAX):
        raise ValueError(
            "must be `off`, or the loss that each row published again has to save: a share of what a row loses, such"
            f" as 5%, or a number, where 1 is the whole domain of one column; above 0, at most {REPAIR_MAX}"
        )
    return Repair(share=float(number / 100)) if said.endswith("%") else Repair(price=float(number))


def _duration(text: object) -> int | None:
    """A duration such as 90s, 30m, 24h or 7d in seconds; None for `never`."""
    if text == NEVER:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"must be a duration such as 30m, 24h or 7d, or `{NEVER}`")
    seconds = int(found[1]) * UNIT_SECONDS[found[2]]
    if not DURATION_LEAST <= seconds <= DURATION_MOST:
        raise ValueError(f"must be at least 1m and at most 3650d, or `{NEVER}`")
    return seconds


def read_epoch(text: object) -> EpochLength:
    """The length of an epoch: a duration such as 30s, 10m or 1h, or a number of row changes, such as 1000 events."""
    found = re.fullmatch(r"([0-9]{1,9}) ?(s|m|min|h|d|events)", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("must be a duration such as 10m or 1h, or a number of row changes, such as 1000 events")
    number, unit = int(found[1]), found[2].removesuffix("in")
    length = number if unit == "events" else number * UNIT_SECONDS[unit]
    if not 1 <= length <= EPOCH_MOST[unit == "events"]:
        raise ValueError("must be at least 1 s and at most 366 d, or at least 1 and at most 100,000,000 events")
    return EpochLength(events=length) if unit == "events" else EpochLength(seconds=length)


def _drift(text: object) -> Decimal | None:
    """The loss that is allowed, as a multiple of a fresh table's; None for `never`."""
    if text == NEVER:
        return None
    factor = _number(text)
    if not DRIFT_LEAST <= factor <= DRIFT_MOST:
        raise ValueError(f"must be at least {DRIFT_LEAST} and at most {DRIFT_MOST}, or `{NEVER}`")
    return factor


def _span(text: object) -> Span:
    span = read_span(text)
    if span is None:
        raise ValueError("must be a length such as 1 day, 7 days, 3 months, 5 years, 1 hour or 15 minutes")
    return span


def _listed(names: object) -> object:
    """A list of names; a single one may stand without a list."""
    return [names] if isinstance(names, str) else names


Number = Annotated[Decimal, BeforeValidator(_number)]
LocalRepair = Annotated[InstanceOf[Repair], BeforeValidator(read_repair)]
Algorithm = Literal["mondrian", "emp", "ola", "degree-first", "gdppr", "bottom-up", "top-down", "ordered"]
REBUILD_ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
LevelUnit = Literal["minute", "hour", "day", "month", "quarter", "year", "decade", "century", "millennium"]
Duration = Annotated[int | None, BeforeValidator(_duration)]
Drift = Annotated[Decimal | None, BeforeValidator(_drift)]
Epoch = Annotated[InstanceOf[EpochLength], BeforeValidator(read_epoch)]
Length = Annotated[InstanceOf[Span], BeforeValidator(_span)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Names = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
Words = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(max_length=WORDS_MAX)]
TableName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class QuasiIdentifierSettings(_Settings):
    """A numeric quasi-identifier (`type` and `domain`) or a categorical one (`hierarchy`).

    role: published as an interval, or as a node of its hierarchy. type: only of a numeric one. domain: the lowest and
    the highest value; any other is a dead letter. grid: width of the cells that intervals consist of, counted from the
    start of the domain. step: all values are multiples of it, counted from the start of the domain; 1 for integers.
    width: the digits of codes, such as 5 of postal ones: they are published as texts, with zeros in front.
    unit: the length that counts as 1 in the distance of two QI groups, in leaves if there is a hierarchy; a fifth of
    the domain by default. hierarchy: a file next to table.yaml with one line per leaf, from the leaf to the root.
    null_as: the value that nulls are published as; by default a row with a null here is a dead letter. null: gives
    nulls a category of their own, `(none)`. other: the node that takes categories which the hierarchy does not have.
    na: words that are nulls, instead of the table's. written: how its numbers are written as texts, such as `1,234.5`,
    or `digits`. outside: `ends` says that a number outside the domain counts as the nearer end (top-coding). weight:
    how much its loss and its similarity count beside those of other quasi-identifiers; 1 by default. coarsest: the most
    by which the ends of a published interval differ; of categories the highest level of a published node, a leaf has 0.
    Rows that cannot be published so are left out, as far as `--suppression` allows; in a stream they wait.
    """

    role: Literal["quasi-identifier"]
    type: Literal["integer", "decimal", "date", "timestamp", "local-timestamp"] | None = None
    domain: tuple[Number, Number] | None = None
    grid: Number | None = None
    step: Number | None = None
    outside: Literal["ends"] | None = None
    width: int | None = Field(default=None, ge=1, le=WHOLE_DIGITS_MAX)
    unit: Number | None = None
    weight: Number = Field(default=NO_WEIGHT, gt=0, le=1_000)
    coarsest: Number | None = Field(default=None, ge=0)
    hierarchy: Name | None = None
    null_as: str | None = None
    null: Literal["own-category"] | None = None
    other: Name | None = None
    na: Words | None = None
    written: Name | None = None


class TemporalSettings(_Settings):
    """A quasi-identifier of dates or timestamps.

    role: published as an interval of the calendar. type: a day, an instant (with an offset, published in UTC), or the
    time that a clock on the wall shows. domain: the first and the last moment; it begins where a unit of the grid does.
    grid: length of the cells that intervals consist of, counted from the start of the domain. unit: the length that
    counts as 1 in the distance of two QI groups; a fifth of the domain by default. levels: the units that algorithms
    use which generalize level by level. null_as: the moment that nulls are published as; by default a row with a null
    here is a dead letter. na: words that are nulls, instead of the table's. written: how its texts are written, such as
    `DD.MM.YYYY`. outside: `ends` says that a moment outside the domain counts as the nearer end, also `infinity` and
    one outside the years 1 to 9999. weight: how much its loss and its similarity count beside those of other
    quasi-identifiers; 1 by default. coarsest: no published interval is longer; as for a number.
    """

    role: Literal["quasi-identifier"]
    type: Literal["date", "timestamp", "local-timestamp"]
    domain: tuple[str, str]
    grid: Length
    outside: Literal["ends"] | None = None
    unit: Length | None = None
    weight: Number = Field(default=NO_WEIGHT, gt=0, le=1_000)
    coarsest: Length | None = None
    levels: tuple[LevelUnit, ...] | None = None
    null_as: str | None = None
    na: Words | None = None
    written: Name | None = None


KeptType = Literal["text", "integer", "decimal", "boolean", "date", "timestamp", "local-timestamp"]


class RecursiveSettings(_Settings):
    """Recursive (c, l)-diversity: the most frequent value has less than c times the rows that others leave.

    c: how many times. l: the l - 1 most frequent values are not among the others.
    """

    c: Number = Field(gt=0, le=1_000_000)
    l: int = Field(ge=2, le=1_000)  # noqa: E741 - the field writes it so


DISGUISES = "{level: 2}, {pseudonym: FILE} and {shift_days: 30, key: FILE}"


class DisguiseSettings(_Settings):
    """What is published instead of a column's values: one of `level`, `pseudonym` and `shift_days`.

    level: the ancestor at this level of the column's hierarchy; 0 would be the leaf. pseudonym: a keyed hash; the file
    of the key, next to table.yaml (`streamer pseudonym` makes one). shift_days: a date that is shifted by so many days
    at most, all dates of a person by the same number; needs `key`. key: the file of the key for that.
    """

    level: int | None = Field(default=None, ge=1, le=100)
    pseudonym: Name | None = None
    shift_days: int | None = Field(default=None, ge=1, le=36_525)
    key: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_a_mapping(cls, said: Any) -> Any:
        if not isinstance(said, Mapping):
            raise ValueError(f"must be one of {DISGUISES}")
        return said

    @model_validator(mode="after")
    def _says_one_thing(self) -> DisguiseSettings:
        given = [one for one in (self.level, self.pseudonym, self.shift_days) if one is not None]
        if len(given) != 1 or (self.key is None) != (self.shift_days is None):
            raise ValueError(f"must be one of {DISGUISES}")
        return self


class SensitiveSettings(_Settings):
    """A column whose values are published one by one, and which the privacy model counts.

    role: what no one may learn about a person. type: the type of its values; by default any JSON scalar. grid: numbers
    are rounded to a multiple of it before they are published and counted. domain: numbers outside it become its nearer
    end (top-coding). hierarchy: a file next to table.yaml, whose leaves are all possible values; `r` needs one. other:
    the node that takes categories which the hierarchy does not have. na: words that are nulls, instead of the table's.
    written: how its texts are written, such as `DD.MM.YYYY` or `1,234.5`. l: the least number of distinct values of
    this column in a QI group, and in a sealed cohort that shows its values; what `privacy` says holds, too, so the
    stronger of both. beta: likewise the largest share of one value. r: likewise the largest share of close values.
    level: how far above the leaf the ancestor stands that makes them close; by default `privacy.level`. entropy_l: a QI
    group has at least as much entropy as this number of equally frequent values. recursive: the most frequent value has
    less than `c` times the rows that the l - 1 most frequent ones leave. t: the largest distance of a QI group's
    distribution from that of the whole table, 0 to 1. distance: of two values: `equal`, `ordered` for numbers and
    dates, or `hierarchical`; by default what the column has. distribution: by value how many rows of the whole
    table have it ('' for nulls), which `t` compares with: `streamer distribution` writes it. A stream and fragments
    need it; a table in one run has its own.
    publish: what is published instead of its values; all models count that.
    """

    role: Literal["sensitive"]
    type: KeptType | None = None
    grid: Number | None = Field(default=None, gt=0)
    domain: tuple[Number, Number] | None = None
    hierarchy: Name | None = None
    other: Name | None = None
    na: Words | None = None
    written: Name | None = None
    l: int | None = Field(default=None, ge=2, le=1_000_000)  # noqa: E741 - the field writes it so
    beta: Number | None = Field(default=None, gt=0, le=1)
    r: Number | None = Field(default=None, gt=0, le=1)
    level: int | None = Field(default=None, ge=0, le=100)
    entropy_l: Number | None = Field(default=None, gt=1, le=1_000_000)
    recursive: RecursiveSettings | None = None
    t: Number | None = Field(default=None, ge=0, lt=1)
    distance: Literal["equal", "ordered", "hierarchical"] | None = None
    distribution: dict[str, Annotated[int, Field(ge=1, le=1_000_000_000_000)]] | None = None
    publish: DisguiseSettings | None = None


class KeepSettings(_Settings):
    """A column whose values are published one by one, and which no privacy model looks at.

    role: the author of table.yaml decides whether it could link a row to a person. type: the type of its values; by
    default any JSON scalar. grid: numbers are rounded to a multiple of it before they are published. domain: numbers
    outside it become its nearer end (top-coding). hierarchy: a file next to table.yaml, whose leaves are all possible
    values. other: the node that takes categories which the hierarchy does not have. acknowledge_linkable: has to be
    `true`, except for a pseudonym: the column could link a row to a person, and the author knows that. na: words that
    are nulls, instead of the table's. written: how its texts are written, such as `DD.MM.YYYY` or `1,234.5`. publish:
    what is published instead of its values; the key or the individual can be such a column with a pseudonym.
    """

    role: Literal["keep"]
    type: KeptType | None = None
    grid: Number | None = Field(default=None, gt=0)
    domain: tuple[Number, Number] | None = None
    hierarchy: Name | None = None
    other: Name | None = None
    acknowledge_linkable: bool = False
    na: Words | None = None
    written: Name | None = None
    publish: DisguiseSettings | None = None


TEMPORAL_ROLE = "quasi-identifier in time"


def _kind_of_column(raw: Any) -> str | None:
    """The tag of a column's settings: its role, and whether its type is temporal."""
    role, type_ = (raw.get(name) if isinstance(raw, Mapping) else None for name in ("role", "type"))
    if not isinstance(role, str):
        return None
    return TEMPORAL_ROLE if role == "quasi-identifier" and isinstance(type_, str) and type_ in CLOCKS else role


ColumnSettings = Annotated[
    Annotated[QuasiIdentifierSettings, Tag("quasi-identifier")]
    | Annotated[TemporalSettings, Tag(TEMPORAL_ROLE)]
    | Annotated[SensitiveSettings, Tag("sensitive")]
    | Annotated[KeepSettings, Tag("keep")],
    Discriminator(_kind_of_column),
]


class PrivacySettings(_Settings):
    """The demands on every QI group; all that are given must hold.

    k: the least number of rows, or of individuals if they are declared. l: the least number of distinct values of each
    sensitive column. alpha: the largest share of its rows that one individual may have. beta: the largest share of one
    sensitive value. r: the largest share of values that are close, because they have one ancestor in their hierarchy.
    level: how far above the leaf that ancestor stands. null_counts: whether a null counts as one of the `l` values.
    capitals_count: whether individuals and values that differ only in capitals count as different ones.
    """

    k: int = Field(ge=K_MIN, le=K_MAX)
    l: int | None = Field(default=None, ge=2, le=1_000_000)  # noqa: E741 - the field writes it so
    alpha: Number | None = Field(default=None, gt=0, le=1)
    beta: Number | None = Field(default=None, gt=0, le=1)
    r: Number | None = Field(default=None, gt=0, le=1)
    level: int = Field(default=1, ge=0, le=100)
    null_counts: bool = False
    capitals_count: bool = False


class EngineSettings(_Settings):
    """How QI groups are kept current.

    recut: whether two merged QI groups are cut in two again if they have 2k rows. shrink: whether a box becomes smaller
    when rows are deleted; if not, edges that only they held stay published. repair: the loss that local repair has to
    save for every row that it publishes again: a share (`5%`) of what a row of the table loses, or a number, where 1 is
    the whole domain of one column, however many columns there are; by default the share, and off for a form that
    publishes no boxes, because it has no loss.
    """

    recut: bool = True
    shrink: bool = True
    repair: LocalRepair | None = None


class LiveSettings(_Settings):
    """The changelog.

    form: a message for each row, one for each QI group, or two topics that only the QI group joins. format: how a
    record is written: plain JSON, JSON with Connect's schema in it, or Avro with a schema registry's schema.
    """

    form: Literal["rows", "groups", "lossy-join"]
    format: Literal["json", "connect-json", "avro"] = "json"


class SealedSettings(_Settings):
    """The sealed changelog, for readers who must not learn from the changes: people are published once, in cohorts.

    epoch: how long newcomers are gathered before cohorts are formed of them. alpha: the largest share of one value of a
    sensitive column in a cohort that shows its values; any other shows its box alone. l: the least number of distinct
    values of each sensitive column in a cohort that shows them. theta: a cohort is retired when no larger share of its
    people is left; 0: when nobody is left. tau: the largest information loss with which a cohort is formed at once; the
    people of a wider one wait for others, so that it becomes narrower. delta: the epochs that a row waits at most.
    counters: whether it is published how many of a cohort's people are left.
    """

    epoch: Epoch
    alpha: Number = Field(default=SealedRules.alpha, gt=0, le=1)
    l: int = Field(default=SealedRules.l, ge=1, le=1_000_000)  # noqa: E741 - the field writes it so
    theta: Number = Field(default=SealedRules.theta, ge=0, lt=1)
    tau: Number | None = Field(default=None, gt=0, lt=1)
    delta: int | None = Field(default=None, ge=1, le=1_000_000)
    counters: bool = SealedRules.counters


class PublishSettings(_Settings):
    """The published changelogs; none is published by default, and at least one has to be named.

    live: the changelog of the table, current to the last change. sealed: cohorts, for readers who must not see changes.
    """

    live: LiveSettings | None = None
    sealed: SealedSettings | None = None

    @model_validator(mode="after")
    def _names_something(self) -> PublishSettings:
        if self.live is None and self.sealed is None:
            raise ValueError(f"names neither live nor sealed; {NOTHING_PUBLISHED}")
        return self

    @property
    def form(self) -> str:
        """Of what `live` publishes; a table without it is kept as if it published rows."""
        return self.live.form if self.live else ROWS


class InputSettings(_Settings):
    """Facts that the messages do not say themselves.

    form: a message that is a bare row is an upsert, and a null value removes the row. decimals: decimals are never sent
    as bytes if there is no schema. partitioner: all messages of a row share a shard, but not the one that murmur2
    gives.
    """

    form: Literal["rows"] | None = None
    decimals: Literal["text"] | None = None
    partitioner: Literal["stated"] | None = None


class LimitsSettings(_Settings):
    """Limits of one step, one statement and one message; Kafka's own default for a message is 1 MB.

    batch_events_max: messages of one commit. batch_ms_max: how long a message waits for others although its shard is
    free, in milliseconds: fewer and larger releases. transaction_rows_max: published rows of one transaction, which
    ends between messages; also the size of a region of a rebuild. statement_rows_max: rows of a shard that one
    statement may touch; one that touches more is a dead letter. event_bytes_max: bytes of a message; a longer one is a
    dead letter. row_bytes_max: bytes of a published record; a row that needs more is a dead letter.
    dead_letters_share_max: the share of a shard's latest messages that may be dead letters before `status` is red.
    """

    batch_events_max: int = Field(default=Limits.batch_events_max, ge=1, le=100_000)
    batch_ms_max: int = Field(default=Limits.batch_ms_max, ge=0, le=60_000)
    transaction_rows_max: int = Field(default=Limits.transaction_rows_max, ge=100, le=1_000_000)
    statement_rows_max: int = Field(default=Limits.statement_rows_max, ge=1, le=100_000_000)
    event_bytes_max: int = Field(default=Limits.event_bytes_max, ge=1_000, le=100_000_000)
    row_bytes_max: int = Field(default=Limits.row_bytes_max, ge=1_000, le=ROW_BYTES_MAX)
    dead_letters_share_max: float = Field(default=Limits.dead_letters_share_max, ge=0, le=1)


class RebuildSettings(_Settings):
    """When a shard is anonymized again as a whole while the stream goes on.

    algorithm: one of the algorithms of `streamer anonymize`. every: the longest time between two rebuilds. drift: the
    loss, as a multiple of a fresh table's, at which a rebuild is due.
    """

    algorithm: Algorithm = "ordered"
    every: Duration = RebuildRules.every
    drift: Drift = RebuildRules.drift


class TableSettings(_Settings):
    """The whole of table.yaml.

    table: its name, with which the names of its topics begin. key: the column of the primary key, or a list of columns;
    never published but as a pseudonym; commands that only read files do without. individual: the column that says whose
    row it is, if k is to count people; never published but as a pseudonym. na: words that are nulls, in files, messages
    and statements, as texts, numbers or dates. columns: each by its name; a column that is not listed is never
    published. privacy: what every QI group must satisfy. engine: how QI groups are kept current. publish: what is
    published, and in which form. input: what the messages do not say themselves. durability: `stated` says that Redis
    keeps what it confirms, whatever its settings show. limits: limits of one step, one statement and one message.
    rebuild: when a shard is anonymized again as a whole.
    """

    table: TableName
    key: Names = ()
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
