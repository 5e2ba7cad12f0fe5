"""What the desk knows of records, for other parts of Towpath.

`CaseTracer` tells the story of one record, for traces. `DeskPlaceSource` counts for the audit where failed records
are, each in exactly one place. `UploadReplays` answers whether records of an upload are on their way back into their
flow. `DeskMetrics` gives the figures for metrics.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from towpath.core.clock import MICROS
from towpath.db import Database, Queries, Transaction
from towpath.desk.cases.model import ERROR, GAP, STRAY, Case, CaseState, PastAttempt
from towpath.desk.cases.store import AttemptStore, CaseStore, HistoryRow, HistoryStore, is_case_id
from towpath.desk.intake.ingest import DeskPositionStore, ReadPurpose
from towpath.desk.intake.service import LOADED
from towpath.desk.policies.store import PolicyStore
from towpath.errors import UnknownTopic
from towpath.flow.audit.trace import Coordinates, Trace, Tracer
from towpath.flow.delivery.places import FailureHoldings, RecordPlace
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

FORGOTTEN = ""  # stands for the batch of what was deleted

UPLOAD = "upload"  # the header that has the id of a record's upload


class CaseTracer:
    """Finds the cases of a record, with all their failures and what was done."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cases = CaseStore(database)
        self._attempts = AttemptStore(database)
        self._history = HistoryStore(database)
        self._sql = Queries("towpath.desk", "record_queries", database.dialect)

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
        attempts, done = self._attempts.of_case(tx, case.id), self._history.of_case(tx, case.id)
        return CaseTrace(case, tuple(attempts), tuple(done), bool(queued))


@dataclass(frozen=True, slots=True)
class CaseTrace:
    """The story of one case of a record."""

    case: Case
    attempts: tuple[PastAttempt, ...]
    done: tuple[HistoryRow, ...]
    is_to_be_sent: bool  # a row of the outbox waits for the relay

    @property
    def place(self) -> RecordPlace | None:
        """Where the record is, if that is for the desk to say."""
        if self.case.kind == GAP:
            return None
        if self.case.state is CaseState.RESOLVED:
            return RecordPlace.LOADED if self.case.settled_why == LOADED else RecordPlace.FILTERED
        return RecordPlace(self.case.state.value)

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


TracedRecord = tuple[Trace, list[CaseTrace]]


def trace_all(tracer: Tracer, desk: CaseTracer, wanted: Iterable[Coordinates]) -> list[TracedRecord]:
    """Records of a flow, each for every stage that reads it, with what the desk knows."""
    return [
        _with_desk(each, desk, tracer.flow, id or tracer.current_id(topic))
        for topic, number, offset, id in wanted
        for each in tracer.trace(topic, number, offset, id)
    ]


def _with_desk(found: Trace, desk: CaseTracer, flow: str, topic_id: str) -> TracedRecord:
    """Where the flow says that the record failed, the desk says where it is."""
    cases = desk.of_record(flow, found.stage, topic_id, found.partition, found.offset)
    if not cases or found.place is not RecordPlace.FAILED:
        return found, cases
    last = cases[-1]
    return replace(found, place=last.place or found.place, now=last.now), cases


class DeskPlaceSource:
    """Says where the failed records of a flow are: the `PlaceSource` of the audit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "places", database.dialect)
        self._positions = DeskPositionStore(database)

    def holdings(self, tx: Transaction, flow: str) -> FailureHoldings | None:
        read = [each for each in self._positions.of_flow(tx, flow) if each.reading is ReadPurpose.ERRORS]
        if not read:
            return None
        named = {"flow": flow}
        places: Counter[tuple[str, RecordPlace]] = Counter()
        for hash, state, count in tx.rows(self._sql["places"], named):
            places[hash, RecordPlace(state)] += count
        strays, attempts = self._count(tx, "strays", flow), self._count(tx, "kept_attempts", flow)
        for kind, state, cases, tried in tx.rows(self._sql["forgotten"], named):
            attempts += tried
            strays += cases if kind == STRAY else 0
            if kind == ERROR and state != CaseState.RESOLVED:
                places[FORGOTTEN, RecordPlace(state)] += cases
        return FailureHoldings(
            self._database.now(),
            {(each.topic_id, each.partition): each.position for each in read},
            sum(each.records for each in read),
            sum(each.repeats for each in read),
            strays,
            attempts,
            dict(places),
            {str(id): (hash, attempt) for id, hash, attempt in tx.rows(self._sql["sent"], named)},
        )

    def known(self, correlations: Collection[str]) -> set[str]:
        """When cases were ever deleted, an id that none has may have been one of theirs."""
        ids = [each for each in correlations if is_case_id(each)]
        if not ids:
            return set()
        with self._database.read() as tx:
            if tx.rows(self._sql["has_forgotten"], {})[0][0]:
                return set(ids)
            return {str(id) for (id,) in tx.rows(self._sql["known"], {"ids": json.dumps(ids)})}

    def resolved(self, correlations: Collection[str], until_us: int) -> set[str]:
        ids = json.dumps([each for each in correlations if is_case_id(each)])
        with self._database.read() as tx:
            return {str(id) for (id,) in tx.rows(self._sql["resolved"], {"ids": ids, "until": until_us})}

    def _count(self, tx: Transaction, query: str, flow: str) -> int:
        return int(tx.rows(self._sql[query], {"flow": flow})[0][0])


class UploadReplays:
    """Says whether records of an upload may still come back. What the desk has not read yet may become a case."""

    def __init__(self, database: Database, log: Callable[[], Log]) -> None:
        self._database = database
        self._log = log
        self._sql = Queries("towpath.desk", "upload_replays", database.dialect)
        self._positions = DeskPositionStore(database)
        self._policies = PolicyStore(database)

    def are_under_way(self, flow: str, upload: str) -> bool:
        """Whether a lane has some, or they are out, or nobody can tell yet."""
        header = orjson.dumps((UPLOAD, upload)).decode()
        with self._database.read() as tx:
            declared = self._policies.error_topics(tx)
            read = {
                each.partition: each.position
                for each in self._positions.of_flow(tx, flow)
                if each.reading is ReadPurpose.ERRORS
            }
            if tx.rows(self._sql["under_way"], {"flow": flow, "header": f"%{header}%"}):
                return True
        ends = self._ends(FlowTopics.of(flow, declared.get(flow)).errors)
        return any(read.get(number, 0) < end for number, end in ends.items())

    def _ends(self, topic: str) -> dict[int, int]:
        try:
            return self._log().ends(topic)
        except UnknownTopic:
            return {}


class DeskMetrics:
    """Counts cases and late lanes, read anew each time; the cost does not depend on the number of cases."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "watch", database.dialect)

    def cases(self) -> list[tuple[str, str, int]]:
        """Cases by flow and state."""
        with self._database.glance() as tx:
            return [(flow, state, int(cases)) for flow, state, cases in tx.rows(self._sql["cases_by_state"], {})]

    def late_s(self) -> list[tuple[str, int, float]]:
        """By lane, for how long the first record has been due; 0 when none is."""
        with self._database.glance() as tx:
            found = tx.rows(self._sql["first_due"], {})
        now_us = self._database.now()
        return [(flow, lane, max(0.0, (now_us - (due_us or now_us)) / MICROS)) for flow, lane, due_us in found]
