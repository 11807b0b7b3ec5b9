"""Options that several commands share, each with one name, one default and one help text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from glob import escape, glob
from pathlib import Path
from threading import Thread
from typing import Any

import click
from click.shell_completion import CompletionItem

from streamer.cli.support.tables import AS_JSON
from streamer.errors import LawViolated, UsageError
from streamer.kafka import SECRET_KEY, SECRET_KEY_FILE
from streamer.table.yaml import FILE_NAME, K_MAX, K_MIN, VARIABLE_PREFIX
from streamer.worker.options import INSTANCE, JSON, TEXT, WEB

# Shell completion (docs/tutorial.md). If something is wrong, nothing is offered and nothing is printed: the shell would
# show stderr in the line that is being typed.

DEPTH = 2  # levels of folders below the typed path that are searched for a table.yaml
COMPLETION_SECONDS_MAX = 0.5  # for which completion waits for Redis, which alone knows the QI groups
QI_GROUPS_MAX = 100

TOPIC = "topic"  # given instead of a file: what Kafka holds is read


def tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders with a table.yaml, and such files themselves; if there is none, any folder."""
    begun = escape(incomplete)
    found = {file for depth in range(DEPTH) for file in glob(f"{begun}*/{'*/' * depth}{FILE_NAME}")}
    items = [CompletionItem(str(Path(file).parent)) for file in sorted(found)]
    items += [CompletionItem(file) for file in sorted(glob(f"{begun}*.yaml")) if Path(file).name == FILE_NAME]
    return items or [CompletionItem(incomplete, type="dir")]  # the shell's own folders


def algorithms(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from streamer.table.yaml.shape import REBUILD_ALGORITHMS

    return [CompletionItem(name) for name in REBUILD_ALGORITHMS if name.startswith(incomplete)]


def qi_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the table's QI groups in Redis, at most QI_GROUPS_MAX."""
    found: list[str] = []
    asking = Thread(target=_ask_redis, args=(dict(ctx.params), incomplete, found), daemon=True)
    asking.start()
    asking.join(COMPLETION_SECONDS_MAX)
    return [CompletionItem(name) for name in found[:QI_GROUPS_MAX]]


def _ask_redis(options: Mapping[str, Any], incomplete: str, found: list[str]) -> None:
    """Appends the names that begin so, shard by shard, to `found`; ignores every error."""
    from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
    from streamer.incremental.store.redis_server import connect
    from streamer.table.published.rows import qi_group_name
    from streamer.table.yaml.loading import load_table

    with suppress(Exception):
        table_name, client = load_table(options["table"]).name, connect(options["redis"], COMPLETION_SECONDS_MAX)
        for shard in shards_of(client, table_name):
            numbers = RedisLookups(client, table_name, shard).qi_group_numbers()
            names = (qi_group_name(shard, number) for number in numbers)
            found += [name for name in names if name.startswith(incomplete)]


def parsed_group(option: str, name: str) -> tuple[int, int]:
    """The shard and the number of a QI group that an option names. Raises UsageError."""
    from streamer.table.published.rows import parse_qi_group

    try:
        return parse_qi_group(name)
    except LawViolated:
        raise UsageError(f"{option}: a QI group is named by its shard and its number, like 0-17") from None


def chosen_shards(text: str) -> list[int]:
    """The shards that a text names. Raises UsageError.

    >>> chosen_shards("0,2-3")
    [0, 2, 3]
    """
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip(), re.ASCII)
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if last < first:
            raise UsageError("--shards: numbers of shards such as 0-15 or 0,2,5-7")
        found.update(range(first, last + 1))
    return sorted(found)


def shards_option(what: str) -> Callable[[Any], Any]:
    """The option of a command that may be about some shards alone."""
    return click.option("--shards", metavar="NUMBERS", help=f"{what} [default: all shards]")


BOOTSTRAP_DEFAULT = "127.0.0.1:9092"

TABLE, LOG_LEVEL, LOG_FORMAT = "STREAMER_TABLE", "STREAMER_LOG_LEVEL", "STREAMER_LOG_FORMAT"
NATIVE = "STREAMER_NATIVE"
OPTION_VARIABLES = (TABLE, LOG_LEVEL, LOG_FORMAT, WEB, INSTANCE, SECRET_KEY, SECRET_KEY_FILE, NATIVE)
"""Our own variables, for options, a worker's key and machine code; others set sections of table.yaml."""


def _bootstrap() -> str:
    """The default: bootstrap.servers of the file that KAFKA_CONFIG names."""
    from streamer.kafka.access import kafka_settings

    return kafka_settings().bootstrap or BOOTSTRAP_DEFAULT


def may_be_misspelt(variable: str) -> bool:
    """True if a variable has our prefix and belongs to no option; `support.config` knows those of table.yaml."""
    return variable.startswith(VARIABLE_PREFIX) and variable not in OPTION_VARIABLES


