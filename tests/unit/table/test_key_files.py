"""Keys of pseudonyms: which files are keys, and that a key stays where it is."""

from __future__ import annotations

import pickle
import stat
from pathlib import Path

import pytest

from streamer.errors import ConfigError, UsageError
from streamer.table.key_files import make_key, read_key


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_key(tmp_path / "readers.key")
    return tmp_path / "readers.key"


def test_a_new_key_is_for_its_owner_alone_and_replaces_no_other(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_text()
    with pytest.raises(UsageError, match=r"readers\.key: exists already and is not overwritten"):
        make_key(path)
    assert path.read_text() == before
    make_key(path.with_name("others.key"))
    assert read_key(path) != read_key(path.with_name("others.key"))


@pytest.mark.parametrize("place", ["nowhere/readers.key", "readers.key/below"])
def test_a_place_that_cannot_be_written_is_named(path: Path, place: str) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        make_key(path.parent / place)


def test_blanks_and_capitals_are_no_part_of_a_key(path: Path) -> None:
    before = read_key(path)
    path.write_text(f"  {path.read_text().upper()}\n\n")
    assert read_key(path) == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "too short"),
        ("ab" * 31, "too short"),
        ("a passphrase that is long enough for anybody to remember, but is no key", "is not a key"),
        ("0" * 63, "is not a key"),
        ("\u00e4" * 64, "is not a key"),
    ],
)
def test_what_is_no_key_is_refused_without_its_text(path: Path, text: str, says: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=says) as refused:
        read_key(path)
    assert len(text) < 10 or text not in str(refused.value)


@pytest.mark.parametrize(("mode", "is_fine"), [(0o600, True), (0o640, True), (0o644, False), (0o602, False)])
def test_a_key_that_everybody_may_read_is_refused(path: Path, mode: int, is_fine: bool) -> None:
    path.chmod(mode)
    if is_fine:
        assert read_key(path).secret
    else:
        with pytest.raises(ConfigError, match="everybody may read or write this key"):
            read_key(path)


def test_a_folder_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the key cannot be read: Is a directory"):
        read_key(tmp_path)


def test_a_key_that_is_not_there_is_missed_only_where_it_is_needed(tmp_path: Path) -> None:
    key = read_key(tmp_path / "readers.key")
    for needs in (lambda: key.check, lambda: key.mac(b"x")):
        with pytest.raises(ConfigError, match=r"readers\.key: the key, .* cannot be read: No such file"):
            needs()


def test_no_key_gets_into_a_repr_or_a_pickle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    key = read_key(Path(path.name))
    text, pickled = path.read_text().strip(), pickle.dumps(key)
    assert text not in repr(key) and repr(key.secret) not in repr(key)
    assert key.secret not in pickled and text.encode() not in pickled
    monkeypatch.chdir("/")
    assert pickle.loads(pickled) == key
