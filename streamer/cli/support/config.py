"""`streamer config`: every setting that is in effect, and where it comes from.

The order everywhere: an option, else an environment variable, else the file (table.yaml; for Kafka's clients the one
that KAFKA_CONFIG names), else the default. Secrets are shown as "(set)". Variables with our prefix that set nothing are
shown, too: they may be misspelt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import click
from click.core import ParameterSource
from pydantic import BaseModel
from rich.table import Table as RichTable

from streamer.cli.support import options
from streamer.cli.support.tables import filled, say, show
from streamer.incremental.store.redis_server import Kind, address_of, connect, read_url
from streamer.kafka import SECRET_KEY, SECRET_KEY_FILE
from streamer.kafka.access import kafka_settings, read_properties
from streamer.kafka.registry import BASIC_AUTH, BASIC_AUTH_FILE, CA, URL, registry_from
from streamer.kafka.secret_records import secret_keys
from streamer.kafka.settings import CONFIG, USERNAME, servers_of
from streamer.kafka.settings import VARIABLES as KAFKA_VARIABLES
from streamer.table.schema import Repair
from streamer.table.yaml import FILE_NAME, VARIABLE_PREFIX, loading
from streamer.table.yaml.shape import NEVER, UNIT_SECONDS, TableSettings
from streamer.worker.options import read_address

SET = "(set)"  # shown instead of a secret
DEFAULT_ORIGIN = "default"

SHOWN_PROPERTIES = {
    "security.protocol", "sasl.mechanism", USERNAME, "ssl.truststore.location", "ssl.truststore.type",
    "ssl.keystore.location", "ssl.keystore.type", "ssl.endpoint.identification.algorithm",
}  # fmt: skip
"""Properties of Kafka's clients that are shown; any other may hold a secret."""

REDIS_VARIABLES = [
    f"{of}_{what}" for of in ("REDIS", "REDIS_SENTINEL") for what in ("USERNAME", "PASSWORD", "PASSWORD_FILE")
]


class Setting(NamedTuple):
    name: str
    value: str
    source: str


@options.command_named("config", "streamer config --table mine")
@options.table_option
@options.kafka_option
@options.redis_option
@options.log_level_option
@options.log_format_option
@options.web_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context, table: str, kafka: str, redis: str, log_level: str, log_format: str, web: str | None
) -> None:
    """Shows every setting in effect, and where it comes from: an option, a variable, a file, or the default.

    An option wins over a variable, a variable over the file. Variables can set `limits` and `rebuild` of table.yaml:
    STREAMER_LIMITS_BATCH_MS_MAX=20. It connects to no server. Of a secret it shows only that it is set.
    """
    repair = loading.load_table(table).repair
    servers_of(kafka)  # refuses an address that may hold a password
    if web:
        read_address(web)  # refuses what a worker would refuse
    settings = [
        Setting("table", table, _source(ctx, "table")),
        *_of_file(table, repair, os.environ),
        Setting("kafka", kafka, _source(ctx, "kafka")),
        *_of_kafka(os.environ),
        *_of_redis(redis, _source(ctx, "redis"), os.environ),
        *_of_variables(os.environ),
        Setting("log-level", log_level, _source(ctx, "log_level")),
        Setting("log-format", log_format, _source(ctx, "log_format")),
        Setting("web", web or "-", _source(ctx, "web")),
        *(Setting("native", os.environ[name], name) for name in (options.NATIVE,) if os.environ.get(name)),
        *(Setting(variable, "-", "not a setting of streamer") for variable in unknown_variables(os.environ)),
    ]
    listed = [{"name": name, "value": value, "from": source} for name, value, source in settings]
    grid = RichTable(box=None, padding=(0, 2, 0, 0))
    for heading in ("setting", "value", "from"):
        grid.add_column(heading, overflow="fold")
    show({"ok": True, "settings": listed}, [filled(grid, settings)])


def _source(ctx: click.Context, option: str) -> str:
    source = ctx.get_parameter_source(option)
    if source is ParameterSource.COMMANDLINE:
        return f"--{option.replace('_', '-')}"
    if source is ParameterSource.ENVIRONMENT:
        return next(str(one.envvar) for one in ctx.command.params if one.name == option)
    return f"{CONFIG}, bootstrap.servers" if option == "kafka" and kafka_settings().bootstrap else DEFAULT_ORIGIN


def _of_file(table: str, repair: Repair, environment: Mapping[str, str]) -> Iterator[Setting]:
    """The settings of table.yaml without its columns; repair: in effect, as its default depends on the form."""
    content = loading.read_yaml(loading.file_of(table))
    settings, _ = loading.read_settings(loading.with_variables(content, environment))
    variables = {path: name for name, path in loading.settings_by_variable(environment).items()}
    if settings is not None:
        for path, value, stated in _flat(settings, ""):
            value = str(repair) if path == "engine.repair" else value
            yield Setting(path, value, variables.get(path, FILE_NAME if stated else DEFAULT_ORIGIN))


