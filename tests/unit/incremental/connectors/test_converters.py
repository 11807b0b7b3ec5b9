"""Both converters of Avro find a schema where the other one, and a worker, writes its id."""

from __future__ import annotations

from streamer.incremental.connectors.converters import APICURIO, CONFLUENT, avro_converter


def test_confluent_s_is_told_the_registry_alone() -> None:
    assert avro_converter("key", CONFLUENT, "http://registry") == {
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "key.converter.schema.registry.url": "http://registry",
    }


def test_apicurio_s_is_told_how_the_others_write_ids() -> None:
    read = avro_converter("value", APICURIO, "http://registry")
    assert read == {
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "value.converter.apicurio.registry.url": "http://registry",
        "value.converter.apicurio.registry.as-confluent": "true",
        "value.converter.apicurio.registry.use-id": "contentId",
        "value.converter.apicurio.registry.headers.enabled": "false",
    }
    written = avro_converter("value", APICURIO, "http://registry", writes=True)
    assert written == read | {"value.converter.apicurio.registry.auto-register": "true"}
