"""How stages stand, for people: what troubles them, how far they are, and what has become of what they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from towpath.desk.figures import Figures
from towpath.desk.masking import MASK, Masks
from towpath.errors import LogError, UnknownTopic
from towpath.flow.batch_counts import counts_of
from towpath.flow.codes import MEANINGS
from towpath.flow.ledger import Ledger
from towpath.flow.look import Look
from towpath.flow.pilot import PilotState
from towpath.flow.reset_ahead import LATEST, PartitionAhead, reset_ahead
from towpath.flow.wish import POSSIBLE, WishKind

if TYPE_CHECKING:
    from towpath.runtime import Runtime

# What comes first for a person, when there are several.
_URGENT = (PilotState.HALTED, PilotState.HELD, PilotState.RETRY, PilotState.RESET, PilotState.PAUSED)
_LEFT = len(_URGENT) - 1  # nobody runs it: less than what has halted, more than what was paused


def urgency(look: Look) -> int:
    """The lowest comes first."""
    state = look.stage.pilot.state
    if state in _URGENT[:_LEFT]:
        return _URGENT.index(state)
    return _LEFT if is_left(look) else _LEFT + 1


def is_left(look: Look) -> bool:
    """Whether nobody runs what no person has stopped."""
    return not look.is_run and look.stage.pilot.state not in (PilotState.STOPPED, PilotState.PAUSED)


def is_urgent(look: Look) -> bool:
    """Whether a person should look at it: it waits for one, it cannot do its work, or nobody runs it."""
    return look.stage.pilot.state in (PilotState.HALTED, PilotState.HELD, PilotState.RETRY) or is_left(look)


def trouble_of(look: Look, masks: Masks) -> str:
    """Why it waits or rests. What was said of an error quotes records, which not everybody may see."""
    pilot, is_masked = look.stage.pilot, bool(masks.of(look.stage.flow))
    if pilot.reason:
        return MASK if is_masked and pilot.state is PilotState.HALTED else pilot.reason
    if pilot.is_waiting and pilot.last_error is not None:
        error = pilot.last_error
        at = f" at {error.step}" if error.step else ""
        said = MASK if is_masked else error.message
        return f"code {int(error.code)}{at}, {MEANINGS[error.code]}: {said}"
    return f"nobody runs it: {look.stage.owner} is {look.runner}" if is_left(look) else ""


def possible(found: Sequence[Look]) -> list[WishKind]:
    """What can be asked of one stage at least."""
    return [kind for kind in WishKind if any(_can(look, kind) for look in found)]


def _can(look: Look, kind: WishKind) -> bool:
    return look.stage.pilot.state in POSSIBLE[kind] and (look.is_run or kind is not WishKind.STOP)


def totals_of(runtime: Runtime, found: Sequence[Look]) -> dict[tuple[str, str], dict[str, int]]:
    """What each stage has counted, by flow and stage."""
    ledger = Ledger(runtime.database)
    with runtime.database.read() as tx:
        flows = {flow: ledger.totals(tx, flow) for flow in {look.stage.flow for look in found}}
    return {(flow, stage): counts_of(totals) for flow, of in flows.items() for stage, totals in of.items()}


def on_the_desk(runtime: Runtime) -> dict[tuple[str, str], int]:
    """Cases by flow and state."""
    return {(flow, state): count for flow, state, count in Figures(runtime.database).cases()}


def partitions_of(runtime: Runtime, look: Look) -> list[dict[str, Any]] | None:
    """Where it is in each partition. Of a stage that nobody runs the log is asked; None: that cannot be done."""
    if look.is_run:
        return [each for each in look.stage.sample.get("partitions", []) if _is_shown(look, each["topic"], each["end"])]
    try:
        ahead = reset_ahead(runtime.database, runtime.log, look.stage.flow, LATEST, look.stage.name)
    except (LogError, UnknownTopic):
        return None
    return [_partition(each) for each in ahead if _is_shown(look, each.topic, each.end)]


def _partition(ahead: PartitionAhead) -> dict[str, Any]:
    position = ahead.start if ahead.position is None else ahead.position
    lag = max(0, ahead.end - max(position, ahead.start))
    place = {"topic": ahead.topic, "partition": ahead.partition, "position": position, "end": ahead.end}
    return {**place, "lag": lag, "rate": 0.0}


def _is_shown(look: Look, topic: str, end: int) -> bool:
    """Those of the re-entry topic only when something has come back."""
    return bool(end) or topic in look.stage.topology.get("topics", ())
