"""A sink refuses a record when it is offered, and would take it the next time: what was stored first counts."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest
from tests.recovery.delivery.points import Case
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shape import COUNT, GOOD
from tests.recovery.delivery.shapes import REFUSING
from tests.recovery.delivery.target import Target
from tests.recovery.delivery.targets import IndexTarget, PostgresTarget, SqliteTarget
from tests.support.elasticsearch import Node

from towpath.core.crash import CrashPoint as P
from towpath.flow.delivery.ids import Strategy
from towpath.log import NewRecord

MakeRig = Callable[[Case], Rig]
LATER = COUNT  # the number of the record in question
UNFIT = 7
STORED = (P.REFUSING_SINKS_DONE, P.BATCH_LOADED, P.OUTCOME_STORED, P.ERRORS_SENT, P.BATCH_COMMITTED)
ALL = [
    *((target, P.TABLE_AFTER_COMMIT) for target in ("sqlite", "postgres")),
    *((target, point) for target in ("sqlite", "postgres", "index") for point in STORED),
]
FAST = [("sqlite", P.TABLE_AFTER_COMMIT), ("index", P.REFUSING_SINKS_DONE)]


def set_rule(target: Target, *, is_there: bool) -> None:
    """Whether the sink refuses the record."""
    if isinstance(target, SqliteTarget):
        with sqlite3.connect(target.home / "out.db") as sqlite:
            if is_there:
                sqlite.execute(
                    "create trigger unfit before insert on out_main when new.fits = 7 "
                    "begin select raise(abort, 'not today'); end"
                )
            else:
                sqlite.execute("drop trigger unfit")
    elif isinstance(target, PostgresTarget):
        with psycopg.connect(target.url, autocommit=True) as postgres:
            change = f"add constraint unfit check (fits <> {UNFIT})" if is_there else "drop constraint unfit"
            postgres.execute(f"alter table {target.schema}.out_main {change}".encode())
    elif isinstance(target, IndexTarget) and not is_there:  # an integer is asked for from the beginning
        mapping = {"properties": {"fits": {"type": "integer", "ignore_malformed": True}}}
        Node(target.url).ask("PUT", f"/{target.indices}-main/_mapping", json.dumps(mapping))


def decided_once(rig: Rig) -> None:
    rig.send(0, COUNT)
    rig.attempt()  # makes the tables
    set_rule(rig.target, is_there=True)
    fits = "unfit" if isinstance(rig.target, IndexTarget) else UNFIT
    text = json.dumps({"n": LATER, "kind": GOOD, "fits": fits}).encode()
    runtime = rig.world.connect()
    runtime.log.append(rig.topics[0], [NewRecord(text, b"%d" % LATER)])
    rig.world.close()
    rig.world.runtimes.clear()
    assert rig.attempt(rig.case.crash_at), "nobody came by there"
    set_rule(rig.target, is_there=False)
    rig.finish()
    rig.world.connect()
    seen = rig.seen()
    places = Counter(name for name, rows in seen.outputs.items() for row in rows if row["n"] == LATER)
    assert (seen.failed[LATER], places) == (1, Counter())


@pytest.mark.parametrize(("target", "point"), FAST)
def test_stored_refusal_counts(target: str, point: P, make_rig: MakeRig) -> None:
    decided_once(make_rig(Case(REFUSING, Strategy.EXACTLY_ONCE, target, point)))


@pytest.mark.part("recovery")
@pytest.mark.parametrize(("target", "point"), ALL)
def test_stored_refusal_counts_everywhere(target: str, point: P, make_rig: MakeRig) -> None:
    decided_once(make_rig(Case(REFUSING, Strategy.EXACTLY_ONCE, target, point)))
