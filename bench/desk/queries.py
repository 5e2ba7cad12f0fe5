"""Lists and counts over many cases, and whether they slow the intake down."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from statistics import median

from bench.desk.errors import STAGE, append_errors, intake_of, make_flow
from towpath.desk.cases.model import Case, CaseSelection, CaseState, NewCase, case_id
from towpath.desk.cases.store import AttemptStore, CaseStore, HistoryStore
from towpath.desk.groups.model import Fingerprint
from towpath.desk.groups.store import GroupStore
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.runtime import Runtime

FLOW = "shop"
GROUPS = 500
AT_ONCE = 2_000
PAGE = 50
TIMES = 41
PORTION = 1_000
PORTIONS = 9


def fill(runtime: Runtime, cases: int) -> None:
    """Open cases of one flow in 500 groups, of which one has half of them."""
    make_flow(runtime, FLOW)
    database = runtime.database
    store, groups, now = CaseStore(database), GroupStore(database), database.now()
    marks = [_fingerprint(number) for number in range(GROUPS)]
    with database.transaction() as tx:
        ids, _ = groups.of_fingerprints(tx, FLOW, marks, now)
    for start in range(0, cases, AT_ONCE):
        portion = [_case(number, marks, ids, now) for number in range(start, min(start + AT_ONCE, cases))]
        with database.transaction() as tx:
            store.insert(tx, portion)


def query_times_s(runtime: Runtime) -> dict[str, list[float]]:
    """Seconds of each query, asked many times for different things."""
    database = runtime.database
    store, groups = CaseStore(database), GroupStore(database)
    attempts, history = AttemptStore(database), HistoryStore(database)
    some = _some(runtime)
    states = (CaseState.OPEN,)
    turn = count()

    def timed(act: Callable[[Case], object]) -> list[float]:
        found = []
        for _ in range(TIMES):
            chosen = some[next(turn) % len(some)]
            begun = time.perf_counter()
            act(chosen)
            found.append(time.perf_counter() - begun)
        return found

    def listed(selection: Callable[[Case], CaseSelection]) -> Callable[[Case], object]:
        def act(case: Case) -> object:
            with database.read() as tx:
                return store.page(tx, selection(case), PAGE, before=case.seq)

        return act

    def page_of_groups(_: Case) -> object:
        with database.read() as tx:
            return groups.page(tx, flow=FLOW, limit=PAGE)

    def counted(_: Case) -> object:
        with database.read() as tx:
            return store.count(tx, CaseSelection(flow=FLOW, states=states))

    def shown(case: Case) -> object:
        with database.read() as tx:
            found = store.find(tx, case.id)
            return store.bodies(tx, [found.id]), attempts.of_case(tx, found.id), history.of_case(tx, found.id)

    return {
        "GROUPS": timed(page_of_groups),
        "OPEN": timed(listed(lambda case: CaseSelection(flow=FLOW, states=states))),
        "GROUP": timed(listed(lambda case: CaseSelection(group=case.group_id, states=states))),
        "CAUSE": timed(listed(lambda case: CaseSelection(flow=FLOW, step=case.step, code=case.code, states=states))),
        "COUNT": timed(counted),
        "SHOW": timed(shown),
    }


def take_s(runtime: Runtime) -> float:
    """Seconds for a thousand errors of a known cause, the median of some portions."""
    intake = intake_of(runtime)
    append_errors(runtime, FLOW, PORTION, start=10_000_000)
    intake.run_once()  # makes the group, and warms everything up
    found = []
    for number in range(PORTIONS):
        append_errors(runtime, FLOW, PORTION, start=20_000_000 + number * PORTION)
        begun = time.perf_counter()
        while intake.run_once().done:
            pass
        found.append(time.perf_counter() - begun)
    intake.on_stop()
    return median(found)


def _some(runtime: Runtime) -> list[Case]:
    """Cases from everywhere in the table."""
    with runtime.database.read() as tx:
        (newest,) = CaseStore(runtime.database).page(tx, CaseSelection(), 1)
        wanted = [max(1, newest.seq * part // TIMES) for part in range(1, TIMES + 1)]
        return [CaseStore(runtime.database).find(tx, str(seq)) for seq in wanted]


def _fingerprint(number: int) -> Fingerprint:
    return Fingerprint.of(RecordFailure(ErrorCode.TRANSFORM_FAILED, f"step-{number % 50}", f"Error{number}", "no"))


def _case(number: int, marks: list[Fingerprint], ids: dict[str, int], now: int) -> NewCase:
    mark = marks[0] if number % 2 else marks[number // 2 % GROUPS]
    return NewCase(
        case_id(1_700_000_000_000 + number, FLOW, number),
        FLOW,
        STAGE,
        "error",
        ids[mark.text],
        mark.text,
        CaseState.OPEN,
        mark.code,
        mark.step,
        mark.exception,
        "no",
        None,
        "orders",
        "orders-id",
        number % 4,
        number // 4,
        None,
        b"k%d" % number,
        "b" * 64,
        f"{FLOW}.errors",
        number % 4,
        number // 4,
        now - number,
        100,
        b"x" * 100,
        headers="[]",
    )
