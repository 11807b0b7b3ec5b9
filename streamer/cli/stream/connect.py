"""`streamer connect`: prints what the systems on both sides of a table need, from its table.yaml.

stdout can be piped as it is: JSON to Connect's REST interface, SQL to a database. Remarks for people go to stderr.
Secrets are references, which Connect resolves.
"""

from __future__ import annotations

import click
import msgspec

from streamer.cli.support.options import examples, kafka_option, table_option
from streamer.cli.support.tables import say
from streamer.errors import UsageError
from streamer.incremental.connect import connectors
from streamer.incremental.connect.connectors import CONFLUENT, MYSQL, POSTGRES
from streamer.incremental.connect.sql_tables import DIALECTS, KSQLDB, alike_columns, sql_warnings, view_sql
from streamer.kafka.settings import servers_of
from streamer.table.published.schemas import left_out
from streamer.table.schema import AVRO, JSON, ROWS, Table
from streamer.table.yaml.loading import load_table

PROVIDER = (
    "secrets are ${env:...} references: the worker needs config.providers=env and config.providers.env.class="
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
)
TOPICS_FIRST = "create the topics first: `streamer topics create`; if Connect was faster, with --adopt"
WITHOUT_SCHEMAS = "messages without schemas: set `input: {decimals: text}` in table.yaml if the table has decimals"
REGISTRY_ACCESS = {
    CONFLUENT: (
        "records are Avro: Connect needs Confluent's AvroConverter, and in its environment SCHEMA_REGISTRY_URL; for"
        " user and password add (key|value).converter.basic.auth.credentials.source=USER_INFO and .basic.auth.user.info"
    ),
    connectors.APICURIO: (
        "records are Avro: Connect needs Apicurio's AvroConverter, and in its environment SCHEMA_REGISTRY_URL, which is"
        " the registry's own interface (.../apis/registry/v2), while workers need Confluent's (.../apis/ccompat/v7)"
    ),
}
"""Remarks on the way of the sink's converter to the schema registry."""

SCHEMA_CONTENT = (
    "needs Connect 4.2 or newer: older converters know no schema.content (publish `format: connect-json` for them)"
)
NOT_RUN = "not tested: this follows ksqlDB's reference, and no test runs it"
HISTORY_ACCESS = (
    "on a secured Kafka the connector's own clients need the login, too: schema.history.internal.producer.* and"
    " schema.history.internal.consumer.*"
)
PLACEHOLDERS = "replace HOST and DATABASE, or give --database"

database_option = click.option("--database", metavar="HOST[:PORT][/NAME]", help="Where the database is.")


@click.group(name="connect")
def command() -> None:
    """Prints settings for a source, a sink or a reader of a table."""


@command.command(
    name="source",
    short_help="Settings of Debezium's source connector.",
    epilog=examples(
        "streamer connect source --table mine --database db.example/clinic",
        "streamer connect source --table mine --database db.example/clinic --sql",
    ),
)
@table_option
@click.option(
    "--connector",
    type=click.Choice(list(connectors.CLASSES)),
    default=POSTGRES,
    show_default=True,
    help="Which of Debezium's connectors.",
)
@click.option("--schemas/--no-schemas", default=True, show_default=True, help="Put Connect's schema in each message.")
@database_option
@click.option("--relation", metavar="SCHEMA.TABLE", help="The table's name in the database [default: table.yaml's].")
@click.option("--sql", is_flag=True, help="Print the SQL that the database needs, instead of the configuration.")
@kafka_option
def source(
    table: str, connector: str, schemas: bool, database: str | None, relation: str | None, sql: bool, kafka: str
) -> None:
    """The configuration of Debezium's source connector, as JSON for Connect (POST /connectors)."""
    schema, where = load_table(table), connectors.database_of(database) if database else connectors.Database()
    relation = relation or connectors.default_relation(schema, connector, where)
    if relation.count(".") != 1 or not relation.isprintable():  # a line end would end a comment of the SQL
        raise UsageError("--relation: expected SCHEMA.TABLE (MySQL, MariaDB: DATABASE.TABLE), in one line")
    if sql:
        click.echo(connectors.source_sql(schema, connector, relation), nl=False)
        return
    servers = ",".join(servers_of(kafka))
    config = connectors.source_config(
        schema, connector, schemas=schemas, database=where, relation=relation, kafka=servers
    )
    _print_request(f"{schema.name}-source", config)
    _remark(TOPICS_FIRST, PROVIDER, "what the database needs: the same command with --sql")
    _remark(*([HISTORY_ACCESS] if connector in connectors.BINLOGS else []))
    _remark(*([] if database else [PLACEHOLDERS]), *([] if schemas else [WITHOUT_SCHEMAS]))


@command.command(
    name="sink",
    short_help="Settings of Debezium's JDBC sink.",
    epilog=examples("streamer connect sink --table mine --database dw.example/warehouse"),
)
@table_option
@click.option(
    "--system", type=click.Choice([POSTGRES, MYSQL]), default=POSTGRES, show_default=True, help="The database."
)
@click.option(
    "--converter",
    type=click.Choice(list(connectors.AVRO_CONVERTERS)),
    default=CONFLUENT,
    show_default=True,
    help="Whose converter reads Avro (publish.live.format: avro).",
)
@database_option
def sink(table: str, system: str, converter: str, database: str | None) -> None:
    """The configuration of Debezium's JDBC sink, as JSON for Connect (POST /connectors)."""
    schema = _with_live(table)
    where = connectors.database_of(database) if database else None
    _print_request(f"{schema.name}-sink", connectors.sink_config(schema, system, database=where, converter=converter))
    _remark(f"create its table first: `streamer connect view --dialect {system}`, and let readers see only the view")
    _remark(*{JSON: [SCHEMA_CONTENT], AVRO: [REGISTRY_ACCESS[converter]]}.get(schema.format, []), PROVIDER)
    _remark(
        *(f"not written: {name}, a list of objects, for which a flat table has no column" for name in left_out(schema))
    )
    _remark(*alike_columns(schema))
    _remark(*([] if database else [PLACEHOLDERS]))


@command.command(
    name="view",
    short_help="SQL of a sink's table and of its view.",
    epilog=examples("streamer connect view --table mine", "streamer connect view --table mine --dialect flink"),
)
@table_option
@click.option("--dialect", type=click.Choice(list(DIALECTS)), default=POSTGRES, show_default=True, help="Whose SQL.")
@kafka_option
def view(table: str, dialect: str, kafka: str) -> None:
    """The SQL of a sink's table and of the view for its readers; for Flink and ksqlDB over the topic itself."""
    schema = _with_live(table)
    click.echo(view_sql(schema, dialect, ",".join(servers_of(kafka))), nl=False)
    _remark(*([NOT_RUN] if dialect == KSQLDB else []))
    _remark(*(sql_warnings if schema.form == ROWS else alike_columns)(schema))


def _with_live(path: str) -> Table:
    """A table that publishes rows. Raises UsageError for one that publishes cohorts alone."""
    schema = load_table(path)
    if not schema.live:
        raise UsageError(
            f"{schema.name} publishes a sealed changelog alone, whose records are cohorts, and a sink needs one row per"
            " record: `streamer subscribe --sealed --duckdb` keeps their rows in a database, `--csv` and `--parquet` in"
            " files"
        )
    return schema


def _print_request(name: str, config: dict[str, str]) -> None:
    request = msgspec.json.encode({"name": name, "config": config})
    click.echo(msgspec.json.format(request))


def _remark(*sentences: str) -> None:
    for sentence in sentences:
        say(f"streamer: {sentence}", err=True)
