"""What can be done to cases. The same actions serve one case, a selection, and the items of a bulk job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, cast

from towpath.db import Transaction
from towpath.desk.cases.model import GAP, LIVE, STRAY, CaseState
from towpath.desk.cases.store import CaseStore, HistoryEntry, HistoryStore
from towpath.desk.replay.outbox import OutboxWriter, Parking
from towpath.desk.replay.recall import ReplayRecall, ReplayRoute, RouteSubject, Unread, route_back, route_to_source
from towpath.errors import BadValue

if TYPE_CHECKING:
    from towpath.desk.actions.job_store import BulkJob
    from towpath.desk.cases.model import Case
    from towpath.desk.context import DeskContext
    from towpath.desk.edits import EditStore


_OPEN, _WAITING, _PARKED = CaseState.OPEN, CaseState.WAITING, CaseState.PARKED
LONGEST_DELAY_S = 366 * 86400.0


class JobKind(StrEnum):
    """What a job does to each of its cases."""

    REPLAY = "replay"  # back into the flow, now or after a delay
    RESEND = "resend"  # to the source again, as a new record
    ABANDON = "abandon"  # dismissed by the person who made the job
    OPEN = "open"  # what a rule has ignored, in front of a person
    ASSIGN = "assign"  # to a person, or to nobody
    REGROUP = "regroup"  # into a group of their own
    CORRECT = "correct"  # changed by a rule of learned corrections


def make_act(parts: DeskContext, kind: JobKind, arguments: Mapping[str, Any]) -> CaseAction:
    """Raises `BadValue` for arguments that the act does not take."""
    match kind:
        case JobKind.REPLAY:
            return Replay(parts.sends, parts.edits, arguments.get("delay_s"))
        case JobKind.RESEND:
            return Resend(parts.sends, parts.edits)
        case JobKind.ABANDON:
            return Abandon(parts.cases, parts.parking)
        case JobKind.OPEN:
            return Open(parts.cases)
        case JobKind.ASSIGN:
            return Assign(parts.cases, parts.history, arguments.get("assignee"))
        case JobKind.REGROUP:
            return Regroup(parts.cases, parts.history, int(arguments["group"]))
        case JobKind.CORRECT:
            made = parts.makers.get(kind)
            if made is None:
                raise BadValue("nothing here knows how to apply corrections")
            return made(arguments)


class CaseAction(ABC):
    """One action on cases, inside a transaction in which they are locked."""

    what: ClassVar[str]  # in events, past tense
    verb: ClassVar[str]
    to: CaseState | None = None  # where the case goes
    frm: frozenset[CaseState]
    most_at_once: ClassVar[int | None] = None  # cases in one transaction, if it does more than to move them

    @property
    def data(self) -> dict[str, Any]:
        """What the event keeps beside who and why."""
        return {}

    def route(self, case: RouteSubject) -> ReplayRoute | None:
        """Where the record has to get to for this, if anywhere."""
        return None

    def check(self) -> None:
        """Whether it can be done at all; otherwise `Refused`. Outside of any transaction, when it is asked for."""
        return

    def unready(self, cases: Iterable[RouteSubject]) -> list[RouteSubject]:
        """The cases for which something must be found out first that takes too long for a transaction."""
        return []

    def get_ready(self, cases: Sequence[RouteSubject]) -> None:
        """Find that out, outside of any transaction. What has changed since is refused when it is to be done."""

    def refusal(self, case: RouteSubject) -> str | None:
        """Why it cannot be done to this case, for reasons other than its state."""
        return None

    def held(self, tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
        """Which of some cases are held up by something other than their state, and why."""
        return {}

    @abstractmethod
    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        """Do it, with a row of history each; returns the ids of those to which it was done."""


class _Send(CaseAction):
    """Sends records: these need a body, and no edit that waits for a second person."""

    def __init__(self, sends: OutboxWriter, edits: EditStore) -> None:
        self._sends = sends
        self._edits = edits

    def refusal(self, case: RouteSubject) -> str | None:
        return refusal_without_body(case)

    def held(self, tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
        return {
            id: f"edit {edit} of it waits for a second person: let somebody agree to it, or refuse it, "
            "and it goes out as it is (towpath desk agree, towpath desk refuse)"
            for id, edit in self._edits.proposed_among(tx, ids).items()
        }


class Replay(_Send):
    """Back into the flow, now or after a delay."""

    what, verb = "replayed", "replay"

    def __init__(self, sends: OutboxWriter, edits: EditStore, delay_s: float | None = None) -> None:
        if delay_s is not None and not 0 < delay_s <= LONGEST_DELAY_S:
            raise BadValue(f"a delay of {delay_s:g} s: it is above 0 and at most a year")
        super().__init__(sends, edits)
        self._delay_s = delay_s
        self.frm = frozenset({_OPEN, _WAITING}) if delay_s is None else frozenset({_OPEN})
        self.to = CaseState.REPLAYING if delay_s is None else _WAITING

    @property
    def data(self) -> dict[str, Any]:
        return {} if self._delay_s is None else {"delay_s": self._delay_s}

    def route(self, case: RouteSubject) -> ReplayRoute | None:
        return route_back(case)

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        return self._sends.replay(
            tx, cast("Sequence[Case]", cases), delay_s=self._delay_s, frm=self.frm, who=who, why=why
        )


class Resend(_Send):
    """To the source again, as a new record; the case is closed when the log has it."""

    what, verb, to = "resent", "resend", CaseState.RESENT
    frm = frozenset({_OPEN, _WAITING})

    def route(self, case: RouteSubject) -> ReplayRoute | None:
        return route_to_source(case)

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        return self._sends.resend(tx, cast("Sequence[Case]", cases), who=who, why=why, frm=self.frm)


class Recall(CaseAction):
    """Undo a replay that still waits in its lane, or that its flow has not read."""

    what, verb, to = "recalled", "recall", _OPEN
    frm = frozenset({_WAITING, CaseState.REPLAYING})

    def __init__(self, sends: OutboxWriter, cases: CaseStore, recall: ReplayRecall) -> None:
        self._sends = sends
        self._cases = cases
        self._recall = recall
        self._looked: dict[str, Unread | str] = {}

    def unready(self, cases: Iterable[RouteSubject]) -> list[RouteSubject]:
        return [case for case in cases if case.state is CaseState.REPLAYING and case.id not in self._looked]

    def get_ready(self, cases: Sequence[RouteSubject]) -> None:
        self._looked |= self._recall.look([case.id for case in cases]) if cases else {}

    def refusal(self, case: RouteSubject) -> str | None:
        if case.state is not CaseState.REPLAYING:
            return None
        found = self._looked.get(case.id, "it was sent back just now; try again")
        return found if isinstance(found, str) else None

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        waiting = [case.id for case in cases if case.state is _WAITING]
        done = self._sends.recall(tx, waiting, who=who, why=why) if waiting else []
        out = self._cases.some(tx, [case.id for case in cases if case.state is CaseState.REPLAYING])
        unread = self._recall.recall(tx, out, self._looked) if out else []
        return done + self._cases.move(
            tx,
            unread,
            _OPEN,
            frm=(CaseState.REPLAYING,),
            who=who,
            why=why,
            ticket=True,
            what=self.what,
            gives_back=True,
        )


class Abandon(CaseAction):
    """Dismiss for good, by name. That is also how a gap is acknowledged."""

    what, verb, to = "abandoned", "abandon", CaseState.ABANDONED
    frm = frozenset({_OPEN, _WAITING, _PARKED, CaseState.IGNORED})

    def __init__(self, cases: CaseStore, parking: Parking) -> None:
        self._cases = cases
        self._parking = parking

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        ids = [case.id for case in cases]
        moved = self._cases.move(tx, ids, CaseState.ABANDONED, frm=self.frm, who=who, why=why, ticket=True)
        self._parking.release(tx, moved)
        return moved


class Open(CaseAction):
    """In front of a person: what a rule has ignored, or what was parked behind another record."""

    what, verb, to = "opened", "open", _OPEN
    frm = frozenset({CaseState.IGNORED, _PARKED})

    def __init__(self, cases: CaseStore) -> None:
        self._cases = cases

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        ids = [case.id for case in cases]
        return self._cases.move(tx, ids, CaseState.OPEN, frm=self.frm, who=who, why=why, ticket=True)


class Regroup(CaseAction):
    """Put into another group of the same flow."""

    what, verb = "regrouped", "regroup"
    frm = frozenset(CaseState)

    def __init__(self, cases: CaseStore, history: HistoryStore, group: int) -> None:
        self._cases = cases
        self._history = history
        self._group = group

    @property
    def data(self) -> dict[str, Any]:
        return {"group": self._group}

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        before = {case.id: case.group_id for case in cases}
        changed = self._cases.regroup(tx, list(before), self._group)
        said = (HistoryEntry(self.what, who, why, id, data={**self.data, "from": before[id]}) for id in changed)
        self._history.add(tx, said)
        return list(before)  # also those that were there already: a repeat is no refusal


class Assign(CaseAction):
    """Give to a person, or to nobody."""

    what, verb = "assigned", "assign"
    frm = LIVE

    def __init__(self, cases: CaseStore, history: HistoryStore, assignee: str | None) -> None:
        if assignee is not None and not assignee.strip():
            raise BadValue("a case is assigned to a name, or to nobody")
        self._cases = cases
        self._history = history
        self._assignee = assignee

    @property
    def data(self) -> dict[str, Any]:
        return {"assignee": self._assignee}

    def do(self, tx: Transaction, cases: Sequence[RouteSubject], who: str, why: str) -> list[str]:
        changed = self._cases.assign(tx, [case.id for case in cases], self._assignee)
        self._history.add(tx, (HistoryEntry(self.what, who, why, id, data=self.data) for id in changed))
        return changed


def refusal_without_body(case: RouteSubject) -> str | None:
    """Why nothing of it can be sent, for the kinds of cases that have no record."""
    if case.kind == GAP:
        return "a gap has no record that could be sent; abandon it to acknowledge it"
    if case.kind == STRAY:
        return "nobody knows for which stage it is, so it cannot be sent; export it, then abandon it"
    return None


def act_of(parts: DeskContext, job: BulkJob) -> CaseAction:
    """The act of a job that is in the table."""
    return make_act(parts, job.kind, job.arguments)
