"""Settings for a secured Kafka, as one value that every client obeys.

The rules of this file
----------------------
* The settings have the names of Kafka's Java clients, so a `client.properties` that works for `kafka-console-consumer`
  works here. An environment variable overrides its setting in the file.
* Every client obeys a property about security, or the property is refused by its name: none is ignored silently. Other
  properties (serializers, batches, groups, a schema registry) are listed as `not_used`; so are properties of a setting
  that is missing (a key's password without a key).
* A setting that has no effect under `security.protocol` is refused: it was set for a reason.
* Secrets are in no repr and no message. A refusal names the setting, and quotes only values that are Kafka's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamer.errors import ConfigError, UsageError

CONFIG = "KAFKA_CONFIG"
"""The variable that names the file."""

SSL, PLAINTEXT, SASL_SSL, SASL_PLAINTEXT = "SSL", "PLAINTEXT", "SASL_SSL", "SASL_PLAINTEXT"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
PASSWORD_MECHANISMS = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")

USERNAME, SASL_PASSWORD = "username", "password"
"""Options of JAAS, which have variables of their own."""

VARIABLES = {
    "KAFKA_SECURITY_PROTOCOL": "security.protocol",
    "KAFKA_SASL_MECHANISM": "sasl.mechanism",
    "KAFKA_SASL_USERNAME": USERNAME,
    "KAFKA_SASL_PASSWORD": SASL_PASSWORD,
    "KAFKA_SSL_CAFILE": "ssl.truststore.location",
    "KAFKA_SSL_KEYSTORE": "ssl.keystore.location",
    "KAFKA_SSL_KEY_PASSWORD": "ssl.key.password",
}
"""Environment variables and their settings. The files that they name are PEM."""

_OBEYED = frozenset(
    {
        "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config",
        "sasl.oauthbearer.token.endpoint.url", "ssl.truststore.location", "ssl.truststore.type",
        "ssl.keystore.location", "ssl.keystore.type", "ssl.key.password", "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip

_OAUTH_HANDLERS = {
    f"org.apache.kafka.common.security.oauthbearer.{room}oauthbearerlogincallbackhandler" for room in ("", "secured.")
}
_AS_IT_IS = {
    "ssl.protocol": {"tls", "tlsv1.3"},
    "ssl.enabled.protocols": {"tlsv1.2,tlsv1.3", "tlsv1.3,tlsv1.2"},
    "ssl.keymanager.algorithm": {"sunx509"},
    "ssl.trustmanager.algorithm": {"pkix"},
    "sasl.login.callback.handler.class": _OAUTH_HANDLERS,
}
"""Values that the clients here follow anyway: TLS 1.2 and 1.3, Java's own algorithms."""

_PACE = ("sasl.login.refresh.", "sasl.login.connect.", "sasl.login.read.", "sasl.login.retry.")
_OF_THE_REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.")
"""Settings of a Java serializer: here the registry has variables of its own."""

_BELONGS_TO = {
    "ssl.key.password": "ssl.keystore.location",
    "ssl.keystore.type": "ssl.keystore.location",
    "ssl.truststore.type": "ssl.truststore.location",
}
"""Settings that need another one to have an effect."""

_OF_SECURITY = re.compile(r"ssl|sasl|secur|jaas|passw|secret|token|oauth|config\.providers|interceptor", re.IGNORECASE)
"""In the name of a property that has to do with security, misspelt or not."""

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:@/\[\]]+):[0-9]{1,5}")

EMBEDDED_CLUSTER = "mockCluster"
"""The beginning of the embedded broker's cluster id. That broker gives no ids of topics."""

_PROPERTY = re.compile(r"acks|retries|[a-z][a-z0-9]*(?:[._-][a-z0-9]+)+")

_TO_PEM = {
    "ssl.truststore": "`keytool -list -rfc -keystore STORE >ca.pem`",
    "ssl.keystore": "`keytool -importkeystore -srckeystore STORE -destkeystore client.p12 -deststoretype PKCS12`, then "
    "`openssl pkcs12 -in client.p12 -out client.pem`",
}
"""The commands that convert a Java store to PEM."""

_NEEDED = {
    "sasl.mechanism": ("SASL", SASL_PLAINTEXT),
    "sasl.jaas.config": ("SASL", SASL_PLAINTEXT),
    USERNAME: ("SASL", SASL_PLAINTEXT),
    SASL_PASSWORD: ("SASL", SASL_PLAINTEXT),
    "ssl.truststore.location": (SSL, SSL),
    "ssl.keystore.location": (SSL, SSL),
}
"""The word that a setting needs in the protocol's name, and the protocol that has only that."""

