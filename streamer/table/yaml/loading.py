"""Reads table.yaml and its hierarchy files as a `Table`, or reports every fault of them at once.

The rules of this file
----------------------
* A fault is one sentence: its place (`columns.age.grid`), what is wrong, what is allowed. It may repeat words of the
  file, which holds nobody's values.
* A setting that does nothing yet is refused like an unknown one: a file never promises what is not done.
* Operators set per deployment what BY_VARIABLE lists; for these a variable wins over table.yaml:
  `STREAMER_LIMITS_BATCH_MS_MAX=20` for `limits: {batch_ms_max: 20}`.
* What a table says about people (its columns, its privacy, its form) is set in the file alone. A variable for one of
  those sections is refused, because a shell without it would publish another table.
* Other variables are not ours: a cluster gives every program some that are named after its services.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from errno import EFBIG, EINVAL
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError

from streamer.errors import ConfigError, UsageError
from streamer.table.codes import (
    CLOCKS,
    EQUAL,
    HIERARCHICAL,
    ORDERED,
    Attribute,
    DistributionDemands,
    Diversity,
    KeptColumn,
    reference_of,
)
from streamer.table.codes.same_text import counted_text, counted_value
from streamer.table.hierarchy import Hierarchy, rows_of_text
from streamer.table.key_files import KeyFile, read_key
from streamer.table.published.groups import COUNT, SIZE, VALUES
from streamer.table.published.rows import QI_GROUP, interval_columns
from streamer.table.published.schemas import no_schema, values_bytes_max
from streamer.table.schema import (
    GROUPS,
    JSON,
    LOSSY_JOIN,
    NO_REPAIR,
    REPAIR,
    Limits,
    RebuildRules,
    Repair,
    SealedRules,
    Table,
)
from streamer.table.yaml import FILE_NAME, VARIABLE_PREFIX, columns, shape
from streamer.table.yaml.shape import (
    ColumnSettings,
    DisguiseSettings,
    KeepSettings,
    PrivacySettings,
    QuasiIdentifierSettings,
    SensitiveSettings,
    TableSettings,
    TemporalSettings,
)

BY_VARIABLE = ("limits", "rebuild")
BY_FILE = ("columns", "privacy", "engine", "publish", "input")


def file_of(path: str | Path) -> Path:
    """The table.yaml that a path names: the file, or the one in a directory."""
    return Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)


def read_yaml(path: Path) -> object:
    """The content of a table.yaml, all scalars as text. Raises ConfigError."""
    try:
        return yaml.load(_text_of(path, YAML_CHARS_MAX), _TextLoader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path}: not valid YAML") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid YAML: lists or mappings are nested too deeply") from None


YAML_CHARS_MAX = 10_000_000
HIERARCHY_CHARS_MAX = 100_000_000


def _text_of(path: Path, chars_max: int) -> str:
    """The text of a regular file. Raises OSError, also if it is something else or too long, and UnicodeDecodeError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without waiting for its writer
    with open(descriptor, encoding="utf-8-sig") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(EINVAL, "it is no regular file (a device, a pipe)")
        text = file.read(chars_max + 1)
    if len(text) > chars_max:
        raise OSError(EFBIG, f"it has more than {chars_max:,} characters")
    return text


class _TextLoader(yaml.BaseLoader):
    """YAML in which all scalars are text, and no mapping has the same name twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode):
                if name.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{name.value!r} comes twice", name.start_mark)
                seen.add(name.value)
        return super().construct_mapping(node, deep)


def settings_by_variable(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings, such as `limits.batch_ms_max`, by the variables that set them. Raises ConfigError."""
    found = {}
    for variable in sorted(environment):
        section, _, setting = variable.removeprefix(VARIABLE_PREFIX).lower().partition("_")
        if not variable.startswith(VARIABLE_PREFIX) or not setting or not environment[variable]:
            continue
        if section in BY_FILE:
            raise ConfigError(
                f"{variable}: `{section}` can only be set in {FILE_NAME}; variables can set {' and '.join(BY_VARIABLE)}"
            )
        if section in BY_VARIABLE:
            found[variable] = f"{section}.{setting}"
    return found


