"""What a shard's state was kept by: the engine's version, and a hash of every part of table.yaml that decides about it.

The parts stand side by side in one text, `engine-version:6 columns:1f0c… privacy:…`, so that a streamer that meets
another one can say what differs. A version is told as it is, a part of table.yaml by its hash alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

VERSION = "engine-version"
DIGEST_BYTES = 8


class Differences(NamedTuple):
    """Two versions of the engine, and the parts of table.yaml, that differ.

    versions: the one that kept the state ("" where it did not say so) and ours; None: it is the same.
    """

    versions: tuple[str, str] | None
    parts: tuple[str, ...]


def fingerprint_of(version: str, parts: Mapping[str, Iterable[str]]) -> str:
    """The text of an engine's version and of what table.yaml says, by part.

    >>> fingerprint_of("6", {"privacy": ["k 5"]})
    'engine-version:6 privacy:3cb2877fcbf2dbc8'
    """
    return " ".join([f"{VERSION}:{version}", *(f"{name}:{_hash(said)}" for name, said in parts.items())])


def differences(kept: str, ours: str) -> Differences:
    """What differs between the fingerprint of a state and ours.

    >>> differences("engine-version:5 columns:aa privacy:bb", "engine-version:6 columns:aa privacy:cc")
    Differences(versions=('5', '6'), parts=('privacy',))
    """
    before, now = _parts_of(kept), _parts_of(ours)
    version = before.pop(VERSION, ""), now.pop(VERSION, "")
    parts = tuple(name for name in {**now, **before} if before.get(name) != now.get(name)) if before else ()
    return Differences(None if version[0] == version[1] else version, parts)


def _parts_of(fingerprint: str) -> dict[str, str]:
    """The parts by name; none of a fingerprint that is one hash, as streamers before engine version 6 kept it."""
    return dict(part.split(":", 1) for part in fingerprint.split(" ") if ":" in part)


def _hash(said: Iterable[str]) -> str:
    return hashlib.blake2b("\x1e".join(said).encode(), digest_size=DIGEST_BYTES).hexdigest()
