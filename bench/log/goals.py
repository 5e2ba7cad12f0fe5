"""What the log has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

SQLITE_APPEND_RATE = 80_000
KAFKA_OVERHEAD = 0.15
SPARK_STREAM_RATIO = 0.8
SEEN_AFTER_S = 0.5


def append_rate() -> Goal:
    """The least rate of appending on SQLite."""
    return Goal(SQLITE_APPEND_RATE, f"≥ {SQLITE_APPEND_RATE:,}/s", at_least=True)


def overhead() -> Goal:
    """How much more time than the plain client we may take for the same."""
    return Goal(
        1 / (1 + KAFKA_OVERHEAD), f"≥ {1 / (1 + KAFKA_OVERHEAD):.2f} (overhead ≤ {KAFKA_OVERHEAD:.0%})", at_least=True
    )


def stream_ratio() -> Goal:
    """The least rate of our Spark source to Spark's own for Kafka."""
    return Goal(SPARK_STREAM_RATIO, f"≥ {SPARK_STREAM_RATIO:g} × Kafka's source", at_least=True)


def seen_after() -> Goal:
    """The longest median time until a running query has a new record."""
    return Goal(SEEN_AFTER_S, f"p50 < {SEEN_AFTER_S:g} s", at_least=False)
