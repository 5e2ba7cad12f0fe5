"""What is said of a stage, in words: its state, its trouble, who runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from towpath.cli.output import age
from towpath.clock import MICROS, to_datetime
from towpath.flow.codes import ErrorCode
from towpath.flow.pilot import Pilot, PilotState

if TYPE_CHECKING:
    from towpath.events import Event

IDLE = "idle"

MEANINGS = {
    ErrorCode.UNCATEGORISED: "nobody knows what it was",
    ErrorCode.LOG_UNAVAILABLE: "the log does not answer",
    ErrorCode.TOPIC_NOT_FOUND: "a topic is not there",
    ErrorCode.PARTITION_NOT_FOUND: "a partition is not there",
    ErrorCode.RECORD_TOO_BIG: "larger than the flow's limit",
    ErrorCode.OFFSET_NOT_AVAILABLE: "deleted before it was read",
    ErrorCode.NETWORK: "a connection broke or could not be made",
    ErrorCode.NOT_JSON: "not UTF-8, or not JSON",
    ErrorCode.NOT_VALID: "schema or expectation not met",
    ErrorCode.TRANSFORM_FAILED: "a step failed on it",
    ErrorCode.SINK_UNAVAILABLE: "the sink does not answer",
    ErrorCode.SINK_FAILED: "the sink is broken",
    ErrorCode.ITEM_REFUSED: "refused by the sink",
    ErrorCode.SINK_REFUSED: "the sink refuses the request",
}

# From batch to batch: nobody wants a line for each.
EVERYDAY = frozenset({PilotState.EXTRACT, PilotState.TRANSFORM, PilotState.LOAD, PilotState.ERRORS})


def state_word(pilot: Pilot, sample: Mapping[str, Any]) -> str:
    """The state; a stage that waits for records is idle."""
    return IDLE if pilot.state is PilotState.EXTRACT and sample.get("lag") == 0 else str(pilot.state)


def time_in_state(pilot: Pilot, now: int) -> str:
    return age(to_datetime(pilot.since), to_datetime(max(now, pilot.since)))


def code_text(code: int, step: str = "", message: str = "") -> str:
    """`code 9 at label, a step failed on it: KeyError …`"""
    at = f" at {step}" if step else ""
    return f"code {int(code)}{at}, {MEANINGS[ErrorCode(code)]}" + (f": {message}" if message else "")


def trouble_of(pilot: Pilot, now: int) -> str:
    """Why it waits or rests, and for how long; nothing of a stage that is at work."""
    if pilot.is_resting:
        return pilot.reason
    if not pilot.is_waiting or pilot.last_error is None:
        return ""
    error = pilot.last_error
    return f"{next_try(pilot, now)}, attempt {pilot.attempt}: {code_text(error.code, error.step, error.message)}"


def next_try(pilot: Pilot, now: int) -> str:
    verb = "probes" if pilot.state is PilotState.HELD else "tries again"
    left_s = ((pilot.next_try or now) - now) / MICROS
    return f"{verb} in {left_s:.0f} s" if left_s >= 1 else f"{verb} now"


def moved_text(event: Event) -> str:
    """A move as a line tells it, or nothing when it is one of those from batch to batch."""
    before, after = PilotState(event.data["from"]), PilotState(event.data["to"])
    if {before, after} <= EVERYDAY or before is after:
        return ""
    text = f"{event.subject}: {before} → {after}"
    if "code" in event.data:
        text += f", {code_text(event.data['code'], event.data['step'])}"
    return text + (f": {event.why}" if event.why else "")
