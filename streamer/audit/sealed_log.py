"""The laws of a sealed changelog, from its bytes alone; they share nothing with its publisher.

A sealed changelog publishes *cohorts*: at least k people as one record, never altered, withdrawn only as a whole. The
first record that breaks a law is named by its partition, its number there (from 0, as its offset in a topic) and the
law, never by a value.

What bytes alone cannot show: that the values, boxes and counts are those of the source, that no one is in two cohorts,
and that whole epochs at the end were cut off. `streamer.audit.sealed_source` shows the first two, and the positions of
a topic the last one (`require_end`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import msgspec

from streamer.errors import LawViolated, UsageError
from streamer.privacy.models import cohort_model, of_values
from streamer.table.codes import decimal_text
from streamer.table.published.rows import Box, BoxReader, TextsReader, ValuesReader, all_box_columns
from streamer.table.row import Unshown, Values
from streamer.table.schema import Table

SEALED_LAWS = {
    "records": "a record is ADD, LIVE, RETIRE or EPOCH with exactly its members, in order, and its key is its cohort's "
    "id or epoch-<shard>; it has no headers",
    "once": "a cohort is added once; it lives or retires in a later epoch, and after its retirement nothing comes",
    "size": "a cohort has at least k rows",
    "sealed": "a cohort shows one value of each sensitive column per row, or none; no value has a larger share than "
    "alpha, and there are at least l of them",
    "box": "a box has the columns of the table and lies on the grid",
    "epochs": "epochs of a shard are numbered from 1 without gaps and end with EPOCH, which counts their records",
    "moment": "all records of an epoch have the time of its EPOCH",
    "order": "records of an epoch are in the order of their ids, so their order says nothing",
    "settings": "k, alpha and l stay as they are: another setting is another publication",
    "live": "the number of those who are left falls, is at least 1, and is below the number of rows",
    "ids": "ids are chance: half of their bits are set, and they do not follow the epochs",
}


NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # errors of reading the JSON of strangers


class SealedLine(NamedTuple):
    """One record as it was read; timestamp in milliseconds since 1970."""

    partition: int
    key: str
    value: bytes | None
    timestamp: int
    headers: int = 0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    partition: int
    key: str
    value: msgspec.Raw
    timestamp: int
    headers: int = 0


def read_sealed(lines: Iterable[bytes]) -> Iterator[SealedLine]:
    """The records of a sealed changelog in a file, one JSON object per line. Raises LawViolated."""
    decoder = msgspec.json.Decoder(_File)
    for number, line in enumerate(lines, start=1):
        try:
            one = decoder.decode(line)
        except NOT_JSON:
            form = '{"partition":0,"key":"..","value":{..},"timestamp":0}'
            raise LawViolated(f"line {number} is not a whole record of the form {form}") from None
        value = bytes(one.value)
        value_of = None if value == b"null" else value
        yield SealedLine(one.partition, one.key, value_of, one.timestamp, one.headers)


class AddSeen(Unshown, frozen=True, tag_field="record", tag="ADD", forbid_unknown_fields=True):
    """A cohort is published: n rows, their box, and their other values, or none."""

    cohort: str
    epoch: int
    n: int
    box: msgspec.Raw
    sensitive: list[list[msgspec.Raw]] | None


class LiveSeen(Unshown, frozen=True, tag_field="record", tag="LIVE", forbid_unknown_fields=True):
    """The number of those of a cohort who are left."""

    cohort: str
    epoch: int
    live: int


class RetireSeen(Unshown, frozen=True, tag_field="record", tag="RETIRE", forbid_unknown_fields=True):
    """A cohort is withdrawn."""

    cohort: str
    epoch: int


class EpochSeen(Unshown, frozen=True, tag_field="record", tag="EPOCH", forbid_unknown_fields=True):
    """An epoch of a shard is over."""

    epoch: int
    shard: int
    time: str
    adds: int
    retires: int
    lives: int
    k: int
    alpha: str
    l: int  # noqa: E741

    @property
    def settings(self) -> tuple[int, str, int]:
        return self.k, self.alpha, self.l


Seen = AddSeen | LiveSeen | RetireSeen | EpochSeen

_DECODER, _ENCODER = msgspec.json.Decoder(Seen), msgspec.json.Encoder()
_ID = re.compile(r"[0-9a-f]{32}")
_ALPHA = re.compile(r"[01](\.[0-9]{1,38})?")
_EPOCH_KEY = re.compile(r"epoch-(0|[1-9][0-9]{0,8})")


class CohortSeen:
    """A cohort that is published, with the number of those who are left."""

    __slots__ = ("box", "epoch", "left", "n", "size", "values")

    def __init__(self, epoch: int, n: int, box: Box | None, values: list[Values] | None, size: int = 0) -> None:
        self.epoch, self.n, self.left, self.box, self.values = epoch, n, n, box, values
        self.size = size  # bytes of the record, if it withholds the values


class EpochRecords(NamedTuple):
    """A whole epoch of one shard that holds every law; adds: the cohorts by id."""

    shard: int
    end: EpochSeen
    adds: dict[str, CohortSeen]
    retired: list[str]
    lives: dict[str, int]
    records: int


class _Broken(Exception):
    """A record breaks a law; the text says how."""

    def __init__(self, law: str, what: str) -> None:
        super().__init__(what)
        self.law = law


@contextmanager
def _named(partition: int, offset: int) -> Iterator[None]:
    """Names the record that is looked at, if it breaks a law."""
    try:
        yield
    except _Broken as broken:
        raise sealed_violation(broken.law, partition, offset, str(broken)) from None
    except NOT_JSON:
        raise sealed_violation("records", partition, offset, "it holds what is not JSON, or too deep") from None


class _ShardSeen:
    """One partition, as far as it has been read."""

    def __init__(self) -> None:
        self.offset = 0
        self.epoch = 0
        self.settings: tuple[int, str, int] | None = None
        self.time = -1
        self.cohorts: dict[str, CohortSeen] = {}
        self.open: list[tuple[int, SealedLine, Seen]] = []


class SealedLaws:
    """Follows a sealed changelog epoch by epoch.

    table: None: boxes are compared with each other only, and a row's values count as one, because which of them are
    sensitive is not known. ids: every id that ever was.
    """

    def __init__(self, table: Table | None = None) -> None:
        self._table = table
        self._shards: dict[int, _ShardSeen] = {}
        self._columns: tuple[str, ...] | None = None if table is None else all_box_columns(table)
        self._box = None if table is None else BoxReader(table)
        self._values = None if table is None else ValuesReader(table)
        self._shows = None  # beyond alpha and l, which every epoch says
        if table is not None and table.sealed is not None and any(c.diversity or c.distribution for c in table.kept):
            self._shows = of_values(table, cohort_model(table, table.sealed))
        self.ids: dict[str, int] = {}  # in the order of their epochs -> epoch
        self.records = 0

    @property
    def alpha(self) -> str:
        """The largest share that a value may have, by the log; "" before an epoch is over."""
        return next((shard.settings[1] for shard in self._shards.values() if shard.settings), "")

    @property
    def cohorts(self) -> dict[str, CohortSeen]:
        """The cohorts that are published now, by id."""
        return {name: cohort for shard in self._shards.values() for name, cohort in shard.cohorts.items()}

    def follow(self, lines: Iterable[SealedLine]) -> Iterator[EpochRecords]:
        """Checks the records; yields each epoch when it is over. Raises LawViolated at the first bad record.

        Raises UsageError for a log without any.
        """
        for line in lines:
            shard = self._shards.setdefault(line.partition, _ShardSeen())
            offset, shard.offset = shard.offset, shard.offset + 1
            self.records += 1
            with _named(line.partition, offset):
                seen = self._read(line)
            shard.open.append((offset, line, seen))
            if isinstance(seen, EpochSeen):
                yield self._end_epoch(line.partition, shard, seen)
        for partition, shard in self._shards.items():
            if shard.open:
                raise sealed_violation(
                    "epochs", partition, shard.offset, "the log ends within an epoch, without its EPOCH"
                )
        if not self.records:
            raise UsageError("the log has no record, so there is nothing to audit: no epoch was over")
        if wrong := what_ids_show(self.ids):
            raise LawViolated(f"law 'ids' is broken by all records together: {wrong}")

    def require_end(self, published: Mapping[int, int]) -> None:
        """Raises LawViolated if epochs are missing at the end. published: the last one of each shard."""
        for partition, epoch in sorted(published.items()):
            found = self._shards.get(partition) or _ShardSeen()
            if found.epoch < epoch:
                what = (
                    f"the log ends with epoch {found.epoch}, and the shard has published {epoch}: the end was cut off"
                )
                raise sealed_violation("epochs", partition, found.offset, what)

    # -- one record -------------------------------------------------------------------------------------------------

    def _read(self, line: SealedLine) -> Seen:
        if line.headers:
            raise _Broken("records", "it has headers, and a sealed changelog has none")
        if line.value is None:
            raise _Broken("records", "it is a tombstone, and a sealed changelog has none")
        try:
            seen: Seen = _DECODER.decode(line.value)
        except msgspec.MsgspecError:
            raise _Broken("records", "it is of no known kind, or has not exactly the members of its kind") from None
        if _ENCODER.encode(seen) != line.value:
            raise _Broken("records", "its members are not in their order, or not written without spaces")
        if isinstance(seen, EpochSeen):
            match = _EPOCH_KEY.fullmatch(line.key)
            if match is None or not int(match[1]) == seen.shard == line.partition:
                raise _Broken("records", "the key of EPOCH is not epoch- and the number of its partition")
        elif _ID.fullmatch(seen.cohort) is None or line.key != seen.cohort:
            raise _Broken("records", "its key is not the id of its cohort, 32 hexadecimal digits")
        return seen

    # -- one epoch --------------------------------------------------------------------------------------------------

    def _end_epoch(self, partition: int, shard: _ShardSeen, end: EpochSeen) -> EpochRecords:
        """Checks all records of an epoch, which EPOCH has ended."""
        before = ""
        found = EpochRecords(partition, end, {}, [], {}, len(shard.open))
        with _named(partition, shard.offset - 1):
            alpha, moment = _alpha_of(end), _milliseconds(end.time)
        for offset, line, seen in shard.open:
            with _named(partition, offset):
                self._check_frame(shard, line, seen, moment, before)
                if isinstance(seen, AddSeen):
                    found.adds[seen.cohort] = self._added(seen, end, alpha)
                elif isinstance(seen, EpochSeen):
                    self._check_end(shard, end, moment, found)
                else:
                    self._check_cohort(shard, seen, found)
            before = line.key
        shard.open.clear()
        shard.epoch, shard.settings, shard.time = end.epoch, end.settings, moment
        self._take_over(shard, found)
        return found

    def _check_frame(self, shard: _ShardSeen, line: SealedLine, seen: Seen, moment: int, before: str) -> None:
        if seen.epoch != shard.epoch + 1:
            raise _Broken("epochs", f"it says epoch {seen.epoch}, and the epoch after {shard.epoch} is expected")
        if line.timestamp != moment:
            raise _Broken("moment", "its timestamp is not the time that the EPOCH of its epoch says")
        if not isinstance(seen, EpochSeen) and line.key <= before:
            raise _Broken("order", "its id is not above that of the record before it")

    def _check_cohort(self, shard: _ShardSeen, seen: LiveSeen | RetireSeen, found: EpochRecords) -> None:
        cohort = shard.cohorts.get(seen.cohort)
        if cohort is None:
            was = "was retired before" if seen.cohort in self.ids else "is added in no earlier epoch of its shard"
            raise _Broken("once", f"its cohort {was}")
        if isinstance(seen, RetireSeen):
            found.retired.append(seen.cohort)
            return
        if not 0 < seen.live < cohort.left:
            raise _Broken("live", f"{seen.live} are left, after {cohort.left} of {cohort.n}")
        found.lives[seen.cohort] = seen.live

    def _check_end(self, shard: _ShardSeen, end: EpochSeen, moment: int, found: EpochRecords) -> None:
        if any(end.settings != one.settings for one in self._shards.values() if one.settings is not None):
            raise _Broken("settings", "k, alpha or l differ from those of an epoch before")
        if self._table is not None and end.k != self._table.k:
            raise _Broken("settings", f"k is {end.k}, and table.yaml says {self._table.k}")
        rules = None if self._table is None else self._table.sealed
        if rules is not None and (Decimal(end.alpha), end.l) != (rules.alpha, rules.l):
            raise _Broken("settings", f"alpha, l are {end.alpha}, {end.l}; table.yaml says {rules.alpha} and {rules.l}")
        if moment < shard.time:
            raise _Broken("moment", "it is earlier than the epoch before")
        counts = len(found.adds), len(found.retired), len(found.lives)
        if (end.adds, end.retires, end.lives) != counts:
            raise _Broken(
                "epochs", f"it counts {(end.adds, end.retires, end.lives)} ADD, RETIRE, LIVE: there are {counts}"
            )

    def _take_over(self, shard: _ShardSeen, found: EpochRecords) -> None:
        shard.cohorts |= found.adds
        self.ids |= dict.fromkeys(found.adds, found.end.epoch)
        for name, left in found.lives.items():
            shard.cohorts[name].left = left
        for name in found.retired:
            del shard.cohorts[name]

    # -- one cohort -------------------------------------------------------------------------------------------------

    def _added(self, seen: AddSeen, end: EpochSeen, alpha: Decimal) -> CohortSeen:
        if seen.cohort in self.ids:
            raise _Broken("once", "its cohort was added before")
        if seen.n < end.k:
            raise _Broken("size", f"it has {seen.n} rows, and k is {end.k}")
        box = self._box_of(seen)
        if seen.sensitive is None:
            return CohortSeen(seen.epoch, seen.n, box, None, len(_ENCODER.encode(seen)))
        rows = [tuple(map(bytes, row)) for row in seen.sensitive]
        if len(rows) != seen.n:
            raise _Broken("sealed", f"it has {seen.n} rows and {len(rows)} lists of values")
        if rows != sorted(rows):
            raise _Broken("sealed", "its values are not in order, so their order may say something")
        if not all(map(_is_canonical, {value for row in rows for value in row})):
            raise _Broken("sealed", "a value is not written as it has to be")
        width = len(rows[0])
        if set(map(len, rows)) != {width} or (self._table is not None and width != len(self._table.kept)):
            raise _Broken("sealed", "a row has not one value for each published column")
        for column in self._columns_of(rows):
            counts = Counter(column)
            if max(counts.values()) > alpha * seen.n:
                raise _Broken(
                    "sealed", f"a value has {max(counts.values())} of {seen.n} rows, and alpha is {end.alpha}"
                )
            if len(counts) < end.l:
                raise _Broken("sealed", f"it has {len(counts)} different values, and l is {end.l}")
        if self._shows is not None and not self._shows(rows):
            raise _Broken("sealed", "it shows values that break what table.yaml demands of a column")
        self._check_values(rows)
        return CohortSeen(seen.epoch, seen.n, box, rows)

    def _columns_of(self, rows: list[Values]) -> list[list[Hashable]]:
        """The sensitive columns as they count; without a table the rows as they are, which never asks for too much."""
        if self._table is None:
            return [[*rows]]
        counted = self._table.counted_value
        return [[counted(row[i]) for row in rows] for i in self._table.sensitive]

    def _check_values(self, rows: list[Values]) -> None:
        try:
            if self._values is not None and [self._values.read(row) for row in rows] != rows:
                raise _Broken("sealed", "a value is not written as it has to be")
        except LawViolated as error:
            raise _Broken("sealed", str(error)) from None

    def _box_of(self, seen: AddSeen) -> Box | None:
        """The box in cells; None without a table."""
        try:
            members = msgspec.json.decode(seen.box, type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:
            raise _Broken("box", "it is not an object") from None
        texts = [*map(bytes, members.values())]
        if _ENCODER.encode(members) != bytes(seen.box) or not all(map(_is_canonical, texts)):
            raise _Broken("box", "it is not written as it has to be")
        if not all(text[0] in b'"-0123456789' for text in texts):
            raise _Broken("box", "it has something that is neither text nor number")
        if self._columns is None:
            self._columns = tuple(members)
        if tuple(members) != self._columns:
            raise _Broken("box", "it has not the columns of the other boxes, or not in their order")
        if self._box is None:
            return None
        try:
            return self._box.read(TextsReader(self._columns).read(bytes(seen.box)))
        except LawViolated as error:
            raise _Broken("box", str(error)) from None


SIGMAS = 6  # standard deviations beyond which ids are not taken for chance: one log of true chance in 10^8 is
IDS_MIN = 3


def what_ids_show(ids: dict[str, int]) -> str:
    """Says what is not chance in ids with the epoch of each, as far as simple tests show; "" if nothing.

    >>> what_ids_show({f"{number:032x}": 1 for number in range(1, 9)})
    'too few or too many of their bits are set'
    """
    n = len(ids)
    if n < IDS_MIN:
        return ""
    numbers = [int(text, 16) for text in ids]
    ones = sum(number.bit_count() for number in numbers)
    if abs(ones - 64 * n) > SIGMAS * sqrt(32 * n):
        return "too few or too many of their bits are set"
    places = [sum(number >> place & 1 for number in numbers) for place in range(128)]
    if n > SIGMAS**2 and any(abs(count - n / 2) > SIGMAS * sqrt(n / 4) for count in places):
        return "one of their bits is nearly always the same"
    epochs = list(ids.values())
    mean_id, mean_epoch = sum(numbers) / n, sum(epochs) / n
    together = sum((a - mean_id) * (b - mean_epoch) for a, b in zip(numbers, epochs, strict=True))
    spread = sqrt(sum((a - mean_id) ** 2 for a in numbers)) * sqrt(sum((b - mean_epoch) ** 2 for b in epochs))
    if n > SIGMAS**2 and spread and abs(together / spread) * sqrt(n) > SIGMAS:
        return "they follow the epochs"
    return ""


def sealed_facts(laws: SealedLaws) -> dict[str, int]:
    """Counts of what is published at the end of a sealed changelog, from its bytes."""
    cohorts = laws.cohorts.values()
    rows, left = sum(c.n for c in cohorts), sum(c.left for c in cohorts)
    return {
        "records": laws.records,
        "cohorts": len(cohorts),
        "rows": rows,
        "ghosts": rows - left,
        "withheld_rows": sum(c.n for c in cohorts if c.values is None),
    }


def sealed_violation(law: str, partition: int, offset: int, what: str) -> LawViolated:
    """A broken law in one sentence, with the record that breaks it."""
    return LawViolated(f"law {law!r} is broken by record {offset} of partition {partition}: {what}")


def _alpha_of(end: EpochSeen) -> Decimal:
    alpha = Decimal(end.alpha) if _ALPHA.fullmatch(end.alpha) else Decimal(0)
    if not (0 < alpha <= 1 and decimal_text(alpha) == end.alpha and end.k > 1 and end.l > 0):
        raise _Broken("settings", "k, alpha or l is not a setting of any table")
    return alpha


def _milliseconds(time: str) -> int:
    form = "%Y-%m-%dT%H:%M:%SZ"
    try:
        moment = datetime.strptime(time, form).replace(tzinfo=UTC)
    except ValueError:
        moment = None
    if moment is None or moment.strftime(form) != time:
        raise _Broken("moment", "its time is not written as in 2026-11-26T10:00:00Z")
    return int(moment.timestamp()) * 1000


@lru_cache(1 << 16)
def _is_canonical(text: bytes) -> bool:
    """True if a JSON text has no spaces, nor needless escapes in a string: such a one would count as another value."""
    if text.startswith(b'"'):
        return _ENCODER.encode(msgspec.json.decode(text)) == text
    return msgspec.json.format(text, indent=-1) == text
