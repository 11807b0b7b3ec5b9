"""A source table that changes all the time, and knows by itself, row by row, what it holds.

It shares nothing with the engine but the form of a message: what a statement does to which rows, and which messages
are refused, is said here once more, in plain Python. Primary keys and individuals have the canary in their names.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streamer.incremental.events.key_form import shard_of
from worlds.patients import CANARY

COLUMNS = ("id", "ssn", "age", "zip", "bmi", "sex", "problem")
PROBLEMS = ("flu", "asthma", "bronchitis", "ulcer", "gastritis", "arrhythmia", "hypertension", "burn", "fracture")
AGES, ROWS_OF_ONE = 120, 3
ROWS_MOST = 2_400
"""From here on as many go as come."""

STATEMENT_EVERY, MALFORMED_EVERY = 2_000, 150

Record = dict[str, Any]


class Sent(NamedTuple):
    """One message to one shard."""

    shard: int
    key: bytes | None
    value: bytes | None


class Statement(NamedTuple):
    """A statement as the input says it, and what it means: the row that one becomes, itself or None, gone.

    A ValueError: the row would not be valid.
    """

    said: Record
    means: Callable[[Record], Record | None]


def _flu_for_infants(row: Record) -> Record:
    return {**row, "problem": "flu"} if row["age"] < 3 else row


def _burnt_age(row: Record) -> Record:
    if row["problem"] != "burn":
        return row
    if row["age"] + 1 >= AGES:
        raise ValueError
    return {**row, "age": row["age"] + 1}


def _gone_at_77(row: Record) -> Record | None:
    return None if row["age"] == 77 else row


STATEMENTS = (
    Statement({"op": "modify", "where": "age < 3", "set": {"problem": "'flu'"}}, _flu_for_infants),
    Statement({"op": "modify", "where": "problem = 'burn'", "set": {"age": "age + 1"}}, _burnt_age),
    Statement({"op": "delete", "where": "age = 77"}, _gone_at_77),
)


class SourceTable:
    """The rows by source key, and how many messages and dead letters they were worth."""

    def __init__(self, shards: int, seed: int) -> None:
        self.rows: dict[str, Record] = {}
        self.messages, self.letters = [0] * shards, [0] * shards
        self._shards = shards
        self._rng = random.Random(seed)
        self._born = 0
        self._keys: list[str] = []

    def come(self, count: int, shard: int | None = None) -> list[Sent]:
        """New rows, in one shard or in all."""
        return [self._counted(self._insert(shard)) for _ in range(count)]

    def more(self) -> Iterator[Sent]:
        """The next change: one message, or a statement to every shard, some of them twice."""
        if self._rng.randrange(STATEMENT_EVERY) == 0:
            yield from map(self._counted, self._statement(self._rng.choice(STATEMENTS)))
        elif self._rng.randrange(MALFORMED_EVERY) == 0 and self._keys:
            yield self._refused(self._rng.choice(self._keys))
        else:
            yield self._counted(self._change())

    # -- single rows ------------------------------------------------------------------------------------------------

    def _change(self) -> Sent:
        draw = self._rng.random()
        if draw < (0.5 if len(self.rows) < ROWS_MOST else 0.3) or len(self._keys) < 50:
            return self._insert()
        place = self._rng.randrange(len(self._keys))
        id_ = self._keys[place]
        if draw < 0.7:
            self._keys[place] = self._keys[-1]
            self._keys.pop()
            del self.rows[id_]
            return self._sent(id_, {"op": "delete", "key": id_} if draw < 0.6 else None)
        changed = {"age": self._rng.randrange(AGES), "problem": self._rng.choice(PROBLEMS)}
        self.rows[id_] |= changed
        return self._sent(id_, {"op": "modify", "key": id_, "row": changed})

    def _insert(self, shard: int | None = None) -> Sent:
        id_, rng = self._new_id(), self._rng
        while shard is not None and shard_of(id_.encode(), self._shards) != shard:
            id_ = self._new_id()
        self.rows[id_] = {
            "id": id_,
            "ssn": f"{CANARY}-person-{self._born // ROWS_OF_ONE}",
            "age": rng.randrange(AGES),
            "zip": rng.randrange(10000, 20000),
            "bmi": rng.randrange(150, 450) / 10,
            "sex": rng.choice(["Female", "Male"]),
            "problem": rng.choice(PROBLEMS),
        }
        self._keys.append(id_)
        return self._sent(id_, {"op": "insert", "row": self.rows[id_]})

    def _new_id(self) -> str:
        self._born += 1
        return f"{CANARY}-{self._born}"

    def _refused(self, id_: str) -> Sent:
        """A message that changes nothing and is a dead letter."""
        nonsense: list[Record] = [
            {"op": "modify", "key": id_, "row": {"sex": CANARY}},
            {"op": "insert", "row": self.rows[id_]},
            {"op": "modify", "key": id_, "row": {"age": AGES}},
        ]
        sent = self._counted(self._sent(id_, self._rng.choice(nonsense)))
        self.letters[sent.shard] += 1
        return sent._replace(value=b'{"op": "insert", "row": ' + CANARY.encode()) if self._rng.random() < 0.5 else sent

    def _sent(self, id_: str, value: Record | None) -> Sent:
        key = id_.encode()
        return Sent(shard_of(key, self._shards), key, None if value is None else json.dumps(value).encode())

    def _counted(self, sent: Sent) -> Sent:
        self.messages[sent.shard] += 1
        return sent

    # -- statements -------------------------------------------------------------------------------------------------

    def _statement(self, statement: Statement) -> list[Sent]:
        value = json.dumps({**statement.said, "statement_id": f"statement-{sum(self.messages)}"}).encode()
        self._do(statement)
        return [Sent(shard, None, value) for _ in range(self._rng.choice([1, 1, 2])) for shard in range(self._shards)]

    def _do(self, statement: Statement) -> None:
        """Every shard says once, in a letter, that rows of it would not have been valid."""
        partly = set()
        for id_, row in list(self.rows.items()):
            try:
                becomes = statement.means(row)
            except ValueError:
                partly.add(shard_of(id_.encode(), self._shards))
                continue
            if becomes is None:
                del self.rows[id_]
            else:
                self.rows[id_] = becomes
        self._keys = list(self.rows)
        for shard in partly:
            self.letters[shard] += 1
