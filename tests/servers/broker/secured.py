"""A Kafka that lets no one in without a certificate or a password, and to nothing without an ACL.

One node, as the other test broker, from the same jars, with listeners of three kinds: SASL_SSL (SCRAM, PLAIN, and
tokens that no one signed), SSL that asks the client for a certificate, and the broker's own on loopback, whose
anonymous user may do everything. Its certificates are made again with every broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from servers.broker.processes import Kafka, provide
from servers.broker.servers import Ports, bring_up, free_ports, kafka_answers

SCRAM, MODULES = "SCRAM-SHA-512", "org.apache.kafka.common.security"
OF_TOKENS = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"


class SecuredKafka:
    """The broker, its authority (`ca`, in ca.pem) and its users. passwords: by user, for SCRAM and PLAIN alike."""

    def __init__(self, directory: Path, passwords: Mapping[str, str]) -> None:
        provide()
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.ca = trustme.CA()
        self.ca_file = directory / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.ca_file))
        self._write(directory / "broker.pem", self.ca.issue_cert("localhost", common_name="broker"))
        plain, controller, sasl, mtls = free_ports(4)
        self._ports = Ports(plain, controller, 0)
        self.plaintext, self.sasl, self.mtls = (f"localhost:{port}" for port in (plain, sasl, mtls))
        self.by_address = f"127.0.0.1:{sasl}"
        """The same listener by a name that is not in its certificate."""
        scram = [f"{SCRAM}=[name={user},password={password}]" for user, password in passwords.items()]
        to_format = [word for user in scram for word in ("--add-scram", user)]
        self.server = Kafka(directory, self._ports, self._settings(passwords), to_format)

    def start(self) -> None:
        bring_up("the secured Kafka", self.server, lambda: kafka_answers("127.0.0.1", self._ports.kafka))

    def stop(self) -> None:
        self.server.stop()

    def certificate(self, file: Path, name: str, password: str = "", ca: trustme.CA | None = None) -> Path:
        """Writes a user's key, encrypted where there is a password, and certificate."""
        self._write(file, (ca or self.ca).issue_cert(f"{name}@example.org", common_name=name), password)
        return file

    @staticmethod
    def _write(file: Path, issued: trustme.LeafCert, password: str = "") -> None:
        """As Java reads it: the key in PKCS 8, then the certificates."""
        private_key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        how: KeySerializationEncryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        chain = b"".join(one.bytes() for one in issued.cert_chain_pems)
        file.write_bytes(private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how) + chain)

    def _settings(self, passwords: Mapping[str, str]) -> dict[str, str]:
        listeners = f"PLAINTEXT://{self.plaintext},SASL://{self.sasl},MTLS://{self.mtls}"
        users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
        return {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._ports.controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL",
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
            "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{OF_TOKENS} required;",
            "listener.name.sasl.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {users};",
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            "listener.name.mtls.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