_INLINE = {
    "ssl.truststore.certificates": "ssl.truststore.location",
    "ssl.keystore.certificate.chain": "ssl.keystore.location",
    "ssl.keystore.key": "ssl.keystore.location",
}


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The endpoint that gives tokens for OAUTHBEARER, by OAuth's client credentials."""

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings of every connection to Kafka."""

    protocol: str = PLAINTEXT
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    endpoint: TokenEndpoint | None = None
    ca_file: str = ""  # PEM; "": the system's authorities
    keystore_file: str = ""  # PEM: key and certificates
    key_password: str = field(default="", repr=False)
    checks_host: bool = True
    bootstrap: str = ""
    not_used: tuple[str, ...] = ()  # names of properties in the file that the clients here ignore

    @property
    def by_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def is_secured(self) -> bool:
        return self.by_tls or self.by_sasl

    @property
    def by_sasl(self) -> bool:
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)


def servers_of(bootstrap: str) -> list[str]:
    """The addresses in "host:port,...". Raises UsageError, which never repeats the text: it may hold a password.

    >>> servers_of("a.example:9092, [::1]:9093")
    ['a.example:9092', '[::1]:9093']
    """
    servers = [server.strip() for server in bootstrap.split(",")]
    if not all(_ADDRESS.fullmatch(server) and int(server.rpartition(":")[2]) < 1 << 16 for server in servers):
        raise UsageError(
            "--kafka (KAFKA_BOOTSTRAP): expected HOST:PORT, or several of them with commas between, and nothing else: "
            "no user, no password, no protocol"
        )
    return servers


def settings_of(properties: Mapping[str, str], environment: Mapping[str, str]) -> KafkaSettings:
    """The settings in a file's properties and in the variables. Raises ConfigError that names the setting."""
    others = _not_used(properties)
    said = {name: value.strip() for name, value in properties.items()}
    said |= _of_variables(environment)
    _check_stores(said)
    protocol = _word("security.protocol", said.get("security.protocol", PLAINTEXT).upper(), PROTOCOLS)
    _check_no_idle(protocol, said)
    by_sasl, by_tls = protocol.startswith("SASL"), protocol.endswith("SSL")
    idle = [name for name in properties if _is_idle(name, said, by_sasl, by_tls)]
    return KafkaSettings(
        protocol,
        **(_credentials(said) if by_sasl else {}),  # type: ignore[arg-type]
        ca_file=said.get("ssl.truststore.location", "") if by_tls else "",
        keystore_file=said.get("ssl.keystore.location", "") if by_tls else "",
        key_password=said.get("ssl.key.password", "") if by_tls else "",
        checks_host=_checks_host(said),
        bootstrap=said.get("bootstrap.servers", ""),
        not_used=tuple(sorted((*others, *idle))),
    )


def _of_variables(environment: Mapping[str, str]) -> dict[str, str]:
    said = {name: environment[variable] for variable, name in VARIABLES.items() if environment.get(variable)}
    for store in _TO_PEM:
        if f"{store}.location" in said:
            said[f"{store}.type"] = "PEM"
    return said


