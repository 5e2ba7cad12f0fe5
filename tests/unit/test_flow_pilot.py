"""The pilot: every state with every operation, and what is drawn and written about it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.sweep import sweep

from towpath.core.clock import MICROS
from towpath.errors import IllegalFlowMove
from towpath.flow.failures import Action, ErrorCode
from towpath.flow.stage import (
    JITTER,
    MOVES,
    RESTING,
    RetryWaits,
    StageMachine,
    StageState,
    StageTrouble,
    is_memorable,
    move_event,
)
from towpath.flow.stage.states import POSSIBLE, StageCommandKind
from towpath.settings import FlowSettings

CONFIGURE, EXTRACT, TRANSFORM, LOAD, ERRORS, RETRY, HELD, RESET, PAUSED, STOPPED, HALTED = StageState
WORKING = [CONFIGURE, EXTRACT, TRANSFORM, LOAD, ERRORS, RESET]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "flow-states.md"
LEAST_S, MOST_S = 0.2, 60.0
NOW = 1_700_000_000 * MICROS


class Middle(random.Random):
    """No chance: always the middle."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


WAITS = RetryWaits(LEAST_S, MOST_S, Middle())


def trouble(code: ErrorCode = ErrorCode.NETWORK) -> StageTrouble:
    return StageTrouble(code, "label", "it broke")


def at(state: StageState, resumes: StageState = LOAD) -> StageMachine:
    """A pilot in that state, as it would have come there."""
    if state in (RETRY, HELD):
        return StageMachine(state, NOW, 1, NOW + 200_000, resumes, resumes, trouble(), 7)
    return StageMachine(state, NOW, batch_id=7, reason="why" if state in RESTING else "")


# What is drawn and written


def section(title: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def arrows_of_chart() -> set[tuple[str, str]]:
    block = section("Stages").split("```mermaid")[1].split("```")[0]
    running = block.split("state running {")[1].split("}")[0]
    inside = set(re.findall(r"\w+", re.sub(r":.*", "", running)))
    arrows = set(re.findall(r"^\s+(\w+) --> (\w+)", block, re.MULTILINE))
    composite = {(source, target) for source, target in arrows if source == "running"}
    return (arrows - composite) | {(state, target) for state in inside for _, target in composite}


def table(title: str) -> dict[str, set[str]]:
    """The names in the last column of the table, by the name in the first."""
    found = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", section(title), re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", cells)) for name, cells in found}


def test_the_chart_shows_exactly_the_moves() -> None:
    assert arrows_of_chart() == {(state.value, target.value) for state in MOVES for target in MOVES[state]}


def test_the_table_shows_exactly_the_moves() -> None:
    without_rest = {state.value: {target.value for target in MOVES[state] - RESTING} for state in MOVES}
    assert table("Stages") == without_rest


def test_the_table_of_wishes_is_what_is_possible() -> None:
    assert table("Wishes") == {kind.value: {state.value for state in POSSIBLE[kind]} for kind in StageCommandKind}


def test_every_state_can_be_left_and_reached_and_come_to_rest() -> None:
    assert set(MOVES) == set(StageState)
    assert set().union(*MOVES.values()) == set(StageState)
    assert all((RESTING - {state}) <= MOVES[state] for state in StageState)
    assert all(state not in MOVES[state] for state in StageState)


# Every state × every operation

# To come to rest is always possible. A pilot that waits goes on where it was, in these tests in `load`; into a wait it
# comes by a failure only.
WHERE_TO: dict[StageState, tuple[StageState, ...]] = {
    CONFIGURE: (EXTRACT, RESET, PAUSED, STOPPED, HALTED),
    EXTRACT: (TRANSFORM, RESET, PAUSED, STOPPED, HALTED),
    TRANSFORM: (LOAD, PAUSED, STOPPED, HALTED),
    LOAD: (ERRORS, PAUSED, STOPPED, HALTED),
    ERRORS: (EXTRACT, PAUSED, STOPPED, HALTED),
    RETRY: (LOAD, PAUSED, STOPPED, HALTED),
    HELD: (LOAD, PAUSED, STOPPED, HALTED),
    RESET: (CONFIGURE, PAUSED, STOPPED, HALTED),
    PAUSED: (CONFIGURE, STOPPED, HALTED),
    STOPPED: (CONFIGURE, PAUSED, HALTED),
    HALTED: (CONFIGURE, PAUSED, STOPPED),
}


