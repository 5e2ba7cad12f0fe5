"""What is there in the end, read from where it lies."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from soak.up.work import ACTOR, FLOW, SOURCE
from towpath.actors.instance import Phase
from towpath.desk.cases.model import CaseSelection
from towpath.flow.delivery.ledger import BatchState, Ledger
from towpath.runtime import Runtime

PAGE = 1000


@dataclass(frozen=True)
class Found:
    """Numbers of records, by where they are, and results of actors."""

    loaded: Counter[int]
    cases: Counter[tuple[int, str]]  # with the state of the case
    ended: Counter[int]  # runs that took all their steps
    others: Counter[str]  # runs by phase, of those that have not ended


def look(runtime: Runtime, home: Path) -> Found:
    ended, others = _runs(runtime)
    return Found(_loaded(home), _cases(runtime), ended, others)


def _loaded(home: Path) -> Counter[int]:
    with closing(sqlite3.connect(f"file:{home}/loaded.db?mode=ro", uri=True)) as connection:
        return Counter(json.loads(text)["n"] for (text,) in connection.execute("select document from loaded"))


def _cases(runtime: Runtime) -> Counter[tuple[int, str]]:
    found: Counter[tuple[int, str]] = Counter()
    before = None
    while True:
        page = runtime.desk.cases.page(CaseSelection(flow=FLOW), limit=PAGE, before=before)
        found.update((int(case.key or b""), str(case.state)) for case in page.cases)
        if page.next is None:
            return found
        before = page.next


def _runs(runtime: Runtime) -> tuple[Counter[int], Counter[str]]:
    ended: Counter[int] = Counter()
    others: Counter[str] = Counter()
    for instance in runtime.actors.instances(actor=ACTOR, limit=100_000):
        if instance.phase is Phase.ENDED:
            ended[int(instance.instance.removeprefix("n"))] += 1
        else:
            others[str(instance.phase)] += 1
    return ended, others


def batches_between(runtime: Runtime, since: datetime, until: datetime) -> int:
    """How many batches of the flow were committed in that time."""
    with runtime.database.read() as tx:
        rows = Ledger(runtime.database).batches(tx, FLOW, SOURCE, limit=100_000)
    return sum(
        each.state is BatchState.COMMITTED and each.committed_at is not None and since <= each.committed_at <= until
        for each in rows
    )
