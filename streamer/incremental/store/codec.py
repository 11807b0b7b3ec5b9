"""The state of a shard as bytes, and back.

The rules of this file
----------------------
* Every value is one msgpack array whose first element is `FORMAT_VERSION`: field names would cost more than the
  content. Raise the version whenever the shape of a value changes, even by one more field: a reader that skipped what
  it does not know would go on with a part of what was kept.
* An earlier format is read as long as it is a beginning of this one. A later one is refused; the message names both.
* Reading trusts nothing: the decoders are typed. Bytes that do not fit raise ShardRefused, which names the kind of
  value and its format, never what is in it. Every `decode_` function does so.
* A value of the outbox begins with the number of its commit as text, so that a store can trim by commit without
  decoding. Its entries are deflated together: the rows of a QI group have most of their bytes in common.
* A similarity list is a hint that decides nothing: one that cannot be read is none, and is not refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Literal, NoReturn, TypeVar

import msgspec

from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.last_changes import Remembered
from streamer.incremental.engine.stored_state import Degrees, How, Origin, QIGroupState, Record, SimilarityList
from streamer.incremental.events.changes import Counts
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import SealedMark, SealedPlace, StoredCohort
from streamer.incremental.store.base import Adopted, LastRead, Meta, Progress, Snapshot
from streamer.table.row import Row, Values
from streamer.table.schema import ENGINE_VERSION, precedes, version_of

# Whatever is kept longer than a process runs (values in Redis, positions and requests in Kafka) has the number of its
# format. A streamer that meets a higher one than it knows stops: what it would skip may matter.


class _Numbered(msgspec.Struct):
    """A JSON object with the number of its format; 1 if it says none."""

    format: int = 1


_numbered = msgspec.json.Decoder(_Numbered).decode


def unread(found: int, known: int, mend: str) -> str:
    """Words about a thing in a format that is not read; known: the newest format that is; mend: what else to do.

    >>> unread(7, 5, "reload it")
    'is in format 7, and this streamer reads up to format 5: run the version that wrote it, or reload it'
    """
    reads = f"up to format {known}" if found > known else f"format {known}"
    return f"is in format {found}, and this streamer reads {reads}: run the version that wrote it, or {mend}"


def check_format(json: bytes, known: int, what: str, mend: str) -> None:
    """Raises ShardRefused if a JSON object names a newer format than `known`; DecodeError if it is no object."""
    found = _numbered(json).format
    if found > known:
        raise ShardRefused(f"{what} {unread(found, known, mend)}")


FORMAT_VERSION = 7
"""Since 5 a row says which of its quasi-identifiers are null; since 6 a shard says which message it read last; since 7
a value of the outbox holds many entries.
"""

FORMAT_READ_FIRST = 4

T = TypeVar("T")
_Version = Literal[4, 5, 6, 7]  # FORMAT_READ_FIRST to FORMAT_VERSION, as the decoders want them
_Cells = tuple[int, ...]
_Texts = tuple[str, ...]

UNREADABLE = (msgspec.MsgspecError, ValueError)  # ValueError: text that is not UTF-8, an array that is too short

ENTRIES_AT_ONCE = 1_000
"""Entries of one value of the outbox, at most."""

STORED_DIGITS_MAX = 20
"""Of a number that is stored as text: Python refuses thousands of digits with another error."""

_encode = msgspec.msgpack.Encoder().encode


class _StoredRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: _Version
    codes: _Cells
    values: Values
    exact: _Texts
    individual: str | None
    qi_group: int
    nulls: _Cells = ()


_record = msgspec.msgpack.Decoder(_StoredRecord).decode
_qi_group = msgspec.msgpack.Decoder(tuple[_Version, _Cells, _Cells, _Texts, tuple[Values, ...]]).decode


class _StoredCounts(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The fields of `Counts`; those with a default may be missing."""

    applied: int
    ignored: int
    dead_letters: int
    unknown_keys: int
    unlisted: dict[str, int] = {}
    respelt_keys: int = 0
    old_reads: int = 0
    explaining: int = 0


