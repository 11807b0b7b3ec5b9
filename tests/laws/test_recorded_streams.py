"""The same messages give the same table for ever: streams are replayed, and held against hashes recorded before.

recorded_streams.json says what an earlier engine published and stored, commit by commit, for streams of all kinds of
messages over all kinds of tables; `worlds.recording` says how it is recorded again, and when that is honest. Nothing
here knows how an engine works: messages go in, records and a stored shard come out.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from worlds.recorded_streams import ADULT_STREAMS, LONG_STREAMS, STREAMS, Stream, adult_stream
from worlds.recording import BATCHES, Recording, Replay, messages_hash, recorded

LONG = [*LONG_STREAMS, *ADULT_STREAMS]
AT_THE_GATE = {(name, BATCHES[i % len(BATCHES)]) for i, name in enumerate(LONG, start=1)}
"""Long streams come in batches of one size each in the gate, and in all sizes at night."""


@cache
def stream_of(name: str, adult: Path | None, directory: Path | None) -> Stream:
    if adult is None or directory is None:
        return {**STREAMS, **LONG_STREAMS}[name]()
    return adult_stream(directory, adult, **ADULT_STREAMS[name])


@cache
def replay_of(stream: Stream, batch: int) -> Replay:
    return Replay(stream, batch)


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stream(name: str, request: pytest.FixtureRequest) -> Stream:
    """The stream of that name; skipped where it is Adult's and the data is not here."""
    if name not in ADULT_STREAMS:
        return stream_of(name, None, None)
    return stream_of(name, request.getfixturevalue("adult"), request.getfixturevalue("directory"))


@pytest.fixture
def recording(name: str) -> Recording:
    return recorded()[name]


def marks_of(name: str, batch: int) -> list[pytest.MarkDecorator]:
    if name not in LONG:
        return []
    return [pytest.mark.slow, *[pytest.mark.night] * ((name, batch) not in AT_THE_GATE)]


NAMES = [*STREAMS, *LONG]
of_every_stream = pytest.mark.parametrize(
    "name", [pytest.param(name, id=name, marks=[pytest.mark.slow] * (name in LONG)) for name in NAMES], indirect=True
)
of_every_stream_in_batches = pytest.mark.parametrize(
    ("name", "batch"),
    [
        pytest.param(name, batch, id=f"{batch}-{name}", marks=marks_of(name, batch))
        for name in NAMES
        for batch in BATCHES
    ],
    indirect=["name"],
)
one_by_one = pytest.mark.parametrize(
    "name", [pytest.param(name, id=name, marks=marks_of(name, 1)) for name in NAMES], indirect=True
)


@of_every_stream
def test_the_messages_are_those_that_were_recorded(stream: Stream, recording: Recording) -> None:
    assert messages_hash(stream) == recording["messages"]


@of_every_stream_in_batches
def test_the_published_table_and_the_stored_shard_are_those_of_the_recording(
    stream: Stream, batch: int, recording: Recording
) -> None:
    assert replay_of(stream, batch).of_any_batch() == recording["left"]


@of_every_stream_in_batches
def test_every_commit_publishes_the_records_of_the_recording(stream: Stream, batch: int, recording: Recording) -> None:
    """Hashes along the stream: the first that differs says in which part of it."""
    replayed = replay_of(stream, batch).of_this_batch()
    assert {**replayed, "similarity": None} == {**recording["batches"][str(batch)], "similarity": None}


@of_every_stream_in_batches
def test_the_similarity_lists_are_those_of_the_recording(stream: Stream, batch: int, recording: Recording) -> None:
    assert replay_of(stream, batch).of_this_batch()["similarity"] == recording["batches"][str(batch)]["similarity"]


@one_by_one
def test_each_event_is_decided_and_repaired_as_in_the_recording(stream: Stream, recording: Recording) -> None:
    assert {name: n for name, n in replay_of(stream, 1).met.items() if n} == recording["met"]


MET_AT_LEAST = {
    "merges": 1_000,
    "splits": 2_000,
    "cascades of merges": 50,
    "cuts after a merge": 500,
    "numbers used again": 500,
    "large QI groups cut up": 30,
    "rows became pending": 10,
    "pending rows were published": 10,
    "applied in part": 10,
    "applied to nobody": 50,
    "ignored": 100,
    "ignored to nobody": 10,
    "refused bad-statement": 5,
    "refused individual-changed": 2,
    "refused key-exists": 10,
    "refused key-unknown": 100,
    "refused row-too-large": 1,
    "refused statement-too-large": 1,
    "refused truncate-one-shard": 1,
}


def test_the_recorded_streams_met_every_repair_and_every_refusal() -> None:
    met = Counter[str]()
    for name in (*STREAMS, *LONG_STREAMS):
        met.update(recorded()[name]["met"])
    assert {name: met[name] for name, least in MET_AT_LEAST.items() if met[name] < least} == {}


def test_every_stream_is_recorded_and_no_other() -> None:
    assert set(recorded()) == {*STREAMS, *LONG_STREAMS, *ADULT_STREAMS}