@sweep("to", StageState)
@sweep("state", StageState)
def test_moved(state: StageState, to: StageState) -> None:
    before = at(state)
    if to not in WHERE_TO[state]:
        with pytest.raises(IllegalFlowMove) as caught:
            before.moved(to, NOW + 1)
        assert (caught.value.state, caught.value.target) == (state, to)
        return
    after = before.moved(to, NOW + 1)
    assert (after.state, after.since, after.next_try, after.resumes, after.reason) == (to, NOW + 1, None, None, "")


AFTER_SUCCESS = {
    CONFIGURE: EXTRACT,
    EXTRACT: TRANSFORM,
    TRANSFORM: LOAD,
    LOAD: ERRORS,
    ERRORS: EXTRACT,
    RESET: CONFIGURE,
}


@pytest.mark.parametrize("to", StageState)
@pytest.mark.parametrize("state", WORKING)
def test_only_what_comes_after_success_ends_the_count_of_failures(state: StageState, to: StageState) -> None:
    if to not in MOVES[state] - {RETRY, HELD}:
        return
    after = replace(at(state), attempt=3, failing=state).moved(to, NOW + 1)
    assert (after.attempt, after.failing) == ((0, None) if to is AFTER_SUCCESS[state] else (3, state))
    other = RESET if state is LOAD else LOAD
    assert replace(at(state), attempt=3, failing=other).moved(to, NOW + 1).attempt == 3, "another state has failed"


def test_a_batch_is_given_with_a_move() -> None:
    assert at(EXTRACT).moved(TRANSFORM, NOW).batch_id == 7
    after = replace(at(EXTRACT), uncategorised=2).moved(TRANSFORM, NOW, batch_id=8)
    assert (after.batch_id, after.uncategorised) == (8, 0)
    assert at(LOAD).with_batch(8).batch_id == 8


Came = dict[StageState, tuple[StageState, StageState | None]]  # to which state, and what it resumes

SAME: Came = {state: (RETRY, state) for state in WORKING}
ANEW: Came = dict.fromkeys(WORKING, (RETRY, CONFIGURE))
PROBE_FAILED: Came = {HELD: (HELD, LOAD)}
ACTIONS: dict[ErrorCode, Action] = {
    ErrorCode.UNCATEGORISED: Action.AGAIN,
    ErrorCode.LOG_UNAVAILABLE: Action.RETRY,
    ErrorCode.TOPIC_NOT_FOUND: Action.RETRY,
    ErrorCode.PARTITION_NOT_FOUND: Action.RETRY,
    ErrorCode.RECORD_TOO_BIG: Action.DIVERT,
    ErrorCode.OFFSET_NOT_AVAILABLE: Action.RESET,
    ErrorCode.NETWORK: Action.RETRY,
    ErrorCode.NOT_JSON: Action.DIVERT,
    ErrorCode.NOT_VALID: Action.DIVERT,
    ErrorCode.TRANSFORM_FAILED: Action.DIVERT,
    ErrorCode.SINK_UNAVAILABLE: Action.RETRY,
    ErrorCode.SINK_FAILED: Action.RETRY,
    ErrorCode.ITEM_REFUSED: Action.DIVERT,
    ErrorCode.SINK_REFUSED: Action.RETRY,
}
FAILED: dict[Action, Came] = {
    Action.RETRY: SAME | PROBE_FAILED,
    Action.AGAIN: ANEW | {HELD: (RETRY, CONFIGURE)},
    Action.DIVERT: ANEW | PROBE_FAILED,
    Action.RESET: ANEW | {HELD: (RETRY, CONFIGURE), CONFIGURE: (RESET, None), EXTRACT: (RESET, None)},
}