def with_variables(raw: object, environment: Mapping[str, str]) -> object:
    """A file's content, changed by variables. Raises ConfigError."""
    if not isinstance(raw, Mapping):
        return raw
    changed = dict(raw)
    for variable, place in settings_by_variable(environment).items():
        section, _, setting = place.partition(".")
        inside = changed.get(section, {})
        if isinstance(inside, Mapping):  # if not, that is a fault of the file
            changed[section] = {**inside, setting: environment[variable]}
    return changed


_PUBLISH_HINT = f"is missing; {shape.NOTHING_PUBLISHED}"
_OF_LIVE = ("publish", "publish.live.form")
_ROLES = "quasi-identifier, sensitive or keep"
_IN_OUR_WORDS = {
    "value_error": "{error}",
    "literal_error": "must be {expected}",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "bool_parsing": "must be true or false",
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a mapping"),
}
"""Our words for a fault, by pydantic's name of its kind; for any other kind, pydantic's sentence."""

_MODELS: dict[str, type[BaseModel]] = {
    "": TableSettings,
    "quasi-identifier": QuasiIdentifierSettings,
    shape.TEMPORAL_ROLE: TemporalSettings,
    "sensitive": SensitiveSettings,
    "recursive": shape.RecursiveSettings,
    "keep": KeepSettings,
    "publish of a column": DisguiseSettings,
    "privacy": PrivacySettings,
    "engine": shape.EngineSettings,
    "live": shape.LiveSettings,
    "sealed": shape.SealedSettings,
    "publish": shape.PublishSettings,
    "input": shape.InputSettings,
    "limits": shape.LimitsSettings,
    "rebuild": shape.RebuildSettings,
}
"""By the last part of a place; of a column, by its tag."""


def read_settings(raw: object) -> tuple[TableSettings | None, list[str]]:
    """The settings that the content of a table.yaml has, or None; and its faults."""
    if not isinstance(raw, Mapping):
        return None, ["the file: must be a mapping that starts with `table: <name>`"]
    try:
        return TableSettings.model_validate(raw), []
    except ValidationError as error:
        return None, [_sentence(fault) for fault in error.errors()]


def _sentence(fault: Any) -> str:
    """A fault that pydantic found, in our words."""
    where = [str(part) for part in fault["loc"]]
    parent = where[-2] if len(where) > 1 else ""
    if where[0] == "columns" and parent == "publish":
        parent = "publish of a column"
    if where[0] == "columns" and len(where) > 2:
        del where[2]  # the tag of the column's settings
    if where[2:3] == ["distribution"]:
        del where[3:]  # a value of people
    place, kind, context = ".".join(where), fault["type"], fault.get("ctx", {})
    if kind == "missing":
        return f"{place}: {_PUBLISH_HINT if place in _OF_LIVE else 'is missing'}"
    if kind == "extra_forbidden" and parent == "sensitive" and where[-1] == "alpha":
        return f"{place}: is about individuals: set privacy.alpha, or `beta` here, which is about values"
    if kind == "extra_forbidden" and parent in QUASI_IDENTIFIERS and where[-1] == "publish":
        return f"{place}: a quasi-identifier is published as its box: its grid or hierarchy decides how exact that is"
    if kind == "extra_forbidden":
        return f"{place}: is not a setting; there are {', '.join(_MODELS[parent].model_fields)}"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return f"{place}.role: must be {_ROLES}"
    if place == "table":
        return f"{place}: must be at most 200 letters, digits, dots, dashes or underscores: it names Kafka's topics"
    if place.endswith(".distribution") and kind in ("greater_than_equal", "less_than_equal"):
        place += ": a count"
    if kind in _IN_OUR_WORDS:
        return f"{place}: {_IN_OUR_WORDS[kind].format(**context)}"
    return f"{place}: {fault['msg'].replace('Input should', 'must').replace('String should', 'must')}"


QUASI_IDENTIFIERS = ("quasi-identifier", shape.TEMPORAL_ROLE)

VALUES_BYTES_MIN = 16
"""The least bytes that a row's kept values must be allowed: with fewer, next to every row would be refused."""

_NO_KEY = "key: is missing; only `check`, `compare` and `anonymize` work without one"

_OF_THE_FORM = {GROUPS: (SIZE, VALUES, COUNT), LOSSY_JOIN: (COUNT,)}
"""Columns that a form publishes in addition to those of table.yaml."""


