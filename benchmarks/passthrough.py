"""A Faust worker that passes events through: the yardstick of `end_to_end.py`, in the shape of a plain Faust program.

An agent takes the events of `<name>.changes` in batches, decodes each from JSON, and writes one record per event to
`<name>.live` and the positions to `<name>.positions`, in one Kafka transaction per batch, before it takes the next.
Producer and batches are set as in `streamer worker`; everything else is Faust's default.

    PASSTHROUGH_NAME=... KAFKA_BOOTSTRAP=... python -m faust -A passthrough worker
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import faust
import msgspec
from confluent_kafka import Producer
from faust.types import EventT, StreamT

from streamer.table.schema import Limits

NAME, BOOTSTRAP = os.environ["PASSTHROUGH_NAME"], os.environ["KAFKA_BOOTSTRAP"]
BATCH_EVENTS, BATCH_SECONDS = Limits().batch_events_max, 0.05
SECONDS_MAX = 20.0

app = faust.App(
    f"passthrough-{NAME}",
    broker=f"kafka://{BOOTSTRAP}",
    key_serializer="raw",
    value_serializer="raw",
    consumer_auto_offset_reset="earliest",
    topic_allow_declare=False,
    topic_disable_leader=True,
    web_enabled=False,
)
changes = app.topic(f"{NAME}.changes")
producer = Producer(
    {
        "bootstrap.servers": BOOTSTRAP,
        "transactional.id": f"passthrough-{NAME}",
        "transaction.timeout.ms": 30_000,
        "acks": "all",
        "linger.ms": 1,
        "retry.backoff.ms": 2,
        "retry.backoff.max.ms": 20,
    }
)


@app.task
async def begin() -> None:
    """Faust starts tasks before it reads the first event."""
    producer.init_transactions(SECONDS_MAX)


@app.agent(changes)
async def pass_through(stream: StreamT[bytes]) -> None:
    async for batch in stream.take_events(BATCH_EVENTS, within=BATCH_SECONDS):
        await asyncio.get_running_loop().run_in_executor(None, publish, batch)


def publish(batch: Sequence[EventT[bytes]]) -> None:
    """One transaction: a record per event, and where each partition now stands."""
    reached: dict[int, int] = {}
    producer.begin_transaction()
    for event in batch:
        message = event.message
        changed = msgspec.json.decode(event.value)
        producer.produce(f"{NAME}.live", msgspec.json.encode(changed), message.key, partition=message.partition)
        producer.poll(0)
        reached[message.partition] = message.offset + 1
    for partition, offset in reached.items():
        producer.produce(f"{NAME}.positions", b'{"next":%d}' % offset, b"%d" % partition, partition=partition)
    producer.commit_transaction(SECONDS_MAX)
