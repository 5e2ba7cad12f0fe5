"""The overview: what needs a person first, in words with links, the worst before the others; then everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.roles import Principal
from towpath.actors.instance import LIVE, Phase
from towpath.catalog.complaints.store import ComplaintState
from towpath.core.clock import to_datetime
from towpath.desk.cases.model import LIVE as ON_THE_DESK
from towpath.desk.groups.model import Group, GroupState
from towpath.desk.record_queries import DeskMetrics
from towpath.flow.stage import StageState
from towpath.flow.stage.status import StageStatus, stage_statuses
from towpath.gateway.uploads.model import UploadState
from towpath.queue import MessageState
from towpath.queue.model import MessageSelection
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DutyState
from towpath.supervision.service import Overview
from towpath.web.auth import Reader, runtime_of
from towpath.web.console.desk.groups import title_of
from towpath.web.console.flows.flows import is_left, on_the_desk, totals_of, urgency
from towpath.web.console.layout.filters import link, span
from towpath.web.console.layout.lists import in_common, instances_seen, troubles_seen
from towpath.web.console.layout.page import page
from towpath.web.console.processes import is_unwatched
from towpath.web.visitors import seen_of

router = APIRouter(include_in_schema=False)

FLOWS, GROUPS, LANES, DEATHS, INSTANCES = 12, 6, 6, 5, 6
MOST_COUNTED = 100  # of each kind; what is more is "100 or more"
LATE_S = 60.0  # for so long something may be due in a lane before anybody need look

# In which order groups are shown: what came back, what is new, what is known.
_FIRST = (GroupState.REGRESSED, GroupState.NEW, GroupState.ONGOING)


@router.get("/")
def overview(request: Request, principal: Reader) -> Response:
    """Flows, groups, lanes, processes, workflows and the balance, and above them what needs a person."""
    return in_common(request, principal, _overview)


@dataclass(frozen=True, slots=True)
class OverviewBalance:
    """Where records are, as the ledger and the desk say it: sums, and no proof."""

    counts: Mapping[str, int]  # read, and where batches have put it
    desk: Mapping[str, int]  # where those are now that have failed, and are not settled

    @property
    def difference(self) -> int:
        """Not 0: the ledger contradicts itself."""
        return self.counts.get("read", 0) - sum(count for name, count in self.counts.items() if name != "read")


class Need(NamedTuple):
    """One sentence. `is_bad`: something stands still until somebody acts."""

    text: str
    href: str
    is_bad: bool = False


def needs_of(
    runtime: Runtime,
    found: Sequence[StageStatus],
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


def _overview(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = sorted(stage_statuses(runtime.database), key=urgency)
    totals, cases = totals_of(runtime, found), on_the_desk(runtime)
    duties = runtime.duties.overview()
    gone = runtime.duties.gone(duties)
    counts = runtime.actors.browser().counts()
    lanes = runtime.lanes.list()
    groups = _worst_groups(runtime)
    return page(
        request,
        "overview.html",
        needs=needs_of(runtime, found, duties, gone, counts, seen_of(principal)),
        looks=found[:FLOWS],
        more_flows=max(0, len(found) - FLOWS),
        totals=totals,
        cases=cases,
        open_groups=[(group, title_of(group, masks)) for group in groups],
        trends=runtime.desk.groups.trends([group.id for group in groups]),
        lanes=[
            (view, to_datetime(view.crowd.first_due))
            for view in sorted(lanes, key=lambda view: view.crowd.first_due or 0)
            if view.crowd.first_due is not None
        ][:LANES],
        waiting=sum(view.crowd.cases for view in lanes),
        duties=duties,
        ready=sum(duty.state == "ready" and duty.name not in gone for duty in duties.duties if duty.is_wanted),
        wanted=sum(duty.is_wanted for duty in duties.duties),
        alive=_alive(duties),
        deaths=troubles_seen(runtime.duties.deaths(limit=DEATHS), masks),
        at_work=_at_work(counts),
        instances=instances_seen(runtime.actors.instances(phase=Phase.RUNNING, limit=INSTANCES), masks),
        balance=_balance(totals.values(), cases),
    )


def _worst_groups(runtime: Runtime) -> list[Group]:
    found: list[Group] = []
    for state in _FIRST:
        if len(found) < GROUPS:
            found += runtime.desk.groups.page(state=state, limit=GROUPS - len(found))
    return found


def _alive(duties: Overview) -> int:
    """Processes that beat, on duty or not."""
    now = to_datetime(duties.now_us)
    return sum(row.state == "alive" and row.lease_until >= now for row in duties.processes.values())


def _at_work(counts: Mapping[str, Mapping[Phase, int]]) -> list[tuple[str, Sequence[tuple[Phase, int]]]]:
    """What actors do, those that do something."""
    found = [
        (actor, [(phase, phases[phase]) for phase in LIVE if phases.get(phase)]) for actor, phases in counts.items()
    ]
    return [(actor, phases) for actor, phases in sorted(found) if phases]


def _balance(totals: Iterable[Mapping[str, int]], cases: Mapping[tuple[str, str], int]) -> OverviewBalance:
    counts: Counter[str] = Counter()
    for each in totals:
        counts.update(each)
    desk = Counter[str]()
    for (_, state), count in cases.items():
        desk[state] += count
    return OverviewBalance(dict(counts), {str(state): desk[state] for state in sorted(ON_THE_DESK) if desk[state]})


def _flows(found: Sequence[StageStatus]) -> Iterator[Need]:
    said = {
        StageState.HALTED: ("has halted", True),
        StageState.HELD: ("is held by an outage", False),
        StageState.RETRY: ("waits to try again", False),
        StageState.PAUSED: ("is paused", False),
    }
    for look in found:
        stage, href = look.stage, f"/flows/{link(look.stage.flow)}?stage={link(look.stage.name)}"
        name = stage.flow if stage.name in stage.topology.get("topics", ()) else f"{stage.flow}/{stage.name}"
        if stage.machine.state in said:
            text, is_bad = said[stage.machine.state]
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
    late = {(flow, lane): seconds for flow, lane, seconds in DeskMetrics(runtime.database).late_s() if seconds > LATE_S}
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
        found = browser.search(MessageSelection(state=state), limit=MOST_COUNTED).items
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
