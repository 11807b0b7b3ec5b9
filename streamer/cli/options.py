"""Options that several commands share, each with one name, one default and one help text.

A command receives `table: str`, `as_json: bool`, `kafka: str` and `redis: str`, and loads the table by
`streamer.table.yaml_loading.load_table`.
"""

from __future__ import annotations

import click

from streamer.cli.completion import tables
from streamer.table.yaml_files import PREFIX

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"

TABLE, LOG_LEVEL, LOG_FORMAT = "STREAMER_TABLE", "STREAMER_LOG_LEVEL", "STREAMER_LOG_FORMAT"
WEB = "STREAMER_WEB"
VARIABLES = (TABLE, LOG_LEVEL, LOG_FORMAT, WEB)
"""Those of our own; beside them stand the sections of table.yaml that variables can set."""


def _bootstrap() -> str:
    """Where nothing else names the servers: bootstrap.servers of the file that KAFKA_CONFIG names."""
    from streamer.kafka.access import kafka_settings

    return kafka_settings().bootstrap or BOOTSTRAP_DEFAULT


def may_be_misspelt(variable: str) -> bool:
    """Whether a variable begins as ours do, and is none of an option; `streamer.cli.config` knows all others."""
    return variable.startswith(PREFIX) and variable not in VARIABLES


def examples(*calls: str) -> str:
    """The end of a command's help: calls of it, each on a line of its own."""
    return "\n".join(["\b", "Examples:", *(f"  {call}" for call in calls)])  # \b: click leaves the lines as they are


table_option = click.option(
    "--table",
    metavar="TABLE",
    required=True,
    envvar=TABLE,
    show_envvar=True,
    shell_complete=tables,
    help="The table.yaml, or a directory that holds one.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

kafka_option = click.option(
    "--kafka",
    metavar="HOST:PORT[,...]",
    envvar="KAFKA_BOOTSTRAP",
    default=_bootstrap,
    show_default=f"bootstrap.servers of KAFKA_CONFIG, else {BOOTSTRAP_DEFAULT}",
    show_envvar=True,
    help="Kafka's bootstrap servers. How to get into them, the file says that KAFKA_CONFIG names, a client.properties.",
)

redis_option = click.option(
    "--redis",
    metavar="URL",
    envvar="REDIS_URL",
    default="redis://127.0.0.1:6379/0",
    show_default=True,
    show_envvar=True,
    help="Redis, as redis://[user:password@]host:port/number; for TLS, sentinels and clusters see "
    "docs/how-to/secured-servers.md.",
)

log_level_option = click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar=LOG_LEVEL,
    show_envvar=True,
    help="What is logged at least; info: one line per shard and minute, debug: one line per batch.",
)

TEXT, JSON = "text", "json"

log_format_option = click.option(
    "--log-format",
    type=click.Choice([TEXT, JSON]),
    default=TEXT,
    show_default=True,
    envvar=LOG_FORMAT,
    show_envvar=True,
    help="Lines for people, or one JSON object per line.",
)

web_option = click.option(
    "--web",
    metavar="HOST:PORT",
    envvar=WEB,
    show_envvar=True,
    help="Answer browsers, Prometheus and probes here; a port alone is one of this machine only. [default: nowhere]",
)

k_option = click.option("--k", type=click.IntRange(min=2), help="Another k than table.yaml's.")

suppression_option = click.option(
    "--suppression",
    metavar="SHARE",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Largest share of the rows to leave out.",
)

refine_option = click.option(
    "--refine",
    metavar="SWEEPS",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Sweeps that improve the QI groups, beyond those that the algorithm makes by itself.",
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="For tests: all chance from this number. Without it, algorithms that draw do so alike in every run, and the"
    " operating system's chance numbers the QI groups that publish the same values; --seed makes these numbers"
    " repeatable, and by it whoever knows it could undo them.",
)

merge_option = click.option(
    "--merge-equal-boxes",
    is_flag=True,
    help="Make QI groups that publish the same values one: larger groups, and less is said of whose value is whose.",
)