def examples(*calls: str) -> str:
    """The end of a command's help: calls of it, one per line."""
    return "\n".join(["\b", "Examples:", *(f"  {call}" for call in calls)])  # \b: click does not wrap these lines


def command_named(
    name: str, *calls: str, short_help: str | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command of a function; calls: examples for the end of its help."""
    return click.command(name=name, short_help=short_help, epilog=examples(*calls))


def _table_option(required: bool) -> Callable[[Any], Any]:
    return click.option(
        "--table",
        metavar="TABLE",
        required=required,
        envvar=TABLE,
        show_envvar=True,
        shell_complete=tables,
        help="The table.yaml, or a directory that holds one.",
    )


table_option, optional_table_option = _table_option(True), _table_option(False)


def _note_json(ctx: click.Context, _option: click.Parameter, given: bool) -> None:
    ctx.meta[AS_JSON] = given or ctx.meta.get(AS_JSON, False)


json_option = click.option(
    "--json", "as_json", is_flag=True, expose_value=False, callback=_note_json, help="Print JSON, for programs."
)
"""Whoever prints asks `tables.as_json`."""


def formulas_option(default: str, of: str) -> Callable[[Any], Any]:
    """The option of a command that writes texts of a table as CSV."""
    from streamer.table.csv_files import ESCAPE, KEEP, REFUSE  # imports pandas, which other commands do without

    return click.option(
        "--formulas",
        type=click.Choice((ESCAPE, REFUSE, KEEP)),
        default=default,
        show_default=True,
        help=f"Texts in {of} that a spreadsheet would run (they begin with =, +, -, @ or tab): put ' before them, "
        "refuse them, or keep them.",
    )


kafka_option = click.option(
    "--kafka",
    metavar="HOST:PORT[,...]",
    envvar="KAFKA_BOOTSTRAP",
    default=_bootstrap,
    show_default=f"bootstrap.servers of KAFKA_CONFIG, else {BOOTSTRAP_DEFAULT}",
    show_envvar=True,
    help="Kafka's bootstrap servers. To log in, name a client.properties file in KAFKA_CONFIG.",
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
    help="Lowest level that is logged; info: one line per shard and minute, debug: one line per batch.",
)

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
    help="Serve the status page, /metrics and /health here; a port alone means 127.0.0.1. [default: nowhere]",
)

instance_option = click.option(
    "--instance",
    metavar="NAME",
    envvar=INSTANCE,
    show_envvar=True,
    help="Name of this worker and no other; if it restarts within a minute, it keeps its shards.",
)

ROWS_OR_URL = "ROWS|URL"  # whatever `streamer.table.sources` reads


def reads_rows(parameter: str) -> Callable[[Any], Any]:
    """The options of a command that reads rows; makes a `RowSource` of them and of `parameter`, the place."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_source(*words: Any, encoding: str | None, sheet: str | None, query: str | None, **given: Any) -> Any:
            from streamer.table.sources import RowSource  # imports pandas, which `--help` does without

            if (place := given[parameter]) is not None:
                given[parameter] = RowSource(place, encoding, sheet, query)
            elif encoding or sheet or query:
                raise UsageError("--encoding, --sheet and --query say how rows are read: say which")
            return command(*words, **given)

        return encoding_option(sheet_option(query_option(with_source)))

    return decorated


encoding_option = click.option(
    "--encoding", metavar="NAME", help="Encoding of a CSV file that is not UTF-8, such as cp1252; UTF-16 is recognized."
)
sheet_option = click.option("--sheet", metavar="NAME", help="Sheet to read, if an Excel workbook has several.")
query_option = click.option(
    "--query", metavar="SQL", help="Query to read from a database, if the URL does not end with ?table=NAME."
)

rows_argument = click.argument("data", metavar=ROWS_OR_URL)

k_option = click.option("--k", type=click.IntRange(K_MIN, K_MAX), help="Use this k instead of table.yaml's.")

suppression_option = click.option(
    "--suppression",
    metavar="SHARE",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Largest share of the rows that may be left out.",
)

refine_option = click.option(
    "--refine",
    metavar="SWEEPS",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Extra sweeps that improve the QI groups.",
)

spark_master_option = click.option(
    "--spark-master",
    metavar="URL",
    help="The Spark that --engine spark starts its executors in, such as spark://host:7077 or yarn.  [default: what"
    " spark-submit or Spark's configuration says, else this machine]",
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="For tests: the seed of all random numbers. Without it, the same rows give the same QI groups in every run."
    " With --keep-equal-boxes it numbers those that publish the same values: whoever knows it can undo this numbering.",
)

no_costs_option = click.option("--no-costs", is_flag=True, help="Leave out of the page what more privacy would cost.")

keep_boxes_option = click.option(
    "--keep-equal-boxes",
    is_flag=True,
    help="Keep QI groups apart that publish the same values; by default they are one.",
)