def load_table(path: str | Path, environment: Mapping[str, str] = os.environ, *, needs_key: bool = True) -> Table:
    """The table that a table.yaml describes; `path` is the file or a directory that holds one.

    environment: its variables win over the file. needs_key: whether rows need a key, as those of a stream do. Raises
    ConfigError, which lists every fault of the file, one per line.
    """
    path = file_of(path)
    return _loaded(str(path), read_yaml(path), Hierarchies(path.parent), environment, needs_key)


def _loaded(name: str, raw: object, trees: Hierarchies, environment: Mapping[str, str], needs_key: bool) -> Table:
    settings, faults = read_settings(with_variables(raw, environment))
    faults = [_with_variable(fault, environment) for fault in faults]
    if settings is not None and needs_key and not settings.key:
        faults.append(_NO_KEY)
    table = None if settings is None else _table(settings, trees, faults)
    if table is None or faults:
        raise ConfigError("\n  ".join([f"{name}: {len(faults)} fault{'s' * (len(faults) > 1)}", *faults]))
    return table


Named = Table | Mapping[str, object] | str | Path
"""A table as users of Python name it."""


def table_of(table: Named, *, needs_key: bool = True) -> Table:
    """A table as users of Python name it: a `Table`, a table.yaml, the directory that holds one, or what it would hold.

    A mapping holds the settings of table.yaml; a hierarchy in it is a file, or rows from leaf to root. needs_key: as
    for `load_table`. Raises UsageError for anything else, and what `load_table` raises.
    """
    if isinstance(table, Table):
        return table
    if isinstance(table, str | os.PathLike):
        return load_table(Path(table), needs_key=needs_key)
    if isinstance(table, Mapping):
        trees = Hierarchies(Path())
        return _loaded("the table", _as_texts(table, trees), trees, os.environ, needs_key)
    raise UsageError(f"the table must be a Table or the path of a table.yaml, not {type(table).__name__}")


