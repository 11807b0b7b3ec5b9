"""table.yaml and its hierarchy files -> `Table`.

A `Table` from here is checked. Every fault of a file is reported at once,
one per line, with its place (`columns.age.grid`), what is wrong and what is allowed. The file is configuration: a
message may repeat its words. People's values do not occur in it. How a column is built depends on what it holds:
numbers (`yaml_numbers`), moments (`yaml_temporal`), categories (`yaml_categories`).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path

from streamer.errors import ConfigError, UsageError
from streamer.table.attributes import Attribute, CategoricalAttribute, TemporalAttribute
from streamer.table.format_limits import no_schema
from streamer.table.published import QI_GROUP, interval_columns
from streamer.table.published_group import COUNT, SIZE, VALUES
from streamer.table.published_size import values_bytes_max
from streamer.table.schema import GROUPS, LOSSY_JOIN, REPAIR, Diversity, KeptColumn, Limits, Rebuilding, Table
from streamer.table.yaml_categories import Rows, categorical_attribute, categorical_with_null, sensitive_categories
from streamer.table.yaml_faults import read_settings
from streamer.table.yaml_files import file_of, read_yaml, settings_by_variable, with_variables
from streamer.table.yaml_numbers import numeric_attribute, numeric_with_null
from streamer.table.yaml_shape import (
    ColumnSettings,
    KeepSettings,
    PrivacySettings,
    QuasiIdentifierSettings,
    SensitiveSettings,
    TableSettings,
    TemporalSettings,
)
from streamer.table.yaml_temporal import temporal_attribute, temporal_with_null
from streamer.table.yaml_texts import faults_of_texts, source_texts

VALUES_BYTES_MIN = 16
"""What a row's kept values must be allowed at least: a table that takes fewer bytes takes next to no row."""

_NO_KEY = "key: is missing; only check, compare and anonymize do without one, since a file's rows have their places"

_OF_THE_FORM = {GROUPS: (SIZE, VALUES, COUNT), LOSSY_JOIN: (COUNT,)}
"""Columns that a form publishes beside those of table.yaml."""


def load_table(path: str | Path, environment: Mapping[str, str] = os.environ, *, needs_key: bool = True) -> Table:
    """The table that a table.yaml describes; `path` is the file or a directory that holds one.

    environment: whose variables win over the file, as `streamer.table.yaml_files` says. needs_key: whether rows have to
    be told apart by more than their places in a file, as those of a stream have. Raises ConfigError, which lists every
    fault of the file, one per line.
    """
    path = file_of(path)
    settings, faults = read_settings(with_variables(read_yaml(path), environment))
    faults = [_with_variable(fault, environment) for fault in faults]
    if settings is not None and needs_key and not settings.key:
        faults.append(_NO_KEY)
    table = None if settings is None else _table(settings, path.parent, faults)
    if table is None or faults:
        raise ConfigError("\n  ".join([f"{path}: {len(faults)} fault{'s' * (len(faults) > 1)}", *faults]))
    return table


def table_of(table: Table | str | Path, *, needs_key: bool = True) -> Table:
    """A table as users of Python name it: itself, its table.yaml, or the directory that holds one.

    needs_key: as `load_table` takes it. Raises UsageError for anything else, and what `load_table` raises.
    """
    if isinstance(table, Table):
        return table
    if isinstance(table, str | os.PathLike):
        return load_table(Path(table), needs_key=needs_key)
    raise UsageError(f"the table must be a Table or the path of a table.yaml, not {type(table).__name__}")


def _with_variable(fault: str, environment: Mapping[str, str]) -> str:
    """A fault, with the variable that has said what is wrong."""
    place, colon, what = fault.partition(":")
    variables = [name for name, said in settings_by_variable(environment).items() if said == place]
    return f"{place} ({variables[0]}){colon}{what}" if variables else fault


