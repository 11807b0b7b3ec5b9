"""SQL for readers of what is published: the table that a sink or a stream processor keeps, and the view to read it by.

* A sink writes records one by one, so at times its table mixes two releases. The view shows a QI group's rows only if
  enough of them have the same box: k rows, and l distinct values of each sensitive column if table.yaml asks for l. It
  does not count `alpha`, `beta` and `r`, and cannot count individuals: comments in the SQL say so.
* A QI group in one message satisfies its model by itself: then the view shows everything.
* ksqlDB has no view of this kind: it gets the table and the comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamer.errors import UsageError
from streamer.incremental.connect.connectors import MYSQL, POSTGRES
from streamer.incremental.topics import LIVE, topic_name
from streamer.privacy.models import model_of
from streamer.table.microdata import INDIVIDUAL
from streamer.table.published import schemas
from streamer.table.published.groups import COUNT, VALUES
from streamer.table.published.rows import LONGEST_NAME, QI_GROUP, all_box_columns, published_columns
from streamer.table.published.schemas import BOOLEAN, DECIMAL, FLOAT, INTEGER, TEXT, PublishedColumn
from streamer.table.schema import CONNECT_JSON, GROUPS, JSON, LOSSY_JOIN, ROWS, Table


def sql_warnings(table: Table) -> Iterator[str]:
    """Warnings of columns that SQL takes for one, and of a reader who cannot count what protects people."""
    yield from alike_columns(table)
    if table.form == LOSSY_JOIN:
        yield (
            "a lossy join is two topics: readers must apply whole releases of both, as `streamer subscribe` does; a "
            "join in SQL may be of two moments"
        )
    elif table.individual is not None and table.form == ROWS:
        yield (
            f"k counts individuals ({table.individual}), and rows do not say whose they are: readers must apply whole "
            "releases, as `streamer subscribe` does; `HAVING count(*) >= k` in SQL counts rows and protects no one"
        )


def alike_columns(table: Table) -> Iterator[str]:
    """A warning of published columns whose names differ in capitals only."""
    names: dict[str, list[str]] = {}
    for name in ("slot", *published_columns(table)):
        names.setdefault(name.casefold(), []).append(name)
    for same in filter(lambda same: len(same) > 1, names.values()):
        yield (
            f"columns {' and '.join(map(repr, same))} differ in capitals only: MySQL, SQLite and DuckDB take them for"
            " one and refuse the table; rename one of them in the source, or leave it out"
        )


# -- the dialects
#
# MySQL compares texts by their bytes only under a collation that says so: under the usual one, two labels that differ
# in case would count as one box. Flink and ksqlDB read the topic itself, committed records alone.

FLINK, KSQLDB = "flink", "ksqldb"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The way in which one SQL writes a table."""

    quote: str
    types: dict[str, str]
    decimal: str  # with places for precision and scale
    key_text: str  # the type of a text in the primary key
    key: str = " NOT NULL"  # after the type of a column of the primary key
    not_null: str = " NOT NULL"  # after the type of any other column that is never null
    primary_key: str = "PRIMARY KEY ({})"  # a line of its own; "": `key` says it
    nested: str = ""  # a list of objects, with a place for their members; "": there is no such type
    closing: str = ""  # after the columns, with places for `topic` and `kafka`
    closing_avro: str = ""  # the same for Avro, with a place for `registry`
    opening: str = ""  # a statement before

    def name(self, text: str) -> str:
        """A name in quotes."""
        return f"{self.quote}{text.replace(self.quote, 2 * self.quote)}{self.quote}"

    def type(self, column: PublishedColumn) -> str:
        """The type of a column outside the key."""
        if column.type == DECIMAL:
            return self.decimal.format(column.whole_digits + column.scale, column.scale)
        return self.types[column.type]


_UPSERT_KAFKA = """ WITH (
  'connector' = 'upsert-kafka',
  'topic' = '{topic}',
  'properties.bootstrap.servers' = '{kafka}',
  'properties.isolation.level' = 'read_committed',
  'key.format' = 'json',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY'
)"""