@sweep("code", ErrorCode)
@sweep("state", StageState)
def test_failed(state: StageState, code: ErrorCode) -> None:
    before = at(state)
    expected = FAILED[ACTIONS[code]].get(state)
    if expected is None:
        with pytest.raises(IllegalFlowMove) as caught:
            before.failed(trouble(code), NOW + 1, WAITS)
        assert (caught.value.state, caught.value.target) == (state, "retry")
        return
    after = before.failed(trouble(code), NOW + 1, WAITS)
    assert (after.state, after.resumes) == expected
    assert after.last_error == replace(trouble(code), at=NOW + 1)
    assert (after.next_try is not None) == (after.state is not RESET)


@pytest.mark.parametrize("state", [*WORKING, HELD])
def test_only_work_on_a_batch_lays_a_failure_on_it(state: StageState) -> None:
    before = replace(at(state), uncategorised=1)
    after = before.failed(trouble(ErrorCode.UNCATEGORISED), NOW, WAITS)
    assert after.uncategorised == (2 if state in (TRANSFORM, LOAD, ERRORS, HELD) else 1)


def test_another_state_that_fails_has_not_failed_before() -> None:
    after = replace(at(TRANSFORM), failing=LOAD, attempt=4).failed(trouble(), NOW, WAITS)
    assert (after.failing, after.attempt) == (TRANSFORM, 1)


@sweep("state", StageState)
def test_held(state: StageState) -> None:
    if state not in (TRANSFORM, LOAD, HELD):
        with pytest.raises(IllegalFlowMove) as caught:
            at(state).held(trouble(), NOW + 1, WAITS)
        assert (caught.value.state, caught.value.target) == (state, "held")
        return
    after = at(state).held(trouble(), NOW + 1, WAITS)
    assert (after.state, after.resumes) == (HELD, LOAD if state is HELD else state)
    assert after.since == (NOW if state is HELD else NOW + 1)


@sweep("state", StageState)
def test_resumed(state: StageState) -> None:
    expected = {RETRY: LOAD, HELD: LOAD, PAUSED: CONFIGURE, STOPPED: CONFIGURE, HALTED: CONFIGURE}.get(state)
    if expected is None:
        with pytest.raises(IllegalFlowMove) as caught:
            at(state).resumed(NOW + 1)
        assert (caught.value.state, caught.value.target) == (state, "resumed")
        return
    assert at(state).resumed(NOW + 1).state is expected


def test_a_wait_for_nothing_cannot_be_ended() -> None:
    with pytest.raises(IllegalFlowMove) as caught:
        StageMachine(RETRY, NOW).resumed(NOW)
    assert (caught.value.state, caught.value.target) == (RETRY, "resumed")


@sweep("rest", [PAUSED, STOPPED, HALTED])
@sweep("state", StageState)
def test_rests(state: StageState, rest: StageState) -> None:
    if state is rest:
        with pytest.raises(IllegalFlowMove) as caught:
            at(state).rested(rest, "lunch", NOW + 1)
        assert (caught.value.state, caught.value.target) == (state, rest)
        return
    after = at(state).rested(rest, "lunch", NOW + 1)
    assert (after.state, after.since, after.reason, after.next_try) == (rest, NOW + 1, "lunch", None)
    assert after.is_resting


@sweep("state", StageState)
def test_started(state: StageState) -> None:
    """A restart is no decision of a person: what was paused or halted stays so."""
    after = at(state).started(NOW + 1)
    assert after.state is (state if state in (PAUSED, HALTED) else CONFIGURE)
    if after.state is CONFIGURE:
        assert (after.since, after.resumes, after.next_try, after.batch_id) == (NOW + 1, None, None, 7)


@sweep("state", StageState)
def test_json_round_trip(state: StageState) -> None:
    machine = replace(at(state), uncategorised=2)
    assert StageMachine.from_value(json.loads(json.dumps(machine.to_value()))) == machine


