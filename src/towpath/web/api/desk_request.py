"""What people do on the desk over HTTP, in one shape: whom it concerns, the act in their name, and how it is then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol
from uuid import UUID

from fastapi import Depends, Request
from fastapi.responses import Response

from towpath.desk.actions.service import ActionResult
from towpath.desk.cases.model import CaseSelection
from towpath.desk.desk import Desk
from towpath.desk.masks import Masks
from towpath.operations.case_models import Cases, Performed
from towpath.operations.cases import case_item, case_view, group_view, job_view
from towpath.operations.model import Item
from towpath.web.auth import Worker, runtime_of
from towpath.web.changes import ByHand, Maker


class OnCases(Protocol):
    """Something that is done to several cases."""

    def __call__(self, ids: Sequence[str], /, *, who: str, why: str) -> ActionResult: ...


class OnOne(Protocol):
    """Something that is done to one thing, by its name or number."""

    def __call__(self, name: Any, /, *, who: str, why: str) -> object: ...


class DeskRequest:
    """Somebody who may change things on the desk, at one request."""

    def __init__(self, request: Request, principal: Worker, maker: Maker) -> None:
        self.runtime = runtime_of(request)
        self.principal = principal
        self.maker = maker

    @property
    def desk(self) -> Desk:
        return self.runtime.desk

    @property
    def masks(self) -> Masks:
        """What this person may not see."""
        return self.desk.masks_for(self.principal.role)

    def by(self, why: str) -> ByHand:
        """In whose name, and why."""
        return self.maker.by(why)

    def cases(self, what: str, sent: Cases, act: OnCases) -> Response:
        """Cases that are named, and how they are then."""
        ids = ids_of(self.desk, sent.cases)
        subject = f"case {ids[0]}" if len(ids) == 1 else f"{len(ids)} cases from {ids[0]}"
        return self.maker.make(
            what, subject, lambda: act(ids, **self.by(sent.why)), lambda done: self._performed(ids, done)
        )

    def case(self, what: str, case: str, act: Callable[[str], object]) -> Response:
        """One case, which is shown then; `act` is given its id."""
        id = id_of(self.desk, case)
        return self.maker.make(what, id, lambda: act(id), lambda _: self.shown(id))

    def group(self, what: str, group: int, why: str, act: OnOne) -> Response:
        """One group, which is shown then."""
        return self.maker.make(
            what,
            group,
            lambda: act(group, **self.by(why)),
            lambda _: group_view(self.desk.groups.show(group), self.masks),
        )

    def job(self, what: str, job: str, why: str, act: OnOne) -> Response:
        """One bulk job, which is shown then."""
        jobs = self.desk.jobs
        id = jobs.find(job).id
        return self.maker.make(what, id, lambda: act(id, **self.by(why)), lambda _: job_view(jobs.show(id)))

    def shown(self, case_id: str) -> Item:
        """A case as this person sees it."""
        return case_view(self.desk.cases.show(case_id, masks=self.masks))

    def _performed(self, ids: Sequence[str], done: ActionResult | None) -> Performed:
        found = self.desk.cases.page(CaseSelection(ids=tuple(ids)), limit=len(ids), masks=self.masks).cases
        refused = None if done is None else dict(done.refused)
        return Performed(cases=[case_item(case) for case in found], refused=refused)


AtWork = Annotated[DeskRequest, Depends(DeskRequest)]


def ids_of(desk: Desk, names: Sequence[str]) -> list[str]:
    """The ids of cases that people name."""
    return [id_of(desk, name) for name in names]


def id_of(desk: Desk, name: str) -> str:
    """The id of a case that people name; a whole one is not looked up."""
    return name if _is_id(name) else desk.cases.find(name).id


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
