"""Avro as a connector writes it: a schema registry of Apicurio's, as one process, and its converter for Kafka Connect.

The converter writes as Confluent's does (a zero byte, the schema's id in four bytes, Avro's binary form), and the
registry answers to Confluent's REST interface, too.
"""

from __future__ import annotations

import urllib.request
import zipfile
from pathlib import Path

from servers.broker.processes import JARS, SHORT_LIVED, UNPACK, Process, fetch
from servers.broker.servers import free_ports
from streamer.incremental.connect.connectors import APICURIO, AVRO_CONVERTERS, avro_converter

HERE = Path(__file__).parent / "apicurio"
APP = JARS.parent / "apicurio-registry-2.6.13"
CONVERTERS = JARS.parent / "apicurio-converter-2.6.13"
DECLARED = CONVERTERS / "apicurio-converter" / "declared.jar"
"""Says what the converter is, as `connect-plugin-path sync-manifests` would: else Connect looks into all jars."""

ANSWER_SECONDS_MAX = 5.0


class Registry(Process):
    """One registry, which forgets all schemas when it ends."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        (program,) = APP.glob("*-runner.jar")
        memory = ["-Xms128m", "-Xmx384m", *SHORT_LIVED]
        place = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
        super().__init__(directory, "registry", port, ["java", *memory, *place, "-jar", str(program)])

    @property
    def url(self) -> str:
        """Its interface as Confluent's, for workers."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=ANSWER_SECONDS_MAX):
                return True
        except OSError:
            return False

    @property
    def own_url(self) -> str:
        """Its own interface, for its converter."""
        return f"http://127.0.0.1:{self.port}/apis/registry/v2"

    def converters(self) -> tuple[tuple[str, str], ...]:
        """What a connector needs to write keys and values in Avro."""
        sides = (avro_converter(side, APICURIO, self.own_url, writes=True) for side in ("key", "value"))
        return tuple(setting for side in sides for setting in side.items())


def provide() -> None:
    """Sees that both are there; raises NoServers where they cannot be had."""
    fetch("Apicurio's registry", HERE / "registry.xml", APP, UNPACK)
    fetch("Apicurio's converter", HERE / "converter.xml", CONVERTERS)
    with zipfile.ZipFile(DECLARED, "w") as declared:
        declared.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", AVRO_CONVERTERS[APICURIO])