def test_what_is_stored() -> None:
    machine = StageMachine(RETRY, NOW, resumes=LOAD, failing=LOAD, last_error=trouble())
    assert machine.to_value() == {
        "state": "retry",
        "since": NOW,
        "attempt": 0,
        "next_try": None,
        "resumes": "load",
        "failing": "load",
        "last_error": {"code": 6, "step": "label", "message": "it broke", "at": 0},
        "batch_id": None,
        "uncategorised": 0,
        "reason": "",
    }
    again = StageMachine.from_value(json.loads(json.dumps(machine.to_value())))
    assert again.state is RETRY, "not a text that is equal to it"
    assert again.resumes is LOAD
    assert again.failing is LOAD


def test_json_of_an_older_towpath_can_be_read() -> None:
    assert StageMachine.from_value({"state": "load", "since": NOW}) == StageMachine(LOAD, NOW)


def test_json_of_a_newer_towpath_can_be_read() -> None:
    assert StageMachine.from_value({**at(LOAD).to_value(), "mood": "fine"}) == at(LOAD)


def test_a_new_one_has_not_been_started() -> None:
    assert (StageMachine.new(NOW).state, StageMachine.new(NOW).since) == (STOPPED, NOW)
    assert StageMachine.new(NOW).reason
    assert StageMachine.new(NOW).started(NOW).state is CONFIGURE


# Waiting and counting


def test_waits_double_up_to_the_limit() -> None:
    waits = [WAITS.before(attempt) / MICROS for attempt in range(1, 14)]
    assert waits[:4] == [0.2, 0.4, 0.8, 1.6]
    assert waits[8:] == [51.2, 60.0, 60.0, 60.0, 60.0]
    assert WAITS.before(10**6) / MICROS == 60.0


def test_the_settings_say_from_where_to_where_waits_grow() -> None:
    waits = RetryWaits.of(FlowSettings(retry_least_s=0.5, retry_most_s=3.0), Middle())
    assert [waits.before(attempt) for attempt in (1, 2, 3, 4, 5)] == [
        500_000,
        1_000_000,
        2_000_000,
        3_000_000,
        3_000_000,
    ]


def test_waits_are_spread() -> None:
    waits = [RetryWaits(LEAST_S, MOST_S, random.Random(seed)).before(1) / MICROS for seed in range(300)]
    assert LEAST_S * (1 - JITTER) <= min(waits) < LEAST_S * 0.7
    assert LEAST_S * 1.3 < max(waits) <= LEAST_S * (1 + JITTER)


def test_it_is_due_when_the_wait_is_over() -> None:
    waiting = at(LOAD).failed(trouble(), NOW, WAITS)
    assert waiting.next_try == NOW + 200_000
    assert not waiting.is_due(NOW + 199_999)
    assert waiting.is_due(NOW + 200_000)
    assert not at(LOAD).is_due(NOW * 2)


def test_the_attempt_grows_until_the_state_that_failed_has_done_its_work() -> None:
    machine = at(LOAD)
    for attempt in range(1, 4):
        machine = machine.failed(trouble(), NOW, WAITS)
        assert machine.attempt == attempt
        machine = machine.resumed(NOW)
        assert machine.attempt == attempt
    assert machine.moved(ERRORS, NOW).attempt == 0


def test_starting_anew_does_not_count_as_success() -> None:
    """Code 0 in `load` goes all the way from `configure`; else the wait would never grow."""
    machine = at(LOAD)
    for attempt in range(1, 6):
        machine = machine.failed(trouble(ErrorCode.UNCATEGORISED), NOW, WAITS)
        assert (machine.state, machine.resumes, machine.attempt) == (RETRY, CONFIGURE, attempt)
        machine = machine.resumed(NOW).moved(EXTRACT, NOW).moved(TRANSFORM, NOW, batch_id=7).moved(LOAD, NOW)
    assert machine.attempt == 5
    assert machine.moved(ERRORS, NOW).attempt == 0


def test_an_outage_counts_with_the_failures_of_its_state() -> None:
    machine = at(LOAD).held(trouble(), NOW, WAITS).held(trouble(), NOW, WAITS)
    assert machine.attempt == 2
    assert machine.resumed(NOW).failed(trouble(), NOW, WAITS).attempt == 3


