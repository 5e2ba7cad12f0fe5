"""The rows of the table: what is measured against what, and what it has to reach."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.line import Line
from bench.log import goals


class Part(StrEnum):
    """What can be measured alone."""

    SQLITE = "sqlite"
    KAFKA = "kafka"
    SPARK = "spark"


class Measure(line.Measure):
    """One thing that is done and timed."""

    SQLITE_FULL = "SQLite append, full"
    SQLITE_NORMAL = "SQLite append, normal"
    SQLITE_READ = "SQLite read"
    KAFKA_APPEND = "Kafka append"
    PLAIN_APPEND = "plain Kafka append"
    KAFKA_TRANSACTION = "Kafka transactions"
    PLAIN_TRANSACTION = "plain Kafka transactions"
    KAFKA_READ = "Kafka read"
    PLAIN_READ = "plain Kafka read"
    SPARK_BATCH_SQLITE = "Spark batch, SQLite"
    SPARK_BATCH_KAFKA = "Spark batch, Kafka"
    SPARK_STREAM_SQLITE = "Spark stream, SQLite"
    SPARK_STREAM_KAFKA = "Spark stream, Kafka"
    SPARK_RUNNING_SQLITE = "running Spark stream, SQLite"
    SPARK_RUNNING_KAFKA = "running Spark stream, Kafka"
    SEEN_SQLITE = "seen by a query, SQLite"
    SEEN_KAFKA = "seen by a query, Kafka"

    @property
    def is_time(self) -> bool:
        return self in (Measure.SEEN_SQLITE, Measure.SEEN_KAFKA)


PLAIN = "confluent-kafka"
SOURCE = "Spark's Kafka source"
FULL = "SQLite WAL, synchronous FULL"
NORMAL = "SQLite WAL, synchronous NORMAL"
KAFKA = "Kafka, acks all"


def lines(parts: tuple[Part, ...]) -> list[Line]:
    """All rows of these parts."""
    every = [
        Line(Part.SQLITE, "append", FULL, Measure.SQLITE_FULL, goal=goals.append_rate()),
        Line(Part.SQLITE, "append", NORMAL, Measure.SQLITE_NORMAL, goal=goals.append_rate()),
        Line(Part.SQLITE, "read", FULL, Measure.SQLITE_READ),
        Line(Part.KAFKA, "append", KAFKA, Measure.KAFKA_APPEND, Measure.PLAIN_APPEND, PLAIN, goals.overhead()),
        Line(
            Part.KAFKA,
            "append in transactions",
            KAFKA,
            Measure.KAFKA_TRANSACTION,
            Measure.PLAIN_TRANSACTION,
            PLAIN,
            goals.overhead(),
        ),
        Line(Part.KAFKA, "read", KAFKA, Measure.KAFKA_READ, Measure.PLAIN_READ, PLAIN),
        Line(Part.SPARK, "Spark batch", FULL, Measure.SPARK_BATCH_SQLITE, Measure.SPARK_BATCH_KAFKA, SOURCE),
        Line(
            Part.SPARK,
            "Spark stream, once it runs",
            FULL,
            Measure.SPARK_RUNNING_SQLITE,
            Measure.SPARK_RUNNING_KAFKA,
            SOURCE,
            goals.stream_ratio(),
        ),
        Line(
            Part.SPARK,
            "Spark stream, with its start",
            FULL,
            Measure.SPARK_STREAM_SQLITE,
            Measure.SPARK_STREAM_KAFKA,
            SOURCE,
            goals.stream_ratio(),
        ),
        Line(Part.SPARK, "appended → seen by a query", FULL, Measure.SEEN_SQLITE, goal=goals.seen_after()),
        Line(Part.SPARK, "appended → seen by a query", KAFKA, Measure.SEEN_KAFKA, goal=goals.seen_after()),
    ]
    return [row for row in every if row.part in parts]
