"""Random walks of the pilot: it never leaves its table, and never stops waiting for a next try."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from towpath.core.clock import MICROS
from towpath.errors import IllegalFlowMove
from towpath.flow.failures import ErrorCode
from towpath.flow.stage import JITTER, MOVES, RetryWaits, StageMachine, StageState, StageTrouble

LEAST_S, MOST_S = 0.2, 60.0

Step = tuple[str, object]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("moved"), st.sampled_from(StageState)),
    st.tuples(st.just("failed"), st.sampled_from(ErrorCode)),
    st.tuples(st.just("held"), st.just(ErrorCode.SINK_UNAVAILABLE)),
    st.tuples(st.sampled_from(["resumed", "started"]), st.none()),
    st.tuples(st.just("rested"), st.sampled_from([StageState.PAUSED, StageState.STOPPED, StageState.HALTED])),
)


def act(machine: StageMachine, step: Step, now: int, waits: RetryWaits) -> StageMachine:
    match step:
        case ("moved", StageState() as to):
            return machine.moved(to, now, batch_id=now % 3)
        case ("failed", ErrorCode() as code):
            return machine.failed(StageTrouble(code, "s", "m"), now, waits)
        case ("held", ErrorCode() as code):
            return machine.held(StageTrouble(code, "s", "m"), now, waits)
        case (("resumed" | "started") as name, _):
            after: StageMachine = getattr(machine, name)(now)
            return after
        case ("rested", StageState() as state):
            return machine.rested(state, "why", now)
    raise AssertionError(step)


def check(machine: StageMachine, now: int) -> None:
    """What holds in every state."""
    if machine.state in (StageState.RETRY, StageState.HELD):
        assert machine.next_try is not None
        assert machine.resumes is not None
        assert machine.resumes in MOVES[machine.state]
        assert machine.attempt >= 1
        assert machine.is_due(machine.next_try)
    else:
        assert machine.next_try is None
        assert machine.resumes is None
    assert machine.since <= now
    assert (machine.failing is None) == (machine.attempt == 0)
    assert StageMachine.from_value(json.loads(json.dumps(machine.to_value()))) == machine


@given(st.lists(STEPS, max_size=60), st.integers(0, 1 << 30))
def test_a_walk_never_leaves_the_table(steps: list[Step], seed: int) -> None:
    now, waits = 1, RetryWaits(LEAST_S, MOST_S, random.Random(seed))
    machine = StageMachine.new(now)
    for step in steps:
        now += 1
        try:
            after = act(machine, step, now, waits)
        except IllegalFlowMove:
            continue
        if step[0] != "started" and after.state is not machine.state:
            assert after.state in MOVES[machine.state]
        check(after, now)
        machine = after


@given(st.integers(1, 10_000), st.integers(0, 1 << 30))
def test_waits_stay_within_their_bounds(attempt: int, seed: int) -> None:
    wait_s = RetryWaits(LEAST_S, MOST_S, random.Random(seed)).before(attempt) / MICROS
    middle_s = min(MOST_S, LEAST_S * 2 ** (attempt - 1)) if attempt < 60 else MOST_S
    assert middle_s * (1 - JITTER) - 1e-6 <= wait_s <= middle_s * (1 + JITTER) + 1e-6


@given(st.integers(0, 1 << 30))
def test_retries_never_end(seed: int) -> None:
    waits, now = RetryWaits(LEAST_S, MOST_S, random.Random(seed)), 1
    machine = StageMachine(StageState.LOAD, now, batch_id=1)
    for _ in range(200):
        machine = machine.failed(StageTrouble(ErrorCode.SINK_FAILED, "s", "m"), now, waits)
        assert machine.next_try is not None
        assert now < machine.next_try <= now + round(MOST_S * (1 + JITTER) * MICROS)
        now = machine.next_try
        machine = machine.resumed(now)
    assert machine.attempt == 200
