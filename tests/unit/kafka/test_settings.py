"""A client.properties as Java's clients have it, and variables: obeyed, listed, or refused by name without a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import ConfigError
from streamer.kafka.settings import KafkaSettings, settings_of

CANARY = "canary-7Q"
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
FILE = {
    "bootstrap.servers": "a.example:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{JAAS} username="worker" password="{CANARY}";',
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "ca.pem",
}


def test_a_file_of_the_java_clients_says_all() -> None:
    said = settings_of(FILE, {})
    assert said == KafkaSettings(
        "SASL_SSL", "SCRAM-SHA-512", "worker", CANARY, ca_file="ca.pem", bootstrap="a.example:9093"
    )
    assert said.by_tls and said.by_sasl and said.checks_host and said.is_secured


def test_nothing_said_is_a_kafka_that_asks_nobody() -> None:
    assert settings_of({}, {}) == KafkaSettings()
    assert not KafkaSettings().is_secured


def test_a_variable_wins_over_the_file_one_setting_at_a_time() -> None:
    said = settings_of(
        FILE, {"KAFKA_SASL_PASSWORD": "other", "KAFKA_SSL_CAFILE": "else.pem", "KAFKA_SASL_USERNAME": ""}
    )
    assert (said.username, said.password, said.ca_file) == ("worker", "other", "else.pem")


def test_variables_alone_are_enough() -> None:
    said = settings_of(
        {}, {"KAFKA_SECURITY_PROTOCOL": "ssl", "KAFKA_SSL_KEYSTORE": "me.pem", "KAFKA_SSL_KEY_PASSWORD": CANARY}
    )
    assert said == KafkaSettings("SSL", keystore_file="me.pem", key_password=CANARY)


def test_no_secret_is_in_a_repr() -> None:
    said = settings_of(FILE | {"ssl.key.password": CANARY}, {})
    assert CANARY not in repr(said) and CANARY not in str(said)
    token = settings_of(FILE | OAUTH, {})
    assert token.endpoint is not None and token.endpoint.client_secret == CANARY
    assert CANARY not in repr(token)


OAUTH = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    f' clientId="me" clientSecret="{CANARY}" scope="kafka";',
}


@given(st.text("aZ0 \"\\';=#$ß", min_size=1))
def test_any_password_survives_the_quotes_of_jaas(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    said = settings_of(FILE | {"sasl.jaas.config": f'{JAAS}\n  password="{quoted}"  username=bare ;'}, {})
    assert (said.username, said.password) == ("bare", password)


def test_what_is_not_about_security_is_listed_and_so_is_what_the_registrys_client_would_read() -> None:
    others = {"key.deserializer": "x", "acks": "1", "group.id": "x", "sasl.login.refresh.buffer.seconds": "1"}
    registry = {"schema.registry.url": "x", "basic.auth.user.info": CANARY}
    said = settings_of(FILE | others | registry | {"ssl.enabled.protocols": "TLSv1.2, TLSv1.3"}, {})
    assert said.not_used == tuple(sorted((*others, *registry)))
    assert CANARY not in repr(said)


@pytest.mark.parametrize(
    "idle",
    [
        {"ssl.key.password": CANARY},
        {"ssl.keystore.type": "PEM"},
        {"ssl.truststore.type": "PEM", "security.protocol": "PLAINTEXT"},
        {"ssl.endpoint.identification.algorithm": "https", "security.protocol": "PLAINTEXT"},
        {"sasl.oauthbearer.token.endpoint.url": "https://id.example/token", "security.protocol": "PLAINTEXT"},
    ],
    ids=lambda idle: next(iter(idle)),
)
def test_what_belongs_to_a_setting_that_is_not_there_is_listed(idle: dict[str, str]) -> None:
    said = settings_of({"security.protocol": "SSL", **idle}, {})
    assert said.not_used == (next(iter(idle)),)


def test_what_has_an_effect_is_not_listed() -> None:
    keys = {"ssl.keystore.location": "client.pem", "ssl.keystore.type": "PEM", "ssl.key.password": CANARY}
    assert settings_of(FILE | keys | {"ssl.endpoint.identification.algorithm": ""}, {}).not_used == ()
    assert settings_of({"security.protocol": "SASL_SSL", **OAUTH}, {}).not_used == ()
    by_variable = {"KAFKA_SSL_KEYSTORE": "client.pem", "KAFKA_SECURITY_PROTOCOL": "SSL"}
    assert settings_of({"ssl.key.password": CANARY}, by_variable).not_used == ()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"security.protocol": CANARY}, "security.protocol: expected one of PLAINTEXT"),
        ({"security.protocol": "PLAINTEXT"}, "sasl.mechanism .KAFKA_SASL_MECHANISM.: has no effect"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "ssl.truststore.location .KAFKA_SSL_CAFILE.: has no effect"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: expected one of PLAIN"),
        ({"sasl.mechanism": "PLAIN"}, "login module is not the one of sasl.mechanism=PLAIN"),
        ({"sasl.jaas.config": f'{JAAS} username="x" password="{CANARY}"'}, "sasl.jaas.config: expected one login"),
        ({"sasl.jaas.config": f'{JAAS} username="x" "{CANARY}";'}, "sasl.jaas.config: expected one login module"),
        ({"sasl.jaas.config": f'{JAAS} username="{CANARY}";'}, "password is missing for SCRAM-SHA-512"),
        ({"sasl.jaas.config": ""}, "username is missing"),
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type: .*`keytool -list -rfc"),
        ({"ssl.keystore.location": CANARY}, "ssl.keystore.type: .*keytool -importkeystore"),
        ({"ssl.truststore.certificates": CANARY}, "name one in ssl.truststore.location"),
        ({"ssl.truststore.password": CANARY}, "ssl.truststore.password: the clients here cannot"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols: the clients here cannot"),
        ({"ssl.endpoint.identification.algorithm": CANARY}, "ssl.endpoint.identification.algorithm: expected"),
        ({"sasl.client.callback.handler.class": "x"}, "sasl.client.callback.handler.class: the clients"),
        ({"config.providers": "vault"}, "config.providers: the clients"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism: the clients"),
        ({"interceptor.classes": "x"}, "interceptor.classes: the clients"),
        ({CANARY: ""}, "setting 7 of the file is no property"),
        ({"password": f'"{CANARY}";'}, "lack the backslash"),
        ({CANARY: "x"}, "no property"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": CANARY}, "token.endpoint.url: OAUTHBEARER needs"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": f"http://id/{CANARY}"}, "token.endpoint.url: over http://"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": f"http://localhost@{CANARY}"}, "token.endpoint.url: over"),
    ],
)  # fmt: skip
def test_what_security_depends_on_is_refused_by_name_and_its_value_is_not_told(more: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        settings_of(FILE | more, {})
    assert CANARY not in str(refused.value)


def test_a_mechanism_that_is_not_said_is_not_guessed() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.mechanism .* is missing"):
        settings_of({"security.protocol": "SASL_SSL"}, {})


def test_an_empty_algorithm_is_javas_way_not_to_compare_names() -> None:
    assert not settings_of(FILE | {"ssl.endpoint.identification.algorithm": ""}, {}).checks_host