_REGISTRIES = "".join(f"  '{side}.avro-confluent.url' = '{{registry}}',\n" for side in ("key", "value"))
_AVRO_KAFKA = _UPSERT_KAFKA.replace("= 'json'", "= 'avro-confluent'").replace(
    "  'value.fields-include'", f"{_REGISTRIES}  'value.fields-include'"
)

DIALECTS = {
    POSTGRES: Dialect(
        quote='"',
        types={TEXT: "text", INTEGER: "bigint", FLOAT: "numeric", BOOLEAN: "boolean"},
        decimal="numeric({}, {})",
        key_text="text",
    ),
    MYSQL: Dialect(
        quote="`",
        types={TEXT: "mediumtext", INTEGER: "bigint", FLOAT: "double", BOOLEAN: "boolean"},
        decimal="decimal({}, {})",
        key_text=f"varchar({len(LONGEST_NAME)})",
        closing=" CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
    ),
    FLINK: Dialect(
        quote="`",
        types={TEXT: "STRING", INTEGER: "BIGINT", FLOAT: "DOUBLE", BOOLEAN: "BOOLEAN"},
        decimal="DECIMAL({}, {})",
        key_text="STRING",
        not_null="",
        primary_key="PRIMARY KEY ({}) NOT ENFORCED",
        nested="ARRAY<ROW<{}>>",
        closing=_UPSERT_KAFKA,
        closing_avro=_AVRO_KAFKA,
    ),
    KSQLDB: Dialect(
        quote="`",
        types={TEXT: "VARCHAR", INTEGER: "BIGINT", FLOAT: "DOUBLE", BOOLEAN: "BOOLEAN"},
        decimal="DECIMAL({}, {})",
        key_text="VARCHAR",
        key=" PRIMARY KEY",
        not_null="",
        primary_key="",
        nested="ARRAY<STRUCT<{}>>",
        closing=" WITH (KAFKA_TOPIC = '{topic}', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON')",
        closing_avro=" WITH (KAFKA_TOPIC = '{topic}', KEY_FORMAT = 'AVRO', VALUE_FORMAT = 'AVRO')",
        opening="SET 'processing.guarantee' = 'exactly_once_v2'; -- reads committed records only",
    ),
}


def view_sql(table: Table, dialect: str, kafka: str = "HOST:PORT") -> str:
    """The SQL statements, in one of DIALECTS. kafka: bootstrap servers, for Flink.

    Raises UsageError for a lossy join and for a format that the dialect does not read, ConfigError for a column without
    a type.
    """
    sql = DIALECTS[dialect]
    statements = [*_comments(table, dialect), *filter(None, [sql.opening]), _create_table(table, sql, kafka)]
    if dialect != KSQLDB:
        statements.append(_create_view(table, sql))
    statements += _grants(table, sql) if dialect in (POSTGRES, MYSQL) else []
    return "\n".join(statements) + "\n"


def _grants(table: Table, dialect: Dialect) -> Iterator[str]:
    sink, view = dialect.name(schemas.sink_table(table)), dialect.name(schemas.view_name(table))
    yield "-- The sink's user needs the first of these (in Postgres, and USAGE on the schema), its readers the second:"
    yield f"-- GRANT SELECT, INSERT, UPDATE, DELETE ON {sink} TO ...; GRANT SELECT ON {view} TO ...;"


def _comments(table: Table, dialect: str) -> Iterator[str]:
    rounded = [column.name for column in table.kept if column.hierarchy is None and column.type == "decimal"]
    if rounded and (dialect != POSTGRES or table.format != JSON):
        yield f"-- With about 16 digits only: {', '.join(rounded)}. For all of them say `type: text` in table.yaml."
    if table.form == GROUPS:
        yield "-- Every row is a whole QI group, which satisfies the privacy model by itself."
        return
    if dialect == KSQLDB:
        yield f"-- At times this mixes two releases: show only boxes with {table.k} rows or more of one qi_group."
    asked = [table.diversity, *(own for column in table.kept if (own := column.diversity) is not None)]
    uncounted = [name for name in ("alpha", "beta", "r") if any(getattr(one, name) is not None for one in asked)]
    if uncounted:
        yield f"-- Not counted here: {', '.join(uncounted)}. Whole releases satisfy them, and so does `form: groups`."
    if table.individual is not None:
        yield "-- k counts individuals, and rows do not say whose they are: while a release is half applied, k rows"
        yield "-- may be one person's. Show a copy made by `streamer subscribe`, or publish `form: groups`."


