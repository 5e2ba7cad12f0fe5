"""Which cases and groups are meant, and what is asked of them, as it is sent."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field, model_validator

from towpath.core.clock import to_micros
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.service import MOST_AT_ONCE
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.edits import SeenCase
from towpath.desk.groups.model import Archive
from towpath.errors import BadValue
from towpath.operations.cases import ExportFormat
from towpath.operations.model import LARGEST, LONGEST_DELAY_S, MOST_ROWS, Named, RequestBody, Why

Number = Annotated[int, Field(ge=0, le=LARGEST)]
CaseName = Annotated[
    str, Field(min_length=1, max_length=36, description="Its number, its id, or a unique beginning of that.")
]


class Chosen(RequestBody):
    """Which cases are meant: all that is given must hold."""

    flow: Named | None = None
    stage: Named | None = None
    step: Named | None = None
    code: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    exception: Named | None = None
    group: Number | None = None
    fingerprint: Named | None = None
    states: list[CaseState] | None = Field(None, min_length=1)
    assignee: Named | None = None
    text: Named | None = Field(None, description="Somewhere in the message of the last failure.")
    body: Named | None = Field(None, description="Somewhere in the body that goes out next.")
    since: AwareDatetime | None = Field(None, description="Failed last at this time or later.")
    until: AwareDatetime | None = Field(None, description="Failed last before this time.")

    def selection(self) -> CaseSelection:
        given = {name: getattr(self, name) for name in Chosen.model_fields}
        return CaseSelection(**given | {"states": None if self.states is None else tuple(self.states)})


class ChosenOrNamed(Chosen):
    """Which cases are meant; with `ids`, only these."""

    ids: list[CaseName] | None = Field(None, min_length=1, max_length=10_000)

    def selection(self) -> CaseSelection:
        return super().selection().within(ids=None if self.ids is None else tuple(self.ids))


class ChosenPage(Chosen):
    """A page of cases."""

    limit: int = Field(100, ge=1, le=MOST_ROWS, description="How many to show.")
    before: int | None = Field(None, ge=1, le=LARGEST, description="Go on where a page ended: its `next`.")


class ChosenExport(Chosen):
    """Cases as a file."""

    form: ExportFormat = ExportFormat.JSON


class ChosenCount(Chosen):
    """How many cases there are."""

    most: int | None = Field(None, ge=1, le=LARGEST, description="Count no further than this.")


class Cases(RequestBody):
    """Some cases, and why something is done to them."""

    cases: list[CaseName] = Field(min_length=1, max_length=MOST_AT_ONCE)
    why: Why


class Replayed(Cases):
    """Cases to be sent back into their flows."""

    delay_s: float | None = Field(None, gt=0, le=LONGEST_DELAY_S, description="After so many seconds; else at once.")


class Assigned(Cases):
    """Cases for a person, or for nobody."""

    assignee: Named | None


class Corrected(Cases):
    """Cases to be changed as learned corrections say."""

    rule: Number | None = Field(None, description="A rule that counts as on for this.")
    replays: bool = Field(True, description="Send back what was corrected.")


class Noted(RequestBody):
    """A remark."""

    text: Why


class SeenBefore(RequestBody):
    """A case as it was when the body was read that was changed: `seen` of the case."""

    state: CaseState
    attempts: Number
    edit: Number

    def seen(self) -> SeenCase:
        return SeenCase(self.state, self.attempts, self.edit)


class Edited(RequestBody):
    """A changed body: `value` for text, `value_base64` for bytes."""

    value: str | None = None
    value_base64: str | None = None
    seen: SeenBefore
    why: Why

    @model_validator(mode="after")
    def _has_one(self) -> Edited:
        if (self.value is None) == (self.value_base64 is None):
            raise ValueError("give value or value_base64")
        return self

    def bytes(self) -> bytes:
        if self.value is not None:
            return self.value.encode()
        try:
            return base64.b64decode(self.value_base64 or "", validate=True)
        except ValueError:  # also of text that is not ASCII
            raise BadValue("value_base64 is not base64") from None


class Decided(RequestBody):
    """Which edit, and why."""

    edit: Annotated[int, Field(ge=1, le=LARGEST)]
    why: Why


class Restored(RequestBody):
    """The record itself is to go out, and no edit."""

    seen: SeenBefore
    why: Why


class Archived(RequestBody):
    """Until when nobody wants to hear of a group: one of them; with none, for ever."""

    more: Annotated[int, Field(ge=1, le=LARGEST)] | None = Field(None, description="Until so many more cases.")
    until: AwareDatetime | None = None
    rate: Annotated[int, Field(ge=1, le=LARGEST)] | None = Field(None, description="Until so many within `per_s`.")
    per_s: float | None = Field(None, gt=0, le=LONGEST_DELAY_S)
    why: Why

    def archive(self) -> Archive:
        until_us = None if self.until is None else to_micros(self.until)
        return Archive(more=self.more, until_us=until_us, rate=self.rate, per_s=self.per_s)


class GroupAssigned(RequestBody):
    """A group for a person, or for nobody."""

    assignee: Named | None
    why: Why


class Merged(RequestBody):
    """Into which group."""

    into: Number
    why: Why


class SplitOff(RequestBody):
    """Which cases are to be a group of their own: some, or all of one fingerprint."""

    cases: list[CaseName] | None = Field(None, min_length=1, max_length=MOST_AT_ONCE)
    fingerprint: Named | None = None
    title: Named | None = None
    why: Why


class JobAsked(RequestBody):
    """One thing to be done to many cases."""

    kind: JobKind
    selection: ChosenOrNamed
    delay_s: float | None = Field(None, gt=0, le=LONGEST_DELAY_S, description="Of `replay`.")
    assignee: Named | None = Field(None, description="Of `assign`.")
    rule: Number | None = Field(None, description="Of `correct`: a rule that counts as on for this job.")
    replays: bool = Field(True, description="Of `correct`: send back what was corrected.")

    def arguments(self) -> dict[str, Any]:
        """Those that the kind has."""
        given: dict[JobKind, dict[str, Any]] = {
            JobKind.REPLAY: {} if self.delay_s is None else {"delay_s": self.delay_s},
            JobKind.ASSIGN: {"assignee": self.assignee},
            JobKind.CORRECT: {"rule": self.rule, "replays": self.replays},
        }
        if self.kind is JobKind.REGROUP:
            raise BadValue(f"{self.kind}: such a job comes of splitting a group, and is not asked for")
        return given.get(self.kind, {})


class NewJob(JobAsked):
    """A bulk job."""

    name: Named | None = None
    rate_s: float | None = Field(None, gt=0, le=1e6, description="Most cases a second.")
    begin: bool = Field(False, description="Begin it at once; otherwise it is only counted.")
    why: Why


class Counted(BaseModel):
    """How many."""

    cases: int


class Performed(BaseModel):
    """The cases as they are now, and to which it was not done and why; null: that is not known any more."""

    cases: list[dict[str, Any]]
    refused: dict[str, str] | None
