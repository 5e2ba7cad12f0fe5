"""The overview: what needs a person first, then everything on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.principal import Principal
from towpath.actors.phase import LIVE, Phase
from towpath.clock import to_datetime
from towpath.desk.case_state import LIVE as ON_THE_DESK
from towpath.desk.group import Group
from towpath.desk.group_state import GroupState
from towpath.flow.look import looks
from towpath.supervision.duty_desk import Overview
from towpath.web.asking import Reader, runtime_of
from towpath.web.console.common import in_common
from towpath.web.console.flow_standing import on_the_desk, totals_of, urgency
from towpath.web.console.group_pages import title_of
from towpath.web.console.needs import needs_of
from towpath.web.console.pages import page
from towpath.web.console.seen import instances_seen, troubles_seen
from towpath.web.visiting import seen_of

if TYPE_CHECKING:
    from towpath.runtime import Runtime

router = APIRouter(include_in_schema=False)

FLOWS, GROUPS, LANES, DEATHS, INSTANCES = 12, 6, 6, 5, 6

# In which order groups are shown: what came back, what is new, what is known.
_FIRST = (GroupState.REGRESSED, GroupState.NEW, GroupState.ONGOING)


@dataclass(frozen=True, slots=True)
class Balance:
    """Where records are, as the ledger and the desk say it: sums, and no proof."""

    counts: Mapping[str, int]  # read, and where batches have put it
    desk: Mapping[str, int]  # where those are now that have failed, and are not settled

    @property
    def difference(self) -> int:
        """Not 0: the ledger contradicts itself."""
        return self.counts.get("read", 0) - sum(count for name, count in self.counts.items() if name != "read")


@router.get("/")
def overview(request: Request, principal: Reader) -> Response:
    """Flows, groups, lanes, processes, workflows and the balance, and above them what needs a person."""
    return in_common(request, principal, _overview)


def _overview(request: Request, principal: Principal) -> Response:
    runtime = runtime_of(request)
    masks = runtime.desk.masks_for(principal.role)
    found = sorted(looks(runtime.database), key=urgency)
    totals, cases = totals_of(runtime, found), on_the_desk(runtime)
    duties = runtime.duties.overview()
    gone = runtime.duties.gone(duties)
    counts = runtime.actors.browser().counts()
    lanes = runtime.lanes.list()
    groups = _groups(runtime)
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


def _groups(runtime: Runtime) -> list[Group]:
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


def _balance(totals: Iterable[Mapping[str, int]], cases: Mapping[tuple[str, str], int]) -> Balance:
    counts: Counter[str] = Counter()
    for each in totals:
        counts.update(each)
    desk = Counter[str]()
    for (_, state), count in cases.items():
        desk[state] += count
    return Balance(dict(counts), {str(state): desk[state] for state in sorted(ON_THE_DESK) if desk[state]})
