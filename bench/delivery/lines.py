"""The rows of the table: what is done in which way, beside which other, and what it has to reach."""

from __future__ import annotations

from enum import StrEnum

from bench import line
from bench.delivery import goals
from bench.delivery.way import Way
from bench.goal import Goal
from bench.line import Line


class Part(StrEnum):
    """What can be measured alone. All but the last are routes."""

    TOPIC = "topic"
    INDEX = "index"
    DEMO = "demo"
    RECOVERY = "recovery"


class Measure(line.Measure):
    """A route and a way, or a time of recovery."""

    TOPIC_EXACTLY = "Kafka → Kafka, exactly-once"
    TOPIC_LEAST = "Kafka → Kafka, at-least-once"
    TOPIC_MOST = "Kafka → Kafka, at-most-once"
    TOPIC_PLAIN = "Kafka → Kafka, plain foreachBatch"
    TOPIC_BY_HAND = "Kafka → Kafka, written by hand"
    TOPIC_SPARK_SINK = "Kafka → Kafka, Spark's own sink"
    INDEX_EXACTLY = "Kafka → Elasticsearch, exactly-once"
    INDEX_LEAST = "Kafka → Elasticsearch, at-least-once"
    INDEX_MOST = "Kafka → Elasticsearch, at-most-once"
    INDEX_PLAIN = "Kafka → Elasticsearch, plain foreachBatch"
    DEMO_EXACTLY = "demo, exactly-once"
    DEMO_DECIDED = "demo, exactly-once, not deterministic"
    DEMO_UNDECIDED = "demo, at-most-once, not deterministic"
    DEMO_LEAST = "demo, at-least-once"
    DEMO_MOST = "demo, at-most-once"
    DEMO_PLAIN = "demo, plain foreachBatch"
    RECOVERED = "first new output after SIGKILL, beyond Spark's own start"
    FIRST_OUTPUT = "first new output after SIGKILL, from the start of the process"
    READY = "of it: until Towpath is connected and its Spark has done a first job"
    SPARK_START = "Spark's own start, with its first job"
    LEASE = "lease of the dead process"

    @property
    def is_time(self) -> bool:
        return self in RECOVERY


RECOVERY = (Measure.RECOVERED, Measure.FIRST_OUTPUT, Measure.READY, Measure.SPARK_START, Measure.LEASE)


WAYS: dict[Part, dict[Measure, Way]] = {
    Part.TOPIC: {
        Measure.TOPIC_EXACTLY: Way.EXACTLY,
        Measure.TOPIC_LEAST: Way.LEAST,
        Measure.TOPIC_MOST: Way.MOST,
        Measure.TOPIC_PLAIN: Way.PLAIN,
        Measure.TOPIC_BY_HAND: Way.BY_HAND,
        Measure.TOPIC_SPARK_SINK: Way.SPARK_SINK,
    },
    Part.INDEX: {
        Measure.INDEX_EXACTLY: Way.EXACTLY,
        Measure.INDEX_LEAST: Way.LEAST,
        Measure.INDEX_MOST: Way.MOST,
        Measure.INDEX_PLAIN: Way.PLAIN,
    },
    Part.DEMO: {
        Measure.DEMO_EXACTLY: Way.EXACTLY,
        Measure.DEMO_LEAST: Way.LEAST,
        Measure.DEMO_MOST: Way.MOST,
        Measure.DEMO_PLAIN: Way.PLAIN,
        Measure.DEMO_DECIDED: Way.DECIDED,
        Measure.DEMO_UNDECIDED: Way.UNDECIDED,
    },
}
ROUTES = tuple(WAYS)
PLACES = {
    Part.TOPIC: "Kafka → Kafka, validate",
    Part.INDEX: "Kafka → Elasticsearch, validate and dispatch",
    Part.DEMO: "demo: SQLite log → table and files",
    Part.RECOVERY: "Kafka → Kafka, exactly-once",
}
# Who is set beside whom: what is ours, the other, and what it has to reach.
_BESIDE: tuple[tuple[Way, Way, Goal | None], ...] = (
    (Way.EXACTLY, Way.MOST, goals.exactly_once()),
    (Way.DECIDED, Way.UNDECIDED, None),
    (Way.LEAST, Way.MOST, None),
    (Way.MOST, Way.PLAIN, goals.at_most_once()),
    (Way.MOST, Way.BY_HAND, None),
    (Way.LEAST, Way.SPARK_SINK, None),
)
_NAMES = {
    Way.MOST: "Towpath, at-most-once",
    Way.UNDECIDED: "Towpath, at-most-once, the same flow",
    Way.PLAIN: "plain foreachBatch",
    Way.BY_HAND: "written by hand, mapInArrow",
    Way.SPARK_SINK: "Spark's Kafka sink, without validation",
}


def lines(parts: tuple[Part, ...]) -> list[Line]:
    """All rows of these parts."""
    every = [row for route in ROUTES for row in _route(route)]
    every += [
        Line(
            Part.RECOVERY,
            str(measure),
            PLACES[Part.RECOVERY],
            measure,
            goal=goals.recovered() if measure is Measure.RECOVERED else None,
        )
        for measure in RECOVERY
    ]
    return [row for row in every if row.part in parts]


def _route(route: Part) -> list[Line]:
    measures = {way: measure for measure, way in WAYS[route].items()}
    return [
        Line(route, str(ours), PLACES[route], measures[ours], measures[peer], _NAMES[peer], goal)
        for ours, peer, goal in _BESIDE
        if ours in measures and peer in measures
    ]
