"""Takes a portion of an error topic in: acts 2 to 4 of docs/explanation/desk.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from towpath import crash
from towpath.crash import CrashPoint
from towpath.db import Database, Transaction
from towpath.desk.attempt_store import AttemptStore
from towpath.desk.bodies import Bodies, Kept
from towpath.desk.case import STRAY, Case
from towpath.desk.case_rows import attempt_of, case_of
from towpath.desk.case_state import CaseState
from towpath.desk.case_store import CaseStore, is_case_id
from towpath.desk.deciding import OPEN, Deciding, Way
from towpath.desk.edit_store import EditStore
from towpath.desk.grouping import Grouping
from towpath.desk.mending import Made, Mender, marked
from towpath.desk.outbox_store import Queued
from towpath.desk.parking import Parking
from towpath.desk.policy_store import PolicyStore
from towpath.desk.position_store import DeskPosition, PositionStore
from towpath.desk.sending import Sends
from towpath.desk.sorting import Sorted, sort
from towpath.desk.told import Told, read_stray, read_told
from towpath.log.record import Record

WHO = "towpath"
FAILED_AGAIN = "it has failed again"


class Taken(NamedTuple):
    """What a portion has come to."""

    new: int = 0
    again: int = 0
    repeats: int = 0


def read_portion(
    at: DeskPosition, records: Sequence[Record], others: Collection[str] = (), fault: str = ""
) -> list[Told]:
    """What is told to a flow. `others` are flows that have the same error topic: what is theirs is left to them.

    `fault` says why none of the records could be taken in as what it is: each is a stray then.
    """
    readers = (at.flow, *others)
    read = (_read(record, at, readers, fault) for record in records)
    return [each for each in read if each.flow == at.flow]


@dataclass(slots=True)
class ErrorTaking:
    """Takes portions in, each in one transaction with the position that comes after it."""

    database: Database
    bodies: Bodies
    grouping: Grouping
    mender: Mender
    cases: CaseStore
    attempts: AttemptStore
    positions: PositionStore
    policies: PolicyStore
    sends: Sends
    edits: EditStore
    parking: Parking

    def take(self, at: DeskPosition, told: Sequence[Told], to: int) -> Taken:
        """Take in what was told, and go on from there to `to`."""
        with self.bodies.kept(told) as kept:
            with self.database.transaction() as tx:
                self.positions.move(tx, at, to, len(told))
                found = self._sort(tx, told)
                self._write(tx, at, found, kept)
                crash.here(CrashPoint.DESK_ERRORS_BEFORE_COMMIT)
            crash.here(CrashPoint.DESK_ERRORS_AFTER_COMMIT)
        return Taken(len(found.new), len(found.again), found.repeats)

    def _sort(self, tx: Transaction, told: Sequence[Told]) -> Sorted:
        wanted = sorted({each.correlation for each in told if is_case_id(each.correlation)})
        known = self.cases.lock(tx, wanted)
        there = self.attempts.there(tx, [each.case_id for each in told])
        return sort(told, known, there, self.attempts.batches_of(tx, known))

    def _write(self, tx: Transaction, at: DeskPosition, found: Sorted, kept: Mapping[str, Kept]) -> None:
        now, policies = self.database.now(), self.policies.policies(tx)
        every = [*found.new, *(told for told, _ in found.again)]
        leads = self.grouping.of(tx, at.flow, every)
        self.attempts.keep_traces(tx, {each.trace_id: each.trace for each in every if each.trace_id is not None})
        keys = {each.key_hash for each in found.new if each.key_hash is not None}
        last = self.parking.behind(tx, at.flow, keys)
        deciding = Deciding(tx, at.flow, policies, self.sends, self.mender, now, last)
        queued = self._open(tx, found.new, kept, leads, deciding)
        queued += self._fail_again(tx, found.again, leads, deciding)
        self.sends.queue(tx, at.flow, queued)
        self.positions.count_repeats(tx, at, found.repeats)

    def _open(
        self,
        tx: Transaction,
        new: Sequence[Told],
        kept: Mapping[str, Kept],
        leads: Mapping[str, int],
        deciding: Deciding,
    ) -> list[Queued]:
        """New cases; returns what is to be sent of them."""
        cases, queued, made = [], [], []
        for told in new:
            body = kept.get(told.case_id)
            is_lost = body is not None and body.blob is None
            way = OPEN if is_lost else deciding.first_way(told)
            case = case_of(told, body, leads[told.fingerprint.text], way)
            cases.append(case)
            if way.is_sent:
                queued.append(Queued(case.id, case.ticket, 2, way.lane, way.due_at))
            if way.mended is not None:
                made.append(Made(case.id, case.edit, 1, way.mended))
        self.cases.insert(tx, cases)
        self._mend(tx, made)
        return queued

    def _fail_again(
        self, tx: Transaction, again: Sequence[tuple[Told, Case]], leads: Mapping[str, int], deciding: Deciding
    ) -> list[Queued]:
        """Known cases get one more attempt; returns what is to be sent of them."""
        self.cases.fail_again(tx, [attempt_of(told, case, leads[told.fingerprint.text]) for told, case in again])
        self.attempts.set_headers(tx, {case.id: told.headers for told, case in again if told.headers is not None})
        moves: dict[Way, list[Case]] = {}
        made: list[Made] = []
        for told, case in again:
            if case.state is CaseState.REPLAYING:
                way = deciding.way(told, case.attempts + 1, is_mended=case.edit > 0)
                if way.mended is not None:
                    made.append(Made(case.id, self.edits.last(tx, case.id) + 1, case.attempts + 1, way.mended))
                    self._go_on_with(tx, told, case, made[-1])
                moves.setdefault(way._replace(mended=None), []).append(case)
        self._mend(tx, made)
        return [queued for way, cases in moves.items() for queued in self._move(tx, way, cases)]

    def _move(self, tx: Transaction, way: Way, cases: Sequence[Case]) -> list[Queued]:
        ids = [case.id for case in cases]
        if way.state is CaseState.REPLAYING:
            self.cases.raise_tickets(tx, ids)
        else:
            self.cases.move(
                tx,
                ids,
                way.state,
                frm=(CaseState.REPLAYING,),
                who=way.approved_by or WHO,
                why=FAILED_AGAIN,
                ticket=way.is_sent,
                lane=way.lane,
                due_at=way.due_at,
                rule=way.rule,
            )
        if way.state is CaseState.IGNORED:
            self.parking.release(tx, ids)
        if not way.is_sent:
            return []
        return [Queued(case.id, case.ticket + 1, case.attempts + 2, way.lane, way.due_at) for case in cases]

    def _go_on_with(self, tx: Transaction, told: Told, case: Case, made: Made) -> None:
        """A record that has failed before is mended now, and goes back as what it is then."""
        self.cases.set_edit(tx, case.id, made.edit, frm_edit=case.edit)
        if told.headers is not None:
            self.attempts.set_headers(tx, {case.id: marked(told.headers, made.mended)})

    def _mend(self, tx: Transaction, made: Sequence[Made]) -> None:
        for each in made:
            self.edits.add(tx, each.case_id, each.edit, each.mended.value, who=each.mended.who, why=each.mended.why)
        if made:
            self.mender.made(tx, made)


def _read(record: Record, at: DeskPosition, readers: Collection[str], fault: str) -> Told:
    """What none of those who read the topic has written is for the first of them."""
    told = read_stray(record, at.topic_id, fault) if fault else read_told(record, at.topic_id)
    if told.kind != STRAY and told.flow not in readers:
        told = read_stray(record, at.topic_id, f"an error of flow {told.flow!r}, which has never run here")
    return told._replace(flow=min(readers)) if told.kind == STRAY else told