class Hierarchies:
    """The rows of hierarchies: of the files in a folder, or given, by the places of their columns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.given: dict[str, columns.Rows] = {}


ITS_ROWS = "its rows"
"""In the place of a file: the hierarchy is given."""

SETTINGS_DEPTH_MAX = 5


def _as_texts(said: object, trees: Hierarchies, *place: str) -> object:
    """Settings of Python as the texts that a file has. Raises ConfigError for one that no file could say."""
    where = ".".join(place)
    if isinstance(said, Mapping) and len(place) < SETTINGS_DEPTH_MAX:
        if place[2:] == ("distribution",):
            said = {"" if name is None else _setting_text(name, where): n for name, n in said.items()}
        for name in said:
            if not isinstance(name, str):
                raise ConfigError(f"the table: {where or 'it'}: a name must be a text, not {type(name).__name__}")
        keeps_none = place == ("columns",)  # as `age:` in a file, a column without settings
        there = {name: one for name, one in said.items() if one is not None or keeps_none}
        return {name: _as_texts(one, trees, *place, name) for name, one in there.items()}
    if place[:1] == ("columns",) and place[2:] == ("hierarchy",) and not isinstance(said, str):
        trees.given[f"columns.{place[1]}"] = _given_rows(said, where)
        return ITS_ROWS
    if isinstance(said, list | tuple) and len(place) < SETTINGS_DEPTH_MAX:
        return [_as_texts(one, trees, *place, str(i)) for i, one in enumerate(said)]
    return "" if said is None and len(place) == 2 else _setting_text(said, where)


def _given_rows(said: object, where: str) -> columns.Rows:
    if not isinstance(said, list | tuple) or not all(isinstance(row, list | tuple) for row in said):
        raise ConfigError(f"the table: {where}: must be the name of a file, or a list of rows, each from leaf to root")
    return [[_setting_text(cell, where) for cell in row] for row in said]


def _setting_text(said: object, where: str) -> str:
    if isinstance(said, np.generic):
        said = said.item()
    if isinstance(said, bool):
        return str(said).lower()
    if not isinstance(said, str | int | float | Decimal | date) or str(said) in ("nan", "inf", "-inf", "NaT"):
        raise ConfigError(f"the table: {where}: must be a text, a number, true or false, not {type(said).__name__}")
    return str(said)


def _with_variable(fault: str, environment: Mapping[str, str]) -> str:
    """A fault, with the variable that has set the value, if one has."""
    place, colon, what = fault.partition(":")
    variables = [name for name, said in settings_by_variable(environment).items() if said == place]
    return f"{place} ({variables[0]}){colon}{what}" if variables else fault


def files_of(path: str | Path) -> list[Path]:
    """The files that a table is read from: table.yaml, its hierarchies and its keys. Raises ConfigError."""
    path = file_of(path)
    settings, _ = read_settings(read_yaml(path))
    said = [*settings.columns.values()] if settings else []
    named = [getattr(column, "hierarchy", None) for column in said]
    named += [one.pseudonym or one.key for column in said if (one := getattr(column, "publish", None))]
    return [path, *(path.parent / name for name in dict.fromkeys(named) if name)]


def hidden_columns(table: Table, header: Iterable[str]) -> list[str]:
    """Columns of the data that are never published."""
    published = {column.name for column in (*table.attributes, *table.kept)}
    return [name for name in header if name not in published]


def _table(settings: TableSettings, trees: Hierarchies, faults: list[str]) -> Table | None:
    """The table; None if it has faults, which are added to `faults`."""
    attributes: list[Attribute | None] = []
    kept: list[KeptColumn | None] = []
    for name, column in settings.columns.items():
        place = f"columns.{name}"
        if isinstance(column, QuasiIdentifierSettings | TemporalSettings):
            attributes.append(_attribute(place, name, column, trees, faults))
        else:
            column_kept = _kept(place, name, column, trees, faults)
            if column_kept is not None and isinstance(column, SensitiveSettings):
                demands = _distribution_demands(place, settings.privacy, column, column_kept.hierarchy, faults)
                own = _own_demands(settings.privacy, column)
                column_kept = replace(column_kept, diversity=own, distribution=demands)
            kept.append(column_kept)
    faults += columns.faults_of_texts(settings, [column for column in (*attributes, *kept) if column is not None])
    faults += _name_faults(settings) + _privacy_faults(settings, kept)
    if not attributes:
        faults.append("columns: at least one must be a quasi-identifier")
    if faults:
        return None
    table = Table(
        name=settings.table,
        source_key=settings.key,
        attributes=tuple(attribute for attribute in attributes if attribute),
        kept=tuple(column for column in kept if column),
        k=settings.privacy.k,
        individual=settings.individual,
        capitals_count=settings.privacy.capitals_count,
        recut=settings.engine.recut,
        shrink=settings.engine.shrink,
        repair=_repair(settings),
        durability_stated=settings.durability is not None,
        partitioner_stated=settings.input.partitioner is not None,
        input_rows=settings.input.form is not None,
        decimals_are_text=settings.input.decimals is not None,
        source_texts=columns.source_texts(settings),
        limits=Limits(**settings.limits.model_dump()),
        diversity=Diversity(**settings.privacy.model_dump(exclude={"k", "capitals_count"})),
        rebuilding=RebuildRules(**settings.rebuild.model_dump()),
        form=settings.publish.form,
        format=settings.publish.live.format if settings.publish.live else JSON,
        live=settings.publish.live is not None,
        sealed=_sealed(settings),
    )
    faults += no_schema(table)
    table = _with_references(table, settings, faults)
    if faults:
        return None
    if table.form == GROUPS and values_bytes_max(table) < VALUES_BYTES_MIN:
        faults.append(
            "limits.row_bytes_max: a message has to hold a QI group of 2k rows (publish.live.form: groups), and this k"
            f" leaves less than {VALUES_BYTES_MIN} bytes for the values of each; publish rows, or make k smaller"
        )
    return table


SEALED_DELTA = 4
"""The epochs that a row waits at most, if `tau` lets rows wait at all."""


def _sealed(settings: TableSettings) -> SealedRules | None:
    said = settings.publish.sealed
    if said is None:
        return None
    delta = said.delta or (SealedRules.delta if said.tau is None else SEALED_DELTA)
    return SealedRules(**said.model_dump(exclude={"epoch", "delta"}), epoch=said.epoch, delta=delta)


def _sealed_faults(settings: TableSettings, sensitive: list[KeptColumn]) -> Iterator[str]:
    """Settings of a sealed changelog that have no effect, or with which no cohort would ever show a value."""
    said, place = settings.publish.sealed, "publish.sealed"
    if said is None:
        return
    if said.delta is not None and said.tau is None:
        yield f"{place}.delta: has no effect without {place}.tau; set that, or remove this"
    if said.l > 1 and not sensitive:
        yield f"{place}.l: needs sensitive values, but no column has `role: sensitive`"
    rows, own = 2 * settings.privacy.k - 1, [column for column in sensitive if column.diversity is not None]
    shares = {f"{place}.alpha": said.alpha} | {f"columns.{c.name}.beta": c.diversity.beta for c in own if c.diversity}
    for setting, share in shares.items():
        if sensitive and share is not None and share * rows < 1:
            yield f"{setting}: one of {rows} rows has a larger share, so no cohort would show any; raise it, or k"
    least = {f"{place}.l": said.l} | {f"columns.{c.name}.l": c.diversity.l for c in own if c.diversity}
    for setting, l in least.items():  # noqa: E741
        if l is not None and l > rows:
            yield f"{setting}: a cohort has about k to {rows} rows, so none would show its values; lower it, or raise k"
    for column in sensitive:
        if column.hierarchy is not None and said.l > column.hierarchy.n_leaves + 1:
            yield f"{place}.l: {column.name} has {column.hierarchy.n_leaves} values, so no cohort would show them"


def _repair(settings: TableSettings) -> Repair:
    if settings.engine.repair is not None:
        return settings.engine.repair
    return NO_REPAIR if settings.publish.form == LOSSY_JOIN else REPAIR


Demands = PrivacySettings | SensitiveSettings
"""Those of the table, and those of a column."""


def _privacy_faults(settings: TableSettings, kept: list[KeptColumn | None]) -> list[str]:
    """Demands on sensitive values that the sensitive columns cannot meet."""
    privacy = settings.privacy
    sensitive = [column for column in kept if column is not None and column.sensitive]
    own = {name: said for name, said in settings.columns.items() if isinstance(said, SensitiveSettings)}
    faults = []
    if settings.publish.form == LOSSY_JOIN and not (_differ(privacy) or (own and all(map(_differ, own.values())))):
        faults.append(
            "publish.live.form: lossy-join publishes exact quasi-identifiers, so people are protected only if the"
            " sensitive values of a QI group differ: set privacy.l, or privacy.beta below 1, or one of them in each"
            " sensitive column"
        )
    if settings.publish.form == LOSSY_JOIN:
        faults += [
            f"columns.{name}.coarsest: lossy-join publishes exact quasi-identifiers and no intervals; remove it"
            for name, column in settings.columns.items()
            if isinstance(column, QuasiIdentifierSettings | TemporalSettings) and column.coarsest is not None
        ]
    for name in ("l", "beta", "r"):
        if getattr(privacy, name) is not None and not sensitive:
            faults.append(f"privacy.{name}: needs sensitive values, but no column has `role: sensitive`")
    for column in sensitive:
        for place, said in (("privacy", privacy), (f"columns.{column.name}", own[column.name])):
            faults += _unreachable(place, said, privacy, column)
    faults += _sealed_faults(settings, sensitive)
    asked = {"privacy": privacy} | {f"columns.{name}": said for name, said in own.items()}
    for place, said in asked.items():
        if "level" in said.model_fields_set and said.r is None and not (said is privacy and _any_asks(own, "r")):
            faults.append(f"{place}.level: has no effect without {place}.r; set that, or remove this")
    counting = any(_any_asks(own, name) for name in ("l", "entropy_l", "recursive"))
    if "null_counts" in privacy.model_fields_set and privacy.l is None and not counting:
        faults.append("privacy.null_counts: has no effect without privacy.l; set that, or remove this")
    return faults


def _differ(said: Demands) -> bool:
    """True if the values of a QI group have to differ."""
    asks = isinstance(said, SensitiveSettings) and (said.entropy_l is not None or said.recursive is not None)
    return asks or said.l is not None or said.beta not in (None, 1)


def _any_asks(own: Mapping[str, SensitiveSettings], name: str) -> bool:
    return any(getattr(said, name) is not None for said in own.values())


def _level(privacy: PrivacySettings, said: Demands) -> int:
    return privacy.level if said.level is None else said.level


def _unreachable(place: str, said: Demands, privacy: PrivacySettings, column: KeptColumn) -> Iterator[str]:
    """Demands that no QI group can meet, because of the column's hierarchy: no row would ever be published."""
    tree = column.hierarchy
    if tree is None:
        if said.r is not None:
            rest = ", as every sensitive column needs," if said is privacy else ""
            yield (
                f"{place}.r: columns.{column.name} has no hierarchy that says which values are close:"
                f" give it one{rest} or remove r"
            )
        return
    if said.r is not None and _level(privacy, said) >= tree.n_levels:
        where = "privacy" if said.level is None else place
        yield f"{where}.level: the hierarchy of {column.name} ends at level {tree.n_levels - 1}"
    counted = counted_text(privacy.capitals_count)
    n_values = len(set(map(counted, tree.leaves)))
    if said.l is not None and said.l > n_values + privacy.null_counts:
        yield f"{place}.l: {column.name} has {n_values} values, so no QI group has {said.l} distinct ones"
    if said.beta is not None and said.beta * (n_values + 1) < 1:
        yield f"{place}.beta: {column.name} has {n_values} values, so in every QI group one of them has a larger share"


