"""The usual way with Spark: `foreachBatch`, `foreachPartition`, and the official client's bulk helper in each task.

As its documentation shows it: `json`, and the helper's own serializer and number of documents a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from bench.flow.contenders.same_work import action
from bench.flow.contenders.turn import Turn, my_turn, wait_for_end, wait_for_start
from bench.flow.settings import MASTER, MAX_BATCH_RECORDS, MEMORY
from bench.flow.workload import SCHEMA
from towpath.settings import SparkSettings
from towpath.spark.session import build_session


def _id(row: Row) -> str:
    return f"{row.topic}-{row.partition}-{row.offset}"


def plain(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Read as JSON, and to the index of its type."""
    for row in rows:
        yield action(json.loads(row.value), _id(row))


def steps(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Columns have their day already; the rest of the document is put back, and the section added."""
    for row in rows:
        document = {**json.loads(row.value), "day": row.day, "section": row.url.split("/")[1]}
        yield action(document, _id(row))


def prepared(frame: DataFrame) -> DataFrame:
    """Schema, expectation and day, inside the JVM."""
    read = frame.withColumn("read", F.from_json(F.col("value").cast("string"), SCHEMA))
    return (
        read.select("topic", "partition", "offset", "value", "read.*")
        .where("at > 0")
        .withColumn("day", F.to_date(F.timestamp_millis("at")).cast("string"))
    )


def writer(turn: Turn) -> Callable[[Iterable[Row]], None]:
    url, make = turn.url, steps if turn.kind == "steps" else plain

    def write(rows: Iterable[Row]) -> None:
        bulk(Elasticsearch(url, request_timeout=60), make(rows))

    return write


def run(session: SparkSession, turn: Turn, topic: str) -> None:
    write = writer(turn)

    def load(frame: DataFrame, _: int) -> None:
        (prepared(frame) if turn.kind == "steps" else frame).foreachPartition(write)

    reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", turn.bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", MAX_BATCH_RECORDS).load()
    started = frame.writeStream.foreachBatch(load).option("checkpointLocation", f"{turn.home}/{uuid4().hex}")
    started.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    turn = my_turn()
    session = build_session(SparkSettings(master=MASTER, memory=MEMORY), "usual", connector=True)
    run(session, turn, turn.warm_up_topic)
    wait_for_start()
    run(session, turn, turn.topic)
    wait_for_end()


if __name__ == "__main__":
    main()