def _not_used(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The names of properties that are not used. Raises ConfigError for a property that cannot be obeyed."""
    others = []
    for place, (name, value) in enumerate(properties.items(), 1):
        if name in _OBEYED:
            continue
        if name.startswith(_OF_THE_REGISTRY):
            others.append(name)
            continue
        if not value.strip() or not _PROPERTY.fullmatch(name):
            raise ConfigError(  # without the name: it may be the second line of a secret
                f"setting {place} of the file is no property of Kafka's clients: does a line before it lack the "
                "backslash at its end?"
            )
        if name in _INLINE:
            raise ConfigError(f"{name}: PEM text is read from files only: name one in {_INLINE[name]}")
        if value.replace(" ", "").lower() in _AS_IT_IS.get(name, ()):
            continue
        if _OF_SECURITY.search(name) and not name.startswith(_PACE):
            raise ConfigError(f"{name}: the clients here cannot do what it says, and security may depend on it")
        others.append(name)
    return tuple(others)


def _is_idle(name: str, said: Mapping[str, str], by_sasl: bool, by_tls: bool) -> bool:
    """True if a property that is obeyed has no effect because of the others."""
    if name in _BELONGS_TO:
        return not said.get(_BELONGS_TO[name])
    if name == "ssl.endpoint.identification.algorithm":
        return not by_tls
    of_tokens = name == "sasl.oauthbearer.token.endpoint.url"
    return of_tokens and not (by_sasl and said.get("sasl.mechanism", "").upper() == OAUTHBEARER)


def _check_stores(said: Mapping[str, str]) -> None:
    """Raises ConfigError for a store that is not PEM, with the command that converts it."""
    for store, conversion in _TO_PEM.items():
        if said.get(f"{store}.location") and said.get(f"{store}.type", "JKS").upper() != "PEM":
            raise ConfigError(
                f"{store}.type: stores are read as PEM only (where nothing is said, Java takes JKS): convert it with "
                f"{conversion}, name the .pem in {store}.location, and say {store}.type=PEM"
            )


def _check_no_idle(protocol: str, said: Mapping[str, str]) -> None:
    for name, (needed, alone) in _NEEDED.items():
        if said.get(name) and needed not in protocol.split("_"):
            raise ConfigError(
                f"{_called(name)}: has no effect under security.protocol={protocol} (KAFKA_SECURITY_PROTOCOL): say "
                f"{SASL_SSL} or {alone}, or take it out"
            )


def _called(name: str) -> str:
    variable = next((variable for variable, stands_for in VARIABLES.items() if stands_for == name), "")
    return f"{name} ({variable})" if variable else name


def _word(name: str, word: str, allowed: Iterable[str]) -> str:
    if word not in allowed:
        raise ConfigError(f"{name}: expected one of {', '.join(allowed)}")
    return word


def _checks_host(said: Mapping[str, str]) -> bool:
    """In Java, an empty value means no."""
    name = "ssl.endpoint.identification.algorithm"
    return _word(name, said.get(name, "https").lower(), ("https", "")) == "https"


def _credentials(said: Mapping[str, str]) -> dict[str, object]:
    mechanisms = (*PASSWORD_MECHANISMS, OAUTHBEARER)
    if "sasl.mechanism" not in said:
        raise ConfigError(
            f"sasl.mechanism (KAFKA_SASL_MECHANISM) is missing: one of {', '.join(mechanisms)}; Java's own default, "
            "GSSAPI, is not available here"
        )
    mechanism = _word("sasl.mechanism", said["sasl.mechanism"].upper(), mechanisms)
    stated = _jaas(said["sasl.jaas.config"], mechanism) if said.get("sasl.jaas.config") else {}
    if mechanism == OAUTHBEARER:
        return {"mechanism": mechanism, "endpoint": _endpoint(said, stated)}
    stated |= {name: said[name] for name in (USERNAME, SASL_PASSWORD) if name in said}
    for name in (USERNAME, SASL_PASSWORD):
        if not stated.get(name):
            raise ConfigError(f"{name} is missing for {mechanism}: sasl.jaas.config, or KAFKA_SASL_{name.upper()}")
    return {"mechanism": mechanism, USERNAME: stated[USERNAME], SASL_PASSWORD: stated[SASL_PASSWORD]}


_ON_THIS_MACHINE = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/|$)")


def _endpoint(said: Mapping[str, str], stated: Mapping[str, str]) -> TokenEndpoint:
    """KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD are the client's id and secret."""
    url = said.get("sasl.oauthbearer.token.endpoint.url", "")
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"sasl.oauthbearer.token.endpoint.url: {OAUTHBEARER} needs the http(s) address of tokens")
    if url.startswith("http://") and not _ON_THIS_MACHINE.match(url):
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url: over http:// anybody on the way can read the client's secret: name "
            "the "
            "https:// address (http:// is taken only for 127.0.0.1, ::1 and localhost)"
        )
    client_id = said.get(USERNAME) or stated.get("clientId")
    client_secret = said.get(SASL_PASSWORD) or stated.get("clientSecret")
    if not client_id or not client_secret:
        raise ConfigError(
            f"sasl.jaas.config: {OAUTHBEARER} needs clientId (KAFKA_SASL_USERNAME) and clientSecret "
            "(KAFKA_SASL_PASSWORD)"
        )
    return TokenEndpoint(url, client_id, client_secret, stated.get("scope", ""))


_MODULES = {"PlainLoginModule": "PLAIN", "ScramLoginModule": "SCRAM", "OAuthBearerLoginModule": OAUTHBEARER}
_JAAS = re.compile(
    r"(?P<module>[\w.]+)\s+required(?P<options>(?:\s+\w+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";]+))*)\s*;"
)
_OPTION = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\";]+))")


def _jaas(text: str, mechanism: str) -> dict[str, str]:
    found = _JAAS.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            'sasl.jaas.config: expected one login module: CLASS required NAME="VALUE" ...; with a semicolon at the end'
        )
    module = found["module"].rpartition(".")[2]
    if module not in _MODULES or not mechanism.startswith(_MODULES[module]):
        raise ConfigError(f"sasl.jaas.config: its login module is not the one of sasl.mechanism={mechanism}")
    options = _OPTION.findall(found["options"])
    return {name: re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for name, quoted, bare in options}