def _name_faults(settings: TableSettings) -> list[str]:
    """Columns that would publish the key or the individual, and two columns under one name."""
    faults = []
    if len(set(settings.key)) < len(settings.key):
        faults.append("key: names a column twice")
    for what, names in (("the key", settings.key), ("the individual", (settings.individual,))):
        named = ((n, settings.columns[n]) for n in names if n in settings.columns)
        faults += [f"columns.{n}: is {what}, {wrong}" for n, column in named if (wrong := _not_a_pseudonym(column))]
    publisher = {QI_GROUP: "the number of the QI group"} | dict.fromkeys(
        _OF_THE_FORM.get(settings.publish.form, ()), f"publish.live.form: {settings.publish.form}"
    )
    for name, column in settings.columns.items():
        for published in _published(name, column):
            if published in publisher:
                faults.append(f"columns.{name}: publishes {published!r}, like {publisher[published]}; rename one")
            publisher[published] = f"columns.{name}"
    return faults


def _not_a_pseudonym(column: ColumnSettings) -> str:
    """The fault of the settings of a key or individual, which may only be a text with a pseudonym; "" if none."""
    if not isinstance(column, KeepSettings) or column.publish is None or column.publish.pseudonym is None:
        return f"which is never published; remove it{_OR_PSEUDONYM}"
    others = sorted(column.model_fields_set - {"role", "publish", "na", "acknowledge_linkable"})
    return f"whose texts are taken as they are: remove {', '.join(others)}" if others else ""


