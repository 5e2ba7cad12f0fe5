"""Intake: from records in the error topic to cases, groups, attempts and bodies in the database."""

from __future__ import annotations

import time

from bench.desk.errors import append_errors, intake_of, make_flow
from towpath.db.database import Query
from towpath.runtime import Runtime

ERRORS = 100_000
FLOW = "shop"


def rate_s(runtime: Runtime, errors: int = ERRORS) -> float:
    """Errors taken in a second, from the first read to the last commit; all of them are there afterwards."""
    make_flow(runtime, FLOW)
    append_errors(runtime, FLOW, errors)
    intake = intake_of(runtime)
    intake.sources()  # what is read once
    begun = time.perf_counter()
    while intake.run_once().done:
        pass
    seconds = time.perf_counter() - begun
    intake.on_stop()
    check(runtime, errors)
    return errors / seconds


def check(runtime: Runtime, errors: int) -> None:
    for table in ("desk_case", "desk_attempt", "desk_body"):
        with runtime.database.read() as tx:
            found = tx.rows(Query("count", f"select count(*) from {table}", uses_now=False), {})[0][0]
        if found != errors:
            raise AssertionError(f"{found} rows of {errors} in {table}")
