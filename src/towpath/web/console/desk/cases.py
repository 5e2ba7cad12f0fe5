"""Cases: records that have failed, listed, found and exported, and one of them with all that is known of it.

`CaseFilter` is the filter of a list as an address has it: one for lists, bulk jobs, exports and the next case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from pydantic import ValidationError

from towpath.access.roles import Principal
from towpath.db.paging import LOOK_S
from towpath.desk.actions.actions import JobKind
from towpath.desk.case_queries import CasePage, CaseView
from towpath.desk.cases.model import ERROR, LIVE, Case, CaseSelection, CaseState, PastAttempt, has_hidden_search
from towpath.desk.cases.store import HistoryRow
from towpath.desk.corrections.proposer import Suggestion
from towpath.desk.desk import Desk
from towpath.desk.masks import Masks
from towpath.desk.record_queries import DeskMetrics
from towpath.errors import BadValue
from towpath.flow.records.errors import PREFIX
from towpath.operations.case_models import Chosen
from towpath.operations.cases import CaseExport, ExportFormat
from towpath.web.api.cases import MEDIA
from towpath.web.api.desk_request import id_of
from towpath.web.auth import Reader, runtime_of
from towpath.web.console.desk.case_actions import BULK, meant, possible
from towpath.web.console.layout.filters import body_view, key_text
from towpath.web.console.layout.lists import before_of, enum_of, utc_time
from towpath.web.console.layout.page import page, went

if TYPE_CHECKING:
    from towpath.runtime import Runtime


router = APIRouter(prefix="/desk", include_in_schema=False)

ROWS = 50
MOST_COUNTED = 10_000  # what is more is "10,000+"
MOST_PARKED = 10
SUGGESTED_BYTES = 256 << 10  # of larger bodies nothing is suggested
FIRST = (JobKind.REPLAY, JobKind.ABANDON)  # what people do to all that match, most of the time
FILES = {ExportFormat.JSON: "cases.jsonl", ExportFormat.CSV: "cases.csv"}

FIELDS = (
    *("flow", "state", "group", "code", "step", "exception", "assignee", "text", "body", "since", "until", "stage"),
    "fingerprint",
)
ON_THE_DESK = "on the desk"  # stands for all states of cases that are not settled
_TIMES = ("since", "until")
# With another one, all that is there may have to be looked at to count what fits.
_COUNTED = ("flow", "state", "group")


@router.get("/cases")
def cases(request: Request, principal: Reader) -> Response:
    """Cases, the newest first, by all that they can be chosen by."""
    runtime = runtime_of(request)
    desk, masks = runtime.desk, runtime.desk.masks_for(principal.role)
    chosen = filter_of(request)
    before = before_of(request)
    found = desk.cases.page(chosen.selection, limit=ROWS, before=before, masks=masks, look_s=LOOK_S)
    is_hidden = bool(masks) and has_hidden_search(chosen.selection)
    counts = _by_state(runtime, chosen.one("flow"))
    return page(
        request,
        "cases.html",
        cases=found.cases,
        next=found.next,
        chosen=chosen,
        matching={} if is_hidden else {kind: _matching(desk, chosen, found, before, kind) for kind in FIRST},
        bulk_more=[(kind, label) for kind, (label, _) in BULK.items() if kind not in FIRST],
        labels={kind: BULK[kind][0] for kind in FIRST},
        most_counted=MOST_COUNTED,
        is_hidden=is_hidden,
        counts=counts,
        states=[ON_THE_DESK, *CaseState],
        flows=_flows(runtime),
    )


@router.get("/export")
def export(request: Request, principal: Reader) -> StreamingResponse:
    """All cases that match, with their bodies, as a file: JSON lines or CSV. It is written while it is read."""
    runtime = runtime_of(request)
    try:
        form = ExportFormat(request.query_params.get("form", ExportFormat.JSON))
    except ValueError:
        raise BadValue("form: an export is json or csv") from None
    lines = CaseExport(runtime.desk.cases).lines(
        filter_of(request).selection, form, masks=runtime.desk.masks_for(principal.role)
    )
    headers = {"Content-Disposition": f'attachment; filename="{FILES[form]}"'}
    return StreamingResponse(lines, media_type=MEDIA[form], headers=headers)


@router.get("/cases/{case}")
def case(request: Request, case: str, principal: Reader) -> Response:
    """One case, by its number, its id or a unique beginning of that."""
    runtime = runtime_of(request)
    desk, masks = runtime.desk, runtime.desk.masks_for(principal.role)
    view = desk.cases.show(id_of(desk, case), masks=masks)
    own = [(name, key_text(value)) for name, value in view.headers if not name.startswith(PREFIX)]
    return page(
        request,
        "case.html",
        view=view,
        case=view.case,
        body=None if view.value is None else body_view(view.value),
        key=key_text(view.case.key),
        headers=own,
        our_headers=[(name, key_text(value)) for name, value in view.headers if name.startswith(PREFIX)],
        happened=_happened(view),
        suggested=_suggested(runtime, view, masks),
        parked=desk.cases.parked_behind(view.case.id, limit=MOST_PARKED, masks=masks),
        can=possible(view.case),
        takes_two=runtime.settings.desk.second_person,
        chosen=filter_of(request),
    )


@router.get("/cases/{case}/older")
def older(request: Request, case: str, principal: Reader) -> Response:
    """The next case of the list that one comes from, or of the same group."""
    return _beside(request, case, principal, is_newer=False)


@router.get("/cases/{case}/newer")
def newer(request: Request, case: str, principal: Reader) -> Response:
    """The case before it in the list that one comes from, or in the same group."""
    return _beside(request, case, principal, is_newer=True)


@router.get("/cases/{case}/body")
def body(request: Request, case: str, principal: Reader) -> Response:
    """The body that goes out next, as a file, byte for byte."""
    runtime = runtime_of(request)
    found = runtime.desk.cases.find(case)
    value = runtime.desk.cases.body(found.id, masks=runtime.desk.masks_for(principal.role))
    if value is None:
        raise BadValue(f"case {found.seq} has no body: it is settled, or a gap")
    headers = {"Content-Disposition": f'attachment; filename="case-{found.seq}"'}
    return Response(value, media_type="application/octet-stream", headers=headers)


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """What is filled in, by name."""

    given: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> CaseFilter:
        """From all that an address or a form has."""
        return cls(tuple((name, value.strip()) for name, value in pairs if name in FIELDS and value.strip()))

    def __bool__(self) -> bool:
        return bool(self.given)

    @property
    def query(self) -> str:
        """For an address."""
        return urlencode(self.given)

    def one(self, name: str) -> str:
        return next((value for key, value in self.given if key == name), "")

    def without(self, *names: str) -> CaseFilter:
        return CaseFilter(tuple(pair for pair in self.given if pair[0] not in names))

    def within(self, **narrower: object) -> CaseFilter:
        """The same with something else in these fields."""
        return CaseFilter((*self.without(*narrower).given, *((name, str(value)) for name, value in narrower.items())))

    @property
    def is_slow(self) -> bool:
        """Whether it is not known at once how many cases it lets through."""
        return any(name not in _COUNTED for name, _ in self.given)

    @property
    def selection(self) -> CaseSelection:
        """Raises `BadValue` for what no case can have."""
        said: dict[str, Any] = {name: self.one(name) for name in FIELDS if name != "state" and self.one(name)}
        said |= {name: utc_time(name, said[name]) for name in _TIMES if name in said}
        states = [value for name, value in self.given if name == "state"]
        if states:
            said["states"] = (
                sorted(LIVE) if ON_THE_DESK in states else [enum_of(CaseState, "state", each) for each in states]
            )
        try:
            return Chosen(**said).selection()
        except ValidationError as error:
            first = error.errors()[0]
            raise BadValue(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def filter_of(request: Request) -> CaseFilter:
    """What the address says about which cases are meant."""
    return CaseFilter.of(request.query_params.multi_items())


@dataclass(frozen=True, slots=True)
class CaseTimelineEntry:
    """One thing in the life of a case: it has failed, or something was done to it."""

    at: datetime
    attempt: PastAttempt | None = None
    done: HistoryRow | None = None


def _beside(request: Request, case: str, principal: Principal, *, is_newer: bool) -> Response:
    runtime = runtime_of(request)
    cases, masks, chosen = runtime.desk.cases, runtime.desk.masks_for(principal.role), filter_of(request)
    here = cases.find(case)
    selection = (chosen or CaseFilter((("group", str(here.group_id)),))).selection
    found = (cases.newer if is_newer else cases.older)(here.seq, selection, masks=masks)
    if found is None:
        said = f"there is no {'newer' if is_newer else 'older'} case {'in this list' if chosen else 'in this group'}"
        return went(_address(here, chosen), said)
    return RedirectResponse(_address(found, chosen), 303)


def _address(case: Case, chosen: CaseFilter) -> str:
    return f"/desk/cases/{case.seq}" + (f"?{chosen.query}" if chosen else "")


def _matching(desk: Desk, chosen: CaseFilter, found: CasePage, before: int | None, kind: JobKind) -> int | None:
    """To how many it could be done, as far as that is known at once; one more than the most stands for all above."""
    selection = meant(chosen.selection, kind)
    if before is None and found.next is None:
        return sum(case.state in (selection.states or ()) for case in found.cases)
    return None if chosen.is_slow else desk.cases.count(selection, most=MOST_COUNTED + 1)


def _by_state(runtime: Runtime, flow: str) -> Counter[str]:
    """How many cases there are in each state, of a flow or of all."""
    counts: Counter[str] = Counter()
    for name, state, cases in DeskMetrics(runtime.database).cases():
        if not flow or name == flow:
            counts[state] += cases
    return counts


def _flows(runtime: Runtime) -> list[str]:
    return sorted({flow for flow, _, _ in DeskMetrics(runtime.database).cases()})


def _happened(view: CaseView) -> list[CaseTimelineEntry]:
    """All of it, the newest first."""
    found = [CaseTimelineEntry(each.failed_at, attempt=each) for each in view.attempts]
    found += [CaseTimelineEntry(each.at, done=each) for each in view.history]
    return sorted(found, key=lambda each: each.at, reverse=True)


def _suggested(runtime: Runtime, view: CaseView, masks: Masks) -> list[Suggestion]:
    """What learned corrections say about its record, while somebody could do something about it."""
    case = view.case
    if case.kind != ERROR or case.state is not CaseState.OPEN or not 0 < len(view.value or b"") <= SUGGESTED_BYTES:
        return []
    corrections = runtime.corrections
    if not any(rule.can_suggest for rule in corrections.rules(case.flow)):
        return []
    try:
        return corrections.suggest(case.id, masks=masks)[1]
    except (BadValue, OSError):  # it was settled meanwhile, or its file is elsewhere
        return []