_OR_PSEUDONYM = ", or let it be `role: keep` with a pseudonym (`publish`)"


def _published(name: str, column: ColumnSettings) -> tuple[str, ...]:
    is_quasi_identifier = isinstance(column, QuasiIdentifierSettings | TemporalSettings)
    return interval_columns(name) if is_quasi_identifier and column.type is not None else (name,)


def _attribute(
    place: str,
    name: str,
    column: QuasiIdentifierSettings | TemporalSettings,
    trees: Hierarchies,
    faults: list[str],
) -> Attribute | None:
    attribute: Attribute | None
    if isinstance(column, TemporalSettings):
        attribute = columns.temporal_attribute(place, name, column, faults)
    else:
        build = columns.categorical_attribute if column.type is None else columns.numeric_attribute
        attribute = build(place, name, column, _rows(place, column.hierarchy, trees, faults), faults)
    if attribute is None or column.null_as is None:
        return attribute
    return columns.with_null(f"{place}.null_as", attribute, column.null_as, faults)


def _kept(
    place: str, name: str, column: SensitiveSettings | KeepSettings, trees: Hierarchies, faults: list[str]
) -> KeptColumn | None:
    said = column.publish
    if isinstance(column, KeepSettings) and not column.acknowledge_linkable and not (said and said.pseudonym):
        faults.append(
            f"{place}: is published as it is and could link its row to a person;"
            " add `acknowledge_linkable: true`, or remove the column"
        )
    rows = _rows(place, column.hierarchy, trees, faults)
    source = columns.kept_column(place, name, column, rows, faults)
    if source is None or said is None:
        return source
    return columns.disguised(place, source, said, _key(place, said, trees, faults), rows, faults)


def _key(place: str, said: DisguiseSettings, trees: Hierarchies, faults: list[str]) -> KeyFile | None:
    setting, file = ("pseudonym", said.pseudonym) if said.pseudonym else ("key", said.key)
    try:
        return None if file is None else read_key(trees.folder / file)
    except ConfigError as error:
        faults.append(f"{place}.publish.{setting}: {error}")
        return None