def _flat(settings: BaseModel, above: str) -> Iterator[tuple[str, str, bool]]:
    """Every setting but the columns: dotted path, value, and True if the file states it."""
    for name in type(settings).model_fields:
        value, stated, path = getattr(settings, name), name in settings.model_fields_set, f"{above}{name}"
        if isinstance(value, BaseModel):
            yield from _flat(value, f"{path}.")
        elif path not in ("columns", "table"):
            yield path, _text(path, value), stated


def _text(path: str, value: object) -> str:
    """A value as table.yaml would write it."""
    if path.startswith("rebuild.") and value is None:
        return NEVER
    if path == "rebuild.every" and isinstance(value, int):
        unit, seconds = next((unit, of) for unit, of in reversed(UNIT_SECONDS.items()) if value % of == 0)
        return f"{value // seconds}{unit}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)


def _of_kafka(environment: Mapping[str, str]) -> Iterator[Setting]:
    file = environment.get(CONFIG, "")
    properties = read_properties(file) if file else {}
    by_variable = {name: variable for variable, name in KAFKA_VARIABLES.items() if environment.get(variable)}
    not_used = kafka_settings(environment).not_used
    for name in sorted({*properties, *by_variable} - {"bootstrap.servers"}):
        value = environment[by_variable[name]] if name in by_variable else properties[name]
        source = by_variable.get(name, CONFIG) + (", not used" if name in not_used else "")
        yield Setting(f"kafka {name}", value if name in SHOWN_PROPERTIES else SET, source)


def _of_redis(url: str, source: str, environment: Mapping[str, str]) -> Iterator[Setting]:
    named = read_url(url, environment)
    if named.kind is Kind.CLUSTER:  # its client would connect at once
        where = f"Redis Cluster {','.join(f'{host}:{port}' for host, port in named.nodes)}"
    else:
        where = address_of(connect(url))
    yield Setting("redis", where, source)
    yield Setting("redis database", str(named.options.get("db", 0)), source)
    yield Setting("redis tls", str(named.tls).lower(), source)


def _of_variables(environment: Mapping[str, str]) -> Iterator[Setting]:
    registry_from(environment)  # refuses an address with a password in it
    secret_keys(environment)  # refuses what is no key
    for variable in (*REDIS_VARIABLES, URL, CA, BASIC_AUTH, BASIC_AUTH_FILE, SECRET_KEY, SECRET_KEY_FILE):
        if value := environment.get(variable):
            name = variable.removeprefix("SCHEMA_").removeprefix(VARIABLE_PREFIX).lower().replace("_", " ")
            yield Setting(name, value if variable in (URL, CA) or variable.endswith("_FILE") else SET, variable)


# -- variables with our prefix that set nothing -----------------------------------------------------------------------

LIKENESS_MIN = 0.7
"""difflib's ratio above which a name is taken for a misspelt one of ours: clusters set variables for programs, too."""

WARN_THEMSELVES = ("config", "worker")
"""Commands that show unknown variables in their own way: among the settings, and in the log."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that set nothing; misspelt ones of a section of table.yaml are refused elsewhere."""
    by_section = tuple(f"{VARIABLE_PREFIX}{section.upper()}_" for section in loading.BY_VARIABLE)
    found = (name for name, value in environment.items() if value and options.may_be_misspelt(name))
    return sorted(name for name in found if not name.startswith(by_section))


def misspelt_sentences(environment: Mapping[str, str]) -> Iterator[str]:
    """A warning for each unknown variable whose name is like one of ours; without its value."""
    names = [name.removeprefix(VARIABLE_PREFIX) for name in options.OPTION_VARIABLES]
    for section in loading.BY_VARIABLE:
        settings = getattr(TableSettings.model_fields[section].annotation, "model_fields", {})
        names += [f"{section}_{setting}".upper() for setting in settings]
    for variable in unknown_variables(environment):
        for nearest in get_close_matches(variable.removeprefix(VARIABLE_PREFIX), names, 1, LIKENESS_MIN):
            yield f"the variable {variable} is not a setting and has no effect: is {VARIABLE_PREFIX}{nearest} meant?"


def warn_of_misspelt(called: click.Command, environment: Mapping[str, str]) -> None:
    """Prints the warnings on stderr if the command reads settings."""
    if _reads_settings([called]) and called.name not in WARN_THEMSELVES:
        for sentence in misspelt_sentences(environment):
            say(f"streamer: warning: {sentence}", err=True)


def _reads_settings(commands: Iterable[click.Command]) -> bool:
    return any(
        _reads_settings(one.commands.values())
        if isinstance(one, click.Group)
        else any(option.envvar in options.OPTION_VARIABLES for option in one.params)
        for one in commands
    )
