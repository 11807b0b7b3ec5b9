"""A Redis by TLS and with the users of `examples/security/redis`, as a process of this machine."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlencode

import redis
import trustme

from servers.broker.servers import free_ports
from servers.redis_servers import Fleet, server_of
from worlds.checkout import ROOT

RECIPE = ROOT / "examples" / "security" / "redis"
USERS = ("worker", "operator")


class SecuredRedis(Fleet):
    """One server.

    passwords: of the recipe's users, and of `tester`, who may do everything. ca: the file that vouches for the server.
    """

    def __init__(self, directory: Path, table_name: str = "patients") -> None:
        self._table_name = table_name
        self.directory = directory
        self.ca = directory / "tls" / "ca.crt"
        self.passwords = {name: f"canary-{secrets.token_hex(12)}" for name in (*USERS, "tester")}
        self.port, self._authority = free_ports(1)[0], trustme.CA()
        super().__init__(self.url_of(""))

    def start(self) -> None:
        self._write_certificates()
        self._write_users()
        text = (RECIPE / "redis.conf").read_text()
        lines = text.replace("/etc/redis", str(self.directory)).replace("tls-port 6379", f"tls-port {self.port}")
        file = self.directory / "redis.conf"
        file.write_text(f"{lines}bind 127.0.0.1\n")
        self._add([server_of(self.directory, "secured", self.port, [str(file)])])

    def url_of(self, login: str = "", **options: object) -> str:
        """Its URL; login: `user:password@`. An option that is None is left out."""
        told = {"ssl_ca_certs": self.ca, **options}
        query = urlencode({name: value for name, value in told.items() if value is not None})
        return f"rediss://{login}localhost:{self.port}/0?{query}"

    def login(self, user: str) -> str:
        return f"{user}:{self.passwords[user]}@"

    def own_certificate(self) -> dict[str, Path]:
        """The options of a client with a certificate that the server's authority has issued."""
        return {"ssl_certfile": self.directory / "client.crt", "ssl_keyfile": self.directory / "client.key"}

    def _write_certificates(self) -> None:
        tls = self.ca.parent
        tls.mkdir()
        self._authority.cert_pem.write_to_path(self.ca)
        trustme.CA().cert_pem.write_to_path(self.directory / "other-ca.crt")
        for folder, name in ((tls, "server"), (self.directory, "client")):
            issued = self._authority.issue_cert("localhost")
            issued.private_key_pem.write_to_path(folder / f"{name}.key")
            issued.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")

    def _write_users(self) -> None:
        text = (RECIPE / "users.acl").read_text().replace("{patients:", f"{{{self._table_name}:")
        for name in USERS:
            assert f">change-me-{name} " in text
            text = text.replace(f">change-me-{name} ", f">{self.passwords[name]} ")
        text += f"user tester on >{self.passwords['tester']} ~* &* +@all\n"
        (self.directory / "users.acl").write_text(text)

    def _answers(self, port: int) -> bool:
        try:
            return bool(redis.Redis.from_url(self.url_of(self.login("tester"))).ping())
        except redis.RedisError:
            return False


def granted(user: str) -> Iterable[str]:
    """The commands that the recipe grants a user."""
    (line,) = (line for line in (RECIPE / "users.acl").read_text().splitlines() if line.startswith(f"user {user} "))
    return [word[1:] for word in line.split() if word.startswith("+")]
