"""Client of a schema registry by Confluent's REST interface, which Apicurio and Karapace speak, too.

The rules of this file
----------------------
* A schema is fetched once, as an id never changes its meaning. An unknown id is asked for again when it comes again.
* A schema is registered once, and its id is remembered: later records need no registry. If the registry refuses a
  schema (it is not compatible with an earlier one of its subject), no retry helps, and a person has to decide.
* Only the registry's error code 40403 means that an id is unknown. All other failures (no answer, a refused password,
  an answer that is not a registry's) raise `RegistryUnreachable`: nothing is decoded, nothing gets lost.
* User and password come from the environment or a file, and go into the request's header only: not into the URL, not
  to the target of a redirect, not through a proxy, not into any text.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from streamer.errors import ConfigError, RegistryUnreachable, needs_extra
from streamer.incremental.events.registered_schemas import (
    AVRO_SCHEMA,
    Known,
    NoSchemas,
    RegisteredSchema,
    Schemas,
    UnusableSchema,
    schema_from,
)

if TYPE_CHECKING:
    import httpx

URL, BASIC_AUTH, CA = "SCHEMA_REGISTRY_URL", "SCHEMA_REGISTRY_BASIC_AUTH", "SCHEMA_REGISTRY_CA"
BASIC_AUTH_FILE = BASIC_AUTH + "_FILE"

ANSWER_SECONDS_MAX = 10.0
SCHEMA_UNKNOWN = 40403
_REFUSED = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)

Answer = TypeVar("Answer")


class _SchemaAnswer(msgspec.Struct):
    """The registry's answer about a schema."""

    text: str = msgspec.field(name="schema")
    kind: str = msgspec.field(name="schemaType", default=AVRO_SCHEMA)
    references: list[object] | None = None


class _Registered(msgspec.Struct):
    """The registry's answer to a schema that was registered."""

    id: int


class _RegistryFault(msgspec.Struct):
    error_code: int


class SchemaRegistry:
    """The schemas of one registry; may be used from any thread.

    user_and_password: for basic auth. ca: path of the authorities' certificates for https, None: the system's. Raises
    ConfigError if a setting is wrong.
    """

    def __init__(self, url: str, user_and_password: tuple[str, str] | None = None, ca: str | None = None) -> None:
        with needs_extra("avro"):
            import httpx
        self.url = _checked(url)
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
        self._client = httpx.Client(
            base_url=self.url,
            auth=user_and_password,
            verify=_certificates(ca) if self.url.startswith("https:") else False,
            timeout=ANSWER_SECONDS_MAX,
            trust_env=False,
        )
        self._schemas: dict[int, RegisteredSchema | UnusableSchema] = {}
        self._registered: dict[tuple[str, str], int] = {}
        self._asking = threading.Lock()

    @property
    def known(self) -> Known | None:
        """All schemas that were fetched so far."""
        return self._schemas

    def require_answer(self) -> None:
        """Raises RegistryUnreachable unless it answers as a registry does, and lets us in."""
        self._read(self._answer("GET", "subjects"), list[str])

    def learn(self, ids: Iterable[int]) -> None:
        """Fetches schemas that are not known yet. Raises RegistryUnreachable."""
        if unknown := sorted(set(ids) - self._schemas.keys()):
            with self._asking:
                for schema_id in unknown:
                    self._fetch(schema_id)

    def _fetch(self, schema_id: int) -> None:
        if schema_id in self._schemas:
            return
        answer = self._answer("GET", f"schemas/ids/{schema_id}")
        if answer.status_code == HTTPStatus.NOT_FOUND and _is_unknown(answer.content):
            return
        found = self._read(answer, _SchemaAnswer)
        self._schemas[schema_id] = schema_from(schema_id, found.kind, found.text, bool(found.references))

    def register(self, subject: str, schema: str) -> int:
        """The id of an Avro schema under a subject. Raises RegistryUnreachable; ConfigError if it is refused."""
        with self._asking:
            if (subject, schema) not in self._registered:
                self._registered[subject, schema] = self._put(subject, schema)
            return self._registered[subject, schema]

    def _put(self, subject: str, schema: str) -> int:
        answer = self._answer("POST", f"subjects/{subject}/versions", {"schema": schema})
        if answer.status_code in _REFUSED:
            raise ConfigError(
                f"the schema registry at {self.url} does not take the schema of {subject} ({answer.status_code}): if"
                " it is not compatible with an earlier one, as table.yaml has changed, delete the subject or set its"
                " compatibility to NONE; then start again"
            )
        return self._read(answer, _Registered).id

    def _answer(self, method: str, path: str, body: object = None) -> httpx.Response:
        import httpx

        try:
            return self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._unreachable(f"does not answer ({type(error).__name__})", "is it up, are they right?") from None

    def _read(self, answer: httpx.Response, wanted: type[Answer]) -> Answer:
        if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise self._unreachable(f"refuses us ({answer.status_code})", f"see {BASIC_AUTH}, or {BASIC_AUTH_FILE}")
        try:
            if answer.status_code == HTTPStatus.OK:
                return msgspec.json.decode(answer.content, type=wanted)
        except msgspec.DecodeError:
            pass
        raise self._unreachable(f"answers as no registry does ({answer.status_code})", "is the URL complete?")

    def _unreachable(self, fault: str, remedy: str) -> RegistryUnreachable:
        return RegistryUnreachable(
            f"the schema registry at {self.url} {fault}: nothing is read or published until it gives "
            f"the schemas ({URL}, {CA}; {remedy})"
        )


def registry_from(environment: Mapping[str, str] = os.environ) -> Schemas:
    """The registry that the environment names, if any. Raises ConfigError, which repeats no secret."""
    url = environment.get(URL)
    if not url:
        return NoSchemas()
    return SchemaRegistry(url, _user_and_password(environment), environment.get(CA) or None)


def _user_and_password(environment: Mapping[str, str]) -> tuple[str, str] | None:
    said, path = environment.get(BASIC_AUTH), environment.get(BASIC_AUTH_FILE)
    if said and path:
        raise ConfigError(f"{BASIC_AUTH} and {BASIC_AUTH_FILE} are both set: which one is meant?")
    if path:
        try:
            said = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{BASIC_AUTH_FILE}: cannot be read ({type(error).__name__})") from None
    if not said:
        return None
    user, colon, password = said.partition(":")
    if not colon:
        raise ConfigError(f"{BASIC_AUTH}: expected USER:PASSWORD")
    return user, password


def _checked(url: str) -> str:
    """Raises ConfigError, which never repeats the URL: it may hold a password."""
    import httpx

    try:
        parsed = httpx.URL(url)
        usable = parsed.scheme in ("http", "https") and bool(parsed.host) and not (parsed.userinfo or parsed.query)
    except httpx.InvalidURL:
        usable = False
    if not usable:
        raise ConfigError(
            f"{URL}: expected http://HOST:PORT or https://HOST:PORT, with a path if the registry has one; user and "
            f"password go into {BASIC_AUTH}"
        )
    return url.rstrip("/")


def _certificates(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{CA}: no certificates can be read there ({type(error).__name__})") from None


def _is_unknown(content: bytes) -> bool:
    try:
        return msgspec.json.decode(content, type=_RegistryFault).error_code == SCHEMA_UNKNOWN
    except msgspec.DecodeError:
        return False
