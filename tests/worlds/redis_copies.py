"""Redis falls back to what it held before, as it does after a crash that lost writes, or from an operator's backup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamer.incremental.store.redis_server import connect


@dataclass(frozen=True)
class RedisCopy:
    """The values of some keys, as Redis dumps them."""

    url: str
    match: str
    dumps: dict[bytes, bytes] = field(repr=False)

    def restore(self) -> None:
        """Puts all of them back in one transaction; what was not there then is gone."""
        client: Any = connect(self.url)
        pipeline = client.pipeline(transaction=True)
        for name in client.scan_iter(self.match):
            pipeline.delete(name)
        for name, dump in self.dumps.items():
            pipeline.restore(name, 0, dump)
        pipeline.execute()


def copy_of(url: str, match: str = "*") -> RedisCopy:
    """A copy of all keys whose names match, taken at one moment."""
    client: Any = connect(url)
    names = list(client.scan_iter(match))
    pipeline = client.pipeline(transaction=True)
    for name in names:
        pipeline.dump(name)
    dumps = dict(zip(names, pipeline.execute(), strict=True))
    return RedisCopy(url, match, {name: dump for name, dump in dumps.items() if dump is not None})
