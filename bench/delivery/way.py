"""The ways in which the same work is done on one route."""

from __future__ import annotations

from enum import StrEnum


class Way(StrEnum):
    """Told to the process of a route, one at a time."""

    EXACTLY = "exactly-once"
    LEAST = "at-least-once"
    MOST = "at-most-once"
    DECIDED = "exactly-once, not deterministic"  # a flow with a function that may give something else each time
    UNDECIDED = "at-most-once, not deterministic"  # the same flow
    PLAIN = "plain foreachBatch"  # the same steps without Towpath's driver
    BY_HAND = "written by hand"
    SPARK_SINK = "Spark's own Kafka sink"


GUARANTEES = {
    Way.EXACTLY: "exactly-once",
    Way.LEAST: "at-least-once",
    Way.MOST: "at-most-once",
    Way.DECIDED: "exactly-once",
    Way.UNDECIDED: "at-most-once",
}
NOT_DETERMINISTIC = (Way.DECIDED, Way.UNDECIDED)
