"""What a registry tells, against a stub of its interface: schemas once, faults in words, secrets nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.registry import StubRegistry, stub_registry
from streamer.errors import ConfigError, RegistryUnreachable
from streamer.incremental.events.registered_schemas import NoSchemas, RegisteredSchema
from streamer.kafka.registry import SchemaRegistry, registry_from

CANARY = "Canary-4711"


@pytest.fixture
def stub() -> Iterator[StubRegistry]:
    with stub_registry(f"reader:{CANARY}") as stub:
        yield stub


def named(stub: StubRegistry, password: str = CANARY) -> SchemaRegistry:
    return SchemaRegistry(stub.url, ("reader", password))


def test_a_schema_is_asked_for_once_and_an_unknown_id_again(stub: StubRegistry) -> None:
    known, registry = stub.add("string"), named(stub)
    for _ in range(2):
        registry.learn([known, 999])
    assert isinstance(registry.known and registry.known[known], RegisteredSchema)
    assert registry.known is not None and 999 not in registry.known
    assert stub.asked == [f"GET /schemas/ids/{known}", *["GET /schemas/ids/999"] * 2]


def test_what_a_decoder_holds_grows_with_what_is_learned(stub: StubRegistry) -> None:
    registry = named(stub)
    held = registry.known
    registry.learn([stub.add("string")])
    assert held is not None and len(held) == 1


def test_a_refused_password_and_silence_stop_and_tell_no_secret(stub: StubRegistry) -> None:
    schema_id = stub.add("string")
    with pytest.raises(RegistryUnreachable, match=r"refuses us \(401\).*SCHEMA_REGISTRY_BASIC_AUTH") as refused:
        named(stub, f"{CANARY}-wrong").learn([schema_id])
    registry = named(stub)
    stub.shut()
    with pytest.raises(RegistryUnreachable, match="does not answer") as silent:
        registry.learn([schema_id])
    stub.open()
    registry.learn([schema_id])
    assert CANARY not in f"{refused.value!r} {silent.value!r} {registry!r} {vars(registry)!r}"


def test_a_page_that_is_no_registrys_never_means_that_an_id_is_unknown(stub: StubRegistry) -> None:
    registry = SchemaRegistry(f"{stub.url}/elsewhere", ("reader", CANARY))
    with pytest.raises(RegistryUnreachable, match=r"answers as no registry does \(404\)"):
        registry.learn([1])


def test_the_environment_names_the_registry_or_none(stub: StubRegistry, tmp_path: Path) -> None:
    assert isinstance(registry_from({}), NoSchemas)
    schema_id, secret = stub.add("string"), tmp_path / "secret"
    secret.write_text(f"reader:{CANARY}\n")
    for how in ({"SCHEMA_REGISTRY_BASIC_AUTH": f"reader:{CANARY}"}, {"SCHEMA_REGISTRY_BASIC_AUTH_FILE": str(secret)}):
        registry = registry_from({"SCHEMA_REGISTRY_URL": stub.url, **how})
        registry.learn([schema_id])
        assert registry.known is not None and schema_id in registry.known


@pytest.mark.parametrize(
    "settings",
    [
        {"SCHEMA_REGISTRY_URL": f"http://reader:{CANARY}@127.0.0.1:1"},
        {"SCHEMA_REGISTRY_URL": f"{CANARY}.example:8081"},
        {"SCHEMA_REGISTRY_URL": f"http://127.0.0.1:1/?token={CANARY}"},
        {"SCHEMA_REGISTRY_URL": "http://127.0.0.1:1", "SCHEMA_REGISTRY_BASIC_AUTH": CANARY},
        {"SCHEMA_REGISTRY_URL": "http://127.0.0.1:1", "SCHEMA_REGISTRY_BASIC_AUTH_FILE": f"nowhere/{CANARY}"},
        {"SCHEMA_REGISTRY_URL": "https://127.0.0.1:1", "SCHEMA_REGISTRY_CA": f"nowhere/{CANARY}"},
    ],
)
def test_wrong_settings_are_told_without_repeating_them(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="SCHEMA_REGISTRY") as wrong:
        registry_from(settings)
    assert CANARY not in f"{wrong.value!r}"


def test_a_schema_is_registered_once_and_its_id_outlives_the_registry(stub: StubRegistry) -> None:
    registry = named(stub)
    first = registry.register("people.live-key", '"string"')
    stub.shut()
    assert registry.register("people.live-key", '"string"') == first
    with pytest.raises(RegistryUnreachable, match="nothing is read or published"):
        registry.register("people.live-value", '"string"')
    stub.open()
    assert stub.subjects == {"people.live-key": first}
    assert stub.schemas[first] == {"schema": '"string"'}


@pytest.mark.parametrize(("code", "fault"), [(409, ConfigError), (422, ConfigError), (503, RegistryUnreachable)])
def test_a_schema_that_is_refused_is_told_and_a_registry_that_is_ill_waited_for(
    stub: StubRegistry, code: int, fault: type[Exception]
) -> None:
    registry = named(stub)
    stub.refuses = code
    with pytest.raises(fault, match=str(code)) as told:
        registry.register("people.live-key", '"string"')
    assert CANARY not in str(told.value) and "Canary: the schema" not in str(told.value)
    stub.refuses = None
    assert registry.register("people.live-key", '"string"') == 1


def test_nobody_registers_without_a_registry() -> None:
    with pytest.raises(ConfigError, match="SCHEMA_REGISTRY_URL names none"):
        NoSchemas().register("people.live-key", '"string"')
