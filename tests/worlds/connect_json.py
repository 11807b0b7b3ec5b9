"""Messages of Kafka Connect in JSON: recorded ones, and any that one likes, made from values by plain arithmetic.

`connect_messages/messages.jsonl` was written by Connect's own JsonConverter 4.1.0, and Debezium's own schemas and
transform ExtractNewRecordState 3.3.1, in the folder `connect_messages`:

    mvn -q dependency:copy-dependencies -DoutputDirectory=jars
    java -cp 'jars/*' WriteMessages.java > messages.jsonl

The other half knows nothing of the reader: it counts days by subtracting dates, and finds the bytes of a number by
trying lengths.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache

from hypothesis import strategies as st

from worlds.checkout import ROOT

MESSAGES = ROOT / "tests" / "worlds" / "connect_messages" / "messages.jsonl"

CONNECT, DATA, TIME = "org.apache.kafka.connect.data.", "io.debezium.data.", "io.debezium.time."
EPOCH = datetime(1970, 1, 1)
PER_SECOND = {"": 10**3, "Micro": 10**6, "Nano": 10**9}


@dataclass(frozen=True)
class Recorded:
    """One message of the recording. what: which row, in which form; decimals: the converter's decimal.format."""

    what: str
    schemas: bool
    decimals: str
    key: bytes
    value: bytes | None


@cache
def recorded() -> tuple[Recorded, ...]:
    """All messages of the recording, in order."""
    lines = [json.loads(line) for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    return tuple(
        Recorded(
            line["what"],
            line["schemas"],
            line["decimals"],
            line["key"].encode(),
            None if line["value"] is None else line["value"].encode(),
        )
        for line in lines
    )


def recorded_of(what: str, *, schemas: bool, decimals: str = "BASE64") -> list[Recorded]:
    """The messages of one row, in order; at least one."""
    found = [m for m in recorded() if (m.what, m.schemas, m.decimals) == (what, schemas, decimals)]
    assert found, what
    return found


@dataclass(frozen=True)
class Cell:
    """A value of a column: its schema, what JSON has of it, and what it means."""

    schema: Mapping[str, object]
    wire: object
    means: object


def unscaled_base64(number: Decimal, scale: int) -> str:
    """The bytes of a number times 10**scale: the fewest that hold it with its sign."""
    unscaled = int(number.scaleb(scale))
    length = next(n for n in range(1, 100) if -(1 << 8 * n - 1) <= unscaled < 1 << 8 * n - 1)
    return base64.b64encode((unscaled % (1 << 8 * length)).to_bytes(length, "big")).decode()


def _named(type_: str, name: str | None = None, **parameters: object) -> dict[str, object]:
    schema: dict[str, object] = {"type": type_, "optional": True}
    if name is not None:
        schema |= {"name": name, "version": 1}
    return schema | ({"parameters": {key: str(said) for key, said in parameters.items()}} if parameters else {})


@st.composite
def decimals(draw: st.DrawFn) -> Cell:
    scale, unscaled = draw(st.integers(0, 12)), draw(st.integers(-(10**20), 10**20))
    number = Decimal(unscaled).scaleb(-scale)
    wire: object = unscaled_base64(number, scale)
    if draw(st.booleans()):
        return Cell(_named("struct", DATA + "VariableScaleDecimal"), {"scale": scale, "value": wire}, number)
    schema = _named("bytes", CONNECT + "Decimal", scale=scale)
    return Cell(schema, wire, number)


@st.composite
def days(draw: st.DrawFn) -> Cell:
    day, name = draw(st.dates()), draw(st.sampled_from([CONNECT + "Date", TIME + "Date"]))
    return Cell(_named("int32", name), (day - date(1970, 1, 1)).days, day.isoformat())


def _shortest(moment: datetime | time) -> str:
    text = moment.isoformat()
    return text.rstrip("0") if "." in text else text


@st.composite
def timestamps(draw: st.DrawFn) -> Cell:
    unit = draw(st.sampled_from(["connect", *PER_SECOND]))
    moment = draw(st.datetimes())
    if unit in ("connect", ""):
        moment -= timedelta(microseconds=moment.microsecond % 1000)
    microseconds = (moment - EPOCH) // timedelta(microseconds=1)
    if unit == "connect":
        return Cell(_named("int64", CONNECT + "Timestamp"), microseconds // 1000, _shortest(moment) + "Z")
    count = microseconds * PER_SECOND[unit] // 10**6
    return Cell(_named("int64", TIME + unit + "Timestamp"), count, _shortest(moment))


@st.composite
def times(draw: st.DrawFn) -> Cell:
    unit, clock = draw(st.sampled_from(["connect", *PER_SECOND])), draw(st.times())
    if unit in ("connect", ""):
        clock = clock.replace(microsecond=clock.microsecond // 1000 * 1000)
    name = CONNECT + "Time" if unit == "connect" else TIME + unit + "Time"
    microseconds = (datetime.combine(EPOCH, clock) - EPOCH) // timedelta(microseconds=1)
    return Cell(_named("int64", name), microseconds * PER_SECOND.get(unit, 10**3) // 10**6, _shortest(clock))


@st.composite
def bits(draw: st.DrawFn) -> Cell:
    shown = draw(st.lists(st.booleans(), min_size=1, max_size=20))
    data = [sum(bit << i for i, bit in enumerate(shown[::-1][at : at + 8])) for at in range(0, len(shown), 8)]
    wire, text = base64.b64encode(bytes(data)).decode(), "".join("1" if bit else "0" for bit in shown)
    return Cell(_named("bytes", DATA + "Bits", length=len(shown)), wire, text)


TEXTS = st.sampled_from(["Uuid", "Enum", "EnumSet", "Json", "Xml"])


def plain() -> st.SearchStrategy[Cell]:
    """Values that JSON has by itself, and bytes, which stay base64."""
    return st.one_of(
        st.integers(-(2**63), 2**63 - 1).map(lambda n: Cell(_named("int64"), n, n)),
        st.booleans().map(lambda b: Cell(_named("boolean"), b, b)),
        st.text(max_size=5).map(lambda t: Cell(_named("string"), t, t)),
        st.builds(lambda name, t: Cell(_named("string", DATA + name), t, t), TEXTS, st.text(max_size=5)),
        st.binary(max_size=6).map(base64.b64encode).map(bytes.decode).map(lambda t: Cell(_named("bytes"), t, t)),
        st.sampled_from([decimals(), bits()]).flatmap(lambda of: of).map(lambda c: Cell(c.schema, None, None)),
    )


def cells() -> st.SearchStrategy[Cell]:
    """A value of any type."""
    return st.one_of(decimals(), days(), timestamps(), times(), bits(), plain())


def struct(fields: Mapping[str, Mapping[str, object]], name: str = "shop.public.people.Value") -> dict[str, object]:
    """The schema of a struct."""
    return {"type": "struct", "fields": [{**schema, "field": field} for field, schema in fields.items()], "name": name}


def with_schema(schema: Mapping[str, object], payload: object) -> bytes:
    """A message as JsonConverter writes it."""
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()