def files_of(path: str | Path) -> list[Path]:
    """The files that a table is read from: table.yaml and its hierarchies. Raises ConfigError."""
    path = file_of(path)
    settings, _ = read_settings(read_yaml(path))
    columns = settings.columns.values() if settings else ()
    named = (getattr(column, "hierarchy", None) for column in columns)
    return [path, *(path.parent / name for name in dict.fromkeys(named) if name)]


def hidden_columns(table: Table, header: Iterable[str]) -> list[str]:
    """Columns of the data that do not leave: neither quasi-identifiers nor kept."""
    published = {column.name for column in (*table.attributes, *table.kept)}
    return [name for name in header if name not in published]


def _table(settings: TableSettings, folder: Path, faults: list[str]) -> Table | None:
    """The table; what is wrong with it is added to `faults`."""
    attributes: list[Attribute | None] = []
    kept: list[KeptColumn | None] = []
    for name, column in settings.columns.items():
        place = f"columns.{name}"
        if isinstance(column, QuasiIdentifierSettings | TemporalSettings):
            attributes.append(_attribute(place, name, column, folder, faults))
        else:
            kept.append(_kept(place, name, column, folder, faults))
    built = [column for column in (*attributes, *kept) if column is not None]
    faults += faults_of_texts(settings, built)
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
        recut=settings.engine.recut,
        shrink=settings.engine.shrink,
        repair=_price(settings),
        durability_stated=settings.durability is not None,
        partitioner_stated=settings.input.partitioner is not None,
        input_rows=settings.input.form is not None,
        decimals_are_text=settings.input.decimals is not None,
        source_texts=source_texts(settings),
        limits=Limits(**settings.limits.model_dump()),
        diversity=Diversity(**settings.privacy.model_dump(exclude={"k"})),
        rebuilding=Rebuilding(**settings.rebuild.model_dump()),
        form=settings.publish.live.form,
        format=settings.publish.live.format,
    )
    faults += no_schema(table)
    if faults:
        return None
    if table.form == GROUPS and values_bytes_max(table) < VALUES_BYTES_MIN:
        faults.append(
            "limits.row_bytes_max: a message has to hold a QI group of 2k rows (publish.live.form: groups), and with"
            f" this k leaves less than {VALUES_BYTES_MIN} bytes to the values of each; publish rows, or make k smaller"
        )
    return table


def _price(settings: TableSettings) -> float:
    """The price of local repair, 0 for none."""
    if settings.engine.repair is not None:
        return float(settings.engine.repair)
    return 0.0 if settings.publish.live.form == LOSSY_JOIN else float(REPAIR)


def _privacy_faults(settings: TableSettings, kept: list[KeptColumn | None]) -> list[str]:
    """Demands on sensitive values that the sensitive columns cannot be asked for."""
    privacy = settings.privacy
    sensitive = [column for column in kept if column is not None and column.sensitive]
    faults = []
    if settings.publish.live.form == LOSSY_JOIN and privacy.l is None and privacy.beta in (None, 1):
        faults.append(
            "publish.live.form: lossy-join publishes exact quasi-identifiers, and only that the sensitive values of a"
            " QI group differ protects anybody: set privacy.l, or privacy.beta below 1"
        )
    for name in ("l", "beta", "r"):
        if getattr(privacy, name) is not None and not sensitive:
            faults.append(f"privacy.{name}: speaks of sensitive values, but no column has `role: sensitive`")
    for column in sensitive if privacy.r is not None else ():
        if column.hierarchy is None:
            faults.append(f"privacy.r: columns.{column.name} has no hierarchy that says which values are close")
        elif privacy.level >= column.hierarchy.n_levels:
            top = column.hierarchy.n_levels - 1
            faults.append(f"privacy.level: the hierarchy of {column.name} ends at level {top}")
    for column in sensitive:
        faults += _unreachable(privacy, column)
    for name, asked in (("level", "r"), ("null_counts", "l")):
        if name in privacy.model_fields_set and getattr(privacy, asked) is None:
            faults.append(f"privacy.{name}: belongs to privacy.{asked}, which is missing")
    return faults


