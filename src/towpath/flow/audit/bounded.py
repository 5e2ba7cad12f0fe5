"""An audit for who waits for the answer: it is not begun when there is too much to read, and given up in time.

`towpath audit` has no such bounds.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from towpath.db import Database, Queries
from towpath.errors import LogError
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.counting import Progress
from towpath.flow.audit.verdict import Verdict
from towpath.flow.audit.view import topic_state
from towpath.flow.look import looks
from towpath.flow.place import Places
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

MOST_BATCHES = 50_000  # the whole ledger of a flow is held in memory
MOST_OFFSETS = 2_000_000


class Counted(NamedTuple):
    """A verdict, or why there is none."""

    verdict: Verdict | None
    why: str = ""


class _OutOfTime(Exception):
    """It takes too long."""


def audit_within(
    database: Database, log: Log, flow: str, within_s: float, error_topic: str | None, places: Places | None
) -> Counted:
    """Count the records of a flow, if that can be done in time; raises `UnknownFlow`."""
    looks(database, flow)
    anyway = f"towpath audit {flow}"
    until = time.monotonic() + within_s

    def telling(what: str) -> Progress:
        def progress(done: int) -> None:
            if time.monotonic() >= until:
                raise _OutOfTime()

        return progress

    try:
        if within_s <= 0:
            return Counted(None, "nothing was counted, as was asked for")
        if _count_batches(database, flow) > MOST_BATCHES:
            return Counted(None, f"it has more than {MOST_BATCHES:,} batches; to count all the same: {anyway}")
        offsets = _count_offsets(database, log, flow, error_topic)
        if offsets > MOST_OFFSETS:
            return Counted(None, f"up to {offsets:,} records would have to be read; to do that: {anyway}")
        return Counted(Audit(database, log, flow, None, error_topic, places, telling).run())
    except _OutOfTime:
        return Counted(None, f"it takes longer than {within_s:g} s; without a limit: {anyway}")
    except LogError as error:
        return Counted(None, f"the topics cannot be read: {error}")


def _count_batches(database: Database, flow: str) -> int:
    """No further than one beyond the most."""
    sql = Queries("towpath.flow.audit", "audit", database.dialect)
    with database.read() as tx:
        [(count,)] = tx.rows(sql["count_batches"], {"flow": flow, "most": MOST_BATCHES + 1})
    return int(count)


def _count_offsets(database: Database, log: Log, flow: str, error_topic: str | None) -> int:
    own = FlowTopics.of(flow, error_topic)
    names = {own.errors, *(name for look in looks(database, flow) for name in look.stage.topics)}
    found = [topic_state(log, name) for name in names]
    return sum(end - each.starts.get(number, 0) for each in found for number, end in each.ends.items())
