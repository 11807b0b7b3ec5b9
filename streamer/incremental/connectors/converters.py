"""Kafka Connect's converters: JSON's, those for Avro by a schema registry, and what each is told of it.

Confluent's and Apicurio's have the same name. Apicurio's has the schema's id where everybody else looks for it, in four
bytes behind a zero byte, only where it is told so; else in eight bytes, or in a header.
"""

from __future__ import annotations

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"

CONFLUENT, APICURIO = "confluent", "apicurio"

AVRO_CONVERTERS = {
    CONFLUENT: "io.confluent.connect.avro.AvroConverter",
    APICURIO: "io.apicurio.registry.utils.converter.AvroConverter",
}

IDS_AS_CONFLUENT = {
    "apicurio.registry.as-confluent": "true",
    "apicurio.registry.use-id": "contentId",
    "apicurio.registry.headers.enabled": "false",
}
"""What makes Apicurio's converter read and write ids as Confluent's does."""


def avro_converter(side: str, made_by: str, registry: str, *, writes: bool = False) -> dict[str, str]:
    """The settings of a connector's converter; side: `key` or `value`; made_by: out of AVRO_CONVERTERS.

    registry: its address, of Apicurio's that of its own interface (`.../apis/registry/v2`). writes: schemas are made
    known.
    """
    if made_by == CONFLUENT:
        told = {"schema.registry.url": registry}
    else:
        told = {"apicurio.registry.url": registry, **IDS_AS_CONFLUENT}
        told |= {"apicurio.registry.auto-register": "true"} if writes else {}
    converter = f"{side}.converter"
    return {converter: AVRO_CONVERTERS[made_by], **{f"{converter}.{name}": text for name, text in told.items()}}
