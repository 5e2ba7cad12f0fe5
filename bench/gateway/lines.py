"""The rows of the table."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.gateway import goals
from bench.line import Line


class Part(StrEnum):
    """What can be measured alone."""

    ONE = "one"
    MANY = "many"
    FLIGHTS = "flights"


class Log(StrEnum):
    """Where what is sent becomes durable."""

    SQLITE = "sqlite"
    KAFKA = "kafka"


class Measure(line.Measure):
    """One thing that is done and measured."""

    ONE_SQLITE = "one client, SQLite"
    ONE_KAFKA = "one client, Kafka"
    WIDE_SQLITE = "one client with long lines, SQLite"
    WIDE_KAFKA = "one client with long lines, Kafka"
    MANY_SQLITE = "many clients, SQLite"
    MANY_KAFKA = "many clients, Kafka"
    SHARE_SQLITE = "share of the slowest, SQLite"
    SHARE_KAFKA = "share of the slowest, Kafka"
    FLIGHTS = "flights"
    BATCH_JOB = "flights in a plain Spark job"

    @property
    def is_time(self) -> bool:
        return self in (Measure.FLIGHTS, Measure.BATCH_JOB)

    @property
    def is_share(self) -> bool:
        return self.name.startswith("SHARE")

    @classmethod
    def of(cls, what: str, log: Log) -> Measure:
        return cls[f"{what}_{log.name}"]


PLACES = {
    Log.SQLITE: "SQLite log and database, FULL",
    Log.KAFKA: "Kafka log, acks=all in transactions; PostgreSQL, synchronous_commit on",
}

NARROW = "lines of 31 bytes: six columns, as in examples/flights"
WIDE = "lines of 380 bytes: with airlines, times, equipment and cabins of each leg, as sellers write them"


def lines(parts: tuple[Part, ...], logs: tuple[Log, ...], clients: int, rows: int) -> list[Line]:
    """All rows of these parts on these logs."""
    every = [row for log in logs for row in _sending(log, clients)]
    if Log.SQLITE in logs:
        every.append(
            Line(
                Part.FLIGHTS,
                f"four answers for {rows:,} itineraries, from the first byte sent to the last one received",
                "embedded default, exactly-once",
                Measure.FLIGHTS,
                Measure.BATCH_JOB,
                "plain Spark job",
                goals.flights(),
            )
        )
    return [row for row in every if row.part in parts]


def _sending(log: Log, clients: int) -> list[Line]:
    place = PLACES[log]
    return [
        Line(Part.ONE, f"one client, {WIDE}", place, Measure.of("WIDE", log), goal=goals.one_client(log.name)),
        Line(Part.ONE, f"one client, {NARROW}", place, Measure.of("ONE", log), goal=goals.one_client(log.name)),
        Line(Part.MANY, f"{clients} clients at once, all together", place, Measure.of("MANY", log)),
        Line(
            Part.MANY,
            f"{clients} clients at once: the slowest beside the fastest",
            place,
            Measure.of("SHARE", log),
            goal=goals.fairness(),
        ),
    ]
