"""A shard's secret as a record of the control topic, in every state of the operator's key."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from streamer.errors import ConfigError, ShardRefused
from streamer.incremental.shard.input import KeptSecret
from streamer.incremental.shard.requests import Secret, secrets_in
from streamer.kafka import SECRET_KEY, SECRET_KEY_FILE
from streamer.kafka.secret_records import kept_in, record_of, secret_keys

SECRET = b"thirty-two bytes of a shard's own"
OLD, NEW = (urlsafe_b64encode(letter * 32).decode() for letter in (b"o", b"n"))  # the same in every test process


def keys(said: str) -> list[Fernet]:
    return secret_keys({SECRET_KEY: said})


def secret_found(written: list[str], now: str) -> KeptSecret:
    """What is found with some keys now, if a record was written with each of the others."""
    values = [record_of(1, SECRET, keys(one)).to_json() for one in written]
    return kept_in(secrets_in([b"{}", b'{"command":"skip","shard":1,"offset":3}', *values], 1), keys(now), "people", 1)


@pytest.mark.parametrize(
    ("written", "now", "is_current"),
    [
        ([""], "", True),
        ([OLD], OLD, True),
        ([""], OLD, False),  # a key was given later
        ([OLD], f"{NEW},{OLD}", False),  # the key is being replaced
        ([OLD, NEW], f"{NEW},{OLD}", True),
        ([OLD, NEW], NEW, True),
        (["", NEW], "", True),
    ],
)
def test_a_secret_is_read_with_every_key_and_said_again_until_the_first_one_encrypts_it(
    written: list[str], now: str, is_current: bool
) -> None:
    assert secret_found(written, now) == KeptSecret(SECRET, is_current)


@pytest.mark.parametrize(("now", "why"), [("", "and STREAMER_SECRET_KEY is not set"), (NEW, "by another key than")])
def test_a_secret_that_no_key_decrypts_is_refused_by_the_variables_name(now: str, why: str) -> None:
    with pytest.raises(ShardRefused, match=why) as refused:
        secret_found([OLD], now)
    assert "delete people.control" in str(refused.value)


def test_a_shard_without_a_record_has_no_secret_yet() -> None:
    assert secret_found([], OLD) == secret_found([], "") == KeptSecret()


def test_no_record_shows_its_secret_in_a_log_line_and_an_encrypted_one_not_at_all() -> None:
    plain, encrypted = (record_of(1, SECRET, keys(one)) for one in ("", OLD))
    assert "thirty" not in f"{plain!r} {encrypted!r} {KeptSecret(SECRET)!r}"
    assert encrypted.plain == b"" and Secret(1).plain == b""


def test_keys_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    found = secret_keys({SECRET_KEY_FILE: str(file)})
    assert kept_in([record_of(0, SECRET, keys(NEW))], found, "people", 0) == KeptSecret(SECRET, is_current=True)
    assert kept_in([record_of(0, SECRET, keys(OLD))], found, "people", 0) == KeptSecret(SECRET, is_current=False)


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({SECRET_KEY: "canary"}, "STREAMER_SECRET_KEY: expected 32 bytes"),
        ({SECRET_KEY: f"{OLD},canary"}, "STREAMER_SECRET_KEY: expected 32 bytes"),
        ({SECRET_KEY: OLD, SECRET_KEY_FILE: "canary"}, "are both set"),
        ({SECRET_KEY_FILE: "canary/missing"}, "STREAMER_SECRET_KEY_FILE: cannot be read"),
        ({SECRET_KEY_FILE: "/dev/null"}, "STREAMER_SECRET_KEY_FILE: expected 32 bytes"),
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(environment: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        secret_keys(environment)
    assert "canary" not in str(refused.value) and OLD not in str(refused.value)
