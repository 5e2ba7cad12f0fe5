"""What is said of a stage, in words: its state, its trouble, who runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.cli.output import age
from towpath.clock import MICROS, to_datetime
from towpath.flow.codes import MEANINGS, ErrorCode
from towpath.flow.pilot import Pilot, PilotState

if TYPE_CHECKING:
    from towpath.events import Event

# From batch to batch: nobody wants a line for each.
EVERYDAY = frozenset({PilotState.EXTRACT, PilotState.TRANSFORM, PilotState.LOAD, PilotState.ERRORS})


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
