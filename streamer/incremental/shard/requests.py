"""What operators ask of shards through the control topic, as values.

A record of `<table>.control` lies in the partition of its shard and says
`{"command":"skip","shard":0,"offset":1234}`. What cannot be read is nobody's request.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Skip(
    msgspec.Struct, frozen=True, tag="skip", tag_field="command", forbid_unknown_fields=True, omit_defaults=True
):
    """One message of the input is to be passed over as a dead letter, whatever it says.

    topic_id: of the input that holds it, "" where the broker gives no ids: in one made anew, the offset is another's.
    """

    shard: int
    offset: int
    topic_id: str = ""

    def to_json(self) -> bytes:
        """The record's value.

        >>> Skip(0, 1234).to_json()
        b'{"command":"skip","shard":0,"offset":1234}'
        """
        return msgspec.json.encode(self)


def skips_of(values: Iterable[bytes], shard: int, topic_id: str = "") -> frozenset[int]:
    """The offsets that the records of a shard's control partition name. topic_id: the input's.

    >>> sorted(skips_of([Skip(0, 7).to_json(), Skip(1, 8).to_json(), b"nonsense", Skip(0, 9).to_json()], 0))
    [7, 9]
    """
    requests = [request for request in map(_read, values) if request is not None and request.shard == shard]
    return frozenset(request.offset for request in requests if request.topic_id == topic_id)


def _read(value: bytes) -> Skip | None:
    try:
        return msgspec.json.decode(value, type=Skip)
    except msgspec.DecodeError:
        return None