def _unreachable(privacy: PrivacySettings, column: KeptColumn) -> Iterator[str]:
    """What no QI group reaches, because the column has too few values: all rows would wait for ever."""
    if column.hierarchy is None:
        return
    n_values, nulls = column.hierarchy.n_leaves, 1
    if privacy.l is not None and privacy.l > n_values + nulls * privacy.null_counts:
        yield f"privacy.l: {column.name} has {n_values} values, so no QI group has {privacy.l} distinct ones"
    if privacy.beta is not None and privacy.beta * (n_values + nulls) < 1:
        yield f"privacy.beta: {column.name} has {n_values} values, so in every QI group one of them has a larger share"


def _name_faults(settings: TableSettings) -> list[str]:
    """Columns that would publish the key or the individual, or two columns under one name."""
    faults = []
    if len(set(settings.key)) < len(settings.key):
        faults.append("key: names a column twice")
    for what, names in (("the key", settings.key), ("the individual", (settings.individual,))):
        faults += [f"columns.{n}: is {what}, which never leaves; remove it" for n in names if n in settings.columns]
    publisher = {QI_GROUP: "the number of the QI group"} | dict.fromkeys(
        _OF_THE_FORM.get(settings.publish.live.form, ()), f"publish.live.form: {settings.publish.live.form}"
    )
    for name, column in settings.columns.items():
        for published in _published(name, column):
            if published in publisher:
                faults.append(f"columns.{name}: publishes {published!r}, as does {publisher[published]}; rename one")
            publisher[published] = f"columns.{name}"
    return faults


def _published(name: str, column: ColumnSettings) -> tuple[str, ...]:
    is_quasi_identifier = isinstance(column, QuasiIdentifierSettings | TemporalSettings)
    return interval_columns(name) if is_quasi_identifier and column.type is not None else (name,)


def _attribute(
    place: str, name: str, column: QuasiIdentifierSettings | TemporalSettings, folder: Path, faults: list[str]
) -> Attribute | None:
    attribute: Attribute | None
    if isinstance(column, TemporalSettings):
        attribute = temporal_attribute(place, name, column, faults)
    else:
        build = categorical_attribute if column.type is None else numeric_attribute
        attribute = build(place, name, column, _rows(place, column.hierarchy, folder, faults), faults)
    if attribute is None or column.null_as is None:
        return attribute
    return _with_null(f"{place}.null_as", attribute, column.null_as, faults)


def _with_null(place: str, attribute: Attribute, null_as: str, faults: list[str]) -> Attribute | None:
    """The attribute with the code that a null counts as."""
    if isinstance(attribute, TemporalAttribute):
        return temporal_with_null(place, attribute, null_as, faults)
    if isinstance(attribute, CategoricalAttribute):
        return categorical_with_null(place, attribute, null_as, faults)
    return numeric_with_null(place, attribute, null_as, faults)


def _kept(
    place: str, name: str, column: SensitiveSettings | KeepSettings, folder: Path, faults: list[str]
) -> KeptColumn | None:
    if isinstance(column, KeepSettings):
        if not column.acknowledge_linkable:
            faults.append(
                f"{place}: is published as it is and could link its row to a person;"
                " add `acknowledge_linkable: true`, or remove the column"
            )
        return KeptColumn(name, sensitive=False, type=column.type)
    return sensitive_categories(place, name, column, _rows(place, column.hierarchy, folder, faults), faults)


def _rows(place: str, file: str | None, folder: Path, faults: list[str]) -> Rows | None:
    """The rows of a hierarchy file in ARX's format, `leaf;level 1;...;root`, or with commas."""
    if file is None:
        return None
    try:
        text = (folder / file).read_text("utf-8-sig")
        delimiter = ";" if ";" in text.partition("\n")[0] else ","
        return list(csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except OSError as error:
        faults.append(f"{place}.hierarchy: {file}: cannot be read: {error.strerror}")
    except (UnicodeDecodeError, csv.Error):
        faults.append(f"{place}.hierarchy: {file}: is not a CSV file in UTF-8")
    return None
