"""Who works with a table on a secured Kafka and a secured Redis: each by what the examples and the recipes give him."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servers.acl_recipe import commands_of, grant
from servers.broker.secured import SecuredKafka
from servers.secured_redis import USERS, SecuredRedis
from streamer.cli.main import main
from streamer.kafka.access import read_properties
from streamer.kafka.settings import CONFIG, settings_of
from worlds.checkout import ROOT
from worlds.kafka_and_redis import fresh_name
from worlds.patients import write_table

SECURITY = ROOT / "examples" / "security"
BY_PASSWORD = ("worker", "producer", "operator")


def example(user: str) -> Path:
    return SECURITY / f"{user}.properties"


PASSWORDS = {user: settings_of(read_properties(str(example(user))), {}).password for user in BY_PASSWORD}
KEY_PASSWORD = settings_of(read_properties(str(example("reader"))), {}).key_password


class People:
    """A table with its topics' rights, and its people, each with his file. said: all that was printed to them."""

    def __init__(self, kafka: SecuredKafka, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.name = fresh_name()
        self.table = write_table(folder, self.name)
        self.redis = SecuredRedis(folder, self.name)
        self.said = ""
        self._kafka, self._folder, self._patch = kafka, folder, patch
        for file in SECURITY.glob("*.properties"):
            (folder / file.name).write_text(file.read_text().replace("/etc/streamer/", f"{folder}/"))
        with (folder / "operator.properties").open("a") as of_operator:
            of_operator.write("client.id=of-another-program\n")
        (folder / "ca.pem").write_bytes(kafka.ca_file.read_bytes())
        kafka.certificate(folder / "reader.pem", "reader", KEY_PASSWORD)

    def grant(self) -> None:
        """What the recipe gives."""
        grant(self._kafka.plaintext, commands_of(SECURITY / "acls.sh", self.name, self._folder))

    def environment(self, user: str, at_redis: str = "") -> dict[str, str]:
        """A user's; at_redis: who he is there. Whom Redis does not know comes as its operator, for Kafka to refuse."""
        redis_user = at_redis or (user if user in USERS else "operator")
        return {
            CONFIG: str(self._folder / f"{user}.properties"), "STREAMER_TABLE": str(self.table),
            "KAFKA_BOOTSTRAP": self._kafka.mtls if user == "reader" else self._kafka.sasl,
            "REDIS_URL": self.redis.url_of(), "REDIS_USERNAME": redis_user,
            "REDIS_PASSWORD": self.redis.passwords[redis_user],
        }  # fmt: skip

    def call(self, user: str, command: str, *words: str, at_redis: str = "") -> Result:
        """Calls a command of streamer as a user."""
        for name, value in self.environment(user, at_redis).items():
            self._patch.setenv(name, value)
        result = CliRunner().invoke(main, [*command.split(), "--table", str(self.table), *words])
        self.said += result.output
        return result

    def must(self, user: str, command: str, *words: str) -> str:
        result = self.call(user, command, *words)
        assert result.exit_code == 0, f"{user}: {command}: {result.output}\n{result.exception!r}"
        return result.stdout

    def must_not(self, user: str, command: str, *words: str, at_redis: str = "") -> str:
        """What Kafka refuses, and what that says."""
        said = self._refused(user, command, *words, at_redis=at_redis)
        assert re.search(f"User:({user}|NAME) ", said), said  # whom a certificate or a token names, the broker knows
        return said

    def must_not_at_redis(self, user: str, command: str, *words: str, at_redis: str) -> str:
        """What Redis refuses someone whom Kafka would let."""
        return self._refused(user, command, *words, at_redis=at_redis)

    def _refused(self, user: str, command: str, *words: str, at_redis: str) -> str:
        result = self.call(user, command, *words, at_redis=at_redis)
        assert result.exit_code == 2, f"{user}: {command}: {result.output}\n{result.exception!r}"
        return result.output
