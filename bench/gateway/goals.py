"""What the gateway has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

from bench.goal import Goal

MB_PER_MINUTE = {"SQLITE": 100.0, "KAFKA": 300.0}
SHARE = 0.5
TIMES_THE_BATCH_JOB = 3.0


def one_client(log: str) -> Goal:
    return Goal(MB_PER_MINUTE[log], f"≥ {MB_PER_MINUTE[log]:g} MB/min", at_least=True)


def fairness() -> Goal:
    return Goal(SHARE, f"the slowest gets ≥ {SHARE:g} × what the fastest gets", at_least=True)


def flights() -> Goal:
    return Goal(TIMES_THE_BATCH_JOB, f"≤ {TIMES_THE_BATCH_JOB:g} × the plain Spark job", at_least=False)
