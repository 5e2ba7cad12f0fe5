"""What the desk knows of one record: its cases, what was done with each, and where it is now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from towpath.db import Database, Queries, Transaction
from towpath.desk.attempt import PastAttempt
from towpath.desk.case import GAP, Case
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import CaseStore
from towpath.desk.history import Done, HistoryStore
from towpath.desk.outcomes import LOADED
from towpath.flow.place import Place
from towpath.flow.trace import Trace, Tracer
from towpath.flow.trace_finding import Coordinates
from towpath.flow.trace_json import trace_item


@dataclass(frozen=True, slots=True)
class CaseTrace:
    """One case of a record, as a story."""

    case: Case
    attempts: tuple[PastAttempt, ...]
    done: tuple[Done, ...]
    is_to_be_sent: bool  # a row of the outbox waits for the relay

    @property
    def place(self) -> Place | None:
        """Where the record is, if that is for the desk to say."""
        if self.case.kind == GAP:
            return None
        if self.case.state is CaseState.RESOLVED:
            return Place.LOADED if self.case.settled_why == LOADED else Place.FILTERED
        return Place(self.case.state.value)

    @property
    def now(self) -> str:
        """In words."""
        case, named = self.case, f"case {self.case.seq}"
        match case.state:
            case CaseState.WAITING:
                until = f"{case.due_at:%Y-%m-%d %H:%M:%S}"
                return f"waiting in lane {case.lane} until {until} for attempt {case.next_attempt} ({named})"
            case CaseState.PARKED:
                return f"parked behind another record of its key ({named} behind {case.behind})"
            case CaseState.OPEN:
                return f"on the desk, in front of {case.assignee or 'a person'} ({named} of group {case.group_id})"
            case CaseState.REPLAYING if self.is_to_be_sent:
                return f"about to be sent back for attempt {case.next_attempt} ({named})"
            case CaseState.REPLAYING:
                return f"sent back for attempt {case.next_attempt}; what became of it is not known yet ({named})"
            case CaseState.RESOLVED:
                return f"{case.settled_why} at attempt {case.next_attempt} ({named})"
        return f"{case.state} by {case.settled_by}: {case.settled_why} ({named})"

    def events(self) -> Iterator[tuple[datetime, str]]:
        """What has happened to it on the desk. Its first failure is told by the flow."""
        yield self.case.taken_at, f"taken in as case {self.case.seq} ({self.case.id})"
        for attempt in self.attempts[1:]:
            said = f"{attempt.exception}: {attempt.message}"
            yield (
                attempt.failed_at,
                f"attempt {attempt.attempt} failed with code {attempt.code} at {attempt.step}: {said}",
            )
        for each in self.done:
            yield each.at, f"{each.what} by {each.who}: {each.why}" if each.why else f"{each.what} by {each.who}"

    def to_json(self) -> dict[str, Any]:
        case = self.case
        return {
            "id": case.id,
            "number": case.seq,
            "state": case.state,
            "group": case.group_id,
            "attempts": case.attempts,
            "lane": case.lane,
            "due_at": case.due_at,
            "behind": case.behind,
            "assignee": case.assignee,
            "rule": case.rule,
            "settled_by": case.settled_by,
            "settled_why": case.settled_why,
            "failures": [
                {
                    "attempt": each.attempt,
                    "code": each.code,
                    "step": each.step,
                    "message": each.message,
                    "at": each.failed_at,
                }
                for each in self.attempts
            ],
            "history": [{"what": each.what, "who": each.who, "why": each.why, "at": each.at} for each in self.done],
        }


class CaseTracer:
    """Reads what the desk knows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cases = CaseStore(database)
        self._history = HistoryStore(database)
        self._sql = Queries("towpath.desk", "tracing", database.dialect)

    def of_record(self, flow: str, stage: str, topic_id: str, partition: int, offset: int) -> list[CaseTrace]:
        """The cases of the record at one place of an input topic, the oldest first."""
        with self._database.read() as tx:
            found = self._cases.of_input(tx, topic_id, partition, offset)
            return [self._trace(tx, case) for case in found if (case.flow, case.stage) == (flow, stage)]

    def of_case(self, text: str) -> CaseTrace:
        """By the id that goes with its record as correlation id, by its number, or by the beginning of the id."""
        with self._database.read() as tx:
            return self._trace(tx, self._cases.find(tx, text))

    def _trace(self, tx: Transaction, case: Case) -> CaseTrace:
        queued = tx.rows(self._sql["to_be_sent"], {"flow": case.flow, "case": case.id, "ticket": case.ticket})
        attempts, done = self._cases.attempts(tx, case.id), self._history.of_case(tx, case.id)
        return CaseTrace(case, tuple(attempts), tuple(done), bool(queued))


Told = tuple[Trace, list[CaseTrace]]


def trace_all(tracer: Tracer, desk: CaseTracer, wanted: Iterable[Coordinates]) -> list[Told]:
    """Records of a flow, each for every stage that reads it, with what the desk knows."""
    return [
        _with_desk(each, desk, tracer.flow, id or tracer.current_id(topic))
        for topic, number, offset, id in wanted
        for each in tracer.trace(topic, number, offset, id)
    ]


def told_item(trace: Trace, cases: Iterable[CaseTrace]) -> dict[str, Any]:
    """For programs."""
    return {**trace_item(trace), "cases": [case.to_json() for case in cases]}


def _with_desk(found: Trace, desk: CaseTracer, flow: str, topic_id: str) -> Told:
    """Where the flow says that the record failed, the desk says where it is."""
    cases = desk.of_record(flow, found.stage, topic_id, found.partition, found.offset)
    if not cases or found.place is not Place.FAILED:
        return found, cases
    last = cases[-1]
    return replace(found, place=last.place or found.place, now=last.now), cases