class _StoredMeta(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The fields of `Meta` after the version; those with a default may be missing."""

    version: _Version
    commit: int
    next: int
    release: int
    qi_group_next: int
    outside: int
    digest: int
    counts: _StoredCounts
    shards: int
    fingerprint: str
    topic_ids: dict[str, str]
    key_form: str
    skipped: _Cells
    secret: bytes
    rebuild: Progress | None = None
    rebuilds: tuple[Progress, ...] = ()
    snapshot: Snapshot | None = None
    control_next: int = 0
    truncated: dict[str, object] | None = None  # this and the next two: of former versions, see `FORMER`
    truncations: int = 0
    log_seen: bool = False
    retried: tuple[tuple[int, int], ...] = ()
    letters_from: int = 0
    read: LastRead | None = None
    entries: int = 0
    whole: int = 0
    begins: dict[str, int] = {}
    last_of: dict[str, int] = {}
    whole_at: int = 0
    adopted: tuple[Adopted, ...] = ()
    sealed: SealedMark | None = None


FORMER = {"truncated": None, "truncations": 0, "log_seen": False}
"""Former versions kept truncations that shards carried to each other: they are read, and not used."""

FORMER_AT = [field.name for field in fields(Meta)].index("retried")

_LATER: list[object] = [
    field.default if field.default_factory is MISSING else field.default_factory() for field in fields(Meta)[13:]
]
"""Defaults of the fields added since the format began; the last ones are not written if they have them."""

_LATER[FORMER_AT - 13 : FORMER_AT - 13] = FORMER.values()

_fields_of = attrgetter(*(field.name for field in fields(Meta)))
_counts_of = attrgetter(*Counts.__struct_fields__)  # the encoder would name them

COUNTS_FORMER = 4
"""Fields of `Counts` in the format; later ones are left out if they say nothing."""

COUNTS_AT = [field.name for field in fields(Meta)].index("counts")
FINGERPRINT_AT = _StoredMeta.__struct_fields__.index("fingerprint")

_meta = msgspec.msgpack.Decoder(_StoredMeta).decode
_similarity = msgspec.msgpack.Decoder(tuple[_Version, int, Degrees]).decode
_origin = msgspec.msgpack.Decoder(tuple[_Version, How, int]).decode
_place = msgspec.msgpack.Decoder(tuple[_Version, SealedPlace]).decode
_cohort = msgspec.msgpack.Decoder(tuple[_Version, StoredCohort]).decode
_remembered = msgspec.msgpack.Decoder(tuple[_Version, Remembered]).decode
_deflated = msgspec.msgpack.Decoder(tuple[_Version, bytes]).decode
_entries = msgspec.msgpack.Decoder(list[OutboxEntry]).decode
_former_entry = msgspec.msgpack.Decoder(tuple[_Version, str, bytes, bytes | None]).decode


def encode_record(record: Record) -> bytes:
    row = record.row
    return _encode((FORMAT_VERSION, row.codes, row.values, row.exact, row.individual, record.qi_group, row.nulls))


def decode_record(data: bytes) -> Record:
    try:
        said = _record(data)
    except UNREADABLE:
        _refuse("row of the index table", data)
    return Record(Row(said.codes, said.values, said.exact, said.individual, said.nulls), said.qi_group)


def encode_qi_group(state: QIGroupState) -> bytes:
    return _encode((FORMAT_VERSION, state.lo, state.hi, state.members, state.slots))


def decode_qi_group(data: bytes) -> QIGroupState:
    try:
        _, lo, hi, members, slots = _qi_group(data)
    except UNREADABLE:
        _refuse("QI group", data)
    return QIGroupState(lo, hi, members, slots)


def encode_origin(origin: Origin) -> bytes:
    return _encode((FORMAT_VERSION, origin.how, origin.commit))


def decode_origin(data: bytes) -> Origin:
    _, how, commit = _decoded(_origin, data, "origin of a QI group")
    return Origin(how, commit)


def encode_place(place: SealedPlace) -> bytes:
    return _encode((FORMAT_VERSION, place))


def decode_place(data: bytes) -> SealedPlace:
    return _decoded(_place, data, "place in the sealed changelog")[1]


def encode_cohort(cohort: StoredCohort) -> bytes:
    return _encode((FORMAT_VERSION, cohort))


def decode_cohort(data: bytes) -> StoredCohort:
    return _decoded(_cohort, data, "sealed cohort")[1]


def encode_remembered(remembered: Remembered) -> bytes:
    return _encode((FORMAT_VERSION, remembered))


def decode_remembered(data: bytes) -> Remembered:
    return _decoded(_remembered, data, "position of a change")[1]


def _decoded(decode: Callable[[bytes], T], data: bytes, kind: str) -> T:
    try:
        return decode(data)
    except UNREADABLE:
        _refuse(kind, data)


def decode_number(data: bytes) -> int:
    """The number of a QI group, which is stored as text, exactly as we write it."""
    if not (data.isdigit() and len(data) <= STORED_DIGITS_MAX and b"%d" % int(data) == data):
        raise ShardRefused(f"store: the number of a QI group is damaged; {remedies.reload()}")
    return int(data)


def encode_similarity(similar: SimilarityList) -> bytes:
    return _encode((FORMAT_VERSION, similar.commit, similar.neighbours))


def decode_similarity(data: bytes) -> SimilarityList | None:
    """A similarity list; None if it is of another format: older streamers kept the degrees in sorted sets."""
    try:
        _, commit, neighbours = _similarity(data)
    except UNREADABLE:
        return None
    return SimilarityList(neighbours, commit)


def encode_meta(meta: Meta) -> bytes:
    """The fields of `Meta` in the order of their declaration, and `FORMER` among them."""
    said = list(_fields_of(meta))
    counts = list(_counts_of(meta.counts))
    while not counts[-1] and len(counts) > COUNTS_FORMER:
        counts.pop()
    said[COUNTS_AT] = counts
    said[FORMER_AT:FORMER_AT] = FORMER.values()
    for default in reversed(_LATER):
        if said[-1] != default:
            break
        said.pop()
    return _encode((FORMAT_VERSION, *said))


def decode_meta(data: bytes) -> Meta:
    said = msgspec.structs.asdict(_decoded(_meta, data, "meta"))
    for name in ("version", *FORMER):
        del said[name]
    return Meta(**said | {"counts": Counts(**msgspec.structs.asdict(said["counts"]))})


def encode_outbox(commit: int, entries: Sequence[OutboxEntry]) -> list[bytes]:
    """The outbox of a commit: for every ENTRIES_AT_ONCE entries the commit's number as text, a colon, the entries."""
    parts = (entries[first : first + ENTRIES_AT_ONCE] for first in range(0, len(entries), ENTRIES_AT_ONCE))
    deflated = (zlib.compress(_encode(some), zlib.Z_BEST_SPEED) for some in parts)
    return [b"%d:%b" % (commit, _encode((FORMAT_VERSION, some))) for some in deflated]


def commit_of(data: bytes) -> int:
    """The commit of a value of the outbox, without decoding its entries.

    >>> commit_of(*encode_outbox(17, [OutboxEntry("live", b"{}", None)]))
    17
    """
    number, colon, _ = data.partition(b":")
    if not (colon and number.isdigit() and len(number) <= STORED_DIGITS_MAX):
        raise ShardRefused(f"store: an outbox entry without its commit number; {remedies.reset_redis_and_reload()}")
    return int(number)


def decode_outbox(data: bytes) -> list[tuple[int, OutboxEntry]]:
    """The entries, each with its commit; before format 7 a value held one."""
    commit, packed = commit_of(data), data.partition(b":")[2]
    with suppress(msgspec.MsgspecError):
        return [(commit, OutboxEntry(*_former_entry(packed)[1:]))]
    try:
        return [(commit, entry) for entry in _entries(zlib.decompress(_deflated(packed)[1]))]
    except (*UNREADABLE, zlib.error):
        _refuse("outbox entry", packed)


def _refuse(kind: str, data: bytes) -> NoReturn:
    """Raises ShardRefused for bytes that are not a `kind` of this format."""
    mend = remedies.reset_redis_and_reload() if kind in ("meta", "outbox entry") else remedies.reload()
    try:
        said = msgspec.msgpack.decode(data, type=list[msgspec.Raw])
        version = msgspec.msgpack.decode(said[0], type=int)
    except (*UNREADABLE, IndexError):
        raise ShardRefused(f"store: a {kind} is damaged; {mend}") from None
    if FORMAT_READ_FIRST <= version <= FORMAT_VERSION:
        if kind == "meta":
            _refuse_newer(said, mend)
        raise ShardRefused(f"store: a {kind} is damaged (format {version}); {mend}") from None
    raise ShardRefused(f"store: a {kind} {unread(version, FORMAT_VERSION, mend)}") from None


def _refuse_newer(said: list[msgspec.Raw], mend: str) -> None:
    """Raises ShardRefused for the meta of a newer streamer, which has more fields, or was kept by a newer engine."""
    try:
        engine = version_of(msgspec.msgpack.decode(said[FINGERPRINT_AT], type=str))
    except (*UNREADABLE, IndexError):
        return
    known, ours = len(_StoredMeta.__struct_fields__), f"{ENGINE_VERSION}"
    if len(said) > known or precedes(ours, engine):
        raise ShardRefused(
            f"store: a meta of {len(said)} fields, kept by engine version {engine or 'unknown'}, is a newer "
            f"streamer's: this one reads {known} fields, and its engine version is {ours}; run the newer streamer, or "
            f"{mend}"
        ) from None