def _own_demands(privacy: PrivacySettings, said: SensitiveSettings) -> Diversity | None:
    """What a sensitive column demands of itself; None: nothing."""
    if said.l is None and said.beta is None and said.r is None:
        return None
    level = _level(privacy, said)
    return Diversity(said.l, None, said.beta, said.r, level, privacy.null_counts)


def _distribution_demands(
    place: str, privacy: PrivacySettings, said: SensitiveSettings, tree: Hierarchy | None, faults: list[str]
) -> DistributionDemands | None:
    """What a sensitive column demands of its distributions; None: nothing."""
    distance = said.distance or (HIERARCHICAL if tree else ORDERED if said.type in _WITH_ORDER else EQUAL)
    if said.t is None:
        faults += [f"{place}.{name}: has no effect without {place}.t; set that, or remove this" for name in _OF_T
                   if getattr(said, name) is not None]  # fmt: skip
    if distance == HIERARCHICAL and tree is None:
        faults.append(f"{place}.distance: hierarchical: the column has no hierarchy; give it one, or say `equal`")
    if said.entropy_l is None and said.recursive is None and said.t is None:
        return None
    for l in (said.entropy_l, None if said.recursive is None else said.recursive.l):  # noqa: E741
        if tree is not None and l is not None and l > tree.n_leaves + privacy.null_counts:
            faults.append(f"{place}: {said.role} values have {tree.n_leaves} leaves, so no QI group has l = {l}")
    recursive = None if said.recursive is None else (said.recursive.c, said.recursive.l)
    return DistributionDemands(said.entropy_l, recursive, said.t, distance, null_counts=privacy.null_counts)


def _with_references(table: Table, settings: TableSettings, faults: list[str]) -> Table:
    """The table with the distributions that its columns name, whose values are read as published ones."""
    kept = list(table.kept)
    for i, column in enumerate(kept):
        said = getattr(settings.columns[column.name], "distribution", None)
        if said is None or column.distribution is None:
            continue
        try:
            rows = _rows_by_value(table, column, said)
            tree, counted = column.hierarchy, table.counted_text
            reference = reference_of(column.name, column.distribution.distance, rows, tree, counted)
        except ConfigError as error:
            what = str(error).partition(f"column {column.name!r}: ")[2]
            faults.append(f"columns.{column.name}.distribution: a value: {what}" if what else str(error))
            continue
        kept[i] = replace(column, distribution=replace(column.distribution, reference=reference))
    return replace(table, kept=tuple(kept))


def _rows_by_value(table: Table, column: KeptColumn, said: Mapping[str, int]) -> dict[str | None, int]:
    """The rows that table.yaml gives each value of a column, by counted text. Raises ConfigError."""
    from pandas import DataFrame

    from streamer.table.encode import Encoder  # with pandas, which most commands do not need

    if not any(said):
        raise ConfigError(f"columns.{column.name}.distribution: must name at least one value")
    alone = replace(column, disguise=None, disguised=None)
    reader = replace(table, source_key=(), individual=None, attributes=(), source_texts=(), kept=(alone,))
    texts = Encoder(reader).columns(DataFrame({column.name: [text or None for text in said]})).kept[0].by_row()
    found = dict[str | None, int]()
    for text, n in zip(texts, said.values(), strict=True):
        value = counted_value(text, table.counted_text)
        found[value] = found.get(value, 0) + n
    return found


_OF_T = ("distance", "distribution")

_WITH_ORDER = ("integer", "decimal", *CLOCKS)
"""The types whose values have an order of their own."""


def _rows(place: str, file: str | None, trees: Hierarchies, faults: list[str]) -> columns.Rows | None:
    """The rows that are given, or those of a file in ARX's format, `leaf;level 1;...;root`."""
    if file is None or (file == ITS_ROWS and place in trees.given):
        return trees.given.get(place)
    try:
        text = _text_of(trees.folder / file, HIERARCHY_CHARS_MAX)
        return rows_of_text(text, place.removeprefix("columns."))
    except OSError as error:
        faults.append(f"{place}.hierarchy: {file}: cannot be read: {error.strerror}")
    except (ValueError, csv.Error):  # no UTF-8, or a name with a null character
        faults.append(f"{place}.hierarchy: {file}: is not a CSV file in UTF-8")
    return None