def _create_table(table: Table, dialect: Dialect, kafka: str) -> str:
    lines, keys = [], schemas.record_key_columns(table)
    for column in (*keys, *(one for one in schemas.all_columns(table) if one not in keys)):
        is_key = column in keys
        kind = dialect.key_text if is_key and column.type == TEXT else dialect.type(column)
        rule = dialect.key if is_key else "" if column.nullable else dialect.not_null
        lines.append(f"{dialect.name(column.name)} {kind}{rule}")
    if table.form == GROUPS and dialect.nested:
        members = (*map(schemas.kept_column, table.kept), PublishedColumn(COUNT, INTEGER))
        types = ", ".join(f"{dialect.name(one.name)} {dialect.type(one)}" for one in members)
        lines.append(f"{dialect.name(VALUES)} {dialect.nested.format(types)}")
    if dialect.primary_key:
        lines.append(dialect.primary_key.format(_listed((column.name for column in keys), dialect)))
    body = ",\n  ".join(lines)
    closing = _closing(table, dialect).format(
        topic=topic_name(table.name, LIVE), kafka=kafka, registry="http://REGISTRY:8081"
    )
    return f"CREATE TABLE {dialect.name(schemas.sink_table(table))} (\n  {body}\n){closing};"


def _closing(table: Table, dialect: Dialect) -> str:
    """The text after the columns; raises UsageError if the dialect does not read the topic's format."""
    if not dialect.closing_avro or table.format == JSON:  # a database's own table, or plain records
        return dialect.closing
    if table.format == CONNECT_JSON:
        raise UsageError(
            "publish.live.format: connect-json: Flink and ksqlDB do not find a row within Kafka Connect's schema and"
            " payload: publish `format: json` or `format: avro` for them"
        )
    return dialect.closing_avro


def _create_view(table: Table, dialect: Dialect) -> str:
    shown = [column.name for column in schemas.record_value_columns(table)]
    source, view = dialect.name(schemas.sink_table(table)), dialect.name(schemas.view_name(table))
    if table.form == GROUPS:
        shown += [VALUES] if dialect.nested else []
        return f"CREATE VIEW {view} AS\nSELECT {_listed(shown, dialect)} FROM {source};"
    alike = [QI_GROUP, *all_box_columns(table)]
    columns = ", ".join(f"r.{dialect.name(name)}" for name in shown)
    same = "\n  AND ".join(f"r.{dialect.name(name)} = g.{dialect.name(name)}" for name in alike)
    return (
        f"CREATE VIEW {view} AS\nSELECT {columns}\nFROM {source} AS r\nJOIN (\n"
        f"  SELECT {_listed(alike, dialect)} FROM {source}\n"
        f"  GROUP BY {_listed(alike, dialect)}\n"
        f"  HAVING {' AND '.join(_enough(table, dialect))}\n) AS g\nON {same};"
    )


def _enough(table: Table, dialect: Dialect) -> Iterator[str]:
    """The conditions to show the rows of one box. A null is a value if table.yaml counts it as one."""
    yield f"count(*) >= {table.k}"
    for subject, least in model_of(table).distinct.items():
        if subject != INDIVIDUAL:
            column = dialect.name(table.kept[subject.column].name)
            null = f" + max(CASE WHEN {column} IS NULL THEN 1 ELSE 0 END)" if subject.null_counts else ""
            yield f"count(DISTINCT {column}){null} >= {least}"


def _listed(names: Iterator[str] | list[str], dialect: Dialect) -> str:
    return ", ".join(map(dialect.name, names))
