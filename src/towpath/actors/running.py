"""Running the code of one state. Whatever it does, something comes of it that can be written down."""

from __future__ import annotations

import traceback

from towpath import crash
from towpath.actors.planning import TIMED_OUT, plan, plan_failure, plan_otherwise
from towpath.actors.work import Done, Work
from towpath.crash import CrashPoint
from towpath.errors import Refused
from towpath.queue.handling import Handling, handling
from towpath.queue.state import MessageState


def run(work: Work, max_bytes: int) -> Done:
    """Run it, and plan what follows."""
    definition, message = work.definition, work.message
    try:
        kind = definition.kind(message.function)
        state = kind.read(message.payload)
    except Refused as error:
        return failed(work, str(error))
    crash.here(CrashPoint.TURN_BEGUN)
    with handling(Handling(message)):
        try:
            value = definition.actor.transition(state, work.turn)
        except BaseException as error:  # sys.exit() in a state ends its run, not this process
            return failed(work, f"{kind.name}: {type(error).__name__}: {_said(error)}", _trace(error))
    crash.here(CrashPoint.TURN_DONE)
    if kind.is_terminal:
        return Done(work, None, effects=tuple(work.turn.effects))
    try:
        return Done(work, plan(definition, value, max_bytes), effects=tuple(work.turn.effects))
    except Refused as error:
        return failed(work, f"{kind.name}: {error}")


def timed_out(work: Work) -> Done:
    """The answers did not come in time: what the wait has said for that."""
    return Done(work, plan_otherwise(work.message), reason=TIMED_OUT)


def failed(work: Work, reason: str, trace: str | None = None) -> Done:
    """The message is ERR with all that is known, and the run fails; a clean-up that fails is the last that happens."""
    kind = work.definition.states.get(work.message.function)
    planned = None if kind is not None and kind.is_terminal else plan_failure(reason)
    return Done(work, planned, MessageState.ERR, trace or reason)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "(an exception that cannot be shown as text)"


def _trace(error: BaseException) -> str:
    """Without the frame of this module, which says nothing."""
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, inner)).rstrip()
