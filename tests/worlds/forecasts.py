"""What a forecast is held to: many patients, its changes on a real Kafka as well, and what that has on its disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from streamer.incremental.forecast import TOPIC_ID_CHARACTERS, CountingOutlet
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.table.schema import Table


def many_patients(n: int) -> pd.DataFrame:
    """n rows of the example's table, by chance, as its file has them."""
    rng = np.random.default_rng(n)
    columns = {
        "id": range(1, n + 1),
        "age": rng.integers(0, 100, n),
        "zip": rng.integers(10_000, 20_000, n),
        "bmi": rng.normal(25, 6, n).clip(10, 59.9).round(1),
        "sex": rng.choice(["Male", "Female"], n),
        "problem": rng.choice(["flu", "ulcer", "sprain", "fracture"], n),
    }
    return pd.DataFrame({name: [str(value) for value in values] for name, values in columns.items()})


class PublishedToo(CountingOutlet):
    """Counts what it hands on to another outlet."""

    def __init__(self, table: Table, outlet: Outlet) -> None:
        super().__init__(table)
        self._outlet = outlet
        outlet.fence()

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        super().publish(records, position)
        self._outlet.publish(records, msgspec.structs.replace(position, live_id="-" * TOPIC_ID_CHARACTERS))


def bytes_on_disk(folder: Path, topic: str) -> int:
    """What the first partition of a topic takes in the data folder of a Kafka that runs here, somewhere in `folder`."""
    return sum(path.stat().st_size for path in folder.rglob(f"{topic}-0/*.log"))
