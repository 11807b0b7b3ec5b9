"""`streamer connect`: what the systems on both sides of a table need, printed from its table.yaml.

What is printed on the standard output can be piped as it is: JSON to Connect's REST interface, SQL to a database.
Whatever a person has to know beside it goes to stderr. Nothing is sent anywhere, and no secret is asked for: they are
references, which Connect resolves.
"""

from __future__ import annotations

import click
import msgspec

from streamer.cli.support.options import examples, kafka_option, table_option
from streamer.cli.support.tables import say
from streamer.errors import UsageError
from streamer.incremental.connect.connectors import (
    APICURIO,
    AVRO_CONVERTERS,
    BINLOGS,
    CLASSES,
    CONFLUENT,
    MYSQL,
    POSTGRES,
    Database,
    database_of,
    default_relation,
    sink_config,
    source_config,
    source_sql,
)
from streamer.incremental.connect.sql_tables import DIALECTS, KSQLDB, sql_warnings, view_sql
from streamer.kafka.settings import servers_of
from streamer.table.published.schemas import left_out
from streamer.table.schema import AVRO, JSON, ROWS
from streamer.table.yaml.loading import load_table

PROVIDER = (
    "secrets are ${env:...} references: the worker needs config.providers=env and config.providers.env.class="
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
)
MADE_FIRST = "make the topics first: `streamer topics create`; where Connect was quicker, with --adopt"
WITHOUT_SCHEMAS = "messages without schemas: say `input: {decimals: text}` in table.yaml where the table has decimals"
REGISTRY_ACCESS = {
    CONFLUENT: (
        "records are Avro: Connect needs Confluent's AvroConverter, and in its environment SCHEMA_REGISTRY_URL; for"
        " user and password add (key|value).converter.basic.auth.credentials.source=USER_INFO and .basic.auth.user.info"
    ),
    APICURIO: (
        "records are Avro: Connect needs Apicurio's AvroConverter, and in its environment SCHEMA_REGISTRY_URL, which is"
        " the registry's own interface (.../apis/registry/v2), where workers are told Confluent's (.../apis/ccompat/v7)"
    ),
}
"""What a person has to know of the registry where the sink has its schema from."""

SCHEMA_CONTENT = (
    "needs Connect 4.2 or newer: older converters know no schema.content (publish `format: connect-json` for them)"
)
NOT_RUN = "no ksqlDB was to be had: this follows its reference, and no test runs it"
HISTORY_ACCESS = (
    "on a secured Kafka the connector's own clients need the login, too: schema.history.internal.producer.* and"
    " schema.history.internal.consumer.*"
)
PLACEHOLDERS = "replace HOST and DATABASE, or say --database"

database_option = click.option("--database", metavar="HOST[:PORT][/NAME]", help="Where the database is.")


@click.group(name="connect")
def command() -> None:
    """Prints what a source, a sink or a reader of a table has to be told."""


@command.command(
    name="source",
    epilog=examples(
        "streamer connect source --table mine --database db.example/clinic",
        "streamer connect source --table mine --database db.example/clinic --sql",
    ),
)
@table_option
@click.option("--connector", type=click.Choice(list(CLASSES)), default=POSTGRES, show_default=True, help="Debezium's.")
@click.option("--schemas/--no-schemas", default=True, show_default=True, help="Messages with Connect's schema in them.")
@database_option
@click.option("--relation", metavar="SCHEMA.TABLE", help="The table's name in the database [default: table.yaml's].")
@click.option("--sql", is_flag=True, help="Print what the database needs, in SQL, in place of the configuration.")
@kafka_option
def source(
    table: str, connector: str, schemas: bool, database: str | None, relation: str | None, sql: bool, kafka: str
) -> None:
    """The configuration of Debezium's source connector, as JSON to be sent to Connect (POST /connectors)."""
    schema, place = load_table(table), database_of(database) if database else Database()
    relation = relation or default_relation(schema, connector, place)
    if relation.count(".") != 1:
        raise UsageError("--relation: expected SCHEMA.TABLE (MySQL, MariaDB: DATABASE.TABLE)")
    if sql:
        click.echo(source_sql(schema, connector, relation), nl=False)
        return
    servers = ",".join(servers_of(kafka))
    config = source_config(schema, connector, schemas=schemas, database=place, relation=relation, kafka=servers)
    _print_request(f"{schema.name}-source", config)
    _remark(MADE_FIRST, PROVIDER, "what the database needs: the same command with --sql")
    _remark(*([HISTORY_ACCESS] if connector in BINLOGS else []))
    _remark(*([] if database else [PLACEHOLDERS]))
    _remark(*([] if schemas else [WITHOUT_SCHEMAS]))


@command.command(name="sink", epilog=examples("streamer connect sink --table mine --database dw.example/warehouse"))
@table_option
@click.option(
    "--system", type=click.Choice([POSTGRES, MYSQL]), default=POSTGRES, show_default=True, help="The database."
)
@click.option(
    "--converter",
    type=click.Choice(list(AVRO_CONVERTERS)),
    default=CONFLUENT,
    show_default=True,
    help="Whose reads Avro (publish.live.format: avro).",
)
@database_option
def sink(table: str, system: str, converter: str, database: str | None) -> None:
    """The configuration of Debezium's JDBC sink, as JSON to be sent to Connect (POST /connectors)."""
    schema = load_table(table)
    place = database_of(database) if database else None
    config = sink_config(schema, system, database=place, converter=converter)
    _print_request(f"{schema.name}-sink", config)
    _remark(f"make its table first: `streamer connect view --dialect {system}`, and let readers see the view alone")
    _remark(*{JSON: [SCHEMA_CONTENT], AVRO: [REGISTRY_ACCESS[converter]]}.get(schema.format, []), PROVIDER)
    _remark(
        *(f"not sunk: {name}, a list of objects, for which a flat table has no column" for name in left_out(schema))
    )
    _remark(*([] if database else [PLACEHOLDERS]))


@command.command(
    name="view",
    epilog=examples("streamer connect view --table mine", "streamer connect view --table mine --dialect flink"),
)
@table_option
@click.option("--dialect", type=click.Choice(list(DIALECTS)), default=POSTGRES, show_default=True, help="Whose SQL.")
@kafka_option
def view(table: str, dialect: str, kafka: str) -> None:
    """The SQL of a sink's table and of the view by which it may be read; Flink's and ksqlDB's over the topic itself."""
    schema = load_table(table)
    click.echo(view_sql(schema, dialect, ",".join(servers_of(kafka))), nl=False)
    _remark(*([NOT_RUN] if dialect == KSQLDB else []))
    if schema.form == ROWS:
        _remark(*sql_warnings(schema))


def _print_request(name: str, config: dict[str, str]) -> None:
    request = msgspec.json.encode({"name": name, "config": config})
    click.echo(msgspec.json.format(request))


def _remark(*sentences: str) -> None:
    for sentence in sentences:
        say(f"streamer: {sentence}", err=True)
