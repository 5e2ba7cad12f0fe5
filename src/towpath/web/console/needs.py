"""What needs a person, in words with links: the first thing that an overview says. The worst comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from towpath.actors.phase import Phase
from towpath.boundary.state import UploadState
from towpath.catalog.complaint_state import ComplaintState
from towpath.desk.figures import Figures
from towpath.desk.group import Group
from towpath.desk.group_state import GroupState
from towpath.flow.look import Look
from towpath.flow.pilot import PilotState
from towpath.queue import MessageState
from towpath.queue.selection import Selection
from towpath.runtime import Runtime
from towpath.supervision.duty_desk import Overview
from towpath.supervision.duty_state import DutyState
from towpath.web.console.filters import link, span
from towpath.web.console.flow_standing import is_left
from towpath.web.console.process_pages import is_unwatched

MOST_COUNTED = 100  # of each kind; what is more is "100 or more"
LATE_S = 60.0  # for so long something may be due in a lane before anybody need look


class Need(NamedTuple):
    """One sentence. `is_bad`: something stands still until somebody acts."""

    text: str
    href: str
    is_bad: bool = False


def needs_of(
    runtime: Runtime,
    found: Sequence[Look],
    duties: Overview,
    gone: frozenset[str],
    counts: dict[str, dict[Phase, int]],
    owner: str | None,
) -> list[Need]:
    """All of them; `owner` is whose uploads are seen, none: everybody's."""
    needs = [
        *_flows(found),
        *_processes(duties, gone),
        *_groups(runtime),
        *_lanes(runtime),
        *_uploads(runtime, owner),
        *_actors(counts),
        *_messages(runtime),
        *_complaints(runtime),
    ]
    return sorted(needs, key=lambda need: not need.is_bad)


def _flows(found: Sequence[Look]) -> Iterator[Need]:
    said = {
        PilotState.HALTED: ("has halted", True),
        PilotState.HELD: ("is held by an outage", False),
        PilotState.RETRY: ("waits to try again", False),
        PilotState.PAUSED: ("is paused", False),
    }
    for look in found:
        stage, href = look.stage, f"/flows/{link(look.stage.flow)}?stage={link(look.stage.name)}"
        name = stage.flow if stage.name in stage.topology.get("topics", ()) else f"{stage.flow}/{stage.name}"
        if stage.pilot.state in said:
            text, is_bad = said[stage.pilot.state]
            yield Need(f"{name} {text}", href, is_bad)
        elif is_left(look):
            yield Need(f"nobody runs {name}", href, is_bad=True)


def _processes(duties: Overview, gone: frozenset[str]) -> Iterator[Need]:
    if is_unwatched(duties, gone):
        yield Need("nobody watches over the processes: towpath up", "/processes", is_bad=True)
    for duty in duties.duties:
        if duty.is_wanted and (duty.state is DutyState.FAILED or duty.name in gone):
            yield Need(f"{duty.name} does not run", f"/processes/{link(duty.name)}", is_bad=True)


def _groups(runtime: Runtime) -> Iterator[Need]:
    for state, many in ((GroupState.REGRESSED, "are back"), (GroupState.NEW, "are new")):
        groups = runtime.desk.groups.page(state=state, limit=MOST_COUNTED)
        one = "is back" if state is GroupState.REGRESSED else "is new"
        if groups:
            yield Need(_counted(len(groups), "group", one, many), _of_groups(groups, state))


def _of_groups(groups: Sequence[Group], state: GroupState) -> str:
    return f"/desk/groups/{groups[0].id}" if len(groups) == 1 else f"/desk/groups?state={state}"


def _lanes(runtime: Runtime) -> Iterator[Need]:
    late = {(flow, lane): seconds for flow, lane, seconds in Figures(runtime.database).late_s() if seconds > LATE_S}
    for (flow, lane), seconds in late.items():
        yield Need(f"lane {lane} of {flow} is {span(seconds)} late", f"/desk/lanes/{link(flow)}/{lane}", is_bad=True)


def _uploads(runtime: Runtime, owner: str | None) -> Iterator[Need]:
    closing = runtime.gateway.list(owner=owner, state=UploadState.CLOSING, limit=MOST_COUNTED)
    failed = [each for each in closing if each.why]
    if failed:
        href = f"/uploads/{link(failed[0].id)}" if len(failed) == 1 else f"/uploads?state={UploadState.CLOSING}"
        yield Need(_counted(len(failed), "upload", "cannot be closed", "cannot be closed"), href, is_bad=True)


def _actors(counts: dict[str, dict[Phase, int]]) -> Iterator[Need]:
    failed = Counter({actor: phases[Phase.FAILED] for actor, phases in counts.items() if phases.get(Phase.FAILED)})
    if failed:
        actor = f"&actor={link(next(iter(failed)))}" if len(failed) == 1 else ""
        text = _counted(failed.total(), "actor", "has failed", "have failed", most=None)
        yield Need(text, f"/actors?phase={Phase.FAILED}{actor}")


def _messages(runtime: Runtime) -> Iterator[Need]:
    browser = runtime.queue.browser()
    for state, one, many in (
        (MessageState.ERR, "has failed", "have failed"),
        (MessageState.DEAD, "is dead", "are dead"),
    ):
        found = browser.search(Selection(state=state), limit=MOST_COUNTED).items
        if found:
            yield Need(_counted(len(found), "message", one, many), f"/queue/messages?state={state}")


def _complaints(runtime: Runtime) -> Iterator[Need]:
    count = runtime.complaints.counts().get(ComplaintState.NEW, 0)
    if count:
        text = _counted(count, "complaint", "waits", "wait", most=None)
        yield Need(f"{text} for an answer", f"/complaints?state={ComplaintState.NEW}")


def _counted(count: int, noun: str, one: str, many: str, most: int | None = MOST_COUNTED) -> str:
    """`1 group is new`, `3 groups are new`, `100 or more groups are new`."""
    if count == 1:
        return f"1 {noun} {one}"
    more = f"{count:,} or more" if most is not None and count >= most else f"{count:,}"
    return f"{more} {noun}s {many}"
