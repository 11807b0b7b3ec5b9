"""How Postgres, MySQL, Flink and ksqlDB say a table: quotes, types, keys, and what stands behind the columns.

In MySQL texts are compared by their bytes only under a collation that says so: under the usual one, two labels that
differ in case would count as one box. Flink and ksqlDB read the topic itself, with committed records alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamer.incremental.connectors.database import MYSQL, POSTGRES
from streamer.table.published import LONGEST_NAME
from streamer.table.published_types import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INTEGER,
    TEXT,
    PublishedColumn,
)

FLINK, KSQLDB = "flink", "ksqldb"


@dataclass(frozen=True)
class Dialect:
    """One SQL. Texts of a key may need a length of their own.

    decimal: with places for precision and scale. nested: a list of objects, with a place for their members; "": there
    is no such type. not_null: behind the type of a column that is never null; key: behind that of one of the primary
    key. primary_key: a line with a place for the names; "": `key` says it. opening: a statement before. closing: behind
    the columns, with places for `topic` and `kafka`; closing_avro: the same over Avro, with a place for `registry`.
    """

    quote: str
    types: dict[str, str]
    decimal: str
    key_text: str
    key: str = " NOT NULL"
    not_null: str = " NOT NULL"
    primary_key: str = "PRIMARY KEY ({})"
    nested: str = ""
    closing: str = ""
    closing_avro: str = ""
    opening: str = ""

    def name(self, text: str) -> str:
        """A name in quotes."""
        return f"{self.quote}{text.replace(self.quote, 2 * self.quote)}{self.quote}"

    def type(self, column: PublishedColumn) -> str:
        """The type of a column that is in no key."""
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

_AVRO_KAFKA = _UPSERT_KAFKA.replace("= 'json'", "= 'avro-confluent'").replace(
    "  'value.fields-include'",
    "  'key.avro-confluent.url' = '{registry}',\n"
    "  'value.avro-confluent.url' = '{registry}',\n"
    "  'value.fields-include'",
)

DIALECTS = {
    POSTGRES: Dialect(
        quote='"',
        types={TEXT: "text", INTEGER: "bigint", FLOAT: "double precision", BOOLEAN: "boolean"},
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
        opening="SET 'processing.guarantee' = 'exactly_once_v2'; -- reads committed records alone",
    ),
}
