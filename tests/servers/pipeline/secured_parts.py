"""The parts of a pipeline on a Kafka that asks everybody who they are, with a schema registry beside it.

Workers and operators have the files and the rights of examples/security. Connect is a user, too: it may write
`changes`, read `live`, and keep its own topics. The tests make topics and look by the broker's own listener.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from servers.acl_recipe import commands_of, grant
from servers.broker.secured import MODULES, SCRAM, SecuredKafka
from servers.broker.servers import Servers
from servers.pipeline import avro
from servers.pipeline.pipeline import Access, Parts, await_answer
from streamer.kafka.access import read_properties
from streamer.kafka.settings import CONFIG, settings_of
from worlds.checkout import ROOT

SECURITY = ROOT / "examples" / "security"
USERS = ("worker", "operator")
CONNECT, CONNECTS_PASSWORD = "connect", "Canary-7319"
ITS_OWN = "--operation Create --operation Read --operation Write --operation DescribeConfigs --topic connect-"
ITS_GROUPS = "--operation Read --operation Describe --group connect-"
OF_A_TABLE = """
--operation Create --operation Write --operation DescribeConfigs --topic {table}.
--operation Create --operation Write --operation DescribeConfigs --topic __debezium-heartbeat.{table}
--operation Read --topic {table}.live
"""


class SecuredParts(Parts):
    """Parts whose Kafka and registry are their own; Redis is that of all tests."""

    def __init__(self, servers: Servers, directory: Path) -> None:
        avro.provide()
        passwords = {user: settings_of(read_properties(str(_file(user))), {}).password for user in USERS}
        self._kafka = SecuredKafka(directory / "secured", {**passwords, CONNECT: CONNECTS_PASSWORD})
        self._kafka.start()
        self._grant_connect([ITS_OWN, ITS_GROUPS])
        self.registry = avro.Registry(directory)
        own = servers.beside("a secured Kafka", self._kafka.plaintext, self._kafka.server)
        access = Access(
            bootstrap=self._kafka.sasl,
            client=self._of_connect(),
            worker={CONFIG: self._placed("worker", directory), "SCHEMA_REGISTRY_URL": self.registry.url},
            operator={CONFIG: self._placed("operator", directory)},
            grant=lambda table_name: self._grant(table_name, directory),
            secrets=(*passwords.values(), CONNECTS_PASSWORD),
        )
        super().__init__(own, directory, access, [avro.CONVERTERS])

    def start(self) -> None:
        self._kafka.start()
        self.registry.start()
        await_answer(self.registry.answers, "the registry", self.registry.last_words)
        super().start()

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self.registry.stop()
            self._kafka.stop()

    def _of_connect(self) -> dict[str, str]:
        login = f'{MODULES}.scram.ScramLoginModule required username="{CONNECT}" password="{CONNECTS_PASSWORD}";'
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._kafka.ca_file),
        }

    def _placed(self, user: str, directory: Path) -> str:
        """The example's file of a user, with the authority's certificate where it is."""
        file = directory / f"{user}.properties"
        file.write_text(_file(user).read_text().replace("/etc/streamer/ca.pem", str(self._kafka.ca_file)))
        return str(file)

    def _grant(self, table_name: str, directory: Path) -> None:
        """What the recipe of examples/security gives, and what Connect needs."""
        folder = directory / f"acls-{table_name}"
        folder.mkdir()
        grant(self._kafka.plaintext, commands_of(SECURITY / "acls.sh", table_name, folder))
        self._grant_connect(OF_A_TABLE.format(table=table_name).strip().splitlines())

    def _grant_connect(self, lines: Sequence[str]) -> None:
        opening = ["--add", "--allow-principal", f"User:{CONNECT}", "--resource-pattern-type", "prefixed"]
        grant(self._kafka.plaintext, [[*opening, *line.split()] for line in lines])


def _file(user: str) -> Path:
    return SECURITY / f"{user}.properties"