@pytest.mark.parametrize("code", [ErrorCode.UNCATEGORISED, ErrorCode.TRANSFORM_FAILED])
def test_the_third_time_the_record_is_searched(code: ErrorCode) -> None:
    machine = replace(at(TRANSFORM), batch_id=7)
    for expected in (False, False, True, True):
        machine = machine.failed(trouble(code), NOW, WAITS)
        assert machine.needs_search is expected
        machine = StageMachine.from_value(json.loads(json.dumps(machine.to_value()))).started(
            NOW
        )  # a restart changes nothing
        machine = machine.moved(EXTRACT, NOW).moved(TRANSFORM, NOW, batch_id=7)


def test_another_batch_has_not_failed_yet() -> None:
    machine = replace(at(TRANSFORM), uncategorised=3)
    assert machine.needs_search
    assert not machine.with_batch(8).needs_search
    assert machine.with_batch(7).needs_search
    committed = machine.moved(LOAD, NOW).moved(ERRORS, NOW).moved(EXTRACT, NOW)
    assert (committed.batch_id, committed.uncategorised) == (None, 0)


def test_a_failure_between_batches_is_no_records_fault() -> None:
    machine = replace(at(EXTRACT), batch_id=7, uncategorised=2)
    assert machine.failed(trouble(ErrorCode.UNCATEGORISED), NOW, WAITS).uncategorised == 2


def test_another_error_in_between_does_not_clear_the_record() -> None:
    machine = replace(at(LOAD), uncategorised=2).failed(trouble(ErrorCode.NETWORK), NOW, WAITS)
    assert machine.uncategorised == 2


def test_a_reset_that_did_not_help_is_repeated_after_a_wait() -> None:
    code5 = trouble(ErrorCode.OFFSET_NOT_AVAILABLE)
    machine = at(CONFIGURE).failed(code5, NOW, WAITS)
    assert (machine.state, machine.next_try) == (RESET, None)
    machine = machine.moved(CONFIGURE, NOW).failed(code5, NOW, WAITS)
    assert (machine.state, machine.resumes, machine.attempt) == (RETRY, RESET, 2)
    assert machine.resumed(NOW).state is RESET


def test_a_reset_gives_the_batch_up() -> None:
    machine = replace(at(RESET), uncategorised=2).moved(CONFIGURE, NOW)
    assert (machine.batch_id, machine.uncategorised) == (None, 0)


# What is told


def test_only_unusual_moves_are_kept() -> None:
    everyday = {EXTRACT, TRANSFORM, LOAD, ERRORS}
    for state in StageState:
        for to in StageState:
            expected = state is not to and not {state, to} <= everyday
            assert is_memorable(at(state), at(to)) is expected


def test_a_move_is_told_with_its_cause() -> None:
    before = at(LOAD)
    event = move_event("views", "main", before, before.failed(trouble(), NOW + 5, WAITS))
    assert (event.kind, event.subject, event.why) == ("flow_moved", "views/main", "it broke")
    assert event.data == {
        "from": "load",
        "to": "retry",
        "batch_id": 7,
        "attempt": 1,
        "next_try": NOW + 200_005,
        "resumes": "load",
        "code": 6,
        "step": "label",
    }


@pytest.mark.parametrize(("before", "after", "told"), [(7, None, 7), (None, 7, 7), (7, 8, 8), (None, None, None)])
def test_a_move_is_told_with_its_batch(before: int | None, after: int | None, told: int | None) -> None:
    """Also the one that ends it."""
    event = move_event("views", "main", replace(at(ERRORS), batch_id=before), replace(at(EXTRACT), batch_id=after))
    assert event.data["batch_id"] == told


def test_an_old_error_is_not_told_again() -> None:
    failed = at(LOAD).failed(trouble(), NOW, WAITS)
    event = move_event("views", "main", failed, failed.resumed(NOW + 9))
    assert (event.why, event.data) == ("", {"from": "retry", "to": "load", "batch_id": 7})
    assert move_event("views", "main", at(LOAD), at(LOAD).rested(PAUSED, "lunch", NOW)).why == "lunch"
