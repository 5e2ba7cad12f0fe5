"""The rows of the table: which contender does what, beside whom, and what it has to reach."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.flow import goals
from bench.goal import Goal
from bench.line import Line


class Part(StrEnum):
    """What can be measured alone."""

    PLAIN = "plain"
    STEPS = "steps"
    EMBEDDED = "embedded"
    SINGLE = "single"


class Measure(line.Measure):
    """A contender and its work."""

    PLAIN = "validate and dispatch"
    PLAIN_USUAL = "validate and dispatch, the usual Spark way"
    PLAIN_HAND = "validate and dispatch, written by hand"
    QUIX = "Quix Streams"
    RSYSLOG = "rsyslog"
    READY = "ready-made bodies"
    STEPS = "schema, step and each"
    STEPS_USUAL = "schema, step and each, the usual Spark way"
    STEPS_HAND = "schema, step and each, written by hand"
    STEPS_DECLARED = "schema, step and each, declared deterministic"
    STEPS_BAD = "schema, step and each, 1 % bad"
    TABLE = "SQLite log to table"
    EACH = "each, a trivial function"
    SINGLE = "a single record"

    @property
    def is_time(self) -> bool:
        return self is Measure.SINGLE


USUAL = "foreachPartition + bulk helper"
HAND = "confluent-kafka + parallel_bulk, 2 processes"
QUIX = "Quix Streams, 2 processes"
KAFKA_INDEX = "Kafka → Elasticsearch"


def lines(parts: tuple[Part, ...]) -> list[Line]:
    """All rows of these parts."""
    every = [
        *(_plain(*row) for row in _PLAIN),
        *(_steps(measure, *row) for measure in (Measure.STEPS, Measure.STEPS_DECLARED) for row in _STEPS),
        Line(
            Part.STEPS,
            "with 1 % bad records",
            KAFKA_INDEX,
            Measure.STEPS_BAD,
            Measure.STEPS,
            "Towpath, none bad",
            goals.times(goals.WITH_BAD_RECORDS, "the clean rate"),
        ),
        Line(
            Part.EMBEDDED, "embedded", "SQLite log → SQLite table", Measure.TABLE, goal=goals.rate(goals.EMBEDDED_RATE)
        ),
        Line(Part.EMBEDDED, str(Measure.EACH), "Kafka → nowhere", Measure.EACH, goal=goals.rate(goals.EACH_RATE)),
        Line(Part.SINGLE, "appended → in the index", KAFKA_INDEX, Measure.SINGLE, goal=goals.seen_after()),
    ]
    return [row for row in every if row.part in parts]


_PLAIN = (
    (Measure.PLAIN_USUAL, USUAL, goals.times(goals.USUAL_SPARK_PLAIN, "the usual Spark way")),
    (Measure.PLAIN_HAND, HAND, None),
    (Measure.QUIX, QUIX, None),
    (Measure.RSYSLOG, "rsyslog, without validation, ids and dispatch", goals.ahead_of("rsyslog")),
    (Measure.READY, "no pipeline", goals.times(goals.READY_BODIES, "ready-made bodies")),
)
_STEPS = (
    (Measure.STEPS_USUAL, USUAL, goals.times(goals.USUAL_SPARK_STEPS, "the usual Spark way")),
    (Measure.STEPS_HAND, HAND, goals.ahead_of("the hand-written consumer")),
)


def _plain(peer: Measure, name: str, goal: Goal | None) -> Line:
    return Line(Part.PLAIN, str(Measure.PLAIN), KAFKA_INDEX, Measure.PLAIN, peer, name, goal)


def _steps(measure: Measure, peer: Measure, name: str, goal: Goal | None) -> Line:
    """A function that says nothing of itself has its results written down first, so that a crash changes none."""
    return Line(Part.STEPS, str(measure), KAFKA_INDEX, measure, peer, name, goal)
