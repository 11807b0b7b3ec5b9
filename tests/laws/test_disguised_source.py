"""A table with disguised columns publishes, to the byte, what a plain table publishes of a source that is disguised."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer.incremental.events.changes import Insert, Modify
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.replay import NAME, secret_text
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table
from streamer.table.yaml.loading import load_table
from worlds.calls import answer
from worlds.disguised_people import changes, visits, write_events, write_table

SEEN = "role: sensitive, type: timestamp, publish: {pseudonym: readers.key}"
SEALED = "rows}, sealed: {epoch: 20 events"
PLAIN = {
    "problem": "role: sensitive, hierarchy: above.csv",
    "came": "role: keep, type: date, acknowledge_linkable: true",
    "seen": "role: sensitive, type: text",
}


def disguised(table: Table, events: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The events as a source would send them that holds what is published."""
    for event in events:
        change = Decoder(table).decode(None, json.dumps(event).encode())
        values = dict(enumerate(change.row.values)) if isinstance(change, Insert) else {}
        values |= change.values if isinstance(change, Modify) else {}
        own = {table.kept[i].name: msgspec.json.decode(text) for i, text in values.items()}
        yield {**event, "row": {**event["row"], **own}} if own else event


def replayed(folder: Path, events: Iterator[Mapping[str, Any]]) -> bytes:
    out = folder / "out"
    out.mkdir()
    (out / NAME).write_bytes(secret_text(bytes(32)))
    answer("replay", "--table", folder, write_events(folder, events), "--batch", 5, "--out", out)
    return b"".join(path.read_bytes() for path in sorted(out.glob("*.jsonl")))


@pytest.mark.parametrize("form", [ROWS, GROUPS, LOSSY_JOIN, SEALED])
@pytest.mark.parametrize("individual", [True, False])
def test_all_that_comes_after_the_door_sees_what_is_published(tmp_path: Path, form: str, individual: bool) -> None:
    settings = [("form: rows", f"form: {form}"), ("k: 3", "k: 3, l: 2")]
    settings += [("individual: person\n", "")] * (not individual)
    folder = write_table(tmp_path / "disguised", *settings, id=None, person=None, seen=SEEN)
    plain = write_table(tmp_path / "plain", *settings, id=None, person=None, **PLAIN)
    (plain / "above.csv").write_text("lung;*\nbelly;*\nskin;*\n")
    rows = visits(120, seed=3)
    published = replayed(folder, changes(rows))
    assert published == replayed(plain, disguised(load_table(folder), changes(rows)))
    assert published.count(b"\n") > 100
