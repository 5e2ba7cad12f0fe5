"""Changing the body of a case: typed, checked, compared with what is there, and saved unless somebody was faster."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.desk.case_queries import CaseView
from towpath.desk.cases.model import CaseState
from towpath.desk.edit_body import diff
from towpath.desk.edits import EDITABLE, EditResult, SeenCase
from towpath.errors import BadEdit, BadValue, FieldsMasked, StaleEdit
from towpath.flow.documents.reader import exact
from towpath.flow.documents.writer import Unwritable, write
from towpath.web.api.desk_request import id_of
from towpath.web.auth import FormData, Worker, runtime_of
from towpath.web.console.desk.cases import CaseFilter, filter_of
from towpath.web.console.layout.action import Act, PageAction
from towpath.web.console.layout.filters import laid_out_json, side_by_side
from towpath.web.console.layout.page import page, went

router = APIRouter(prefix="/desk/cases/{case}", include_in_schema=False)

LAID_OUT, AS_IT_CAME = "laid out", "as it came"
LOOK, REPLAY = "look", "replay"
_GROWS = 3  # bytes that a form makes of one that is not a plain letter


@router.get("/edit")
def edit_page(request: Request, case: str, principal: Worker) -> Response:
    """Where the body of a case is changed."""
    desk = runtime_of(request).desk
    view = desk.cases.show(id_of(desk, case), masks=desk.masks_for(principal.role))
    layout = AS_IT_CAME if request.query_params.get("layout") == AS_IT_CAME else LAID_OUT
    return _Sheet(request, view, layout, filter_of(request)).shown(text=_text(view, layout))


@router.post("/edit")
def edit(case: str, act: Act, principal: Worker) -> Response:
    """Check what was typed and show what it changes, or save it. Nothing that was typed is lost when that fails."""
    form, desk = act.form, act.runtime.desk
    masks = desk.masks_for(principal.role)
    view = desk.cases.show(id_of(desk, case), masks=masks)
    seen, wanted, typed = _seen(form), form.one("wanted"), form.lines("body")
    layout = AS_IT_CAME if form.one("layout") == AS_IT_CAME else LAID_OUT
    sheet = _Sheet(act.request, view, layout, filter_of(act.request), seen, act.why)
    try:
        if view.is_masked:
            raise FieldsMasked(f"some fields of {view.case.flow} are masked for you: you cannot edit its records")
        checked = desk.edits.check(view.case, typed.encode())
        value = _as_before(typed, view.value, layout)
        if wanted == LOOK:
            return sheet.shown(text=typed, value=value, checked=checked)
        if not act.why:
            raise BadEdit("say why: that is kept with the edit")
        made = act.make(
            "edit", view.case.id, lambda: desk.edits.edit(view.case.id, value, seen=seen, **act.by, masks=masks)
        )
    except BadEdit as error:
        return sheet.shown(text=typed, wrong=str(error), status=422)
    except StaleEdit as error:
        return sheet.anew().shown(text=typed, value=typed.encode(), stale=error.what, status=409)
    return _saved(act, view, made, is_sent=wanted == REPLAY)


@router.post("/agree")
def agree(case: str, act: Act, principal: Worker) -> Response:
    """Let an edit go out that another person has proposed."""
    desk = act.runtime.desk
    id, number, masks = id_of(desk, case), _edit_number(act.form), desk.masks_for(principal.role)
    return act.do(
        "agree to edit", id, lambda: desk.edits.agree(id, number, **act.by, masks=masks), f"edit {number} goes out next"
    )


@router.post("/refuse")
def refuse(case: str, act: Act, principal: Worker) -> Response:
    """Do not let a proposed edit go out."""
    desk = act.runtime.desk
    id, number = id_of(desk, case), _edit_number(act.form)
    return act.do("refuse edit", id, lambda: desk.edits.refuse(id, number, **act.by), f"edit {number} is refused")


@router.post("/restore")
def restore(case: str, act: Act, principal: Worker) -> Response:
    """Let the record itself go out next, and none of its edits."""
    desk = act.runtime.desk
    id, seen = id_of(desk, case), _seen(act.form)
    return act.do("restore", id, lambda: desk.edits.restore(id, seen=seen, **act.by), "the record itself goes out next")


class _Sheet:
    """The page with what was typed, however far it has come."""

    def __init__(
        self,
        request: Request,
        view: CaseView,
        layout: str,
        chosen: CaseFilter,
        seen: SeenCase | None = None,
        why: str = "",
    ) -> None:
        self._request = request
        self._view = view
        self._layout = layout
        self._chosen = chosen
        self._seen = seen or view.seen
        self._why = why

    def anew(self) -> _Sheet:
        """The same, held to how the case is now."""
        return _Sheet(self._request, self._view, self._layout, self._chosen, self._view.seen, self._why)

    def shown(
        self,
        *,
        text: str | None,
        value: bytes | None = None,
        checked: str = "",
        wrong: str = "",
        stale: str = "",
        status: int = 200,
    ) -> Response:
        """`value` is compared with what would go out now."""
        view, settings = self._view, runtime_of(self._request).settings
        before = view.value or b""
        return page(
            self._request,
            "case_edit.html",
            status=status,
            view=view,
            case=view.case,
            chosen=self._chosen,
            layout=self._layout,
            layouts=(LAID_OUT, AS_IT_CAME),
            text=text,
            why=self._why,
            seen=self._seen,
            checked=checked,
            wrong=wrong,
            stale=stale,
            is_compared=value is not None,
            changes=[] if value is None else diff(before, value),
            rows=[] if value is None else side_by_side(_shown(before), _shown(value)),
            is_editable=view.case.state in EDITABLE,
            is_too_large=len(before) * _GROWS > settings.api.max_body_bytes,
            takes_two=settings.desk.second_person,
        )


def _saved(act: PageAction, view: CaseView, made: EditResult, *, is_sent: bool) -> Response:
    """Back to the case, with what came of it; and sent back, if that was wanted and nobody else has to agree."""
    case, chosen = view.case, filter_of(act.request)
    said = f"edit {made.edit.edit} is {made.edit.state}; {made.checked}"
    if made.is_proposed:
        said = f"edit {made.edit.edit} is proposed: another person has to agree to it; {made.checked}"
    elif is_sent:
        operate = act.runtime.desk.operate
        act.make("replay", case.id, lambda: operate.replay([case.id], **act.by))
        said = f"edit {made.edit.edit} is applied, and the record is sent back"
    return went(f"/desk/cases/{case.seq}" + (f"?{chosen.query}" if chosen else ""), said)


def _text(view: CaseView, layout: str) -> str | None:
    """The body to be typed over; none: it is not text."""
    if view.value is None:
        return None
    try:
        text = view.value.decode()
    except UnicodeDecodeError:
        return None
    return (laid_out_json(text) or text) if layout == LAID_OUT else text


def _as_before(typed: str, before: bytes | None, layout: str) -> bytes:
    """What was laid out for the person goes out as it came, on one line; every number as it is."""
    if layout == AS_IT_CAME or before is None or b"\n" in before.strip():
        return typed.encode()
    try:
        return bytes(write(exact(typed.encode())))
    except (ValueError, RecursionError, Unwritable):
        return typed.encode()


def _shown(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return laid_out_json(text) or text


def _seen(form: FormData) -> SeenCase:
    """How the case was when the page was made."""
    state, _, numbers = form.one("seen").partition(" ")
    attempts, _, edit = numbers.partition(" ")
    try:
        return SeenCase(CaseState(state), int(attempts), int(edit))
    except ValueError:
        raise BadValue("the form does not say what it was made from: load the page again") from None


def _edit_number(form: FormData) -> int:
    found = form.whole("edit")
    if found is None or found < 1:
        raise BadValue("edit: say which one")
    return found
