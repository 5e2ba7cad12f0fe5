"""What the commands of the desk share: which cases are meant, and what may be seen of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError
from towpath.cli.options import State, parse_time_ms
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from towpath.desk.cases.model import Case, CaseSelection
    from towpath.desk.desk import Desk
    from towpath.desk.masks import Masks


CaseName = Annotated[
    str,
    typer.Argument(metavar="CASE", show_default=False, help="A case: its number, its id or the beginning of that."),
]
Cases = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CASE]...", show_default=False, help="Cases: their numbers, their ids or the beginnings of those."
    ),
]
LARGEST = (1 << 63) - 1  # that a database can hold
GroupNumber = Annotated[
    int, typer.Argument(metavar="GROUP", min=1, max=LARGEST, show_default=False, help="The group's number.")
]
Masked = Annotated[
    bool, typer.Option("--masked", help="As those see it who may not see all fields (setting desk.masked).")
]
Flow = Annotated[str | None, typer.Option(metavar="NAME", help="Only of this flow.")]


@dataclass(frozen=True)
class CaseFilterOptions:
    """Options of a command that say which cases are meant; see `spread`."""

    flow: Flow = None
    stage: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this stage.")] = None
    step: Annotated[str | None, typer.Option(metavar="NAME", help="Only what has failed in this step.")] = None
    code: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only of this error code.")] = None
    exception: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only of this exception, or rule that was not met.")
    ] = None
    group: Annotated[int | None, typer.Option(min=1, max=LARGEST, metavar="N", help="Only of this group.")] = None
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="Only in this state; may be given several times.")
    ] = None
    assignee: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this person has to do.")] = None
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="Only where the message has this text.")] = None
    body: Annotated[str | None, typer.Option(metavar="TEXT", help="Only where the body has this text.")] = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Failed at this time or later: 15m (ago), or a date.")
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Failed before this time.")] = None

    @property
    def is_given(self) -> bool:
        return self != CaseFilterOptions()

    def selection(self, now_ms: int) -> CaseSelection:
        from towpath.desk.cases.model import CaseSelection, CaseState

        return CaseSelection(
            flow=self.flow,
            stage=self.stage,
            step=self.step,
            code=self.code,
            exception=self.exception,
            group=self.group,
            states=tuple(desk_state(CaseState, each, "a case") for each in self.state) if self.state else None,
            assignee=self.assignee,
            text=self.text,
            body=self.body,
            since=_time(self.since, "--since", now_ms),
            until=_time(self.until, "--until", now_ms),
        )


def desk_state(states: type[State], text: str, what: str) -> State:
    """The state of that name, in capitals or not, of `what`: "a case", "a job"."""
    try:
        return states(text.lower())
    except ValueError:
        raise UsageError(f"{text!r} is no state of {what}; those are: {', '.join(states)}") from None


def found_cases(desk: Desk, names: Sequence[str]) -> list[Case]:
    """The cases that were named, each once."""
    return list({case.id: case for case in map(desk.cases.find, names)}.values())


def masks_of(desk: Desk, masked: bool) -> Masks:
    """No masks, unless `--masked` asks for the view of others: who types commands here has the database."""
    return desk.masks_for("viewer" if masked else "admin")


def _time(text: str | None, option: str, now_ms: int) -> datetime | None:
    return None if text is None else to_datetime(parse_time_ms(text, option, now_ms) * 1000)
