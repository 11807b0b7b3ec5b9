"""Requests of operators to a shard, which come through the control topic, as values.

A record of `<table>.control` lies in the partition of its shard and says one of
`{"command":"skip","shard":0,"offset":1234}`,
`{"command":"rebuild","shard":0,"id":"5f0c…","at":1764000000,"algorithm":"ordered"}`,
`{"command":"cancel-rebuild","shard":0,"id":"77aa…","at":1764000000}`,
`{"command":"end-snapshot","shard":0,"since":1234}` and
`{"command":"retry","shard":0,"id":"90b1…","at":1764000000,"offsets":[17,42]}`. A record that cannot be read is ignored.
But one that says `"format":2`, or more, is a newer streamer's and may not be ignored by an older one.

One comes from the shard itself, of its sealed changelog:
`{"command":"epoch-over","shard":1,"epoch":12,"seconds":1764000000,"next":980,"retried":0,"truncations":0}`.
Former versions carried truncations from shard to shard, by the commands `truncate` and `truncated`.

One keeps a shard's secret against the loss of Redis, as it is or encrypted (`streamer.kafka.secret_records`):
`{"command":"secret","shard":1,"plain":"…"}`, `{"command":"secret","shard":1,"encrypted":"…"}`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from streamer.incremental import remedies
from streamer.incremental.store.codec import check_format

FORMAT = 1
"""Of these records, which say it from 2 on. Increase it when a command or a field is added."""

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
"""Names a request: the operator finds the answer by it, and a worker knows what it has done already."""

Seconds = Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]
"""Since 1970."""


TopicId = str
"""Of the input that is meant: offsets mean other messages in a recreated one. "" if the broker gives no ids."""


class _AnyRequest(
    msgspec.Struct, frozen=True, tag_field="command", tag="", forbid_unknown_fields=True, omit_defaults=True
):
    shard: int

    def to_json(self) -> bytes:
        """The record's value.

        >>> Skip(0, 1234).to_json()
        b'{"command":"skip","shard":0,"offset":1234}'
        """
        return msgspec.json.encode(self)


class Skip(_AnyRequest, frozen=True, tag="skip"):
    """One message of the input is to be skipped as a dead letter, whatever it says."""

    offset: int
    topic_id: TopicId = ""


class FullRebuild(_AnyRequest, frozen=True, tag="rebuild"):
    """The whole shard is to be anonymized again; algorithm: "" for the one of table.yaml."""

    id: Id
    at: Seconds
    algorithm: Annotated[str, msgspec.Meta(max_length=64)] = ""


class CancelRebuild(_AnyRequest, frozen=True, tag="cancel-rebuild"):
    """The running rebuild is to stop."""

    id: Id
    at: Seconds


class EndSnapshot(_AnyRequest, frozen=True, tag="end-snapshot"):
    """The snapshot that began at the source offset `since` is to be published as far as it has come."""

    since: int
    topic_id: TopicId = ""


class CarriedTruncation(_AnyRequest, frozen=True, tag="truncate", forbid_unknown_fields=False):
    """A truncation that another shard read: a former version carried it to this one."""


class PlacedTruncation(_AnyRequest, frozen=True, tag="truncated", forbid_unknown_fields=False):
    """A former version said where one took effect."""


class EpochOver(_AnyRequest, frozen=True, tag="epoch-over"):
    """The clock ended an epoch of the sealed changelog: before the source offset `next`, and does so in a replay.

    Some retries came before, too.
    """

    epoch: int
    seconds: Seconds
    next: int
    retried: int
    truncations: int  # 0; a former version counted them


RETRIES_MAX = 1_000
"""How many messages of a shard may be retried in all: every position that follows names all of them."""


class Retry(_AnyRequest, frozen=True, tag="retry"):
    """Refused messages of the input are to be retried; offsets: theirs, ascending."""

    id: Id
    at: Seconds
    offsets: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1, max_length=RETRIES_MAX)
    ]
    topic_id: TopicId = ""


class Secret(_AnyRequest, frozen=True, tag="secret"):
    """The shard's secret (`streamer.incremental.engine.tie_break`): in one of the two fields."""

    plain: bytes = b""  # in base64
    encrypted: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shard={self.shard})"

    def __rich_repr__(self) -> list[tuple[str, int]]:
        return [("shard", self.shard)]


Request = (
    Skip | FullRebuild | CancelRebuild | EndSnapshot | Retry | EpochOver | Secret | CarriedTruncation | PlacedTruncation
)  # fmt: skip


def skips_of(values: Iterable[bytes], shard: int, topic_id: str = "") -> frozenset[int]:
    """The offsets that the records of a shard's control partition name. topic_id: the input's.

    >>> sorted(skips_of([Skip(0, 7).to_json(), Skip(1, 8).to_json(), b"nonsense", Skip(0, 9).to_json()], 0))
    [7, 9]
    """
    requests = [request for request in map(read_request, values) if isinstance(request, Skip)]
    return frozenset(one.offset for one in requests if one.shard == shard and one.topic_id == topic_id)


def epochs_in(values: Iterable[bytes], shard: int) -> list[EpochOver]:
    """The ends of epochs in the records of a shard's control partition, in order."""
    return [one for one in map(read_request, values) if isinstance(one, EpochOver) and one.shard == shard]


def secrets_in(values: Iterable[bytes], shard: int) -> list[Secret]:
    """The records of the shard's secret in its control partition, in order."""
    return [one for one in map(read_request, values) if isinstance(one, Secret) and one.shard == shard]


def read_request(value: bytes) -> Request | None:
    """Reads a record of the control topic; None if it cannot be read.

    Raises ShardRefused if it is in a newer format: what a newer streamer asks of a shard may not be skipped.
    """
    try:
        check_format(value, FORMAT, "a record of the control topic", remedies.recreate_control())
        request: Request = msgspec.json.decode(value, type=Request)
    except msgspec.DecodeError:
        return None
    return request
