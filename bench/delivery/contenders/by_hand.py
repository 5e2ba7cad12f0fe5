"""From topic to topic without Towpath: as a person would write it, and as Spark does it by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import orjson
import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import DataFrame

from bench.delivery.contenders.bare import run_query
from bench.flow.contenders.turn import Turn
from towpath.runtime import Runtime

FLUSH_S = 60.0
SERVE_S = 0.05


@dataclass(frozen=True)
class Copier:
    """For `mapInArrow`: every value must be JSON, else the batch fails; sent with acks from all and idempotence."""

    bootstrap: str
    target: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failed: list[str] = []

        def on_delivery(error: object, _: object) -> None:
            if error is not None:
                failed.append(str(error))

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 1}
        )
        for batch in batches:
            for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                orjson.loads(value)
                while True:
                    try:
                        producer.produce(self.target, value, key, on_delivery=on_delivery)
                        break
                    except BufferError:
                        producer.poll(SERVE_S)
            producer.poll(0)
        if producer.flush(FLUSH_S) or failed:
            raise RuntimeError(f"not delivered: {failed[:1]}")
        yield from ()


def run_by_hand(runtime: Runtime, turn: Turn, source: str, target: str) -> None:
    copy = Copier(turn.bootstrap, target)

    def load(records: DataFrame, _: int) -> None:
        records.select("key", "value").mapInArrow(copy, "nothing int").collect()

    run_query(read(runtime, turn, source).writeStream.foreachBatch(load), _home(turn), _trigger_s(runtime))


def run_spark_sink(runtime: Runtime, turn: Turn, source: str, target: str) -> None:
    """Key and value as they are: nobody looks whether they are JSON."""
    writer = read(runtime, turn, source).select("key", "value").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", turn.bootstrap).option("topic", target)
    run_query(writer, _home(turn), _trigger_s(runtime))


def read(runtime: Runtime, turn: Turn, source: str) -> DataFrame:
    reader = runtime.spark().readStream.format("kafka").option("kafka.bootstrap.servers", turn.bootstrap)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    return reader.option("maxOffsetsPerTrigger", runtime.settings.flow.max_batch_records).load()


def _home(turn: Turn) -> Path:
    return Path(turn.home) / uuid4().hex


def _trigger_s(runtime: Runtime) -> float:
    return runtime.settings.flow.trigger_s
